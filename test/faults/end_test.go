package faults

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// procfs skips a test where processes and descriptors cannot be looked at.
func procfs(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
}

// mark is the marker of the processes that a test's backends start: other runs of the same
// test have another one.
func mark(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), os.Getpid()) }

// awaitNoneLeft waits until none of them is there any more: the system takes a moment for a
// process that was killed.
func awaitNoneLeft(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := rig.Poll(ctx, "the end of the backends", func() (bool, error) { return len(left(t)) == 0, nil }); err != nil {
		t.Errorf("%v: %v", err, left(t))
	}
}

// left returns the running processes that a test's backends have started.
func left(t *testing.T) []string {
	t.Helper()
	want := "\x00" + marker + "=" + mark(t) + "\x00"
	var found []string
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		env, err := os.ReadFile(path) // empty for a zombie, an error for one that has gone
		if err == nil && strings.Contains("\x00"+string(env)+"\x00", want) {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

// descriptors counts the open descriptors of a process whose target begins with kind.
func descriptors(t *testing.T, pid int, kind string) int {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, kind) {
			n++
		}
	}
	return n
}

func pipes(t *testing.T, pid int) int {
	procfs(t)
	return descriptors(t, pid, "pipe:")
}

// family is one backend of every kind that is hard to end.
func family(t *testing.T) []string {
	return []string{
		stdioBackend(t, "good", "good"), stdioBackend(t, "parent", "parent"),
		stdioBackend(t, "stubborn", "stubborn"), stdioBackend(t, "hang", "hang"), stdioBackend(t, "junk", "junk"),
	}
}

func TestServeLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	procfs(t)
	s := serve(t, family(t)...)
	c := s.connect(t, "2025-11-25")
	for _, name := range []string{"good", "parent", "stubborn"} {
		await(t, c, name+"_echo")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := rig.Poll(ctx, "five backends", func() (bool, error) { return len(left(t)) >= 5, nil }); err != nil {
		t.Fatalf("%v: %v", err, left(t))
	}
	if err := s.Stop(); err != nil {
		t.Errorf("serve ended with: %v", err)
	}
	awaitNoneLeft(t)
}

// A backend's own children end with it only if it ends them: after SIGKILL nobody is
// there to do it.
func TestKilledProxyTakesItsBackendsAlong(t *testing.T) {
	t.Parallel()
	procfs(t)
	s := serve(t, stdioBackend(t, "good", "good"), stdioBackend(t, "stubborn", "stubborn"), stdioBackend(t, "hang", "hang"))
	c := s.connect(t, "2025-11-25")
	await(t, c, "good_echo")
	await(t, c, "stubborn_echo")
	s.Kill()
	awaitNoneLeft(t)
}

// Backends live as long as the proxy, not as long as the thread that started them.
func TestBackendsOutliveManyCalls(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "good", "good"), stdioBackend(t, "other", "good"))
	c := s.connect(t, "2025-11-25")
	before := await(t, c, "good_pid")
	for range 200 {
		mustAnswer(t, c, "good")
	}
	if after := await(t, c, "good_pid"); after != before {
		t.Errorf("process %s answers, want %s", after, before)
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	procfs(t)
	goroutines, files := runtime.NumGoroutine(), descriptors(t, os.Getpid(), "")
	useInProcess(t)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := rig.Poll(ctx, "the end of everything", func() (bool, error) {
		return runtime.NumGoroutine() <= goroutines && descriptors(t, os.Getpid(), "") <= files, nil
	})
	if err != nil {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%d goroutines and %d descriptors before, %d and %d after\n%s",
			goroutines, files, runtime.NumGoroutine(), descriptors(t, os.Getpid(), ""), stacks)
	}
	awaitNoneLeft(t)
}

// useInProcess runs a proxy with sound and broken backends, with sessions that are
// never deleted, a stream that stays open and a call that never ends, and closes it.
func useInProcess(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Name: "faults"}
	roles := []string{"good", "hang", "exit", "junk"}
	if testmode.Thorough() { // it is waited for, as in TestServeLeavesNoProcessBehind
		roles = append(roles, "stubborn")
	}
	for _, as := range roles {
		cfg.Backends = append(cfg.Backends, config.Backend{Name: as, Command: self, Env: map[string]string{role: as, marker: mark(t)}})
	}
	mute := newSilent(t)
	cfg.Backends = append(cfg.Backends, config.Backend{Name: "mute", URL: mute.url()})
	p := proxy.New(proxy.Options{Log: slog.New(slog.DiscardHandler)})
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Handler())
	s := &served{url: server.URL + "/mcp"}
	for _, revision := range []string{"2025-03-26", "2025-11-25", raw.Modern} {
		c := s.connect(t, revision)
		await(t, c, "good_echo")
		ended := hold(t, c, "good_hold")
		defer func() { <-ended }()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	server.CloseClientConnections()
	server.Close()
	mute.listener.Close()
	for conn := range mute.accepted {
		conn.Close()
	}
}
