package setup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/setup"
	"github.com/vmcp-dev/vmcp/config/clients"
)

// errFound is the error for problems that have been reported.
var errFound = errors.New("found")

// person is a user with a home directory and clients in it.
type person struct {
	*testing.T
	home, url string
	guarded   bool
	answer    string // to a question on the terminal; "": there is no terminal
	said      string // output of the last command, on both streams
}

func newPerson(t *testing.T) *person {
	p := &person{T: t, home: t.TempDir()}
	for name, value := range map[string]string{"HOME": p.home, "USERPROFILE": p.home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "CODEX_HOME": ""} {
		t.Setenv(name, value)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p.url = "http://" + l.Addr().String() + "/mcp"
	return p
}

// run runs the command and returns its error.
func (p *person) run(args ...string) error {
	var out bytes.Buffer
	c := setup.Command(setup.ConnectEnv{
		In: strings.NewReader(p.answer + "\n"), Out: &out, Found: errFound, Terminal: p.answer != "", DefaultFile: filepath.Join(p.home, "vmcp.yaml"), Program: "/opt/vmcp",
		Tell: func(format string, args ...any) { fmt.Fprintf(&out, "vmcp: "+format+"\n", args...) },
		JSON: func(v any) error { return json.NewEncoder(&out).Encode(v) },
		Output: func(c *cobra.Command) *string {
			return c.Flags().StringP("output", "o", "text", "")
		},
		Endpoint: func(url, _ string) (setup.Endpoint, error) {
			if url == "" {
				url = p.url
			}
			return setup.Endpoint{URL: url, Guarded: p.guarded}, nil
		},
	})
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.Execute()
	if p.said = out.String(); err != nil && !errors.Is(err, errFound) {
		p.said += err.Error()
	}
	return err
}

func (p *person) must(args ...string) {
	p.Helper()
	if err := p.run(args...); err != nil {
		p.Fatalf("connect %v: %v\n%s", args, err, p.said)
	}
}

func (p *person) write(name, text string) string {
	p.Helper()
	file := filepath.Join(p.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		p.Fatal(err)
	}
	return file
}

func (p *person) read(name string) string {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.home, name))
	if err != nil {
		p.Fatal(err)
	}
	return string(data)
}

// left are the files in the folder of the state.
func (p *person) left() (files []string) {
	root := filepath.Join(p.home, ".local", "state", "vmcp")
	filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files = append(files, strings.TrimPrefix(path, root))
			if info.Mode().Perm() != 0o600 {
				p.Errorf("%s has mode %o", path, info.Mode().Perm())
			}
		}
		return nil
	})
	return files
}

// nine are the clients: their file on Linux, the member of their servers, and the values written.
var nine = []struct{ client, file, shape, value, guarded string }{
	{"claude", ".claude.json", "mcpServers", `{"type":"http","url":"U"}`, `{"type":"http","url":"U","headers":{"Authorization":"Bearer ${VMCP_TOKEN}"}}`},
	{"claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", `{"command":"P","args":["serve","--stdio","--url","U"]}`, `{"command":"P","args":["serve","--stdio","--url","U"]}`},
	{"cursor", ".cursor/mcp.json", "mcpServers", `{"url":"U"}`, `{"url":"U","headers":{"Authorization":"Bearer ${env:VMCP_TOKEN}"}}`},
	{"vscode", ".config/Code/User/mcp.json", "servers", `{"type":"http","url":"U"}`, `{"type":"http","url":"U","headers":{"Authorization":"Bearer ${env:VMCP_TOKEN}"}}`},
	{"windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", `{"serverUrl":"U"}`, `{"serverUrl":"U","headers":{"Authorization":"Bearer ${env:VMCP_TOKEN}"}}`},
	{"gemini", ".gemini/settings.json", "mcpServers", `{"httpUrl":"U"}`, `{"httpUrl":"U","headers":{"Authorization":"Bearer ${VMCP_TOKEN}"}}`},
	{"zed", ".config/zed/settings.json", "context_servers", `{"url":"U"}`, `{"command":"P","args":["serve","--stdio","--url","U"]}`},
	{"codex", ".codex/config.toml", "mcp_servers", "url = \"U\"\n", "url = \"U\"\nbearer_token_env_var = \"VMCP_TOKEN\"\n"},
	{"opencode", ".config/opencode/opencode.json", "mcp", `{"type":"remote","url":"U"}`, `{"type":"remote","url":"U","headers":{"Authorization":"Bearer {env:VMCP_TOKEN}"}}`},
}

// texts are contents of a client's file; SHAPE is replaced by the member of its servers.
var texts = map[string]string{
	"empty":            "",
	"empty object":     "{}",
	"no servers":       "{\n  \"theme\": \"dark\", // mine\n  \"id\": 12345678901234567890\n}\n",
	"servers":          "{\n  \"SHAPE\": {\n    \"a\": {\"command\": \"x\", \"env\": {\"K\": \"secret-value\"}}\n  }\n}\n",
	"comments":         "// mine\n{\n\t\"SHAPE\": {\n\t\t\"a\": {\"command\": \"x\"}, // first\n\t\t/* last */\n\t},\n}\n\n",
	"CRLF and a mark":  "\xef\xbb\xbf{\r\n  \"SHAPE\": {\r\n    \"a\": {\"command\": \"x\"}\r\n  },\r\n  \"n\": 0.10000000000000000001\r\n}",
	"one line":         `{"SHAPE":{"a":{"command":"x"}},"z":1e400}`,
	"no final newline": "{\n  \"SHAPE\": {}\n}",
}

var tomlTexts = map[string]string{
	"empty":            "",
	"no servers":       "# mine\nmodel = \"o\"\nid = 1234567890123456789\n",
	"servers":          "[mcp_servers.a] # first\ncommand = \"x\"\n[mcp_servers.a.env]\nK = \"secret-value\"\n\n[tui]\nx = 1\n",
	"CRLF and a mark":  "\xef\xbb\xbfx = 1\r\n\r\n[mcp_servers.a]\r\ncommand = 'x'\r\n",
	"no final newline": "[mcp_servers.a]\ncommand = \"x\"",
}

// TestNineClients: the entry is what each client reads, a second connect writes nothing, another endpoint
// changes the entry, and undo restores every file byte for byte, with its mode.
func TestNineClients(t *testing.T) {
	for _, c := range nine {
		t.Run(c.client, func(t *testing.T) {
			p := newPerson(t)
			all := texts
			if c.client == "codex" {
				all = tomlTexts
			}
			for name, text := range all {
				text = strings.ReplaceAll(text, "SHAPE", c.shape)
				file := p.write(c.file, text)
				p.guarded = false
				p.must(c.client)
				p.entry(c.file, c.client, c.shape, p.want(c.value, p.url))
				first := p.read(c.file)
				p.must(c.client)
				if again := p.read(c.file); again != first || !strings.Contains(p.said, "it is there already") {
					t.Errorf("%s: the second connect has written:\n%s\n%s", name, cmp.Diff(first, again), p.said)
				}
				p.guarded = true
				p.must(c.client, "--url", "http://127.0.0.1:1/mcp", "--profile", "office")
				p.entry(c.file, c.client, c.shape, p.want(c.guarded, "http://127.0.0.1:1/mcp/office"))
				if !strings.Contains(p.said, "nothing is listening at http://127.0.0.1:1/mcp/office:") {
					t.Errorf("said %s", p.said)
				}
				if left := p.left(); len(left) != 2 {
					t.Errorf("%s: the state is %q, want one copy", name, left)
				}
				p.must(c.client, "--undo")
				if diff := cmp.Diff(text, p.read(c.file)); diff != "" {
					t.Errorf("%s: undo does not give it back: %s", name, diff)
				}
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
				}
				if left := p.left(); len(left) != 1 {
					t.Errorf("%s: what is left is %q", name, left)
				}
			}
		})
	}
}

func (p *person) want(value, url string) string {
	return strings.ReplaceAll(strings.ReplaceAll(value, `"P"`, `"/opt/vmcp"`), `"U"`, `"`+url+`"`)
}

// entry parses the file as its client does, and compares the entry.
func (p *person) entry(name, client, shape, want string) {
	p.Helper()
	text := p.read(name)
	f, err := clients.Read(name, []byte(text), clients.Options{Home: p.home, Client: client})
	if err != nil {
		p.Fatalf("%v\n%s", err, text)
	}
	own := 0
	for _, s := range f.Servers {
		if s.Key == shape+".vmcp" && s.Ignored {
			own++
		}
	}
	compact := strings.NewReplacer("\n", "", "\r", "", "\t", "", " ", "").Replace
	if own != 1 || f.Shape != shape || !strings.Contains(compact(text), compact(want)) {
		p.Errorf("%s: %d entries of vmcp; want %s in\n%s", client, own, want, text)
	}
}

// TestMissingFile: a client without a file gets one, which undo deletes; a client that is not installed is
// refused, with the paths that were searched.
func TestMissingFile(t *testing.T) {
	p := newPerson(t)
	for _, c := range nine {
		if err := p.run(c.client); !errors.Is(err, errFound) || !strings.Contains(p.said, c.client+" is not found: neither "+filepath.Join(p.home, c.file)+" nor ") {
			t.Errorf("%s: %v, %s", c.client, err, p.said)
		}
		os.MkdirAll(filepath.Join(p.home, filepath.Dir(c.file)), 0o755)
	}
	os.Mkdir(filepath.Join(p.home, ".claude"), 0o755)
	for _, c := range nine {
		p.must(c.client)
		p.entry(c.file, c.client, c.shape, p.want(c.value, p.url))
		p.must(c.client, "--undo")
		if _, err := os.Lstat(filepath.Join(p.home, c.file)); !os.IsNotExist(err) {
			t.Errorf("%s: the file stays: %v", c.client, err)
		}
	}
	if err := p.run("cursor", "--undo"); !errors.Is(err, errFound) || !strings.Contains(p.said, "it has no entry of vmcp connect") {
		t.Errorf("undo once more: %v, %s", err, p.said)
	}
}

// TestProject: three clients have a file for a project.
func TestProject(t *testing.T) {
	p := newPerson(t)
	for client, name := range map[string]string{"claude": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"} {
		p.must(client, "--project", filepath.Join(p.home))
		if text := p.read(name); !strings.Contains(text, p.url) {
			t.Errorf("%s: %s", client, text)
		}
		p.must(client, "--project", p.home, "--undo")
		if _, err := os.Lstat(filepath.Join(p.home, name)); !os.IsNotExist(err) {
			t.Errorf("%s: the file stays: %v", client, err)
		}
	}
	if err := p.run("zed", "--project", "."); err == nil || !strings.Contains(err.Error(), "zed has no file for a project") {
		t.Error(err)
	}
}

// TestFolders: undo deletes the folders that connect made for the file, if nothing else is in them; it keeps those that
// existed before, and what has replaced one of them.
func TestFolders(t *testing.T) {
	p := newPerson(t)
	there := func(name string, want bool) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(p.home, name)); os.IsNotExist(err) == want {
			t.Errorf("%s: %v, want it to be there %v", name, err, want)
		}
	}
	connect := []string{"cursor", "--project", p.home}
	undo := append(slices.Clone(connect), "--undo")
	p.must(connect...)
	p.must(append(slices.Clone(connect), "--url", "http://127.0.0.1:1/mcp")...) // another endpoint meanwhile
	p.must(append(slices.Clone(undo), "--dry-run")...)
	there(".cursor/mcp.json", true)
	p.must(undo...)
	there(".cursor", false)

	os.Mkdir(filepath.Join(p.home, ".cursor"), 0o755)
	p.must(connect...)
	p.must(undo...)
	there(".cursor", true)
	os.Remove(filepath.Join(p.home, ".cursor"))

	p.must(connect...)
	p.write(".cursor/rules", "mine")
	p.must(undo...)
	there(".cursor/rules", true)
	os.RemoveAll(filepath.Join(p.home, ".cursor"))

	p.must(connect...)
	os.Remove(filepath.Join(p.home, ".cursor", "mcp.json"))
	p.must(undo...)
	there(".cursor", false)

	p.must(connect...)
	os.RemoveAll(filepath.Join(p.home, ".cursor"))
	os.Mkdir(filepath.Join(p.home, "elsewhere"), 0o755)
	if err := os.Symlink("elsewhere", filepath.Join(p.home, ".cursor")); err == nil {
		p.must(undo...)
		there(".cursor", true)
		there("elsewhere", true)
	}

	p.must("codex", "zed", "--force") // two folders each, the outer one shared with the state or others
	p.must("codex", "zed", "--undo")
	there(".codex", false)
	there(".config", false)
	there(".local/state/vmcp", true)
}

// TestNobodyHasToListen: an entry that starts a process which serves the configuration itself needs no running endpoint.
func TestNobodyHasToListen(t *testing.T) {
	p := newPerson(t)
	p.write("vmcp.yaml", "backends: []\n")
	const warning = "nothing is listening at http://127.0.0.1:1/mcp:"
	for _, tt := range []struct {
		guarded bool
		args    []string
		warned  bool
	}{
		{false, []string{"claude-desktop", "--config", "vmcp.yaml"}, false},
		{true, []string{"claude-desktop", "zed", "--config", "vmcp.yaml"}, false},
		{false, []string{"zed", "--config", "vmcp.yaml"}, true}, // its entry has the URL
		{false, []string{"claude-desktop", "cursor", "--config", "vmcp.yaml"}, true},
		{false, []string{"claude-desktop"}, true}, // a bridge to the endpoint
	} {
		p.guarded = tt.guarded
		p.must(append(tt.args, "--force", "--url", "http://127.0.0.1:1/mcp")...)
		if strings.Contains(p.said, warning) != tt.warned {
			t.Errorf("connect %v: %s, want the warning %v", tt.args, p.said, tt.warned)
		}
		if !tt.warned && strings.Contains(p.said, "VMCP_TOKEN") {
			t.Errorf("connect %v: %s: nobody asks for a token there", tt.args, p.said)
		}
	}
}

// TestSymbolicLinks: a file is written behind its links, which are kept.
func TestSymbolicLinks(t *testing.T) {
	p := newPerson(t)
	const text = "{\n  \"mcpServers\": {}\n}\n"
	p.write("dotfiles/cursor.json", text)
	os.Mkdir(filepath.Join(p.home, ".cursor"), 0o755)
	link := filepath.Join(p.home, ".cursor", "mcp.json")
	for from, to := range map[string]string{link: "../dotfiles/link.json", filepath.Join(p.home, "dotfiles", "link.json"): "cursor.json"} {
		if err := os.Symlink(to, from); err != nil {
			t.Skip(err)
		}
	}
	for range 2 { // with the file, and without
		p.must("cursor")
		p.entry("dotfiles/cursor.json", "cursor", "mcpServers", p.url)
		if to, err := os.Readlink(link); err != nil || to != "../dotfiles/link.json" {
			t.Errorf("the link is %s, %v", to, err)
		}
		p.must("cursor", "--undo")
		if _, err := os.Readlink(link); err != nil {
			t.Error(err)
		}
		os.Remove(filepath.Join(p.home, "dotfiles", "cursor.json"))
	}
}

// TestEditedSince: undo removes only the entry from a file that its owner has edited, also when connect has
// written another endpoint meanwhile.
func TestEditedSince(t *testing.T) {
	for client, text := range map[string][3]string{
		"cursor": {"{\n  \"mcpServers\": {\n    \"a\": {\"url\": \"A\"} // a\n  }\n}\n", `"A"`, `"B"`},
		"codex":  {"x = 1 # x\n\n[mcp_servers.a]\nurl = \"A\" # a\n", `"A"`, `"B"`},
	} {
		for _, again := range []bool{false, true} {
			p := newPerson(t)
			file := map[string]string{"cursor": ".cursor/mcp.json", "codex": ".codex/config.toml"}[client]
			p.write(file, text[0])
			p.must(client)
			p.write(file, strings.Replace(p.read(file), text[1], text[2], 1))
			if again {
				p.must(client, "--url", "http://127.0.0.1:1/mcp")
			}
			p.must(client, "--undo")
			if diff := cmp.Diff(strings.Replace(text[0], text[1], text[2], 1), p.read(file)); diff != "" {
				t.Errorf("%s, connected again %v: %s\n%s", client, again, diff, p.said)
			}
		}
	}
}

// TestForeignAndBroken: what connect has not written is kept unless it is forced, and a file that cannot be parsed
// is not changed; the error has the position.
func TestForeignAndBroken(t *testing.T) {
	p := newPerson(t)
	const foreign = "{\n  \"mcpServers\": {\n    \"vmcp\": {\"url\": \"http://other\"}\n  }\n}\n"
	file := p.write(".cursor/mcp.json", foreign)
	if err := p.run("cursor"); !errors.Is(err, errFound) || !strings.Contains(p.said, ":3:5: the entry vmcp was not written by vmcp connect") {
		t.Errorf("%v, %s", err, p.said)
	}
	if err := p.run("cursor", "--undo"); !errors.Is(err, errFound) || !strings.Contains(p.said, ":3:5: the entry vmcp was not written by vmcp connect") {
		t.Errorf("%v, %s", err, p.said)
	}
	p.must("cursor", "--name", "office")
	p.must("cursor", "--name", "office", "--undo")
	if p.read(".cursor/mcp.json") != foreign {
		t.Error("the file has changed")
	}
	p.must("cursor", "--force", "--dry-run")
	if p.read(".cursor/mcp.json") != foreign || !strings.Contains(p.said, "would be updated") {
		t.Errorf("a dry run has written, or says %s", p.said)
	}
	p.must("cursor", "--force")
	p.entry(".cursor/mcp.json", "cursor", "mcpServers", p.url)
	p.must("cursor", "--undo")
	if p.read(".cursor/mcp.json") != foreign {
		t.Errorf("undo of a forced entry: %s", p.read(".cursor/mcp.json"))
	}
	for name, text := range map[string]string{".cursor/mcp.json": "{\n  \"a\": 1\n  \"b\": 2\n}", ".codex/config.toml": "a = 1\nb\n"} {
		p.write(name, text)
		client := strings.Trim(filepath.Dir(name), ".")
		if err := p.run(client); !errors.Is(err, errFound) || !strings.Contains(p.said, filepath.Base(name)+":") || !strings.Contains(p.said, ":2:") && !strings.Contains(p.said, ":3:") || p.read(name) != text {
			t.Errorf("%s: %v, %s", client, err, p.said)
		}
	}
	// A file that was made invalid later, by another program: undo reports the position.
	os.WriteFile(file, []byte("{}"), 0o600)
	p.must("cursor")
	os.WriteFile(file, []byte("{\"x\""), 0o600)
	if err := p.run("cursor", "--undo"); !errors.Is(err, errFound) || p.read(".cursor/mcp.json") != "{\"x\"" {
		t.Errorf("%v, %s", err, p.said)
	}
	os.Remove(file)
	p.must("cursor", "--undo")
	if !strings.Contains(p.said, "it is not there any more") {
		t.Errorf("said %s", p.said)
	}
	// Not a regular file.
	if err := os.MkdirAll(filepath.Join(p.home, ".codeium/windsurf/mcp_config.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.run("windsurf"); !errors.Is(err, errFound) || !strings.Contains(p.said, "want a regular file, this is a folder") {
		t.Errorf("%v, %s", err, p.said)
	}
}

// TestReplace: the other servers are removed if the endpoint's configuration has them, after a yes where there is a
// terminal, and undo restores them, also into a file that was edited since.
func TestReplace(t *testing.T) {
	const text = "{\n  \"mcpServers\": {\n    \"a b\": {\"command\": \"npx\", \"args\": [\"-y\", \"a\"], \"env\": {\"KEY\": \"secret-value\"}}, // a\n    \"remote\": {\n      // its key\n      \"url\": \"https://r.example/mcp?key=secret-value\"\n    }\n  },\n  \"x\": 1\n}\n"
	p := newPerson(t)
	p.write(".cursor/mcp.json", text)
	if err := p.run("cursor", "--replace"); !errors.Is(err, errFound) || !strings.Contains(p.said, "no such file") || !strings.Contains(p.said, "vmcp import --from cursor --write") {
		t.Errorf("without a configuration: %v, %s", err, p.said)
	}
	p.write("vmcp.yaml", "backends:\n  - name: a-b\n    command: npx\n    args: [-y, a]\n    env: {KEY: \"${KEY}\"}\n")
	if err := p.run("cursor", "--replace"); !errors.Is(err, errFound) || !strings.Contains(p.said, "does not have remote") || strings.Contains(p.said, "secret-value") {
		t.Errorf("without one of them: %v, %s", err, p.said)
	}
	p.write("vmcp.yaml", p.read("vmcp.yaml")+"  - name: remote\n    url: https://r.example/mcp?key=${REMOTE_KEY}\n")
	p.write("vmcp.env", "REMOTE_KEY=another-value\n")
	if err := p.run("cursor", "--replace"); !errors.Is(err, errFound) || !strings.Contains(p.said, "does not have remote") {
		t.Errorf("with another key: %v, %s", err, p.said)
	}
	p.write("vmcp.env", "REMOTE_KEY=secret-value\n")
	p.answer = "no"
	if err := p.run("cursor", "--replace"); !errors.Is(err, errFound) || !strings.Contains(p.said, "a b, remote") || p.read(".cursor/mcp.json") != text {
		t.Errorf("after a no: %v, %s", err, p.said)
	}
	for _, edit := range []bool{false, true} {
		p.answer = "y"
		p.must("cursor", "--replace")
		with := p.read(".cursor/mcp.json")
		if strings.Contains(with, "secret-value") || strings.Contains(with, "remote") || !strings.Contains(with, p.url) {
			t.Errorf("replaced: %s", with)
		}
		p.answer = ""
		p.must("cursor", "--url", "http://127.0.0.1:1/mcp")
		if edit {
			p.write(".cursor/mcp.json", strings.Replace(p.read(".cursor/mcp.json"), `"x": 1`, `"x": 2`, 1))
		}
		p.must("cursor", "--undo")
		back := p.read(".cursor/mcp.json")
		if !edit && back != text {
			t.Errorf("not given back: %s", cmp.Diff(text, back))
		}
		if edit && (!strings.Contains(back, `"a b": {"command": "npx", "args": ["-y", "a"], "env": {"KEY": "secret-value"}}`) || !strings.Contains(back, "// its key") || !strings.Contains(back, `"x": 2`) || strings.Contains(back, "vmcp")) {
			t.Errorf("into a file that was edited: %s", back)
		}
	}
}

// TestList: which clients are installed and connected, and to which endpoint.
func TestList(t *testing.T) {
	p := newPerson(t)
	p.write(".cursor/mcp.json", "{}")
	p.write(".codex/config.toml", "")
	p.write(".gemini/settings.json", `{"mcpServers": {"vmcp": {"command": "x"}}}`)
	p.write(".config/zed/settings.json", "{")
	p.must("cursor", "codex")
	p.must("codex", "--url", "http://127.0.0.1:1/mcp")
	p.must("--list", "-o", "json")
	var got struct {
		Clients []struct {
			Client, URL, Problem    string
			Found, Connected, Stale bool
		}
	}
	if err := json.Unmarshal([]byte(p.said), &got); err != nil {
		t.Fatalf("%v: %s", err, p.said)
	}
	have := map[string]string{}
	for _, c := range got.Clients {
		have[c.Client] = fmt.Sprint(c.Found, c.Connected, c.Stale, " ", c.URL, " ", c.Problem != "")
	}
	want := map[string]string{"cursor": "true true false " + p.url + " false", "codex": "true true true http://127.0.0.1:1/mcp false", "gemini": "true false false  true", "zed": "true false false  true"}
	for _, c := range []string{"claude", "claude-desktop", "vscode", "windsurf", "opencode"} {
		want[c] = "false false false  false"
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	p.must("--list", "cursor", "codex")
	if !strings.Contains(p.said, "cursor  connected ") || !strings.Contains(p.said, "stale: http://127.0.0.1:1/mcp") || strings.Contains(p.said, "gemini") {
		t.Errorf("said %s", p.said)
	}
}

// TestManyAtOnce: concurrent connects of several clients lose no entry.
func TestManyAtOnce(t *testing.T) {
	p := newPerson(t)
	const text = "{\n  \"mcpServers\": {}\n}\n"
	p.write(".cursor/mcp.json", text)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			one := *p
			if err := one.run("cursor", "--name", fmt.Sprint("n", i)); err != nil {
				t.Errorf("%v: %s", err, one.said)
			}
		})
	}
	all.Wait()
	f, err := clients.Read("f", []byte(p.read(".cursor/mcp.json")), clients.Options{})
	if err != nil || len(f.Servers) != 20 {
		t.Fatalf("%v: %s", err, p.read(".cursor/mcp.json"))
	}
	for i := range 20 {
		p.must("cursor", "--name", fmt.Sprint("n", i), "--undo")
	}
	if got := p.read(".cursor/mcp.json"); got != text {
		t.Errorf("afterwards: %s", got)
	}
}

// TestState: without a folder for the copies nothing is written; a state that cannot be parsed is reported.
func TestState(t *testing.T) {
	p := newPerson(t)
	p.write(".cursor/mcp.json", "{}")
	t.Setenv("XDG_STATE_HOME", p.write("state", "a file"))
	if err := p.run("cursor"); !errors.Is(err, errFound) || p.read(".cursor/mcp.json") != "{}" {
		t.Errorf("%v, %s", err, p.said)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(p.home, "other"))
	p.write("other/vmcp/connect.json", "{")
	if err := p.run("cursor"); !errors.Is(err, errFound) || !strings.Contains(p.said, "move it away to start over") || p.read(".cursor/mcp.json") != "{}" {
		t.Errorf("%v, %s", err, p.said)
	}
	// The process ended after the record was saved and before the file was written.
	p.write("other/vmcp/connect.json", `{"entries":[{"client":"cursor","file":"`+filepath.Join(p.home, ".cursor/mcp.json")+`","shape":"mcpServers","name":"vmcp","value":"{}","sha256":"x","backup":"none"}]}`)
	p.must("cursor", "--undo")
	if p.read(".cursor/mcp.json") != "{}" || !strings.Contains(p.said, "it is not there any more") {
		t.Errorf("said %s", p.said)
	}
}

// TestUsage: wrong arguments are refused before anything is read.
func TestUsage(t *testing.T) {
	p := newPerson(t)
	for _, tt := range []struct{ args, want string }{
		{"", "want the name of a client"},
		{"cursr", `there is no client "cursr"; did you mean "cursor"?`},
		{"cursor --name a/b", "--name"},
		{"cursor --profile ../x", "--profile"},
		{"cursor --undo --force", "undo"},
		{"claude --project " + filepath.Join(p.home, "none"), "--project: there is no folder"},
	} {
		if err := p.run(strings.Fields(tt.args)...); err == nil || !strings.Contains(p.said, tt.want) {
			t.Errorf("connect %s: %v, %s", tt.args, err, p.said)
		}
	}
}
