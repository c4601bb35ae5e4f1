package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/isolate"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// shortLived is in the environment of commands, most of which run for milliseconds: collecting
// the garbage of their start would only take time.
const shortLived = "GOGC=400"

var update = flag.Bool("update", false, "rewrite expectations and generated pages")

func TestMain(m *testing.M) {
	isolate.ServeIfWorker()
	testscript.Main(tests{m}, map[string]func(){
		"vmcp":      mainChecked,
		"workspace": func() { beBackend("workspace") },
		"yamlfile":  func() { beBackend("yamlfile") },
		"xdg-open":  browse,
	})
}

// tests are the tests of this package; most of the time they wait for other processes.
type tests struct{ *testing.M }

func (m tests) Run() int {
	testmode.SideBySide(6)
	if signal.Ignored(os.Interrupt) { // as for a background process of a script; child processes inherit it
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	return m.M.Run()
}

// beBackend runs the example server of that name.
func beBackend(name string) {
	if err := demoBackends[name](context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestCommands runs the scripts in testdata, each a session at a shell. Those that begin with [!thorough] test
// details of what another script, or a test of the package, tests in the quick form.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Condition: func(name string) (bool, error) {
			if name != "thorough" {
				return false, fmt.Errorf("unknown condition %s: there is thorough", name)
			}
			return testmode.Thorough() || *update, nil
		},
		Setup: func(e *testscript.Env) error {
			reportForms(t, e)
			e.Setenv("HOME", e.WorkDir)
			e.Vars = append(e.Vars, shortLived)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			examples, err := filepath.Abs("../../examples")
			e.Setenv("EXAMPLES", examples)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport":  freePort,
			"taken":     takenPort,
			"answers":   answers,
			"changes":   changes,
			"closed":    closed,
			"exits":     exits,
			"hold":      hold,
			"listening": listening,
			"logins":    loginServer,
			"newline":   newLine,
			"paste":     paste,
			"waitexit":  waitExit,
			"waitfile":  waitFile,
			"waitline":  waitLine,
		},
	})
}

// takenPort sets TAKEN to a port where another program serves HTTP, until the script ends.
func takenPort(ts *testscript.TestScript, _ bool, _ []string) {
	h := httptest.NewServer(http.NotFoundHandler())
	ts.Defer(h.Close)
	ts.Setenv("TAKEN", h.URL[strings.LastIndex(h.URL, ":")+1:])
}

// freePort sets a variable to a free port.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	port, err := rig.Port()
	ts.Check(err)
	ts.Setenv(args[0], fmt.Sprint(port))
}

// hold sends a request without its body, and keeps it open until the test ends.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := net.Dial("tcp", args[0])
	ts.Check(err)
	ts.Defer(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: "+args[0]+
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	ts.Check(err)
	// The server asks for the body once the request is being handled.
	_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 100")))
	ts.Check(err)
}

// listening opens a session and its stream for messages of the server.
func listening(ts *testscript.TestScript, _ bool, args []string) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: args[0], MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	ts.Check(err)
	ts.Defer(func() { _ = session.Close() })
}

// changes opens a session and writes a file when it is notified that the list of tools has changed.
func changes(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { _, _ = fmt.Fprintln(file, "changed") },
	})
	session, err := client.Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: args[0], MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	ts.Check(err)
	ts.Defer(func() { _ = session.Close(); _ = file.Close() })
}

// closed waits until an address accepts no connections.
func closed(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, func() error {
		conn, err := net.Dial("tcp", args[0])
		if err != nil {
			return nil
		}
		return errors.Join(errors.New(args[0]+" still takes connections"), conn.Close())
	})
}

// exits runs a command that ends with the exit code given first.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || fmt.Sprint(exit.ExitCode()) != args[0] {
		ts.Fatalf("%q: %v, want exit code %s", args[1:], err, args[0])
	}
}

// waitExit runs a command until it ends with the exit code given first; each try is a process.
func waitExit(ts *testscript.TestScript, _ bool, args []string) {
	pollEvery(ts, 250*time.Millisecond, func() error {
		code := 0
		var exit *exec.ExitError
		if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if fmt.Sprint(code) != args[0] {
			return fmt.Errorf("%q: exit code %d, want %s", args[1:], code, args[0])
		}
		return nil
	})
}

// waitFile waits until a file exists.
func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, func() error {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err
	})
}

// waitLine waits until a file has a line with the text.
func waitLine(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, func() error {
		if text := ts.ReadFile(args[0]); !strings.Contains(text, args[1]) {
			return fmt.Errorf("%s has no line with %q:\n%s", args[0], args[1], text)
		}
		return nil
	})
}

// newLine waits until a file has one more line with the text than another.
func newLine(ts *testscript.TestScript, _ bool, args []string) {
	before := strings.Count(ts.ReadFile(args[1]), args[2])
	poll(ts, func() error {
		if strings.Count(ts.ReadFile(args[0]), args[2]) <= before {
			return fmt.Errorf("%s has no new line with %q", args[0], args[2])
		}
		return nil
	})
}

// poll retries until there is no error, for a minute: other processes are involved.
func poll(ts *testscript.TestScript, try func() error) { pollEvery(ts, 50*time.Millisecond, try) }

func pollEvery(ts *testscript.TestScript, often time.Duration, try func() error) {
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(often)
	defer tick.Stop()
	for err := try(); err != nil; err = try() {
		if <-tick.C; time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
	}
}

// answers waits until a page exists and, given more words, contains them all.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, func() error {
		page, err := fetch(args[0])
		if err == nil && !containsAll(page, args[1:]) {
			err = fmt.Errorf("%s: want %q in\n%s", args[0], args[1:], page)
		}
		return err
	})
}

func fetch(url string) (string, error) {
	resp, err := http.Get(url) //nolint:gosec // the test's own server
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return b.String(), err
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// paste runs the command that a file shows after "vmcp: try:", as a user would in a shell.
func paste(ts *testscript.TestScript, _ bool, args []string) {
	_, command, ok := strings.Cut(ts.ReadFile(args[0]), "vmcp: try: ")
	if !ok {
		ts.Fatalf("no command to try in %s:\n%s", args[0], ts.ReadFile(args[0]))
	}
	command, _, _ = strings.Cut(command, "\n")
	ts.Check(ts.Exec("sh", "-c", command))
}

// TestReference compares the reference page of the command with its help; -update writes it.
func TestReference(t *testing.T) {
	const path = "../../docs/reference/cli.md"
	var page bytes.Buffer
	page.WriteString("# Command reference\n\nGenerated from the help of `vmcp`, which says the same.\n")
	writeReference(t, &page, new(app).root())
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(got)); diff != "" {
		t.Errorf("%s is stale, run go test ./cmd/vmcp -run TestReference -update (-want +got):\n%s", path, diff)
	}
}

func writeReference(t *testing.T, w *bytes.Buffer, c *cobra.Command) {
	t.Helper()
	c.DisableAutoGenTag = true
	w.WriteByte('\n')
	var section bytes.Buffer
	if err := doc.GenMarkdownCustom(c, &section, func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}); err != nil {
		t.Fatal(err)
	}
	w.Write(bytes.TrimSpace(section.Bytes()))
	w.WriteByte('\n')
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			writeReference(t, w, sub)
		}
	}
}
