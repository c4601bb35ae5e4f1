package backends_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

func TestMain(m *testing.M) {
	if os.Getenv("BACKENDS_TEST_PROXY") != "" {
		runProxy()
	}
	backendtest.Main(m)
}

// waitTime bounds the wait for an expected change.
const waitTime = time.Minute

// newSet returns a set that is closed with the test, and a channel that reports changes.
func newSet(t testing.TB, o backends.Options, cfgs ...config.Backend) (*backends.Set, <-chan struct{}) {
	t.Helper()
	return newSetFor(t, o, &config.Config{Backends: cfgs})
}

func newSetFor(t testing.TB, o backends.Options, cfg *config.Config) (*backends.Set, <-chan struct{}) {
	t.Helper()
	changes := make(chan struct{}, 1)
	o.Changed = func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	if o.Log == nil && testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s := backends.NewSet(o)
	t.Cleanup(func() { s.Close() })
	if err := s.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	return s, changes
}

// waitFor waits until ok returns true, checking after each change.
func waitFor(t testing.TB, changes <-chan struct{}, what string, ok func() bool) {
	t.Helper()
	limit := time.After(waitTime)
	for !ok() {
		select {
		case <-changes:
		case <-limit:
			t.Fatalf("waited %v for %s", waitTime, what)
		}
	}
}

// ready configures one backend and waits until it is ready.
func ready(t testing.TB, o backends.Options, cfg config.Backend) (*backends.Backend, <-chan struct{}) {
	t.Helper()
	return readyFor(t, o, &config.Config{Backends: []config.Backend{cfg}})
}

func readyFor(t testing.TB, o backends.Options, cfg *config.Config) (*backends.Backend, <-chan struct{}) {
	t.Helper()
	s, changes := newSetFor(t, o, cfg)
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	return b, changes
}

// tool builds a tools/call.
func tool(name, args string, of *backends.Caller) *backends.Request {
	params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)
	return &backends.Request{Method: "tools/call", Params: json.RawMessage(params), For: of}
}

// text makes the call and returns the text of its result.
func text(t testing.TB, b *backends.Backend, r *backends.Request) string {
	t.Helper()
	resp, err := b.Call(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.Params, err)
	}
	defer resp.Close()
	raw, err := resp.Bytes(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("result %s: %v", raw, err)
	}
	return result.Content[0].Text
}

// transports are the ways to reach the same server.
var transports = []struct {
	name, revision string
	config         func(testing.TB) config.Backend
}{
	{"stdio", "2026-07-28", func(testing.TB) config.Backend { return backendtest.Stdio("b", "sdk") }},
	{"stdio legacy", "2025-11-25", func(testing.TB) config.Backend { return backendtest.Stdio("b", "legacy") }},
	{"http legacy", "2025-11-25", func(t testing.TB) config.Backend {
		return config.Backend{Name: "b", URL: backendtest.HTTP(t, backendtest.New(), true)}
	}},
	{"http modern", "2026-07-28", func(t testing.TB) config.Backend {
		return config.Backend{Name: "b", URL: backendtest.HTTP(t, backendtest.New(), false)}
	}},
	{"sse", "2025-11-25", func(t testing.TB) config.Backend {
		return config.Backend{Name: "b", URL: backendtest.SSE(t, backendtest.New()), Transport: "sse"}
	}},
}

func TestEveryTransportListsAndCalls(t *testing.T) {
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			if got := b.State().Revision; got != tt.revision {
				t.Errorf("revision %q, want %q", got, tt.revision)
			}
			o := b.Offer()
			if len(o.Tools) != 12 || len(o.Prompts) != 2 || len(o.Resources) != 1 || len(o.Templates) != 1 {
				t.Errorf("offer has %d tools, %d prompts, %d resources, %d templates", len(o.Tools), len(o.Prompts), len(o.Resources), len(o.Templates))
			}
			if got := text(t, b, tool("echo", `{"n":9007199254740993}`, nil)); got != `{"n":9007199254740993}` {
				t.Errorf("echo answered %s", got)
			}
			if got := len(text(t, b, tool("big", `{"size":300000}`, nil))); got != 300000 {
				t.Errorf("big answered %d bytes", got)
			}
		})
	}
}

// A command that downloads the server at its first start is not killed after the timeout of a call: npx would treat the
// partial package as complete.
func TestFirstStartMayFetchTheServer(t *testing.T) {
	testmode.NeedThorough(t) // it fetches for longer than a process has for its end
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	cfg := backendtest.Stdio("b", "legacy")
	cfg.Env["DIR"], cfg.Env["SERVER"] = dir, cfg.Command
	cfg.Command, cfg.Timeout = filepath.Join(dir, "npx"), config.Duration(200*time.Millisecond)
	script := `#!/bin/sh
[ -e "$DIR/package" ] || { sleep 4; echo >"$DIR/package"; }
exec "$SERVER"
`
	syscall.ForkLock.RLock() // a process that another test starts meanwhile would have the file open for writing: "text file busy"
	err := os.WriteFile(cfg.Command, []byte(script), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	set, changes := newSet(t, backends.Options{}, cfg)
	waitFor(t, changes, "an end of the start", func() bool { return set.All()[0].State().Status != backends.Connecting })
	if _, err := os.Stat(filepath.Join(dir, "package")); err != nil {
		t.Errorf("the program was ended before it had fetched the server: %+v", set.All()[0].State())
	}
}
