//go:build suites

package attacks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var vmcp string

func TestMain(m *testing.M) { os.Exit(rig.WithBinary(&vmcp, m.Run)) }

const (
	// perRun is the time limit of each program. By then each has reached its maximum of memory and CPU
	// time, or repeats it.
	perRun = 4 * time.Second
	// mostMemory bounds the peak memory of the process: 1.25 times the memory of a run, plus 64 MiB.
	mostMemory = 256<<20/4*5 + 64<<20
	// waitTime bounds every wait of a test.
	waitTime = 2 * time.Minute
	// attempts is the number of runs of a program, of which one has to leave the latency of other calls in bounds: other
	// load on the machine may delay them, too.
	attempts = 3
)

// TestAttack runs each program in a separate process. The quick form has only one, which
// ends soon.
func TestAttack(t *testing.T) {
	for _, name := range programs(t) {
		t.Run(name, func(t *testing.T) {
			if name != "n85_struct_add" {
				testmode.NeedThorough(t)
			}
			undisturbed(t, 3*time.Second, func() time.Duration { return alone(t, name) })
		})
	}
}

// undisturbed repeats an attack until no other call took longer than most meanwhile.
func undisturbed(t *testing.T, most time.Duration, attack func() (slowest time.Duration)) {
	t.Helper()
	for i := range attempts {
		slowest := attack()
		if slowest <= most || t.Failed() {
			return
		}
		t.Logf("attempt %d: a plain call took %v meanwhile", i+1, slowest)
	}
	t.Errorf("a plain call took more than %v in each of %d attempts", most, attempts)
}

// alone runs one program and returns how long the slowest plain call took meanwhile.
func alone(t *testing.T, name string) time.Duration {
	s := serve(t, "")
	defer s.Stop()
	b := s.bystander(t)
	took, end := s.attack(t, name)
	slowest := b.stop()
	peak := s.peak(t)
	t.Logf("%s: %d MB, bystander %d ms, %.1f s: %s", name, peak>>20, slowest.Milliseconds(), took.Seconds(), end)
	if peak > mostMemory {
		t.Errorf("the process has had %d MB, at most %d are right", peak>>20, mostMemory>>20)
	}
	if took > perRun+waitTime {
		t.Errorf("it took %v, its timeout is %v", took, perRun)
	}
	return slowest
}

// TestAttacksAtOnce runs eight programs concurrently, where all scripts together have the
// memory of two.
func TestAttacksAtOnce(t *testing.T) {
	testmode.NeedThorough(t)
	all := programs(t)
	for i := 0; i < len(all); i += 8 {
		some := all[i:min(i+8, len(all))]
		t.Run(some[0], func(t *testing.T) {
			undisturbed(t, 5*time.Second, func() time.Duration { return together(t, some) })
		})
	}
}

// together runs programs at once and returns how long the slowest plain call took meanwhile.
func together(t *testing.T, names []string) time.Duration {
	s := serve(t, ", "+totalMemory)
	defer s.Stop()
	b := s.bystander(t)
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() {
			took, end := s.attack(t, name)
			t.Logf("%s: %.1f s: %s", name, took.Seconds(), end)
		})
	}
	running.Wait()
	slowest, peak := b.stop(), s.peak(t)
	t.Logf("%d MB, bystander %d ms", peak>>20, slowest.Milliseconds())
	if peak > mostTogether {
		t.Errorf("the process has had %d MB, at most %d are right", peak>>20, mostTogether>>20)
	}
	return slowest
}

// TestGarbageDoesNotAddUp runs the hungriest programs again and again.
func TestGarbageDoesNotAddUp(t *testing.T) {
	testmode.NeedThorough(t)
	for _, name := range []string{"n40_star_unpack_big", "n15_blocks", "hungry"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "")
			for range 10 {
				s.attack(t, name)
			}
			peak := s.peak(t)
			t.Logf("%s ten times: %d MB", name, peak>>20)
			if peak > mostMemory {
				t.Errorf("the process has had %d MB, at most %d are right", peak>>20, mostMemory>>20)
			}
		})
	}
}

// TestWaitingRunsHoldUpNobody: with default limits, a short script runs beside sixteen
// that wait for a tool, and forty can wait concurrently.
func TestWaitingRunsHoldUpNobody(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	s := serve(t, "time: 5m")
	waiting := s.waiting(t, t.Context(), 16)
	if _, err := s.connect(t).Call(t.Context(), "tools/call", `{"name":"short","arguments":{}}`); err != nil {
		t.Error(err)
	}
	more := s.waiting(t, t.Context(), 24)
	s.backend.letGo()
	for range 16 {
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
	for range 24 {
		if err := <-more; err != nil {
			t.Error(err)
		}
	}
}

// waiting starts n more runs that wait for a tool; their outcomes are sent to the channel.
func (s *served) waiting(t *testing.T, ctx context.Context, n int) <-chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		c := s.connect(t)
		go func() {
			_, err := c.Call(ctx, "tools/call", `{"name":"wait","arguments":{}}`)
			ended <- err
		}()
	}
	s.runs += n
	s.backend.await(t, s.runs)
	return ended
}

// TestArgumentsThatWaitAreBounded: requests with large arguments are refused when the queue has no
// room, and their memory is released.
func TestArgumentsThatWaitAreBounded(t *testing.T) {
	testmode.NeedThorough(t)
	s := serve(t, "time: 5m, runs: 8, totalMemory: 512MB")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.waiting(t, ctx, 8)
	var all sync.WaitGroup
	b := s.bystander(t)
	large := `{"name":"short","arguments":{"text":"` + strings.Repeat("x", 4_000_000) + `"}}`
	const refused = 50 // at least, of a hundred: the others are read, or wait
	busy := 0
	var mu sync.Mutex
	for range 100 {
		c := s.connect(t)
		all.Go(func() {
			_, err := c.Call(ctx, "tools/call", large)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && strings.Contains(err.Error(), "-32000") {
				busy++
			}
			if busy == refused {
				cancel() // those that wait would do so until they are refused, too
			}
		})
	}
	all.Wait()
	slowest, peak := b.stop(), s.peak(t)
	t.Logf("%d of 100 were refused, %d MB, bystander %d ms", busy, peak>>20, slowest.Milliseconds())
	if busy < refused || peak > 300<<20 {
		t.Errorf("%d of 100 were refused, and the process has had %d MB, at most 300 are right", busy, peak>>20)
	}
}

// TestServeSaysWhatDoesNotFit: the memory limits of scripts are compared with that of the process at the start.
func TestServeSaysWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]bool{"2000MiB": true, "10GiB": false} {
		s := serve(t, "", "GOMEMLIMIT="+limit)
		text, err := os.ReadFile(s.log)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "lower limits.totalMemory"); got != want {
			t.Errorf("with GOMEMLIMIT=%s: warned %v, want %v\n%s", limit, got, want, text)
		}
	}
}

// programs are the names of the hostile programs.
func programs(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/n*.star")
	if err != nil || len(paths) == 0 {
		t.Fatal("no programs", err)
	}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".star"))
	}
	return names
}

// served is a running `vmcp serve` with all programs as tools.
type served struct {
	*rig.Process
	url, log string
	backend  *backend
	runs     int // those that wait for a tool
}

func serve(t *testing.T, limits string, env ...string) *served {
	t.Helper()
	return serveWith(t, limits, nil, env...)
}

// serveWith is serve with more flags.
func serveWith(t *testing.T, limits string, flags []string, env ...string) *served {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	dir, b := t.TempDir(), startBackend(t)
	config := filepath.Join(dir, "vmcp.yaml")
	if err := os.WriteFile(config, []byte(configuration(t, dir, b, limits)), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	p, addr, err := rig.ServeWith(ctx, log, vmcp, append([]string{"--config", config}, flags...), env...)
	if err == nil {
		err = rig.AwaitReady(ctx, addr)
	}
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(func() {
		_ = p.Stop()
		log.Close()
	})
	return &served{Process: p, url: "http://" + addr + "/mcp", log: log.Name(), backend: b}
}

func configuration(t *testing.T, dir string, x *backend, limits string) string {
	if !strings.HasPrefix(limits, "time:") {
		limits = fmt.Sprintf("time: %v%s", perRun, limits)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: attacks\nbackends:\n  - name: b\n    url: %s\n    timeout: 5m\n", x.url)
	b.WriteString("aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b]}}\n")
	fmt.Fprintf(&b, "limits: {%s}\nscriptedTools:\n", limits)
	paths, _ := filepath.Glob("testdata/*.star")
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".star")
		if err := os.WriteFile(filepath.Join(dir, name+".star"), []byte(substituted(t, path)), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  - {name: %s, description: test, scriptFile: %s.star}\n", name, name)
	}
	return b.String()
}

var substitution = regexp.MustCompile(`^#!subst (\w+) ("[^"]*") (\d+) ("[^"]*")\n`)

// substituted reads a program. A first line #!subst NAME "text" N "between" stands for
// N times the text, numbered at its @, wherever the name is.
func substituted(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := substitution.FindStringSubmatch(string(data))
	if m == nil {
		return string(data)
	}
	text, _ := strconv.Unquote(m[2])
	between, _ := strconv.Unquote(m[4])
	n, _ := strconv.Atoi(m[3])
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(text, "@", strconv.Itoa(i))
	}
	return regexp.MustCompile(`\b`+m[1]+`\b`).ReplaceAllString(string(data[len(m[0]):]), strings.Join(parts, between))
}

func (s *served) connect(t *testing.T) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: s.url, Revision: "2025-11-25"}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

var newline = regexp.MustCompile(`\\n|\n`)

// attack runs a program and returns how it ended. Sleeping is not counted as time of a run: the client of a program
// that sleeps disconnects.
func (s *served) attack(t *testing.T, name string) (time.Duration, string) {
	c := s.connect(t)
	began, wait := time.Now(), perRun+waitTime
	if sleeps(t, name) {
		wait = 2 * perRun
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	res, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, name))
	took := time.Since(began)
	text := string(res)
	if err != nil {
		text = err.Error()
	}
	if i := strings.Index(text, "limit reached"); i >= 0 {
		text = text[i:]
	}
	return took, fmt.Sprintf("%.60s", newline.Split(text, 2)[0])
}

func sleeps(t *testing.T, name string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".star"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "sleep(")
}

// peak is the peak resident memory of the process.
func (s *served) peak(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("the process has ended: %v", err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		t.Fatal("no VmHWM")
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb << 10
}

// bystander is a client that calls a tool of the backend all the time.
type bystander struct {
	quit    chan struct{}
	slowest chan time.Duration
}

func (s *served) bystander(t *testing.T) *bystander {
	b := &bystander{make(chan struct{}), make(chan time.Duration, 1)}
	c := s.connect(t)
	go b.run(t, c)
	return b
}

func (b *bystander) run(t *testing.T, c *raw.Client) {
	slowest := time.Duration(0)
	for {
		began := time.Now()
		if _, err := c.Call(t.Context(), "tools/call", `{"name":"echo","arguments":{}}`); err != nil {
			t.Errorf("a plain call: %v", err)
		}
		slowest = max(slowest, time.Since(began))
		select {
		case <-b.quit:
			b.slowest <- slowest
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop returns how long the slowest call took.
func (b *bystander) stop() time.Duration {
	close(b.quit)
	return <-b.slowest
}
