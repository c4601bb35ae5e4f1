package clients_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config/clients"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

var (
	inJSON = clients.Entry{Shape: "mcpServers", Name: "vmcp", Value: []byte(`{"url":"http://127.0.0.1:4483/mcp","n":12345678901234567890}`)}
	inTOML = clients.Entry{Shape: clients.TOML, Name: "vmcp", Value: []byte("url = \"http://127.0.0.1:4483/mcp\"\n")}
)

// TestPut: an entry is formatted like the text around it, and removing it restores the text.
func TestPut(t *testing.T) {
	short := clients.Entry{Shape: "mcpServers", Name: "vmcp", Value: []byte(`{"url":"U"}`)}
	toml := clients.Entry{Shape: clients.TOML, Name: "vmcp", Value: []byte("url = \"U\"\n")}
	for _, tt := range []struct {
		name, text string
		e          clients.Entry
		want       string
	}{
		{"nothing", "", short, "{\n  \"mcpServers\": {\n    \"vmcp\": {\n      \"url\": \"U\"\n    }\n  }\n}\n"},
		{"an empty object", "{}", short, "{\n  \"mcpServers\": {\n    \"vmcp\": {\n      \"url\": \"U\"\n    }\n  }\n}"},
		{"no servers", "{\n    \"theme\": \"dark\"\n}\n", short, "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"vmcp\": {\n            \"url\": \"U\"\n        }\n    }\n}\n"},
		{"empty servers", "{\n\t\"mcpServers\": {}\n}", short, "{\n\t\"mcpServers\": {\n\t\t\"vmcp\": {\n\t\t\t\"url\": \"U\"\n\t\t}\n\t}\n}"},
		{"a neighbour on a line", "{\"mcpServers\": {\"a\": {\"url\": \"A\"}}}", short, "{\"mcpServers\": {\"a\": {\"url\": \"A\"},\"vmcp\": {\"url\":\"U\"}}}"},
		{"two neighbours on a line", "{\"mcpServers\": { \"a\": {}, \"b\": {} }}", short, "{\"mcpServers\": { \"a\": {}, \"b\": {}, \"vmcp\": {\"url\":\"U\"} }}"},
		{"comments", "{\n  \"mcpServers\": {\n    \"a\": {} // first\n    // last\n  }\n}\n", short, "{\n  \"mcpServers\": {\n    \"a\": {}, // first\n    \"vmcp\": {\n      \"url\": \"U\"\n    }\n    // last\n  }\n}\n"},
		{"a comma too many", "{\r\n  \"mcpServers\": {\r\n    \"a\": {}, // first\r\n  },\r\n}\r\n", short, "{\r\n  \"mcpServers\": {\r\n    \"a\": {}, // first\r\n    \"vmcp\": {\r\n      \"url\": \"U\"\r\n    },\r\n  },\r\n}\r\n"},
		{"a mark, and a comment in the way", "\xef\xbb\xbf{ // see /* there\n  \"n\": 12345678901234567890 /* \n */ }", short, "\xef\xbb\xbf{ // see /* there\n  \"n\": 12345678901234567890, /* \n */\n  \"mcpServers\": {\n    \"vmcp\": {\n      \"url\": \"U\"\n    }\n  } }"},
		{"TOML", "model = \"o\" # c\n\n[mcp_servers.a]\nurl = \"A\"\n", toml, "model = \"o\" # c\n\n[mcp_servers.a]\nurl = \"A\"\n\n[mcp_servers.vmcp]\nurl = \"U\"\n"},
		{"CRLF in TOML", "a = 1\r\n", toml, "a = 1\r\n\r\n[mcp_servers.vmcp]\r\nurl = \"U\"\r\n"},
		{"an empty TOML", "", toml, "[mcp_servers.vmcp]\nurl = \"U\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := clients.Put("f", []byte(tt.text), tt.e)
			if err != nil || string(got) != tt.want {
				t.Fatalf("Put: %v\n%s", err, cmp.Diff(tt.want, string(got)))
			}
			found, err := clients.Find("f", got, tt.e.Shape, "vmcp")
			if err != nil || found == nil || tt.e.Shape != clients.TOML && !found.Same(tt.e.Value) || found.Pos.Line != 1+strings.Count(tt.want[:strings.Index(tt.want, "vmcp")], "\n") {
				t.Errorf("Find: %+v, %v", found, err)
			}
			made := !strings.Contains(tt.text, "mcpServers")
			back, err := clients.Remove("f", got, tt.e.Shape, "vmcp", made)
			if tt.text != "" && (err != nil || string(back) != tt.text) {
				t.Errorf("Take: %v\n%s", err, cmp.Diff(tt.text, string(back)))
			}
		})
	}
}

// TestReplace: an entry of the same name is replaced in its place, and nothing else changes.
func TestReplace(t *testing.T) {
	for _, tt := range []struct {
		text string
		e    clients.Entry
		want string
	}{
		{"{\n  \"mcpServers\": {\n    // ours\n    \"vmcp\" : {\"old\": true}, // here\n    \"z\": {}\n  }\n}", clients.Entry{Shape: "mcpServers", Name: "vmcp", Value: []byte(`{"url":"U"}`)},
			"{\n  \"mcpServers\": {\n    // ours\n    \"vmcp\" : {\n      \"url\": \"U\"\n    }, // here\n    \"z\": {}\n  }\n}"},
		{"[mcp_servers.vmcp]\nurl = \"old\"\n# between\n[mcp_servers.vmcp.env]\nA = \"\"\"\nx\n\"\"\"\n\n# z's\n[mcp_servers.z]\nurl = \"Z\"\n", clients.Entry{Shape: clients.TOML, Name: "vmcp", Value: []byte("url = \"U\"")},
			"[mcp_servers.vmcp]\nurl = \"U\"\n\n# z's\n[mcp_servers.z]\nurl = \"Z\"\n"},
		{"[mcp_servers]\nvmcp = {url = \"old\"} # one\nz.url = \"Z\"\n", clients.Entry{Shape: clients.TOML, Name: "vmcp", Value: []byte("url = \"U\"")},
			"[mcp_servers]\nz.url = \"Z\"\n\n[mcp_servers.vmcp]\nurl = \"U\"\n"},
	} {
		if got, err := clients.Put("f", []byte(tt.text), tt.e); err != nil || string(got) != tt.want {
			t.Errorf("Put: %v\n%s", err, cmp.Diff(tt.want, string(got)))
		}
	}
}

// TestTake: removing an entry keeps everything else, with comments.
func TestTake(t *testing.T) {
	for _, tt := range []struct{ shape, text, want string }{
		{"mcpServers", "{\"mcpServers\":{\"vmcp\":{},\"a\":{}}}", "{\"mcpServers\":{\"a\":{}}}"},
		{"mcpServers", "{\n  \"mcpServers\": {\n    \"vmcp\": {} /* kept */,\n    \"a\": {}\n  }\n}", "{\n  \"mcpServers\": { /* kept */\n    \"a\": {}\n  }\n}"},
		{"mcpServers", "{\n  \"mcpServers\": {\n    \"a\": {} /* kept */ , // too\n    \"vmcp\": {}\n  }\n}", "{\n  \"mcpServers\": {\n    \"a\": {} /* kept */  // too\n  }\n}"},
		{"mcpServers", "{\"mcpServers\": {\"vmcp\": {},}}", "{\"mcpServers\": {}}"},
		{"mcpServers", "{\"mcpServers\": {\"vmcp\": 1, \"vmcp\": {}}}", "{\"mcpServers\": {\"vmcp\": 1}}"},
		{clients.TOML, "x = 1\n\n[mcp_servers.vmcp]\nurl = \"U\" # c\n\n# next\n[b]\n", "x = 1\n\n# next\n[b]\n"},
		{clients.TOML, "mcp_servers.vmcp.url = \"U\"\nmcp_servers.vmcp.enabled = true\nx = 1", "x = 1"},
	} {
		if got, err := clients.Remove("f", []byte(tt.text), tt.shape, "vmcp", false); err != nil || string(got) != tt.want {
			t.Errorf("Take of %q: %v\n got %q\nwant %q", tt.text, err, got, tt.want)
		}
	}
	for _, shape := range []string{"mcpServers", clients.TOML} {
		if _, err := clients.Remove("f", nil, shape, "vmcp", true); !errors.Is(err, clients.ErrNone) {
			t.Errorf("Take of nothing: %v", err)
		}
	}
}

// TestProblems: a text that cannot be parsed or edited is refused, with a position.
func TestProblems(t *testing.T) {
	for _, tt := range []struct{ shape, text, want string }{
		{"mcpServers", "{\n  \"a\": 1\n  \"b\": 2}", "f:3:3: "},
		{"mcpServers", "[]", "f:1:1: "},
		{"mcpServers", "{\n \"mcpServers\": null}", "f:2:16: error: mcpServers: want an object [config]"},
		{"mcpServers", "{'a': 1}", "f:1:2: "},
		{"mcpServers", strings.Repeat("[", 10_000), "f:1:1001: error: more than 1000 values within each other"},
		{"mcpServers", "{\"a\": \"\xff\"}", "f:1:1: error: the file is not UTF-8 text"},
		{clients.TOML, "a = 1\na = 2\n", "f:2:1: "},
		{clients.TOML, "x = 1\nmcp_servers = {a = {}}\n", "f:2:1: error: mcp_servers is an inline table"},
		{clients.TOML, "mcp_servers = 1\n", "f: no entry can be put there: f:3:2: "},
	} {
		e := clients.Entry{Shape: tt.shape, Name: "vmcp", Value: []byte(`{}`)}
		if tt.shape == clients.TOML {
			e.Value = inTOML.Value
		}
		got, err := clients.Put("f", []byte(tt.text), e)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Put into %.40q: %v, want %s; it gives %q", tt.text, err, tt.want, got)
		}
		var problems diag.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Errorf("%v has no place", err)
		}
	}
}

// check adds an entry to a text and removes it: nothing else changes.
func check(t *testing.T, text []byte, e clients.Entry) {
	before, err := clients.Names("f", text, e.Shape)
	if err != nil {
		return
	}
	if had, _ := clients.Find("f", text, e.Shape, e.Name); had != nil {
		return
	}
	with, err := clients.Put("f", text, e)
	if err != nil {
		if e.Shape != clients.TOML { // where mcp_servers is no table
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	if !contains(with, text) {
		t.Fatalf("%q: something else has changed:\n%q", text, with)
	}
	after, err := clients.Names("f", with, e.Shape)
	if err != nil || len(after) != len(before)+1 {
		t.Fatalf("%q: %v, %v servers, want one more than %v\n%q", text, err, after, before, with)
	}
	sameServers(t, text, with, e)
	back, err := clients.Remove("f", with, e.Shape, e.Name, len(before) == 0 && !bytes.Contains(text, []byte(e.Shape)))
	if err != nil {
		t.Fatalf("%q: %v", with, err)
	}
	if !exact(text, before) {
		return
	}
	if !bytes.Equal(back, text) {
		t.Fatalf("not as before:\n%q\n%q\n%q", text, with, back)
	}
}

// exact reports whether removing restores a text byte for byte. It cannot restore spaces in an empty object, nor
// a missing line break at the end.
func exact(text []byte, before []string) bool {
	return len(before) > 0 && bytes.HasSuffix(text, []byte("\n"))
}

// contains reports whether text is a subsequence of with.
func contains(with, text []byte) bool {
	for _, c := range with {
		if len(text) > 0 && text[0] == c {
			text = text[1:]
		}
	}
	return len(bytes.TrimSpace(text)) == 0
}

// sameServers compares the servers that clients.Read finds in both texts.
func sameServers(t *testing.T, text, with []byte, e clients.Entry) {
	f, err := clients.Read("f", with, clients.Options{Home: "/h", Workspace: "/w"})
	if err != nil {
		return // clients.Read refuses the text, such as one with only comments
	}
	if f.Shape != e.Shape {
		return // the text has servers of another shape
	}
	count := 0
	var rest []string
	for _, s := range f.Servers {
		if s.Key == e.Shape+".vmcp" {
			count++
			continue
		}
		rest = append(rest, s.Key+" "+s.Command+" "+s.URL+fmt.Sprint(s.Args, s.Env))
	}
	if count != 1 {
		t.Fatalf("%q: the reader finds %d of the entry in %q", text, count, with)
	}
	was, err := clients.Read("f", text, clients.Options{Home: "/h", Workspace: "/w"})
	if err != nil || was.Shape != e.Shape {
		return
	}
	var all []string
	for _, s := range was.Servers {
		all = append(all, s.Key+" "+s.Command+" "+s.URL+fmt.Sprint(s.Args, s.Env))
	}
	if diff := cmp.Diff(all, rest); diff != "" {
		t.Fatalf("%q: the other servers are not as before: %s", text, diff)
	}
}

// TestRandomTexts makes the checks of the fuzz tests with random valid configurations.
func TestRandomTexts(t *testing.T) {
	for seed := range uint64(testmode.Count(500, 3000)) {
		r := &random{rand.New(rand.NewPCG(seed, 1))}
		check(t, []byte(r.json()), inJSON)
		check(t, []byte(r.toml()), inTOML)
	}
}

// random generates configurations of all kinds.
type random struct{ *rand.Rand }

func (r *random) one(of ...string) string { return of[r.IntN(len(of))] }

func (r *random) json() string {
	text := r.one("", "\xef\xbb\xbf") + r.space() + r.object(3, "mcpServers") + r.space() + r.one("", "\n")
	return strings.ReplaceAll(text, "\n", r.one("\n", "\r\n"))
}

func (r *random) space() string {
	return r.one("", "", " ", "\n", "\n  ", "\n\t", "\n\n    ", " // c, } { \"x\n  ", " /* c\n } */ ", "/* // */", " // /* \n")
}

func (r *random) object(depth int, first string) string {
	var b strings.Builder
	b.WriteString("{" + r.space())
	n := r.IntN(4)
	for i := range n {
		name := r.one("a", "b c", `q\"uote`, "ümlaut", "n")
		value := r.one("12345678901234567890", "1.0e9", `"text // }"`, "null", "[1, /* x */ 2,]")
		switch {
		case first != "" && i == 0:
			name, value = first, r.object(depth-1, "")
		case depth > 0:
			value = r.object(depth-1, "")
		}
		fmt.Fprintf(&b, "\"%s%d\"%s:%s%s%s", name, i, r.one("", " "), r.one("", " "), value, r.one("", "", r.space()))
		if i < n-1 || r.IntN(3) == 0 {
			b.WriteString(",")
		}
		b.WriteString(r.space())
	}
	return strings.Replace(b.String(), `"mcpServers0"`, `"mcpServers"`, 1) + "}"
}

func (r *random) toml() string {
	var b strings.Builder
	b.WriteString(r.one("", "# c\n", "model = \"o\" # [x]\n", "a.b = \"\"\"\n[mcp_servers.no]\n\"\"\"\n"))
	for i := range r.IntN(4) {
		fmt.Fprintf(&b, "%s[%s%d]%s\n", r.one("", "\n", "# c\n", "\n\n"), r.one("mcp_servers.a", `mcp_servers."b c`, "other", "mcp_servers.d.env"), i, r.one("", " # c"))
		b.WriteString(r.one("", "command = \"x\"\n", "args = [\n \"a\", # c\n \"]\"]\n", "n = 123456789012345678\n", "x = '''\n[a]\n'''\n"))
	}
	text := strings.ReplaceAll(b.String(), `"b c0]`, `"b c"0]`)
	for i := range 4 {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"b c%d]`, i), fmt.Sprintf(`"b c%d"]`, i))
	}
	return strings.ReplaceAll(text, "\n", r.one("\n", "\r\n"))
}

func FuzzJSON(f *testing.F) {
	r := &random{rand.New(rand.NewPCG(1, 2))}
	for range 30 {
		f.Add(r.json())
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, []byte(text), inJSON) })
}

func FuzzTOML(f *testing.F) {
	r := &random{rand.New(rand.NewPCG(3, 4))}
	for range 30 {
		f.Add(r.toml())
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, []byte(text), inTOML) })
}
