//go:build linux

package attacks

import (
	"bytes"
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

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// child is a process that the server has started.
type child struct {
	pid    int
	zombie bool
}

// children looks through all processes: what a process says of its own children is only right
// while it stands still.
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

// pipes is how many pipes and processes the server has open; connections come and go.
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

// idle waits until the server has no worker but the one for the next run, and returns how many pipes
// it has then.
func (s *served) idle(t *testing.T) int {
	t.Helper()
	for end := time.Now().Add(waitTime); ; time.Sleep(10 * time.Millisecond) {
		all := s.children(t)
		if len(all) == 1 && !all[0].zombie {
			return s.pipes(t)
		}
		if time.Now().After(end) {
			t.Fatalf("children that are left: %+v, want one worker", all)
		}
	}
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

// TestIsolatedAttacks: in workers hostile programs end as they do in the server, which stays
// small; nothing is left of them.
func TestIsolatedAttacks(t *testing.T) {
	testmode.Parallel(t)
	apart := isolatedServer(t)
	here := serve(t, "time: 5m")
	before := apart.idle(t)
	programs := []string{"n85_struct_add"}
	if testmode.Thorough() {
		programs = append(programs, "n12_bigerr_loop", "n01_retry_encode_fail", "n02_retry_callargs_fail", "n04_encode_range_fail", "n13_bigerr_retry", "n15_blocks", "n16_errblocks",
			"n27_error_repr_key", "n33_dictcomp_before_key", "n40_star_unpack_big", "n57_json_decode_default", "hungry")
	}
	for _, name := range programs {
		_, got := apart.attack(t, name)
		_, want := here.attack(t, name)
		if got != want {
			t.Errorf("%s ended with %q, want %q", name, got, want)
		}
	}
	if _, end := apart.attack(t, "hungry"); !strings.HasPrefix(end, "limit reached: memory") {
		t.Errorf("hungry: %s", end)
	}
	apart.short(t)
	if after := apart.idle(t); after != before {
		t.Errorf("the server has %d pipes, and had %d before", after, before)
	}
	peak := apart.peak(t)
	t.Logf("the server has had %d MB, without workers %d MB", peak>>20, here.peak(t)>>20)
	if most := int64(200 << 20); peak > most {
		t.Errorf("the server has had %d MB, at most %d are right: the memory of runs is that of workers", peak>>20, most>>20)
	}
}

// TestKilledWorkers ends the workers of a server in mid-run: that is an error of the run, and of
// nothing else.
func TestKilledWorkers(t *testing.T) {
	testmode.Parallel(t)
	s := isolatedServer(t)
	before := s.idle(t)
	ended := s.waiting(t, t.Context(), 1)
	var killed []int
	for _, c := range s.children(t) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.pid))
		if err != nil || len(environment) > 0 {
			t.Errorf("the environment of a worker is %q, %v", environment, err)
		}
		if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		killed = append(killed, c.pid)
	}
	if err := <-ended; err != nil {
		t.Errorf("the run has no result: %v", err)
	}
	text, err := os.ReadFile(s.log)
	if err != nil || !strings.Contains(string(text), "the worker process of this run failed: it was ended by signal 9 (killed)") {
		t.Errorf("the log does not say what became of the run: %s, %v", text, err)
	}
	err = rig.Poll(t.Context(), "the end of the workers", func() (bool, error) {
		return !slices.ContainsFunc(s.children(t), func(c child) bool { return slices.Contains(killed, c.pid) }), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.short(t)
	if after := s.idle(t); after != before {
		t.Errorf("the server has %d pipes, and had %d before", after, before)
	}
	res, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(page), "\nvmcp_script_workers 1\n") {
		t.Errorf("/metrics does not count the worker: %v", err)
	}
}

// TestTheDemoIsolated calls the scripts of the demo in two servers: what comes of them, messages
// included, is the same.
func TestTheDemoIsolated(t *testing.T) {
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

// runID is what differs between two runs that were written down.
var runID = regexp.MustCompile(`"id":"[a-z0-9]{26}"`)

// demo runs the demo and lists what its scripts return and say.
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
