//go:build linux

package isolate

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/script"
)

// watched are Workers that count what is open.
type watched struct {
	*Workers
	open, opened atomic.Int64
	asked        func(e *script.Effect)
}

type watchedChannel struct {
	script.Channel
	closed func()
}

func (c watchedChannel) Close() {
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
	return watchedChannel{c, sync.OnceFunc(func() { w.open.Add(-1) })}, nil
}

func (w *watched) Ask(ctx context.Context, host any, q script.Asked) ([][]byte, error) {
	if q.Effect != nil && w.asked != nil {
		w.asked(q.Effect)
	}
	return w.Workers.Ask(ctx, host, q)
}

// observeRestless is observe for an isolated run that loses its worker whenever it waits: before, in and after every effect. A
// run that waits for more memory than there is wants it.
func observeRestless(t *testing.T, w *Workers, p *script.Program, o script.RunOptions, h *scripttest.Host) remains {
	t.Helper()
	patient := w.patience
	w.patience = 0
	defer func() { w.patience = patient }()
	all := &watched{Workers: w}
	o.Pool = script.NewPool(512<<20, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var rival sync.WaitGroup
	defer rival.Wait()
	defer cancel()
	greedy := scripttest.Compile(t, "def run(params): return len(\"x\" * (900 << 20))")
	begin := sync.OnceFunc(func() {
		rival.Go(func() {
			for ctx.Err() == nil { // it is refused when there is no room for long
				_, err := greedy.Run(ctx, script.RunOptions{Pool: o.Pool, Limits: script.Limits{Memory: 2 << 30, Time: limits.Duration(time.Hour)}})
				if err == nil || ctx.Err() == nil && !strings.Contains(err.Error(), "totalMemory") {
					t.Errorf("the run that waits for memory: %v", err)
					return
				}
			}
		})
	})
	lose := func(e *script.Effect) {
		if !e.Instant {
			begin()
			testkit.Eventually(t, "the worker is not given back", func() bool { return all.open.Load() == 0 })
		}
	}
	all.asked = lose
	o.Isolation = all
	o.Around = func(ctx context.Context, a script.Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
		lose(&a.Effect)
		res, err := perform(ctx)
		if ctx.Err() == nil {
			lose(&a.Effect)
		}
		return res, err
	}
	r := observe(ctx, p, o, h)
	if n := len(h.Calls()); n > 0 && int(all.opened.Load()) < 2*n {
		t.Errorf("%d workers for %d calls", all.opened.Load(), n)
	}
	return r
}
