//go:build npm

package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThroughIsDirect: each client gets the same through the proxy as directly.
func TestThroughIsDirect(t *testing.T) {
	t.Setenv("HOME", filepath.Join(world.dir, "home")) // clients do not find the user's settings
	t.Setenv("PATH", world.bin+":"+filepath.Dir(world.npm.Node())+":"+os.Getenv("PATH"))
	servers := servers(t)
	answers := driveAll(t, servers)
	rows := map[string][]string{}
	for _, c := range all {
		for _, s := range servers {
			rows[c.key] = append(rows[c.key], compare(t, c, s, answers))
		}
	}
	checkPage(t, page(t, servers, rows))
}

// compare returns the transports over which a client got the same as directly.
func compare(t *testing.T, c client, s *server, answers map[string]map[string]answer) string {
	reference := c.key
	if c.bridge {
		reference = "sdk-v1"
	}
	want, err := expected(c, s, answers[reference])
	if err != nil {
		t.Errorf("%s, %s: %v", c.key, s.name, err)
		return "no"
	}
	var same []string
	for _, transport := range []string{"http", "http with a token", "stdio", "stdio to the endpoint"} {
		piped, guarded := strings.HasPrefix(transport, "stdio"), transport == "http with a token" || transport == "stdio to the endpoint"
		if piped && c.bridge || guarded && s.tokenFile == "" {
			continue
		}
		got, ok := answers[c.key][s.name+" "+transport]
		if diff := s.differs(want, got, c); !ok || diff != "" {
			t.Errorf("%s, %s over %s: not the same as directly:\n%s\n%s", c.key, s.name, transport, got.Error, diff)
			continue
		}
		same = append(same, transport)
	}
	if same == nil {
		return "no"
	}
	return strings.Join(same, ", ")
}

// expected is the direct result of a client, with the proxy's names.
func expected(c client, s *server, direct map[string]answer) (answer, error) {
	var want answer
	results := map[string]any{} // by call
	for i, p := range s.parts {
		a, ok := direct[directly(s, i)]
		if !ok || a.Error != "" {
			return want, fmt.Errorf("directly: %s", a.Error)
		}
		want.Tools = append(want.Tools, renamed(a.Tools, p.prefix)...)
		want.Prompts = append(want.Prompts, renamed(a.Prompts, p.prefix)...)
		want.Resources = append(want.Resources, a.Resources...)
		n := 0
		for _, one := range s.made(c) {
			if strings.HasPrefix(one.Name, p.prefix) && !s.own(one.Name) {
				if text, _ := json.Marshal(a.Results[n]); !one.refused && failed.Match(text) {
					return want, fmt.Errorf("directly: %s: %s", one.Name, text)
				}
				results[one.Name+fmt.Sprint(one.Args)] = a.Results[n]
				n++
			}
		}
	}
	for _, one := range s.made(c) {
		want.Results = append(want.Results, results[one.Name+fmt.Sprint(one.Args)])
	}
	return want, nil
}

// failed matches the output of a client for a failed call.
var failed = regexp.MustCompile(`^\{"failed":|"isError":true`)

func renamed(entries []map[string]any, prefix string) []map[string]any {
	var out []map[string]any
	for _, e := range entries {
		e["name"] = prefix + strings.TrimPrefix(e["name"].(string), prefix)
		out = append(out, e)
	}
	return out
}

// differs describes the difference of got from the expected result.
func (s *server) differs(want, got answer, c client) string {
	if got.Error != "" {
		return got.Error
	}
	var diffs []string
	list := func(what string, want, got []map[string]any, key string) {
		if diff := cmp.Diff(byKey(want, key), byKey(got, key)); diff != "" {
			diffs = append(diffs, what+":\n"+diff)
		}
	}
	var tools []map[string]any
	scripted := 0
	for _, tool := range got.Tools {
		name := tool["name"].(string)
		switch {
		case s.own(name):
			scripted++
		case slices.Contains(s.forOthers, name) && byKey(want.Tools, "name")[name] == nil:
		default:
			tools = append(tools, tool)
		}
	}
	if scripted != len(s.scripted) {
		diffs = append(diffs, fmt.Sprintf("%d scripted tools, want %d", scripted, len(s.scripted)))
	}
	if c.key == "sdk-v2" {
		withoutExecution(want.Tools)
	}
	list("tools", want.Tools, tools, "name")
	list("prompts", want.Prompts, got.Prompts, "name")
	list("resources", want.Resources, got.Resources, "uri")
	for i, one := range s.made(c) {
		if i >= len(got.Results) {
			return strings.Join(append(diffs, "no result of "+one.Name), "\n")
		}
		if diff := s.resultDiffers(c, one, want.Results[i], got.Results[i]); diff != "" {
			diffs = append(diffs, one.Name+":\n"+diff)
		}
	}
	return strings.Join(diffs, "\n")
}

func (s *server) resultDiffers(c client, one call, want, got any) string {
	if s.sharing != "" && c.modern {
		want, got = uncounted(want), uncounted(got)
	}
	if !s.own(one.Name) {
		return cmp.Diff(timeless(want), timeless(got))
	}
	text, _ := json.Marshal(got)
	if part := s.scripted[one.Name]; !strings.Contains(string(text), part) || strings.Contains(string(text), `"failed"`) {
		return fmt.Sprintf("%s: want a result with %q", text, part)
	}
	return ""
}

// withoutExecution removes the member execution, which 2026-07-28 does not have.
func withoutExecution(tools []map[string]any) {
	for _, tool := range tools {
		delete(tool, "execution")
	}
}

// counted matches a server's count of all its calls, which includes those of other clients.
var counted = regexp.MustCompile(`(thoughtHistoryLength[^0-9]*)[0-9]+`)

func uncounted(result any) any {
	text, err := json.Marshal(result)
	if err != nil {
		panic(err) // it was JSON
	}
	var out any
	if err := json.Unmarshal(counted.ReplaceAll(text, []byte("${1}0")), &out); err != nil {
		panic(err)
	}
	return out
}

// moment matches the time of a call in results of Playwright's server.
var moment = regexp.MustCompile(`page-[-0-9TZ]+\.yml`)

// timeless is a result without the parts that differ from call to call, and without the members that only
// 2026-07-28 has: resultType and the server's name.
func timeless(result any) any {
	switch v := result.(type) {
	case string:
		return moment.ReplaceAllString(v, "page.yml")
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = timeless(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = timeless(e)
		}
		delete(out, "resultType")
		if meta, ok := out["_meta"].(map[string]any); ok {
			if delete(meta, "io.modelcontextprotocol/serverInfo"); len(meta) == 0 {
				delete(out, "_meta")
			}
		}
		return out
	}
	return result
}

func byKey(entries []map[string]any, key string) map[string]any {
	out := map[string]any{}
	for _, e := range entries {
		out[fmt.Sprint(e[key])] = e
	}
	return out
}

const pageFile = "../../docs/clients.md"

// page is docs/clients.md.
func page(t *testing.T, servers []*server, rows map[string][]string) string {
	var b strings.Builder
	b.WriteString(`# Clients

Each of these clients listed and called what a server offers, directly and through
` + "`vmcp serve`" + `, over Streamable HTTP and over standard input and output
(` + "`vmcp serve --stdio`" + `), and got the same both ways. A cell names the transports. What is
compared: every tool with its description and schemas, prompts and resources where the client
shows them, and the results of calls. In front of several servers (the demo, the
configuration of the README) names have their prefix, and the scripted tools are there as well.
Of the README's configuration they also use a profile, which shows one of its servers and one of its
scripts, at ` + "`/mcp/notes`" + ` and by ` + "`vmcp serve --stdio --profile notes`" + `.

Before the demo vmcp also runs with ` + "`--token-file`" + `, where all of them send the token in a
header, or are passed on to that endpoint by ` + "`vmcp serve --stdio --url`" + ` (stdio to the endpoint).

mcp-remote is a bridge to servers over HTTP, so there is no stdio to compare. A server may
list tools for what its client can be asked, as server-everything does; the proxy lists them
to all clients. What only one revision of the protocol has is not compared. In front of
servers that keep something between calls (sequential-thinking, Playwright) vmcp runs with
` + "`sessions: exclusive`" + `; clients of 2026-07-28, which have no session, share one with ` + "`sessions: auto`" + `, or have one with a login, such as ` + "`incomingAuth: {type: local}`" + `.

The page is written by the test that checks it:

    go test -tags npm ./test/clients -update

`)
	head, line := "| client |", "|---|"
	for _, s := range servers {
		head += " " + s.name
		if s.pkg != "" {
			head += " " + version(t, s.pkg)
		}
		head, line = head+" |", line+"---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, line)
	for _, c := range all {
		fmt.Fprintf(&b, "| %s (%s %s) | %s |\n", c.label, c.pkg, version(t, c.pkg), strings.Join(rows[c.key], " | "))
	}
	b.WriteString("\n## What was compared\n\n| server | calls |\n|---|---|\n")
	for _, s := range servers {
		var names []string
		for _, one := range s.calls {
			names = append(names, "`"+one.Name+"`")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", s.name, strings.Join(names, ", "))
	}
	b.WriteString("\nOne-shot clients, which start for every call, make the first of them.\n")
	return b.String()
}

func checkPage(t *testing.T, text string) {
	if world.chromium == "" {
		t.Log("docs/clients.md is not compared: it has Playwright's server, which was left out")
		return
	}
	if *update {
		write(t, pageFile, text)
		return
	}
	old, err := os.ReadFile(pageFile)
	if err != nil || string(old) != text {
		t.Errorf("docs/clients.md is out of date (go test -tags npm ./test/clients -update): %v\n%s", err, cmp.Diff(string(old), text))
	}
}

// TestDefinitions lists odd definitions through the proxy with the real clients.
func TestDefinitions(t *testing.T) {
	cmd := exec.CommandContext(deadline(t), world.npm.Node(), filepath.Join(world.dir, "definitions.mjs"))
	file, err := filepath.Abs("../../proxy/catalog/testdata/definitions.json")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append(cmd.Args, file)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(out)) {
		var o struct {
			Problem, Client, Form, Def, Why string
			Checked                         int
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		checked += o.Checked
		switch o.Problem {
		case "refused":
			t.Errorf("%s refuses the %s form %s: %s", o.Client, o.Form, o.Def, o.Why)
		case "needless":
			t.Errorf("no client refuses %s: why is it repaired?", o.Def)
		}
	}
	if checked < 500 {
		t.Errorf("%d forms were checked", checked)
	}
}
