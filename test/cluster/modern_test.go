//go:build suites

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// testQuestionsAnywhere: 24 scripts with questions, whose requests arrive at any replica; no request is retried.
func testQuestionsAnywhere(t *testing.T, pg *runstest.Server) {
	w := newWorld(t, pg, "")
	w.lease = "1m" // nobody is killed, and the machine may be busy
	w.configure("a")
	w.start()
	for _, kept := range []bool{false, true} {
		b := w.balanced(kept, 0)
		var all sync.WaitGroup
		for _, kind := range []string{"seq", "par", "nested", "reserves"} {
			for i := range 3 {
				r := w.newRun(b.URL, kind, fmt.Sprintf("%s-%d-%v", kind, i, kept))
				all.Go(func() {
					if err := r.drive(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if err := r.check(); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		for i, n := range b.Counts() {
			if n < 5 {
				t.Errorf("replica %d got %d requests: the balancer did not distribute them", i, n)
			}
		}
	}
}

// plain makes one call of a tool, without a retry.
func plain(ctx context.Context, url string) error {
	c := &raw.Client{URL: url, Revision: raw.Modern}
	result, err := c.Call(ctx, "tools/call", `{"name":"look","arguments":{"what":"it"}}`)
	if err == nil && !strings.Contains(string(result), `"did":"it"`) {
		err = fmt.Errorf("result %s", result)
	}
	return err
}

// testRotation: [a], [a, b], [b, a], [b] by editing the file. Waiting runs are resumed with a requestState that was sealed
// before; one of a removed key is refused, and its run does not continue.
func testRotation(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	b := w.balanced(false, 0)
	first := session(t, b.URL)
	waiting := func(id string) (*run, string) {
		r := w.newRun(b.URL, "seq", id)
		a, err := r.call(t.Context(), "")
		if err != nil || a.RequestState == "" {
			t.Fatalf("%+v, %v; want a question", a, err)
		}
		return r, r.next(a)
	}
	type waiter struct {
		*run
		more string
	}
	var old []waiter
	for i := range 4 {
		r, more := waiting(fmt.Sprintf("old-%d", i))
		old = append(old, waiter{r, more})
	}
	for i, ring := range [][]string{{"a", "b"}, {"b", "a"}} {
		w.reconfigure(ring...)
		for _, r := range old[i : i+1] {
			if err := r.from(t.Context(), r.more); err != nil {
				t.Errorf("keys %v: %v", ring, err)
			} else if err := r.check(); err != nil {
				t.Errorf("keys %v: %v", ring, err)
			}
		}
		for range 3 {
			if err := lists(t.Context(), first); err != nil {
				t.Errorf("keys %v: a session of before: %v", ring, err)
			}
		}
	}
	second := session(t, b.URL)
	young, more := waiting("young") // sealed by b
	w.reconfigure("b")
	if err := young.from(t.Context(), more); err != nil {
		t.Errorf("sealed by the key that is left: %v", err)
	}
	for i, r := range w.replicas {
		if code, body := post(t, r.url(), first.Session(), listing); code != http.StatusNotFound {
			t.Errorf("a session of a removed key, at replica %d: %d %s", i, code, body)
		}
	}
	if err := lists(t.Context(), second); err != nil {
		t.Errorf("a session of the key that is left: %v", err)
	}
	for _, r := range old[2:] {
		if err := r.from(t.Context(), r.more); err == nil || !strings.Contains(err.Error(), "-32602") {
			t.Errorf("sealed by a removed key: %v, want -32602", err)
		}
		if n := w.ledger.did(r.id + "/0"); n != 0 {
			t.Errorf("%s went on: its call was made %d times", r.id, n)
		}
	}
}

// reconfigure gives the replicas another ring of keys, and waits until all of them use it.
func (w *world) reconfigure(keys ...string) {
	w.t.Helper()
	applied := func(r *replica) int { return r.log.count("configuration applied") }
	before := map[*replica]int{}
	for _, r := range w.replicas {
		before[r] = applied(r)
	}
	w.configure(keys...)
	for _, r := range w.replicas {
		r.await("the new keys", func() (bool, error) { return applied(r) > before[r], nil })
	}
}

// testStoreAway: while PostgreSQL is stopped 30 of 30 calls of backends' tools are answered, a run is refused because there is no store, and it
// continues when the store answers again.
func testStoreAway(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, "")
	b := w.balanced(false, 0)
	r := w.newRun(b.URL, "seq", "through")
	a, err := r.call(t.Context(), "")
	if err != nil || len(a.InputRequests) != 1 {
		t.Fatalf("%+v, %v; want a question", a, err)
	}
	more := r.next(a)
	pg.Down(t)
	for i := range 30 {
		if err := plain(t.Context(), b.URL); err != nil {
			t.Errorf("plain call %d without the store: %v", i, err)
		}
	}
	for range 3 {
		if _, err := r.call(t.Context(), more); err == nil || !strings.Contains(err.Error(), "-32603") {
			t.Errorf("a run without its store: %v, want -32603", err)
		}
	}
	for i := range w.replicas {
		if n := b.Answers(i, http.StatusServiceUnavailable); n != 0 {
			t.Errorf("/readyz of replica %d was 503 %d times while only the store was down", i, n)
		}
	}
	pg.Up(t)
	r.repeats = true // until the replicas have found it
	if err := r.from(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// testRollingRestart: all three replicas are restarted under load, behind a balancer that reacts 3 s late and never retries.
// No call of a backend's tool and no run fails.
func testRollingRestart(t *testing.T, pg *runstest.Server) {
	flags := []string{"--shutdown-delay", "5s", "--drain-time", "10s"}
	for _, kept := range []bool{true} {
		w := started(t, pg, clustered, flags...)
		w.ledger.slow = 10 * time.Millisecond
		b := w.balanced(kept, 3*time.Second)
		l := w.load(b.URL)
		for i, r := range w.replicas {
			before := b.Answers(i, http.StatusServiceUnavailable)
			r.signal(syscall.SIGTERM)
			r.await("503 from /readyz over a new connection", func() (bool, error) { return b.Answers(i, http.StatusServiceUnavailable) > before, nil })
			<-r.process.Done()
			if code := r.process.Cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("replica %d ended with %d", i, code)
			}
			r.start(flags...)
			r.awaitReady()
			got := b.Counts()[i]
			r.await("requests after the restart", func() (bool, error) { return b.Counts()[i] > got+5, nil })
		}
		l.end()
	}
}

// A load is a number of clients that make calls, without retries, until it ends.
type load struct {
	w     *world
	stop  chan struct{}
	work  sync.WaitGroup
	mu    sync.Mutex
	calls int // guarded by mu
	runs  int
}

func (w *world) load(url string) *load {
	l := &load{w: w, stop: make(chan struct{})}
	for i := range 3 {
		l.work.Go(func() { l.each(func(int) error { l.count(&l.calls); return plain(w.t.Context(), url) }) })
		c := session(w.t, url)
		l.work.Go(func() { l.each(func(int) error { l.count(&l.calls); return lists(w.t.Context(), c) }) })
		l.work.Go(func() {
			l.each(func(n int) error {
				kinds := []string{"slow", "seq", "par", "nested", "reserves"}
				kind := kinds[(i+n)%len(kinds)]
				r := w.newRun(url, kind, fmt.Sprintf("%s-%d-%d", kind, i, n))
				l.count(&l.runs)
				if err := r.drive(w.t.Context()); err != nil {
					return err
				}
				return r.check()
			})
		})
	}
	return l
}

func (l *load) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

func (l *load) each(do func(n int) error) {
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if err := do(n); err != nil {
			l.w.t.Errorf("under load: %v", err)
		}
	}
}

// end ends the load, and returns the number of calls.
func (l *load) end() {
	close(l.stop)
	l.work.Wait()
	l.w.t.Logf("%d plain calls, %d runs", l.calls, l.runs)
	if l.calls < 100 || l.runs < 20 {
		l.w.t.Errorf("%d plain calls and %d runs are no load", l.calls, l.runs)
	}
}
