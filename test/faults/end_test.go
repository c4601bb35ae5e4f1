package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// procfs skips a test where there is no /proc.
func procfs(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
}

// mark sets the marker of the processes of a test's backends, which differs for each run of the
// test.
func mark(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), os.Getpid()) }

// awaitNoneLeft waits until none of them is left: the system needs a moment to remove a
// killed process.
func awaitNoneLeft(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
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
		env, err := os.ReadFile(path) // empty for a zombie, an error for a process that has ended
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

// TestServeLeavesNoProcessBehind ends backends of every kind that is hard to end; the one that ends late is tested in
// the thorough form only.
func TestServeLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	procfs(t)
	kinds := []string{"good", "parent", "hang", "malformed"}
	if testmode.Thorough() {
		kinds = append(kinds, "stubborn")
	}
	var backends []string
	for _, kind := range kinds {
		backends = append(backends, stdioBackend(t, kind, kind))
	}
	s := serve(t, backends...)
	c := s.connect(t, "2025-11-25")
	for _, kind := range kinds {
		if kind != "hang" && kind != "malformed" {
			await(t, c, kind+"_echo")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, "all backends", func() (bool, error) { return len(left(t)) >= len(kinds), nil }); err != nil {
		t.Fatalf("%v: %v", err, left(t))
	}
	if err := s.Stop(); err != nil {
		t.Errorf("serve ended with: %v", err)
	}
	awaitNoneLeft(t)
}

// A backend's children end with it only if it ends them, which it cannot do after
// SIGKILL.
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

// Backends run until the proxy ends, not until the thread that started them ends.
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
