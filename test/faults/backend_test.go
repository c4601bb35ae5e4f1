package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// role is the environment variable that makes this test binary a stdio backend with a fault.
const role = "VMCP_FAULT_ROLE"

// marker is an environment variable with a value of the test, in every process
// of its backends, by which the test finds those that are left.
const marker = "VMCP_FAULT_MARKER"

// noteCalls names a file to which a backend writes the text of each call.
const noteCalls = "VMCP_FAULT_CALLS"

var roles = map[string]func() error{
	"good":      func() error { return newBackend().ServeStdio(os.Stdin, os.Stdout) },
	"hang":      func() error { _, err := io.Copy(io.Discard, os.Stdin); return err },
	"exit":      func() error { return errors.New("this backend exits at once") },
	"malformed": writeMalformed,
	"stubborn":  stayForever,
	"parent":    serveWithChild,
}

// writeMalformed answers every line with a line that is no JSON-RPC.
func writeMalformed() error {
	for _, text := range []string{"Hello! Listening...", "{", "\x00\xff\xfe", `{"jsonrpc":"2.0"}`, `[]`, `{"id":1}`, strings.Repeat("long ", 100_000)} {
		fmt.Println(text)
	}
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

// stayForever is a correct backend that ignores the end of its input and SIGTERM.
func stayForever() error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	_ = newBackend().ServeStdio(os.Stdin, os.Stdout)
	select {}
}

// serveWithChild is a correct backend that leaves a child process running.
func serveWithChild() error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), role+"=stubborn")
	in, _, err := os.Pipe() // kept open: the child reads no end of input
	if err != nil {
		return err
	}
	child.Stdin = in
	if err := child.Start(); err != nil {
		return err
	}
	return newBackend().ServeStdio(os.Stdin, os.Stdout)
}

// newBackend is a correct MCP server with tools to inspect it.
func newBackend() *raw.Server {
	s := &raw.Server{}
	s.Handle = func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return s.List("tools", tool("echo"), tool("pid"), tool("hold")), nil
		case "tools/call":
			return callTool(c)
		}
		return "", raw.ErrDefault
	}
	return s
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

// note writes a line to the file of noteCalls, if there is one.
func note(text string) error {
	name := os.Getenv(noteCalls)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, text)
	return err
}

func callTool(c *raw.Call) (string, error) {
	var p struct {
		Name      string
		Arguments struct{ Text, Started, Until string }
	}
	if err := json.Unmarshal(c.Params, &p); err != nil {
		return "", err
	}
	text := p.Arguments.Text
	if err := note(text); err != nil {
		return "", err
	}
	switch p.Name {
	case "pid":
		text = fmt.Sprint(os.Getpid())
	case "hold": // until cancelled or the file `until` is there; creates the file `started` when it has begun
		if err := os.WriteFile(p.Arguments.Started, nil, 0o600); err != nil {
			return "", err
		}
		if err := rig.Poll(c, "the file "+p.Arguments.Until, func() (bool, error) {
			_, err := os.Stat(p.Arguments.Until)
			return err == nil, nil
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text), nil
}

// httpBackend is a correct backend over HTTP that can be restarted at the same address.
type httpBackend struct {
	addr   string
	modern bool
	server *http.Server
	raw    *raw.Server
}

func (b *httpBackend) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := rig.ListenAgain(ctx, b.addr)
	if err != nil {
		t.Fatal(err)
	}
	b.raw = newBackend()
	b.raw.Modern = b.modern
	b.server = &http.Server{Handler: b.raw}
	go b.server.Serve(l) // ends with Close
	t.Cleanup(func() { b.server.Close() })
}

// silent accepts connections and never answers on any.
type silent struct {
	listener net.Listener
	accepted chan net.Conn
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{l, make(chan net.Conn, 1000)}
	go s.accept()
	t.Cleanup(func() { l.Close() })
	return s
}

func (s *silent) accept() {
	defer close(s.accepted)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.accepted <- conn
	}
}

func (s *silent) url() string { return "http://" + s.listener.Addr().String() + "/mcp" }
