//go:build linux

package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// watched are Workers that count what is open.
type watched struct {
	*Workers
	open, opened atomic.Int64
	asked        func(e *script.Effect) // may be nil
	wanted       func()
}

type watchedChannel struct {
	script.Channel
	closed func()
}

func (c *watchedChannel) Close() {
	c.Channel.Close()
	c.closed()
}

func (w *watched) Open(ctx context.Context, l script.Limits) (script.Channel, error) {
	c, err := w.Workers.Open(ctx, l)
	if err != nil {
		return nil, err
	}
	w.open.Add(1)
	w.opened.Add(1)
	return &watchedChannel{c, sync.OnceFunc(func() { w.open.Add(-1) })}, nil
}

func (w *watched) Ask(ctx context.Context, host any, q script.Asked) ([][]byte, error) {
	if q.Effect != nil && w.asked != nil {
		w.asked(q.Effect)
	}
	return w.Workers.Ask(ctx, host, q)
}

// observeRestless is observe for an isolated run that loses its worker whenever it waits: before, in and after every effect.
func observeRestless(t *testing.T, workers *Workers, p *script.Program, o script.RunOptions, h *scripttest.Host) remains {
	t.Helper()
	patient := workers.patience
	workers.patience = 0
	defer func() { workers.patience = patient }()
	w := &watched{Workers: workers}
	lose := func(e *script.Effect) {
		if !e.Instant {
			w.wanted()
			testkit.Eventually(t, "the worker is not given back", func() bool { return w.open.Load() == 0 })
		}
	}
	w.asked = lose
	o.Around = func(ctx context.Context, a script.Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
		lose(&a.Effect)
		res, err := perform(ctx)
		if ctx.Err() == nil {
			lose(&a.Effect)
		}
		return res, err
	}
	r := observeWanted(t, w, p, o, h)
	if n := len(h.Calls()); n > 0 && int(w.opened.Load()) < 2*n {
		t.Errorf("%d workers for %d calls", w.opened.Load(), n)
	}
	return r
}

// observeWanted is observe for an isolated run whose worker is wanted after w.wanted: by a run that waits for more memory than
// there is.
func observeWanted(t *testing.T, w *watched, p *script.Program, o script.RunOptions, h *scripttest.Host) remains {
	t.Helper()
	o.Isolation, o.Pool = w, script.NewPool(512<<20, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	defer other.Wait()
	defer cancel()
	greedy := scripttest.Compile(t, "def run(params): return len(\"x\" * (900 << 20))")
	w.wanted = sync.OnceFunc(func() {
		other.Go(func() {
			for ctx.Err() == nil { // it is refused when there was no room for long
				_, err := greedy.Run(ctx, script.RunOptions{Pool: o.Pool, Limits: script.Limits{Memory: 2 << 30, Time: limits.Duration(time.Hour)}})
				if err == nil || ctx.Err() == nil && !strings.Contains(err.Error(), "totalMemory") {
					t.Errorf("the run that waits for memory: %v", err)
					return
				}
			}
		})
	})
	return observe(ctx, p, o, h)
}

// TestAThousandThatWait runs far more scripts than there may be workers, a thousand with the default bounds: all wait at the same time.
func TestAThousandThatWait(t *testing.T) {
	n, memory := 12, int64(4*script.WorkerMemory)
	if testmode.Thorough() {
		n, memory = 1000, 2<<30
	}
	w := &watched{Workers: newWorkers(t)}
	pool := script.NewPool(memory, 1, nil)
	p := scripttest.Compile(t, `
def run(params):
    if params["naps"]:
        sleep(1)
    return call_tool("gate", {"n": params["n"]})["n"] + 1
`)
	arrived, open := make(chan struct{}, 2*n), make(chan struct{})
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"gate": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		arrived <- struct{}{}
		<-open // all wait at the same time
		return scripttest.Echo(ctx, args)
	}}}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			res, err := p.Run(t.Context(), script.RunOptions{Isolation: w, Host: h, Pool: pool, Args: json.RawMessage(fmt.Sprintf(`{"n":%d,"naps":%v}`, i, n < 100))})
			if err != nil || string(res.Structured) != strconv.Itoa(i+1) {
				t.Errorf("run %d: %v", i, err)
				arrived <- struct{}{} // nobody waits for it
			}
		})
	}
	for range n {
		<-arrived
	}
	close(open)
	all.Wait()
	t.Logf("%d runs had %d workers", n, w.opened.Load())
	if use := pool.Usage(); use.Charged != 0 || use.Active != 0 || use.Free != 1 {
		t.Errorf("the pool has %+v; want 0 bytes, 0 runs, 1 free slot", use)
	}
}

// TestFewWorkersForARun has a run of many calls, each longer than it keeps its worker, and another one that wants it.
func TestFewWorkersForARun(t *testing.T) {
	w := &watched{Workers: newWorkers(t)}
	w.patience = 20 * time.Millisecond
	calls := 0
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"slow": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		w.wanted()
		calls++
		time.Sleep(3 * w.patience)
		return scripttest.Echo(ctx, args)
	}}}
	p := scripttest.Compile(t, `
def run(params):
    return len([call_tool("slow", {"n": n}) for n in range(40)])
`)
	r := observeWanted(t, w, p, script.RunOptions{}, h)
	if r.Result != "40  false" || calls != 40 || r.Stats.Steps == 0 {
		t.Errorf("it ended with %+v after %d calls", r, calls)
	}
	if n := w.opened.Load(); n < 2 || n > 5 {
		t.Errorf("%d workers, want at most 5", n)
	}
}
