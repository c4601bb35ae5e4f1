package yamlfile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// With this variable set, the test binary is the server, so that the tests over stdio
// run what they test.
const serveEnv = "YAMLFILE_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "" {
		os.Exit(m.Run())
	}
	if err := Main(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// client calls the tools of one server.
type client struct {
	t   *testing.T
	s   *mcp.ClientSession
	dir string
}

// start serves a directory in memory, with text as its file app.yaml.
func start(t *testing.T, text string) client {
	t.Helper()
	dir := t.TempDir()
	f, err := New(Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	server, err := f.Server().Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client{t, connect(t, near), dir}
	c.write(text)
	t.Cleanup(func() {
		c.s.Close()
		server.Wait()
		f.Close()
	})
	return c
}

func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c client) write(text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "app.yaml"), []byte(text), 0o640); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) read() string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, "app.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func (c client) call(tool string, args map[string]any) *mcp.CallToolResult {
	c.t.Helper()
	if args["file"] == nil {
		args["file"] = "app.yaml"
	}
	r, err := c.s.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s(%v): %v", tool, args, err)
	}
	return r
}

// ok calls a tool that must succeed and returns the text of its result.
func (c client) ok(tool string, args map[string]any) string {
	c.t.Helper()
	r := c.call(tool, args)
	if r.IsError {
		c.t.Fatalf("%s(%v): %s", tool, args, text(r))
	}
	return text(r)
}

// refused calls a tool that must refuse with code and returns the message.
func (c client) refused(code, tool string, args map[string]any) string {
	c.t.Helper()
	r := c.call(tool, args)
	if !r.IsError {
		c.t.Fatalf("%s(%v): got %s, want it refused with %s", tool, args, text(r), code)
	}
	e, _ := r.StructuredContent.(map[string]any)["error"].(map[string]any)
	if e["code"] != code || !strings.HasPrefix(text(r), code+": ") {
		c.t.Errorf("%s(%v): got %v and text %q, want code %s in both", tool, args, e, text(r), code)
	}
	return strings.TrimPrefix(text(r), code+": ")
}

func text(r *mcp.CallToolResult) string { return r.Content[0].(*mcp.TextContent).Text }

type args = map[string]any

const services = `# who runs where
server:
  port: 8080   # also in the firewall
  host: 'localhost'
list:
- name: a
- name: b  # second
`

func TestGetReturnsJSON(t *testing.T) {
	c := start(t, `a: {b: [1, 0x10, 1.50, "2", yes, null, 9007199254740993]}
"x.y": 2026-01-02
base: &base {k: 1, l: 2}
more: {<<: *base, l: 3}
ref: *base
nan: .nan
---
second: doc
`)
	for _, tt := range []struct{ path, want string }{
		{"a.b", `[1,16,1.50,"2","yes",null,9007199254740993]`},
		{"a.b[2]", `1.50`},
		{`["x.y"]`, `"2026-01-02"`},
		{"more", `{"l":3,"k":1}`},
		{"more.k", `1`},
		{"ref.l", `2`},
		{"nan", `".nan"`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			got := client{t, c.s, c.dir}.ok("get", args{"path": tt.path})
			if !strings.Contains(got, `"value":`+tt.want+`,"line"`) {
				t.Errorf("get %s: got %s, want the value %s", tt.path, got, tt.want)
			}
		})
	}
	if got := c.ok("get", args{"path": "second", "document": 1}); !strings.Contains(got, `"value":"doc","line":8`) {
		t.Errorf("get from the second document: got %s", got)
	}
}

// Each kind of refusal has a code of its own, and text that says what would be right.
func TestRefusals(t *testing.T) {
	c := start(t, services+"anchored: [&r {x: 1}]\nuse: *r\ntwice: 1\ntwice: 2\n")
	for name, text := range map[string]string{"bad.yaml": "a: [1\nb: 2\n", "latin1.yaml": "a: \xe9\n", "loop.yaml": "a: &a [*a]\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hosts", filepath.Join(c.dir, "out.yaml")); err != nil {
		t.Fatal(err)
	}
	before := c.read()
	for _, tt := range []struct {
		tool, code string
		args       args
		want       string
	}{
		{"get", Unreadable, args{"file": "no.yaml", "path": "a"}, "no.yaml: no such file or directory"},
		{"get", Unreadable, args{"file": "../app.yaml", "path": "a"}, "../app.yaml: path escapes from parent"},
		{"get", Unreadable, args{"file": "/etc/hosts", "path": "a"}, "/etc/hosts: path escapes from parent"},
		{"get", Unreadable, args{"file": "out.yaml", "path": "a"}, "out.yaml: path escapes from parent"},
		{"set", Unreadable, args{"file": "out.yaml", "path": "a", "value": 1}, "out.yaml: path escapes from parent"},
		{"get", Unreadable, args{"file": ".", "path": "a"}, ".: . is directory, not a file"},
		{"get", Malformed, args{"file": "bad.yaml", "path": "a"}, "bad.yaml: line 1: did not find expected ',' or ']'"},
		{"set", Malformed, args{"file": "bad.yaml", "path": "a", "value": 1}, "bad.yaml: line 1: did not find expected ',' or ']'"},
		{"get", Malformed, args{"file": "latin1.yaml", "path": "a"}, "latin1.yaml: not UTF-8"},
		{"get", Malformed, args{"path": "twice"}, `app.yaml: duplicate key "twice", on lines 10 and 11`},
		{"get", NotFound, args{"path": "server.prot"}, `app.yaml: no server.prot: server has no key "prot", but port, host`},
		{"set", NotFound, args{"path": "server.prot", "value": 1}, `app.yaml: no server.prot: server has no key "prot", but port, host`},
		{"get", NotFound, args{"path": "list[2].name"}, "app.yaml: no list[2].name: list has 2 elements"},
		{"get", NotFound, args{"path": "server[0]"}, "app.yaml: no server[0]: server is a mapping, not a list"},
		{"get", NotFound, args{"path": "server.port.x"}, "app.yaml: no server.port.x: server.port is a single value"},
		{"set", NotFound, args{"path": "list[7]", "value": 1, "create": true}, "app.yaml: no list[7]: list has 2 elements"},
		{"set", NotFound, args{"path": "server.port.x", "value": 1, "create": true}, "app.yaml: no server.port.x: server.port is a single value"},
		{"get", NotFound, args{"path": "a", "document": 3}, "app.yaml: no document 3: the file has 1"},
		{"get", BadPath, args{"path": "list[x]"}, `path "list[x]" at 4: want an index such as [2] or a key such as ["a.b"]`},
		{"get", BadPath, args{"path": "a..b"}, `path "a..b" at 1: want a key; write one with special characters as ["a.b"]`},
		{"set", BadPath, args{"path": "", "value": 1}, "path: want a key or an index, have none"},
		{"set", BadPath, args{"path": "use.x", "value": 2}, "app.yaml: use is an alias: set the value where &r is"},
		{"set", BadValue, args{"path": "anchored", "value": 1}, "app.yaml: anchored: this value cannot be written there without touching the rest of the file"},
		{"set", BadValue, args{"path": "ref", "value": json.RawMessage(`{"a":1,"a":2}`)}, "value: an object has the same key twice"},
	} {
		t.Run(tt.tool+" "+fmt.Sprint(tt.args), func(t *testing.T) {
			if got := (client{t, c.s, c.dir}).refused(tt.code, tt.tool, tt.args); got != tt.want {
				t.Errorf("message:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
	c.refused(Malformed, "get", args{"file": "loop.yaml", "path": "a"})
	if got := c.read(); got != before {
		t.Errorf("a refused set changed the file:\n%s", got)
	}
}

// Aliases can make a short file endless, or larger than the machine.
func TestFilesThatGrowWhenReadAreHeld(t *testing.T) {
	c := start(t, "a: &a {<<: [*a, *a], b: &b {<<: [*a, *b], x: 1}}\n")
	if got := c.ok("get", args{"path": "a.b.b.x"}); !strings.Contains(got, `"value":1,`) {
		t.Errorf("get through circles of merge keys: got %s", got)
	}
	c.refused(NotFound, "get", args{"path": "a.nope"})
	c.refused(Malformed, "get", args{"path": "a"})
	laughs := "a0: &a0 [x, x]\n"
	for i := range 40 {
		laughs += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	c.write(laughs)
	c.refused(Malformed, "get", args{"path": "a40"})
	c.ok("set", args{"path": "a0[0]", "value": "y"})
}

func TestSetKeepsPermissionsAndLeavesNoOtherFiles(t *testing.T) {
	c := start(t, services)
	c.ok("set", args{"path": "server.port", "value": 1})
	c.refused(NotFound, "set", args{"path": "nope", "value": 1})
	info, err := os.Stat(filepath.Join(c.dir, "app.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o640 {
		t.Errorf("permissions: got %o, want 640", got)
	}
	if entries, _ := os.ReadDir(c.dir); len(entries) != 1 {
		t.Errorf("files beside app.yaml: %v", entries)
	}
}

func TestSetOfTheSameValueLeavesTheFileAlone(t *testing.T) {
	c := start(t, services)
	before, _ := os.Stat(filepath.Join(c.dir, "app.yaml"))
	got := c.ok("set", args{"path": "server.host", "value": "localhost"})
	after, _ := os.Stat(filepath.Join(c.dir, "app.yaml"))
	if !strings.Contains(got, `"changed":false`) || !os.SameFile(before, after) {
		t.Errorf("set of the same value: got %s, replaced: %v", got, !os.SameFile(before, after))
	}
}

// Every set reads the file, changes it and replaces it: without a lock, sets would be lost.
func TestConcurrentSetsAreAllKept(t *testing.T) {
	c := start(t, strings.Repeat("# a comment\n", 3)+"count: {}\n")
	other := overStdio(t, c.dir)
	var wg sync.WaitGroup
	for i := range 40 {
		caller := c
		if i%2 == 1 {
			caller = other // a second process on the same file
		}
		wg.Go(func() {
			caller.ok("set", args{"path": fmt.Sprintf("count.k%d", i), "value": i, "create": true})
		})
	}
	wg.Wait()
	for i := range 40 {
		c.ok("get", args{"path": fmt.Sprintf("count.k%d", i)})
	}
}

func overStdio(t *testing.T, dir string) client {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-root", dir)
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	c := client{t, connect(t, &mcp.CommandTransport{Command: cmd}), dir}
	t.Cleanup(func() {
		if err := c.s.Close(); err != nil {
			t.Errorf("the server did not end well with its input: %v", err)
		}
	})
	return c
}
