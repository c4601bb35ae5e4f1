//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// person is a user at a terminal that runs a program.
type person struct {
	*testing.T
	tty  *os.File
	done chan error

	mu     sync.Mutex
	screen bytes.Buffer  // guarded by mu
	read   int           // offset up to which the screen was expected; guarded by mu
	more   chan struct{} // something was written
}

// sit starts vmcp at a terminal, in the folder of the scripted sessions.
func sit(t *testing.T, args ...string) *person {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("internal", "editor", "testdata"))); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("vmcp", args...)
	c.Dir = dir
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	p := &person{T: t, tty: tty, done: make(chan error, 1), more: make(chan struct{}, 1)}
	go p.watch()
	go func() { p.done <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = tty.Close()
	})
	return p
}

func (p *person) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := p.tty.Read(buf)
		p.mu.Lock()
		p.screen.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// sees waits until a text is on the screen, after what was seen before.
func (p *person) sees(text string) {
	p.Helper()
	limit := time.After(time.Minute)
	for {
		p.mu.Lock()
		rest := p.screen.Bytes()[p.read:]
		at := bytes.Index(rest, []byte(text))
		if at >= 0 {
			p.read += at + len(text)
		}
		all := string(rest)
		p.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-p.more:
		case <-limit:
			p.Fatalf("the screen does not show %q:\n%q", text, all)
		}
	}
}

func (p *person) types(text string) {
	if _, err := p.tty.WriteString(text); err != nil {
		p.Fatal(err)
	}
}

// enters types a line at the prompt, and waits for its output.
func (p *person) enters(line string, want ...string) {
	p.Helper()
	p.sees(">>> ")
	p.types(line + "\r")
	p.sees(line)
	for _, w := range want {
		p.sees(w)
	}
}

func (p *person) leaves() {
	p.Helper()
	p.sees(">>> ")
	p.types("\x04")
	select {
	case err := <-p.done:
		if err != nil {
			p.Errorf("the session ends with %v", err)
		}
	case <-time.After(time.Minute):
		p.Error("the session does not end")
	}
}

func TestReplAtATerminal(t *testing.T) {
	p := sit(t, "repl", "--tool", "refund", "--lock", "vmcp.lock")
	p.enters("2 + 3", "5\r\n")
	p.sees(">>> ")
	p.types("def double(x):\r")
	p.sees("... ")
	p.types("    return 2 * x\r")
	p.sees("... ")
	p.types("\r")
	p.enters("double(21)", "42\r\n")

	// An error shows its position, and the session continues.
	p.enters("1 + nothing", `<input>:5:5: undefined: nothing`, "1 + nothing\r\n", "        ^")
	p.enters("_", "42\r\n")

	// Ctrl-C ends a line, an incomplete block, and a call, but not the session.
	p.sees(">>> ")
	p.types("half a line\x03")
	p.sees(">>> ")
	p.types("if True:\r")
	p.sees("... ")
	p.types("\x03")
	p.enters(`sleep("1h")`)
	p.types("\x03") // in the original mode it is a signal; in raw mode it would end a line
	p.sees("interrupted")

	// Tab completes tools, arguments and fields.
	p.sees(">>> ")
	p.types("r = call_tool(\"shop_ge\t")
	p.sees(`shop_get_order"`)
	p.types(", {\"\t")
	p.sees(`id": `)
	p.types("\"A1\"})\r")
	p.sees(">>> ")
	p.types("r[\"st\t")
	p.sees(`status"]`)
	p.types("\r")
	p.sees("\"new\"\r\n")
	p.sees(">>> ")
	p.types("r[\"\t")
	p.sees("id\"]  status\"]  total\"]")
	p.types("id\"]\r")
	p.sees("\"example\"\r\n")

	// The line before again, by the arrow key.
	p.sees(">>> ")
	p.types("\x1b[A\r")
	p.sees("\"example\"\r\n")

	p.enters(`run({"order": "A1"})`, `{"refunded": 1250}`)
	p.enters(":save test_it", "tools/refund_test.star: 1 written")
	p.leaves()
}

// TestReplAsks: a destructive tool is called after a yes.
func TestReplAsks(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "vmcp.yaml")
	text := "backends:\n  - {name: ws, command: workspace, args: [-root, \"" + dir + "\"]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := sit(t, "repl", "--config", config)
	call := `call_tool("write_file", {"path": "a.txt", "text": "x"})`
	p.enters(call, "write_file may overwrite or destroy something", "call it? yes, no, always: ")
	p.types("no\r")
	p.sees("you said no")
	p.enters(call, "call it? yes, no, always: ")
	p.types("\x03")
	p.sees("interrupted")
	p.enters(`"still here"`, "\"still here\"\r\n")
	p.enters(call, "call it? yes, no, always: ")
	p.types("always\r")
	p.enters(call, "{")
	p.enters(`e = elicit("Go on?", {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]})`, "asks: Go on?", "sure")
	p.types("yes\r")
	p.enters("e.content", `{"sure": True}`)
	p.leaves()
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "x" {
		t.Errorf("a.txt has %q, %v", data, err)
	}
}

// TestReplShowsNoControls: control characters in a result are escaped.
func TestReplShowsNoControls(t *testing.T) {
	p := sit(t, "repl")
	p.enters(`print("\x1b]0;owned\x07")`)
	p.sees(">>> ")
	p.mu.Lock()
	shown := p.screen.String()
	p.mu.Unlock()
	if i := strings.Index(shown, "\x1b]0;owned"); i >= 0 {
		t.Errorf("the terminal gets a title: %q", display.VisibleText(shown))
	}
}
