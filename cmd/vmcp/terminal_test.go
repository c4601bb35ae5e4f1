//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// openTerminal returns both ends of a pseudo terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

// onTerminal runs the command on a pseudo terminal and returns its screen.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	user, program := openTerminal(t)
	screen := make(chan string)
	go func() {
		data, _ := io.ReadAll(user) // ends with an error when the other end is closed
		screen <- string(data)
	}()
	runContext(context.Background(), args, strings.NewReader(""), program, program)
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-screen, "\r\n", "\n")
}

// evil is what must not be written to a terminal: a title, a C1 colour, the clipboard, reversed
// text and tags.
const evil = "\x1b]0;owned\x07 \u009b31m \x1b]52;c;b3duZWQ=\x07 abc\u202edef \U000e0041 \x08\x08 end"

// evilServer has it in all that it sends.
func evilServer(t *testing.T) string {
	quoted := strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`, "\x08", `\u0008`).Replace(evil)
	s := &raw.Server{Handle: func(c *raw.Call) (string, error) {
		switch {
		case c.Method == "tools/list":
			return `{"tools":[{"name":"tool\nforged  files.forged  row ` + quoted + `","description":"` + quoted + `","inputSchema":{"type":"object"}}]}`, nil
		case c.Method == "tools/call" && strings.Contains(string(c.Params), "fails"):
			return `{"isError":true,"content":[{"type":"text","text":"` + quoted + `\nvmcp: forged"}]}`, nil
		case c.Method == "tools/call" && strings.Contains(string(c.Params), "refused"):
			return "", &raw.Error{Code: -32000, Message: evil}
		case c.Method == "tools/call":
			_ = c.Notify("notifications/message", `{"level":"info","data":"`+quoted+`"}`)
			return `{"content":[{"type":"text","text":"` + quoted + `"},{"type":"resource_link","name":"x","uri":"` + quoted + `"}]}`, nil
		}
		return "", raw.ErrDefault
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

func TestATerminalGetsNoCommands(t *testing.T) {
	url := evilServer(t)
	for _, args := range [][]string{
		{"tools"}, {"tools", "-o", "json"}, {"call", "works"}, {"call", "works", "-o", "json"}, {"call", "fails"}, {"call", "refused"},
	} {
		got := onTerminal(t, append(args, "--url", url)...)
		if hidden := display.Hidden(got); len(hidden) > 0 || strings.Contains(got, "\r") || !strings.Contains(got, "end") {
			t.Errorf("vmcp %s: the terminal gets %q:\n%q", strings.Join(args, " "), hidden, got)
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "forged") || line == "vmcp: forged\n" && args[0] == "tools" {
				t.Errorf("vmcp %s: a line of the server's making: %q", strings.Join(args, " "), line)
			}
		}
	}
}

// TestATerminalIsToldOfWaiting: at a terminal a command shows the backends that it waits for. The backend does
// not answer before they are shown.
func TestATerminalIsToldOfWaiting(t *testing.T) {
	t.Parallel()
	user, program := openTerminal(t)
	told := make(chan struct{})
	slow := &raw.Server{Handle: func(c *raw.Call) (string, error) {
		select {
		case <-told:
		case <-t.Context().Done():
		}
		return "", raw.ErrDefault
	}}
	server := httptest.NewServer(slow)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte("backends:\n  - {name: slow, url: "+server.URL+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(user); lines.Scan(); {
			if strings.Contains(lines.Text(), "vmcp: waiting for slow, for 15s at most") {
				close(told)
				break
			}
		}
		_, _ = io.Copy(io.Discard, user)
	}()
	if code := runContext(t.Context(), []string{"validate", "--live", file}, strings.NewReader(""), program, program); code != 0 {
		t.Errorf("exit code %d", code)
	}
	_ = program.Close()
	select {
	case <-told:
	default:
		t.Error("the terminal was not told what the command waited for")
	}
}

// A table in a pipe is escaped, too: grep and less pass it on to the terminal.
func TestATableInAPipeGivesNoCommands(t *testing.T) {
	var out, errs strings.Builder
	runContext(context.Background(), []string{"tools", "--url", evilServer(t)}, strings.NewReader(""), &out, &errs)
	if hidden := display.Hidden(out.String()); len(hidden) > 0 || !strings.Contains(out.String(), `tool\nforged`) || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("the pipe gets %q:\n%q", hidden, out.String())
	}
}

func TestAPipeGetsTheBytes(t *testing.T) {
	url := evilServer(t)
	for _, args := range [][]string{{"call", "works"}, {"tools", "-o", "json"}} {
		var out, errs strings.Builder
		runContext(context.Background(), append(args, "--url", url), strings.NewReader(""), &out, &errs)
		if !strings.Contains(out.String(), "abc\u202edef") {
			t.Errorf("vmcp %s: %q, want the bytes of the server", strings.Join(args, " "), out.String())
		}
		if hidden := display.Hidden(errs.String()); len(hidden) > 0 {
			t.Errorf("vmcp %s: standard error has %q", strings.Join(args, " "), hidden)
		}
	}
}
