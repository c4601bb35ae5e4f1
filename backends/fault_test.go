package backends_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// kind returns the Kind of a call's error, 0 for no *Error.
func kind(err error) backends.Kind {
	var e *backends.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func TestStdioBackendsThatBehaveOddlyStillWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ role, revision string }{
		{"malformed", wire.Rev2511},
		{"shy", wire.Rev2511},
		{"deaf", wire.Rev2511},
		{"stubborn", wire.Rev2511},
		{"slow", wire.Rev2607},
		{"sleepy", wire.Rev2607},
	} {
		t.Run(tt.role, func(t *testing.T) {
			if tt.role == "sleepy" {
				testmode.NeedThorough(t) // it sleeps for longer than the quick form takes
			}
			t.Parallel()
			b, _ := ready(t, backends.Options{}, backendtest.Stdio("b", tt.role))
			if got := b.State().Revision; got != tt.revision {
				t.Errorf("revision %s, want %s", got, tt.revision)
			}
			text(t, b, tool("pids", `{}`, nil))
			if malformed := b.Stats().Malformed; (malformed > 0) != (tt.role == "malformed") {
				t.Errorf("%d malformed messages", malformed)
			}
		})
	}
}

func TestOneBrokenBackendHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config config.Backend
		down   bool
		reason string
	}{
		{"exits", backendtest.Stdio("bad", "exits"), true, "exit status 3; its standard error ends: cannot find my config"},
		{"no such program", config.Backend{Name: "bad", Command: "/no/such/program"}, true, "no such file"},
		{"mute", backendtest.Stdio("bad", "mute"), false, ""},
		{"refuses connections", config.Backend{Name: "bad", URL: "http://127.0.0.1:1/mcp"}, true, "connection refused"},
		{"accepts and hangs", config.Backend{Name: "bad", URL: hangingListener(t)}, false, ""},
		{"no url", config.Backend{Name: "bad", URL: "mcp.example.com"}, true, "want http:// or https://"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			good := config.Backend{Name: "good", URL: backendtest.HTTP(t, backendtest.New(), false)}
			s, changes := newSet(t, backends.Options{}, tt.config, good)
			bad, fine := s.All()[0], s.All()[1]
			waitFor(t, changes, "the good one", func() bool { return fine.State().Status == backends.Ready })
			text(t, fine, tool("echo", `{}`, nil))
			if !tt.down {
				if got := bad.State().Status; got != backends.Connecting {
					t.Errorf("the bad one is %v", got)
				}
				return
			}
			waitFor(t, changes, "down", func() bool { return bad.State().Status == backends.Down })
			if _, err := bad.Call(t.Context(), tool("x", `{}`, nil)); kind(err) != backends.Unavailable || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("call: %v, want unavailable because of %q", err, tt.reason)
			}
		})
	}
}

// hangingListener accepts connections and never sends anything.
func hangingListener(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String() + "/mcp"
}

func TestProcessKilledInMidCallIsStartedAgain(t *testing.T) {
	t.Parallel()
	b, changes := ready(t, backends.Options{}, backendtest.Stdio("b", "dies"))
	_, err := b.Call(t.Context(), tool("pids", `{}`, nil))
	if kind(err) != backends.Interrupted || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("call: %v, want interrupted by a kill", err)
	}
	waitFor(t, changes, "the restart", func() bool { return b.Stats().Reconnects == 1 && b.State().Status == backends.Ready })
	if len(b.Offer().Tools) != 1 {
		t.Error("its tools have not come back")
	}
}

func TestEndlessLineEndsTheConnectionNotTheProxy(t *testing.T) {
	t.Parallel()
	b, changes := ready(t, backends.Options{MaxMessage: 1 << 20}, backendtest.Stdio("b", "flood"))
	if _, err := b.Call(t.Context(), tool("pids", `{}`, nil)); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
		t.Errorf("call: %v", err)
	}
	waitFor(t, changes, "the restart", func() bool { return b.Stats().Reconnects == 1 && b.State().Status == backends.Ready })
}

func TestCloseEndsStubbornProcessesAndTheirChildren(t *testing.T) {
	testmode.NeedThorough(t) // they are waited for
	t.Parallel()
	s, changes := newSet(t, backends.Options{}, backendtest.Stdio("b", "stubborn"))
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	var pids [2]int
	fmt.Sscan(text(t, b, tool("pids", `{}`, nil)), &pids[0], &pids[1])
	s.Close()
	for _, pid := range pids {
		testkit.Eventually(t, fmt.Sprint("the end of process ", pid), func() bool { return !alive(pid) })
	}
}

// TestKilledProxyTakesItsProcessesAlong runs a proxy in a separate process.
func TestKilledProxyTakesItsProcessesAlong(t *testing.T) {
	proxy := exec.Command(os.Args[0])
	proxy.Env = append(os.Environ(), "BACKENDS_TEST_PROXY=1")
	out, err := proxy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	defer proxy.Process.Kill()
	var pids [2]int
	if _, err := fmt.Fscan(out, &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	proxy.Process.Kill()
	proxy.Wait()
	for _, pid := range pids {
		testkit.Eventually(t, fmt.Sprint("the end of process ", pid), func() bool { return !alive(pid) })
	}
}

// runProxy has a backend with a descendant, prints their process ids and waits.
func runProxy() {
	set := backends.NewSet(backends.Options{})
	set.Apply(&config.Config{Backends: []config.Backend{backendtest.Stdio("b", "stubborn")}})
	resp, err := set.All()[0].Call(context.Background(), tool("pids", `{}`, nil))
	if err != nil {
		panic(err)
	}
	fmt.Println(jsonscan.GetString(jsonscan.Get(resp.Result, "content")[1:], "text"))
	select {}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if p, err := os.FindProcess(pid); err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	before, files := runtime.NumGoroutine(), openFiles()
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			ann := &client{name: "ann"}
			b, _ := ready(t, backends.Options{}, tt.config(t))
			if tt.revision != wire.Rev2607 {
				text(t, b, tool("ask", `{}`, caller(ann)))
			}
			cancelled(t, b, "")
		})
	}
	testkit.Eventually(t, "goroutines and descriptors to go", func() bool {
		return runtime.NumGoroutine() <= before && openFiles() <= files
	})
}

func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func TestForgottenSessionIsReopenedAndTheCallMadeOnce(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var forget atomic.Bool
			executed := 0
			raw := &backendtest.Raw{Session: "one", Tools: `{"name":"t"}`}
			raw.First = func(x *backendtest.Exchange) bool {
				if x.Message.Method == wire.Initialize {
					forget.Store(false)
				}
				if forget.Load() {
					x.WriteHeader(status)
					x.Raw(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no valid session"},"id":null}`)
				}
				return forget.Load()
			}
			raw.Handle = func(x *backendtest.Exchange) {
				if x.Message.Method == wire.ToolsCall {
					executed++
				}
				x.JSON(`{"content":[{"text":"hi"}]}`)
			}
			b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
			forget.Store(true)
			if got := text(t, b, tool("t", `{}`, nil)); got != "hi" || executed != 1 {
				t.Errorf("answer %q after %d executions", got, executed)
			}
			if n := len(raw.Seen(wire.Initialize)); n != 2 {
				t.Errorf("%d sessions were opened, want 2", n)
			}
		})
	}
}

func TestRefusedCallHarmsNoOther(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   backends.Kind
	}{
		{http.StatusRequestEntityTooLarge, backends.TooLarge},
		{http.StatusBadRequest, backends.Protocol},
		{http.StatusTooManyRequests, backends.Unavailable},
		{http.StatusInternalServerError, backends.Interrupted},
	} {
		raw := &backendtest.Raw{Session: "one", Handle: func(x *backendtest.Exchange) {
			if x.Param("arguments", "bad") == "true" {
				x.WriteHeader(tt.status)
				return
			}
			x.JSON(`{"content":[{"text":"hi"}]}`)
		}}
		b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
		if _, err := b.Call(t.Context(), tool("t", `{"bad":true}`, nil)); kind(err) != tt.want {
			t.Errorf("HTTP %d: %v, want %v", tt.status, err, tt.want)
		}
		text(t, b, tool("t", `{}`, nil))
		if n := len(raw.Seen(wire.Initialize)); n != 1 {
			t.Errorf("HTTP %d: %d sessions were opened", tt.status, n)
		}
	}
}

func TestBackendRestartedOnTheSamePortIsBack(t *testing.T) {
	testmode.Parallel(t)
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprint("stateful ", stateful), func(t *testing.T) {
			l := testkit.Listen(t)
			address := l.Addr().String()
			stop := backendtest.Listen(t, l, backendtest.New(), stateful)
			b, changes := ready(t, backends.Options{}, config.Backend{Name: "b", URL: "http://" + address + "/mcp"})
			text(t, b, tool("echo", `{}`, nil))
			stop()
			waitFor(t, changes, "down", func() bool { return b.State().Status == backends.Down })
			if len(b.Offer().Tools) != 0 {
				t.Error("a backend that is down offers tools")
			}
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			backendtest.Listen(t, l, backendtest.New(), stateful)
			waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
			text(t, b, tool("echo", `{}`, nil))
		})
	}
}
