//go:build linux && suites

package attacks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// child is a process that the server has started.
type child struct {
	pid    int
	zombie bool
}

// children reads all processes, because a process's list of its children is only consistent
// while it is stopped.
func (s *served) children(t *testing.T) (all []child) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		_, rest, _ := bytes.Cut(text, []byte(") ")) // behind its name
		fields := strings.Fields(string(rest))
		if len(fields) > 1 && fields[1] == strconv.Itoa(s.Cmd.Process.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, child{pid, fields[0] == "Z"})
		}
	}
	return all
}

// pipes is the number of pipes and child processes of the server; connections are not counted.
func (s *served) pipes(t *testing.T) (n int) {
	t.Helper()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range open {
		if to, err := os.Readlink(name); err == nil && (strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "anon_inode:[pidfd]")) {
			n++
		}
	}
	return n
}

// idle waits until the server has no workers but those for the next runs, and returns its number of pipes
// then.
func (s *served) idle(t *testing.T) int {
	t.Helper()
	for end := time.Now().Add(waitTime); ; time.Sleep(10 * time.Millisecond) {
		all := s.children(t)
		if len(all) == 2 && !all[0].zombie && !all[1].zombie {
			return s.pipes(t)
		}
		if time.Now().After(end) {
			t.Fatalf("children that are left: %+v, want two workers", all)
		}
	}
}

// idleAgain waits until the server is idle and has no more pipes than before: those of a worker are closed once it has ended.
func (s *served) idleAgain(t *testing.T, before int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the server to have %d pipes again", before), func() bool { return s.idle(t) <= before })
}

func isolatedServer(t *testing.T) *served {
	t.Helper()
	s := serveWith(t, "time: 5m", []string{"--isolate-scripts"})
	s.short(t)
	return s
}

// short calls a tool that has nothing to do.
func (s *served) short(t *testing.T) {
	t.Helper()
	res, err := s.connect(t).Call(t.Context(), "tools/call", `{"name":"short","arguments":{}}`)
	if err != nil || !strings.Contains(string(res), `"text":"1"`) {
		t.Errorf("a run of short: %s, %v", res, err)
	}
}

// TestIsolatedAttacks: in workers hostile programs end as they do in the server, whose memory stays
// small; no worker is left.
func TestIsolatedAttacks(t *testing.T) {
	testmode.NeedThorough(t)
	apart := isolatedServer(t)
	before := apart.idle(t)
	if _, end := apart.attack(t, "hungry"); !strings.HasPrefix(end, "limit reached: memory") {
		t.Errorf("hungry: %s", end)
	}
	apart.comparedWith(t, serve(t, "time: 5m"), "n85_struct_add", "n12_bigerr_loop", "n01_retry_encode_fail", "n02_retry_callargs_fail", "n04_encode_range_fail", "n13_bigerr_retry", "n15_blocks", "n16_errblocks",
		"n27_error_repr_key", "n33_dictcomp_before_key", "n40_star_unpack_big", "n57_json_decode_default", "hungry")
	apart.short(t)
	apart.idleAgain(t, before)
	peak := apart.peak(t)
	t.Logf("the server has had %d MB", peak>>20)
	if most := int64(200 << 20); peak > most {
		t.Errorf("the server has had %d MB, at most %d are right: the memory of runs is that of workers", peak>>20, most>>20)
	}
}

// comparedWith runs programs in workers and in a server without workers: they end in the same way.
func (s *served) comparedWith(t *testing.T, here *served, programs ...string) {
	t.Helper()
	for _, name := range programs {
		_, got := s.attack(t, name)
		_, want := here.attack(t, name)
		if got != want {
			t.Errorf("%s ended with %q, want %q", name, got, want)
		}
	}
	t.Logf("a server without workers has had %d MB", here.peak(t)>>20)
}

// TestKilledWorkers kills the workers of a server during a run: only that run
// fails.
func TestKilledWorkers(t *testing.T) {
	testmode.NeedThorough(t)
	s := isolatedServer(t)
	before := s.idle(t)
	ended := s.waiting(t, t.Context(), 1)
	var killed []int
	for _, c := range s.children(t) {
		c.bare(t)
		if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		killed = append(killed, c.pid)
	}
	if err := <-ended; err != nil {
		t.Errorf("the run has no result: %v", err)
	}
	testkit.Eventually(t, "the log to say what became of the run", func() bool {
		text, err := os.ReadFile(s.log)
		return err == nil && strings.Contains(string(text), "the worker process of this run failed: it was ended by signal 9 (killed)")
	})
	err := rig.Poll(t.Context(), "the end of the workers", func() (bool, error) {
		return !slices.ContainsFunc(s.children(t), func(c child) bool { return slices.Contains(killed, c.pid) }), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.short(t)
	s.idleAgain(t, before)
	res, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(page), "\nvmcp_script_workers 2\n") {
		t.Errorf("/metrics does not count the worker: %v", err)
	}
}

// bare waits until the child has executed its program, with an empty environment: a child that was just forked has that of the server.
func (c child) bare(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	err := rig.Poll(ctx, "a worker without an environment", func() (bool, error) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.pid))
		return len(environment) == 0, err
	})
	if err != nil {
		t.Errorf("worker %d: %v", c.pid, err)
	}
}

// TestTheDemoIsolated calls the scripts of the demo in two servers: their results and messages
// are the same.
func TestTheDemoIsolated(t *testing.T) {
	testmode.NeedThorough(t)
	var got [2][]string
	for i, flags := range [][]string{nil, {"--isolate-scripts"}} {
		got[i] = demo(t, flags)
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("isolated:\n%s\nwant\n%s", strings.Join(got[1], "\n"), strings.Join(got[0], "\n"))
	}
	if len(got[0]) < 8 {
		t.Errorf("too little has happened: %s", strings.Join(got[0], "\n"))
	}
}

// runID matches the ids of runs, which differ between two recordings.
var runID = regexp.MustCompile(`"id":"[a-z0-9]{26}"`)

// demo runs the demo and lists the results and messages of its scripts.
func demo(t *testing.T, flags []string) (said []string) {
	cache := t.TempDir() // has the files of the demo
	t.Chdir(t.TempDir())
	log, err := os.Create("log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, addr, err := rig.ServeWith(t.Context(), log, vmcp, flags, "XDG_CACHE_HOME="+cache)
	if err == nil {
		defer p.Stop()
		err = rig.AwaitReady(t.Context(), addr)
	}
	if err != nil {
		text, _ := os.ReadFile("log")
		t.Fatalf("%v\n%s", err, text)
	}
	c := &raw.Client{URL: "http://" + addr + "/mcp", Revision: "2025-11-25"}
	c.Notified = func(m raw.Message) { said = append(said, m.Method+" "+string(m.Params)) }
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		`{"name":"service_report","arguments":{}}`,
		`{"name":"service_report","arguments":{"min_minutes":10}}`,
		`{"name":"find_todos","arguments":{}}`,
		`{"name":"find_todos","arguments":{"folder":"nowhere"}}`,
		`{"name":"scale_service","arguments":{"service":"nothing","replicas":3}}`,
		`{"name":"scale_service","arguments":{"service":"checkout","replicas":100}}`,
		`{"name":"scale_service","arguments":{"service":"checkout","replicas":7}}`,
		`{"name":"scale_service","arguments":{"service":"checkout","replicas":7}}`,
	} {
		res, err := c.Call(t.Context(), "tools/call", call)
		res = runID.ReplaceAll(bytes.ReplaceAll(res, []byte(cache), nil), []byte(`"id":"RUN"`))
		said = append(said, fmt.Sprintf("%s: %s %v", call, res, err))
	}
	return said
}
