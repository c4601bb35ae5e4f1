//go:build suites

package faults

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestCloseLeavesNothingBehind: a closed proxy has no goroutine, descriptor or process left. It is linked into this
// program with the tag suites only.
func TestCloseLeavesNothingBehind(t *testing.T) {
	procfs(t)
	goroutines, files := runtime.NumGoroutine(), descriptors(t, os.Getpid(), "")
	useInProcess(t)
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
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

// useInProcess runs a proxy with correct and broken backends, with sessions that are
// never deleted, a stream that stays open and a call that never ends, and closes it.
func useInProcess(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Name: "faults"}
	roles := []string{"good", "hang", "exit", "malformed"}
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
