package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// Each field of a backend changes under load: no call fails, and no list lacks a tool.
func TestChangingAFieldLeavesNoGap(t *testing.T) {
	testmode.NeedThorough(t) // backends.TestReplacedWithoutAGap is in the quick form
	t.Parallel()
	http := &httpBackend{addr: freeAddr(t)}
	http.start(t)
	dir := t.TempDir()
	backend := func(more string) string {
		return stdioBackend(t, "b", "good") + more
	}
	s := serve(t, backend(""), urlBackend("h", "http://"+http.addr+"/mcp"))
	c := s.connect(t, "2025-11-25")
	await(t, c, "b_echo")
	await(t, c, "h_echo")

	stop := make(chan struct{})
	var load sync.WaitGroup
	defer load.Wait()
	defer sync.OnceFunc(func() { close(stop) })()
	for _, revision := range []string{"2025-11-25", raw.Modern} {
		c := s.connect(t, revision)
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := probe(t, c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, change := range []struct {
		what          string
		stdio, remote string
		restart       bool
	}{
		{what: "timeout", stdio: "    timeout: 7s\n", remote: "    timeout: 7s\n"},
		{what: "maxConnections", stdio: "    maxConnections: 9\n", remote: "    maxConnections: 9\n"},
		{what: "sessions", stdio: "    sessions: shared\n", remote: "    sessions: shared\n"},
		{what: "args", stdio: "    args: [one]\n", remote: "    headers: {X-One: one}\n", restart: true},
		{what: "cwd", stdio: fmt.Sprintf("    cwd: %q\n", dir), remote: "    headers: {X-One: two}\n", restart: true},
	} {
		pid := await(t, c, "b_pid")
		s.configure(t, backend(change.stdio), urlBackend("h", "http://"+http.addr+"/mcp")+change.remote)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		err := rig.Poll(ctx, "the change of "+change.what, func() (bool, error) {
			return !change.restart || await(t, c, "b_pid") != pid, nil
		})
		cancel()
		if err != nil {
			t.Error(err)
		}
		if after := await(t, c, "b_pid"); (after != pid) != change.restart {
			t.Errorf("%s: process %s before, %s after", change.what, pid, after)
		}
	}
}

// probe lists and calls once.
func probe(t *testing.T, c *raw.Client) error {
	got, err := c.Call(t.Context(), "tools/list", `{}`)
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(got, &list); err != nil || len(list.Tools) != 6 {
		return fmt.Errorf("a list of %d tools, want 6 (%v)", len(list.Tools), err)
	}
	for _, name := range []string{"b_echo", "h_echo"} {
		if _, err := text(t.Context(), c, name, `{"text":"x"}`); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// configure writes another configuration and returns when it is applied.
func (s *served) configure(t *testing.T, backends ...string) {
	t.Helper()
	applied := func() int {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), `msg="configuration applied"`)
	}
	before := applied()
	file := filepath.Join(filepath.Dir(s.log.Name()), "vmcp.yaml")
	if err := os.WriteFile(file+".new", []byte("name: faults\nbackends:\n"+strings.Join(backends, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, "the configuration to be applied", func() (bool, error) { return applied() > before, nil }); err != nil {
		t.Fatal(err)
	}
}
