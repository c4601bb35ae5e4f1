//go:build npm

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var (
	vmcp string
	npm  *rig.Packages
)

func TestMain(m *testing.M) {
	code, err := prepareAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepareAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if npm, err = rig.Install(ctx); err != nil {
		return 0, err
	}
	if vmcp, err = rig.Build(ctx, dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// startTime bounds the wait for a process that starts or restarts.
const startTime = 60 * time.Second

// script is the path of an npm server's program.
func script(server string) string {
	return npm.Path("@modelcontextprotocol/server-" + server + "/dist/index.js")
}

// stdio is the configuration of an npm server over stdio.
func stdio(name, server string, args ...string) string {
	quoted := []string{fmt.Sprintf("%q", script(server))}
	for _, a := range args {
		quoted = append(quoted, fmt.Sprintf("%q", a))
	}
	return fmt.Sprintf("  - name: %s\n    command: %q\n    args: [%s]\n", name, npm.Node(), strings.Join(quoted, ", "))
}

func remote(name string, port int) string {
	return fmt.Sprintf("  - name: %s\n    url: http://127.0.0.1:%d/mcp\n", name, port)
}

// everythingHTTP starts server-everything in its Streamable HTTP mode.
func everythingHTTP(t *testing.T, port int) *rig.Process {
	t.Helper()
	log := &bytes.Buffer{}
	cmd := exec.Command(npm.Node(), script("everything"), "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
	cmd.Stdout, cmd.Stderr = log, log
	p, err := rig.StartCmd(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitHTTP(deadline(t), fmt.Sprintf("http://127.0.0.1:%d/mcp", port)); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return p
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	t.Cleanup(cancel)
	return ctx
}

func configure(t *testing.T, backends ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(path, []byte("name: interop\nbackends:\n"+strings.Join(backends, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts the proxy and returns the URL of its endpoint.
func serve(t *testing.T, backends ...string) string {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p, addr, err := rig.Serve(deadline(t), log, vmcp, configure(t, backends...))
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("serve ended with: %v", err)
		}
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of vmcp:\n%s", text)
		}
	})
	return "http://" + addr + "/mcp"
}

// four are three npm servers over stdio and one over HTTP.
func four(t *testing.T) (backends []string, folder string) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "note.txt"), []byte("a note"), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	everythingHTTP(t, port)
	return []string{
		stdio("everything", "everything", "stdio"),
		stdio("files", "filesystem", folder),
		stdio("memory", "memory") + fmt.Sprintf("    env: {MEMORY_FILE_PATH: %q}\n", filepath.Join(folder, "memory.json")),
		remote("remote", port),
	}, folder
}

// calls are one or more calls to each of the four servers with a part of the result;
// who is stored by the memory server.
func calls(folder, who string) []struct {
	tool string
	args map[string]any
	want string
} {
	return []struct {
		tool string
		args map[string]any
		want string
	}{
		{"everything_echo", map[string]any{"message": "hello"}, "Echo: hello"},
		{"everything_get-sum", map[string]any{"a": 2, "b": 40}, "42"},
		{"everything_get-structured-content", map[string]any{"location": "Chicago"}, "temperature"},
		{"files_list_directory", map[string]any{"path": folder}, "note.txt"},
		{"files_read_text_file", map[string]any{"path": filepath.Join(folder, "note.txt")}, "a note"},
		{"memory_create_entities", map[string]any{"entities": []any{map[string]any{"name": who, "entityType": "person", "observations": []string{"counts"}}}}, who},
		{"memory_read_graph", map[string]any{}, who},
		{"remote_echo", map[string]any{"message": "from afar"}, "Echo: from afar"},
	}
}

func TestGoClientOfEveryRevision(t *testing.T) {
	backends, folder := four(t)
	url := serve(t, backends...)
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			useEverything(t, &mcp.StreamableClientTransport{Endpoint: url}, revision, folder)
		})
	}
}

func TestGoClientOverStdio(t *testing.T) {
	backends, folder := four(t)
	config := configure(t, backends...)
	for _, revision := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			cmd := exec.Command(vmcp, "serve", "--stdio", "--config", config)
			cmd.Stderr = t.Output()
			useEverything(t, &mcp.CommandTransport{Command: cmd}, revision, folder)
		})
	}
}

// useEverything lists and calls the tools of all four servers.
func useEverything(t *testing.T, transport mcp.Transport, revision, folder string) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := client.Connect(deadline(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	awaitTools(t, session, "everything_echo", "files_list_directory", "memory_read_graph", "remote_echo")
	for _, c := range calls(folder, "Ada "+revision) {
		res, err := session.CallTool(deadline(t), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		if text := textOf(res); res.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want a result with %q", c.tool, text, c.want)
		}
	}
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("negotiated revision %s, want %s", got, revision)
	}
}

// awaitTools waits until all of the tools are listed: npm servers start slowly.
func awaitTools(t *testing.T, session *mcp.ClientSession, want ...string) {
	t.Helper()
	ctx := deadline(t)
	missing := ""
	err := rig.Poll(ctx, "the backends' tools", func() (bool, error) {
		have := map[string]bool{}
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return false, err
			}
			have[tool.Name] = true
		}
		for _, name := range want {
			if !have[name] {
				missing = name
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("%v, %q is missing", err, missing)
	}
}

func textOf(res *mcp.CallToolResult) string {
	var text []string
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text = append(text, c.Text)
		}
	}
	return strings.Join(text, "\n")
}

// The server answers 400, not 404, to a session that it does not know any more.
func TestRestartOfAnNpmServer(t *testing.T) {
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	first := everythingHTTP(t, port)
	url := serve(t, remote("remote", port))
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := client.Connect(deadline(t), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	awaitTools(t, session, "echo")
	first.Kill()
	everythingHTTP(t, port)
	err = rig.Poll(deadline(t), "an answer of the restarted server", func() (bool, error) {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "again"}})
		return err == nil && textOf(res) == "Echo: again", nil
	})
	if err != nil {
		t.Error(err)
	}
}
