package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// With this variable set, the test binary runs the server, for the tests over stdio.
const serveEnv = "WORKSPACE_TEST_SERVE"

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
	t    *testing.T
	s    *mcp.ClientSession
	root string
}

// start serves a new workspace in memory.
func start(t *testing.T, o Options) client {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	server, err := w.Server().Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client{t, connect(t, near), o.Root}
	t.Cleanup(func() {
		c.s.Close()
		server.Wait()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
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

func (c client) call(tool string, args any) *mcp.CallToolResult {
	c.t.Helper()
	r, err := c.s.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s(%v): %v", tool, args, err)
	}
	return r
}

// ok calls a tool that must succeed and returns its structured content.
func (c client) ok(tool string, args any) map[string]any {
	c.t.Helper()
	r := c.call(tool, args)
	if r.IsError {
		c.t.Fatalf("%s(%v): %s", tool, args, text(r))
	}
	return r.StructuredContent.(map[string]any)
}

// refused calls a tool that must refuse with code and returns the whole text.
func (c client) refused(code, tool string, args any) string {
	c.t.Helper()
	r := c.call(tool, args)
	if !r.IsError {
		c.t.Fatalf("%s(%v): got %s, want it refused with %s", tool, args, text(r), code)
	}
	e, _ := r.StructuredContent.(map[string]any)["error"].(map[string]any)
	if e["code"] != code || !strings.HasPrefix(text(r), code+": ") {
		c.t.Errorf("%s(%v): got %v and text %q, want code %s in both", tool, args, e, text(r), code)
	}
	return text(r)
}

func text(r *mcp.CallToolResult) string { return r.Content[0].(*mcp.TextContent).Text }

type args = map[string]any

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestToolsSayWhatTheyDo(t *testing.T) {
	c := start(t, Options{})
	list, err := c.s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range list.Tools {
		readOnly[tool.Name] = tool.Annotations.ReadOnlyHint
		if tool.OutputSchema == nil {
			t.Errorf("tool %s has no output schema", tool.Name)
		}
	}
	want := `{"fetch":true,"list_files":true,"read_file":true,"sql_execute":false,"sql_query":true,"write_file":false}`
	if got := asJSON(readOnly); got != want {
		t.Errorf("readOnlyHint by tool:\n got %s\nwant %s", got, want)
	}
}

func TestServesStdio(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("hi"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-root", root)
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	c := client{t, connect(t, &mcp.CommandTransport{Command: cmd}), root}
	if got := c.ok("read_file", args{"path": "hello.txt"})["text"]; got != "hi" {
		t.Errorf("read_file over stdio: got %v, want hi", got)
	}
	if err := c.s.Close(); err != nil {
		t.Errorf("the server did not end well with its input: %v", err)
	}
}

func TestMainRefusesWhatItCannotServe(t *testing.T) {
	root := t.TempDir()
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"no root", "root: open", []string{"-root", filepath.Join(root, "missing")}},
		{"database in the root", "want a file outside of", []string{"-root", root, "-db", filepath.Join(root, "x.db")}},
		{"stray argument", `have "x"`, []string{"x"}},
		{"address for all", "want a loopback address", []string{"-root", root, "-http", "0.0.0.0:0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Main(t.Context(), tt.args)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Main(%q): got %v, want an error with %q", tt.args, err, tt.want)
			}
		})
	}
}
