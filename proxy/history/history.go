// Package history remembers what runs of scripted tools did lately, for those who operate an endpoint: the runs under
// way with their present step, and the last ones that ended with what they did.
//
//	ctx = h.Begin(ctx, history.Run{ID: id, Tool: name, Args: args})
//	step := history.Steps(ctx)    // called with each effect, also of scripts that the run calls
//	h.End(ctx, history.End{State: "done", Result: result})
//	h.List(ctx), h.Find(ctx, id)
//
// A run that is kept is in the store of runs as well, with its journal: that is asked first, so that runs of other
// processes and from before a restart are there, too. All that is held here is bounded; see the constants.
package history

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/secret"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

const (
	// MaxRuns and MaxBytes bound the runs that are not under way, MaxBytes those under way, too: of a run beyond it
	// the steps are counted, and not kept.
	MaxRuns  = 200
	MaxBytes = 16 << 20
	// maxSteps bounds the steps of one run, as those of a trace.
	maxSteps = 2000
	// maxText bounds a name and an error, maxValue the arguments and the result of a run and of a step.
	maxText  = 200
	maxValue = 16 << 10
	// overhead is what a step and a run count beside their texts.
	overhead = 200
)

// Options are what Runs take from their surroundings.
type Options struct {
	Secrets *secret.Redactor
	// Store is the store of runs; nil while there is none.
	Store func() store.Store
	// Changed is called when there is something new to see. It must not wait. May be nil.
	Changed func()
}

// Runs are the runs of one endpoint. They are safe for concurrent use.
type Runs struct {
	o          Options
	keepValues atomic.Bool
	held       atomic.Int64 // bytes of the records under way

	mu    sync.Mutex
	under map[string]*record // that are executed here, by id; guarded by mu
	past  []*record          // the others, the last one last; guarded by mu
	bytes int64              // of past; guarded by mu
}

// New makes Runs that remember none.
func New(o Options) *Runs {
	if o.Secrets == nil {
		o.Secrets = &secret.Redactor{}
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Runs{o: o, under: map[string]*record{}}
}

// KeepValues says whether arguments and results are kept from now on (admin.keepValues). What was kept is forgotten
// when they are not.
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

// Run is a part of a run that begins.
type Run struct {
	ID, Tool string
	Args     json.RawMessage
}

// End is how a part of a run ended.
type End struct {
	State  store.State
	Error  string
	Result json.RawMessage // a CallToolResult; nil where there is none
}

// recordKey is the key of the record in the context of a run, and of the calls that it makes.
type recordKey struct{}

func of(ctx context.Context) *record {
	r, _ := ctx.Value(recordKey{}).(*record)
	return r
}

// Begin notes that a part of a run begins. The context is that of the part.
func (h *Runs) Begin(ctx context.Context, run Run) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.recall(run.ID)
	if r == nil {
		r = &record{runs: h, id: run.ID, tool: clip.Text(run.Tool, maxText), began: time.Now(), index: map[string]int{}}
		r.grow(int64(overhead + len(r.tool)))
		r.args = r.value(run.Args)
	}
	r.begin()
	h.under[r.id] = r
	h.o.Changed()
	return context.WithValue(ctx, recordKey{}, r)
}

// recall takes a run that goes on out of the past; nil when it is not there. mu is held.
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

// End notes that the part of ctx is over.
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
	for len(h.past) > MaxRuns || h.bytes > MaxBytes {
		h.bytes -= h.past[0].size()
		h.past[0] = nil
		h.past = h.past[1:]
	}
	h.mu.Unlock()
	h.o.Changed()
}

// Drop forgets the run of ctx: it did not begin after all.
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

// At notes that the run of ctx has begun a step.
func At(ctx context.Context, key, kind, name string) {
	if r := of(ctx); r != nil {
		r.at(key, kind, name)
	}
}

// Steps returns what notes a step that is over in the run of ctx; nil when nobody remembers that.
func Steps(ctx context.Context) func(script.Event) {
	r := of(ctx)
	if r == nil {
		return nil
	}
	return r.step
}
