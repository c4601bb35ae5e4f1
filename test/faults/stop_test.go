package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// holding is a call that runs until it is released.
type holding struct {
	until string
	ended chan error
}

// holdUntil begins a call and returns when the backend runs it.
func holdUntil(t *testing.T, call func(params string) error) *holding {
	t.Helper()
	dir := t.TempDir()
	h := &holding{filepath.Join(dir, "until"), make(chan error, 1)}
	started := filepath.Join(dir, "started")
	go func() {
		h.ended <- call(fmt.Sprintf(`{"name":"b_hold","arguments":{"text":"x","started":%q,"until":%q}}`, started, h.until))
	}()
	awaitFile(t, started)
	return h
}

func (h *holding) letGo(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(h.until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-h.ended; err != nil {
		t.Errorf("the call that ran at the signal: %v", err)
	}
}

func (s *served) signal(t *testing.T) {
	t.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// ready reads /readyz over a new connection.
func (s *served) ready() (int, error) {
	r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	r.Close = true
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// draining waits until /readyz answers 503; no connection may be refused before.
func (s *served) draining(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, "503 from /readyz", func() (bool, error) {
		code, err := s.ready()
		return code == http.StatusServiceUnavailable, err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestLateBalancerLosesNothing: from the signal on /readyz answers 503, and requests are
// served with Connection: close; then the port closes, and the running call succeeds.
func TestLateBalancerLosesNothing(t *testing.T) {
	testmode.NeedThorough(t) // the delay is waited for
	t.Parallel()
	const delay = 30 // seconds, in which all of this has to happen, also on a machine that does much else
	// The test ends the running call: neither its timeout nor drainTime may be earlier.
	s := serve(t, stdioBackend(t, "b", "good"), urlBackend("h", "http://"+freeAddr(t)+"/mcp"),
		fmt.Sprintf("operational: {timeouts: {default: 10m}, shutdown: {delay: %ds, drainTime: 10m}}\n", delay))
	c := s.connect(t, "2025-11-25")
	await(t, c, "b_echo")
	long := holdUntil(t, func(params string) error {
		_, err := c.Call(t.Context(), "tools/call", params)
		return err
	})
	s.signal(t)
	s.draining(t)
	for _, revision := range []string{"2025-11-25", raw.Modern} {
		mustAnswer(t, s.connect(t, revision), "b")
	}
	mustAnswer(t, c, "b")
	s.answersClose(t)

	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, "the end of the listener", func() (bool, error) {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp"))
		if err != nil {
			return true, nil
		}
		return false, conn.Close()
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Fatal("the process has ended under a running call")
	default:
	}
	long.letGo(t)
	if <-s.Done(); s.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("vmcp serve ended with %s", s.Cmd.ProcessState)
	}
}

// answersClose checks that a response closes its connection.
func (s *served) answersClose(t *testing.T) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("while stopping: %s, closes the connection: %v, %v", resp.Status, resp.Close, err)
	}
}

// TestDrainTimeEndsCalls: a call that takes longer than drainTime is cancelled, which is no failure.
func TestDrainTimeEndsCalls(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "b", "good"), urlBackend("none", "http://127.0.0.1:1/mcp"), "operational: {shutdown: {drainTime: 100ms}}\n")
	c := s.connect(t, "2025-11-25")
	await(t, c, "b_echo")
	ended := hold(t, c, "b_hold")
	s.signal(t)
	if <-s.Done(); s.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("vmcp serve ended with %s", s.Cmd.ProcessState)
	}
	if err := <-ended; err == nil {
		t.Error("a call without an end was answered")
	}
}

// TestSecondSignalEndsAtOnce: a second signal ends the process without the delay.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "b", "good"), urlBackend("none", "http://127.0.0.1:1/mcp"), "operational: {shutdown: {delay: 1h}}\n")
	await(t, s.connect(t, "2025-11-25"), "b_echo")
	s.signal(t)
	s.draining(t)
	s.signal(t)
	if <-s.Done(); s.Cmd.ProcessState.Success() {
		t.Errorf("after the second signal: %s", s.Cmd.ProcessState)
	}
}

// TestStdioAnswersBeforeItEnds: the call that runs at the signal is answered, and
// then the process ends, though its input is still open.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	t.Parallel()
	for drain, wantAnswer := range map[string]bool{"1m": true, "100ms": false} {
		t.Run(drain, func(t *testing.T) {
			s := serveStdio(t, "2025-11-25", "operational: {shutdown: {delay: 1h}}\nbackends:\n"+stdioBackend(t, "b", "good")+urlBackend("none", "http://127.0.0.1:1/mcp"), "--drain-time", drain)
			c := s.client
			if err := c.Connect(); err != nil {
				t.Fatal(err)
			}
			long := holdUntil(t, func(params string) error {
				_, err := c.Call("tools/call", params)
				return err
			})
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			s.awaitLine("vmcp: stopping")
			if wantAnswer {
				long.letGo(t)
			} else if err := <-long.ended; !errors.Is(err, io.EOF) {
				t.Errorf("a call that takes longer than the drain time: %v", err)
			}
			s.wait(t)
		})
	}
}
