// Package faults breaks backends of a running `vmcp serve` and tests the effect on
// other backends and on clients.
package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// vmcp is the binary under test.
var vmcp string

func TestMain(m *testing.M) {
	if be := roles[os.Getenv(role)]; be != nil {
		if err := be(); err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	testmode.SideBySide(8)
	os.Exit(rig.WithBinary(&vmcp, m.Run))
}

// testTimeout bounds every wait of a test; each should take a fraction of it.
const testTimeout = 90 * time.Second

// served is a running `vmcp serve`.
type served struct {
	*rig.Process
	url string
	log *os.File
}

// stdioBackend is the configuration of a stdio backend that plays a role.
func stdioBackend(t *testing.T, name, as string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  - name: %s\n    command: %q\n    env: {%s: %s, %s: %q}\n", name, self, role, as, marker, mark(t))
}

func urlBackend(name, url string) string {
	return fmt.Sprintf("  - name: %s\n    url: %s\n", name, url)
}

// serve starts a proxy in front of the backends; its log is printed when the test fails.
func serve(t *testing.T, backends ...string) *served {
	t.Helper()
	return serveWith(t, nil, backends...)
}

// serveWith is serve with flags.
func serveWith(t *testing.T, flags []string, backends ...string) *served {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "vmcp.yaml")
	if err := os.WriteFile(config, []byte("name: faults\nbackends:\n"+strings.Join(backends, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p, addr, err := rig.ServeWith(ctx, log, vmcp, append([]string{"--config", config}, flags...))
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	s := &served{p, "http://" + addr + "/mcp", log}
	t.Cleanup(func() { s.end(t) })
	return s
}

func (s *served) end(t *testing.T) {
	_ = s.Stop()
	s.log.Close()
	if t.Failed() {
		text, _ := os.ReadFile(s.log.Name())
		t.Logf("log of vmcp:\n%s", text)
	}
}

// connect returns a client of a revision; initialize must be answered.
func (s *served) connect(t *testing.T, revision string) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: s.url, Revision: revision}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// text calls a tool and returns the text of its result.
func text(ctx context.Context, c *raw.Client, name, args string) (string, error) {
	got, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(got, &result); err != nil {
		return "", err
	}
	if result.IsError || len(result.Content) != 1 {
		return "", fmt.Errorf("%s: %s", name, got)
	}
	return result.Content[0].Text, nil
}

// mustAnswer checks that a backend's echo works now.
func mustAnswer(t *testing.T, c *raw.Client, backend string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if got, err := text(ctx, c, backend+"_echo", `{"text":"here"}`); got != "here" || err != nil {
		t.Errorf("%s_echo: %q, %v, want here", backend, got, err)
	}
}

// await polls until a tool answers.
func await(t *testing.T, c *raw.Client, tool string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var got string
	var last error
	err := rig.Poll(ctx, "an answer of "+tool, func() (bool, error) {
		got, last = text(ctx, c, tool, `{"text":"x"}`)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
	return got
}

// hold begins a call that only cancellation ends and returns when the backend runs it.
func hold(t *testing.T, c *raw.Client, tool string) <-chan error {
	t.Helper()
	started := filepath.Join(t.TempDir(), "started")
	ended := make(chan error, 1)
	go func() {
		_, err := text(t.Context(), c, tool, fmt.Sprintf(`{"started":%q}`, started))
		ended <- err
	}()
	awaitFile(t, started)
	return ended
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err := rig.Poll(ctx, "the call to begin", func() (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBrokenBackendsDisturbNobody(t *testing.T) {
	t.Parallel()
	http := &httpBackend{addr: freeAddr(t)}
	http.start(t)
	mute, muteSSE := newSilent(t), newSilent(t)
	s := serve(t,
		urlBackend("mute", mute.url()),
		urlBackend("mutesse", muteSSE.url())+"    transport: sse\n",
		urlBackend("refused", "http://"+freeAddr(t)+"/mcp"),
		stdioBackend(t, "hang", "hang"),
		stdioBackend(t, "exit", "exit"),
		stdioBackend(t, "malformed", "malformed"),
		"  - name: missing\n    command: /no/such/program\n",
		urlBackend("http", "http://"+http.addr+"/mcp"),
		stdioBackend(t, "good", "good"),
		"operational: {startup: {wait: 300ms}}\n", // a call of a mute backend's tool waits for as long
	)
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", raw.Modern} {
		t.Run(revision, func(t *testing.T) {
			if conn := <-mute.accepted; conn != nil { // it hangs now, until the proxy closes the connection
				defer func() { mute.accepted <- conn }()
			}
			c := s.connect(t, revision)
			await(t, c, "good_echo")
			await(t, c, "http_echo")
			mustAnswer(t, c, "good")
			mustAnswer(t, c, "http")
			if _, err := text(t.Context(), c, "mute_echo", `{}`); err == nil {
				t.Error("mute_echo: an answer from a backend that never answers")
			}
		})
	}
}

func TestKilledStdioBackendComesBack(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "victim", "good"), stdioBackend(t, "other", "good"))
	c := s.connect(t, "2025-11-25")
	before := await(t, c, "victim_pid")
	await(t, c, "other_echo")
	ended := hold(t, c, "victim_hold")

	pid, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the call in the killed backend was answered")
	}
	mustAnswer(t, c, "other")
	if after := await(t, c, "victim_pid"); after == before {
		t.Errorf("the same process %s answers after its end", after)
	}
}

func TestDescriptorsDoNotGrowWithRestarts(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "victim", "good"), stdioBackend(t, "other", "good"))
	c := s.connect(t, "2025-11-25")
	await(t, c, "other_echo")
	pid := await(t, c, "victim_pid")
	before := pipes(t, s.Cmd.Process.Pid)
	for range 3 {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pid = await(t, c, "victim_pid")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	// The descriptors of the last process are closed at some time after the next one answers.
	if err := rig.Poll(ctx, "as few pipes as before", func() (bool, error) { return pipes(t, s.Cmd.Process.Pid) <= before, nil }); err != nil {
		t.Errorf("%d pipes open after three restarts of a backend, %d before", pipes(t, s.Cmd.Process.Pid), before)
	}
}

func TestRestartedHTTPBackendComesBack(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%t", modern), func(t *testing.T) {
			b := &httpBackend{addr: freeAddr(t), modern: modern}
			b.start(t)
			s := serve(t, urlBackend("http", "http://"+b.addr+"/mcp"), stdioBackend(t, "other", "good"))
			c := s.connect(t, "2025-11-25")
			await(t, c, "http_echo")
			await(t, c, "other_echo")
			ended := hold(t, c, "http_hold")

			b.server.Close()
			if err := <-ended; err == nil {
				t.Error("the call in the ended backend was answered")
			}
			mustAnswer(t, c, "other")
			b.start(t)
			await(t, c, "http_echo")
		})
	}
}

// A backend that was restarted between two calls answers 404 to its old session: the
// call was surely not executed, so it is retried and no error is visible.
func TestForgottenSessionIsReopened(t *testing.T) {
	t.Parallel()
	b := &httpBackend{addr: freeAddr(t)}
	b.start(t)
	s := serve(t, urlBackend("http", "http://"+b.addr+"/mcp"), stdioBackend(t, "other", "good"))
	for _, revision := range []string{"2025-11-25", raw.Modern} {
		c := s.connect(t, revision)
		await(t, c, "http_echo")
		for range 3 {
			b.raw.Forget()
			mustAnswer(t, c, "http")
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
