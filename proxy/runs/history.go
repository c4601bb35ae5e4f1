package runs

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package keeps what recent runs of scripted tools did, for operators: the runs in progress with their current
// step, and the last ones that ended with all their steps.
//
//	ctx = h.Begin(ctx, history.Run{ID: id, Tool: name, Args: args})
//	step := history.Steps(ctx)    // called with each effect, also of scripts that the run calls
//	h.End(ctx, history.End{State: "done", Result: result})
//	h.List(ctx), h.Find(ctx, id)
//
// A run that is kept is in the store of runs as well, with its journal. The store is read first, so that runs of other
// processes and from before a restart are included. All memory is bounded by the constants below.

const (
	// maxRuns and MaxBytes bound the runs that are not in progress. MaxBytes bounds also those in progress: beyond it
	// the steps of a run are counted but not kept.
	maxRuns         = 200
	historyMaxBytes = 16 << 20
	// maxSteps bounds the steps of one run, like those of a trace.
	maxSteps = 2000
	// maxText bounds a name and an error, maxValue the arguments and the result of a run and of a step; in characters
	// and bytes.
	maxText  = 200
	maxValue = 16 << 10
	// overhead is the size in bytes that a step or a run counts in addition to its texts.
	overhead = 200
)

// HistoryOptions configure Runs.
type HistoryOptions struct {
	Secrets *secret.Redactor
	// Store returns the store of runs; nil while there is none.
	Store func() durable.Store
	// Changed is called when the history has changed. It must not block. May be nil.
	Changed func()
}

// Runs is the history of the runs of one endpoint. Safe for concurrent use.
type Runs struct {
	o          HistoryOptions
	keepValues atomic.Bool
	held       atomic.Int64 // bytes of the records in progress

	mu    sync.Mutex
	under map[string]*record // in progress in this process, by id; guarded by mu
	past  []*record          // the others, the newest last; guarded by mu
	bytes int64              // of past; guarded by mu
}

// NewHistory makes an empty history.
func NewHistory(o HistoryOptions) *Runs {
	if o.Secrets == nil {
		o.Secrets = &secret.Redactor{}
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Runs{o: o, under: map[string]*record{}}
}

// KeepValues sets whether arguments and results are kept (admin.keepValues). If not, those that were kept are dropped.
func (h *Runs) KeepValues(keep bool) {
	if h.keepValues.Swap(keep) == keep || keep {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.past {
		h.bytes -= r.forgetValues()
	}
	for _, r := range h.under {
		h.held.Add(-r.forgetValues())
	}
}

// HistoryRun describes a part of a run that begins.
type HistoryRun struct {
	ID, Tool string
	Args     json.RawMessage
}

// End is the end of a part of a run.
type End struct {
	State  durable.State
	Error  string
	Result json.RawMessage // a CallToolResult; nil if there is none
}

// recordKey is the context key of the record, for the run and for the calls that it makes.
type recordKey struct{}

func of(ctx context.Context) *record {
	r, _ := ctx.Value(recordKey{}).(*record)
	return r
}

// Begin records that a part of a run begins, and returns the context for the part.
func (h *Runs) Begin(ctx context.Context, run HistoryRun) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.recall(run.ID)
	if r == nil {
		r = &record{runs: h, id: run.ID, tool: display.ClipText(run.Tool, maxText), began: time.Now(), index: map[string]int{}}
		r.grow(int64(overhead + len(r.tool)))
		r.args = r.value(run.Args)
	}
	r.begin()
	h.under[r.id] = r
	h.o.Changed()
	return context.WithValue(ctx, recordKey{}, r)
}

// recall removes the record of a resumed run from past and returns it; nil if there is none. mu is held.
func (h *Runs) recall(id string) *record {
	i := slices.IndexFunc(h.past, func(r *record) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	r := h.past[i]
	h.past = slices.Delete(h.past, i, i+1)
	h.bytes -= r.size()
	h.held.Add(r.size())
	return r
}

// End records the end of the part of ctx.
func (h *Runs) End(ctx context.Context, e End) {
	r := of(ctx)
	if r == nil {
		return
	}
	r.end(e)
	h.mu.Lock()
	delete(h.under, r.id)
	h.held.Add(-r.size())
	h.past = append(h.past, r)
	h.bytes += r.size()
	for len(h.past) > maxRuns || h.bytes > historyMaxBytes {
		h.bytes -= h.past[0].size()
		h.past[0] = nil
		h.past = h.past[1:]
	}
	h.mu.Unlock()
	h.o.Changed()
}

// Drop removes the run of ctx, which did not begin after all.
func (h *Runs) Drop(ctx context.Context) {
	r := of(ctx)
	if r == nil {
		return
	}
	h.mu.Lock()
	delete(h.under, r.id)
	h.held.Add(-r.size())
	h.mu.Unlock()
	h.o.Changed()
}

// atEffect records that the run of ctx has begun a step.
func atEffect(ctx context.Context, key, kind, name string) {
	if r := of(ctx); r != nil {
		r.at(key, kind, name)
	}
}

// steps returns a function that records a finished step in the run of ctx; nil if the run is not recorded.
func steps(ctx context.Context) func(script.Event) {
	r := of(ctx)
	if r == nil {
		return nil
	}
	return r.step
}
