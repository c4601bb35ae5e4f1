// Package trace is what a client sees that asks what a scripted tool did: every effect of the
// run, with those of the scripted tools that it called.
package trace

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/cases"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/script"
)

// Key is the _meta key by which a client asks for a trace, and under which the result of the
// call has it. OldKey is the same in its first spelling, which is still read.
const (
	Key    = "dev.vmcp/trace"
	OldKey = "vmcp.dev/trace"
)

const (
	// maxEffects bounds one trace; a run may do many more.
	maxEffects = 2000
	// maxText bounds names and errors of effects to what fits a line.
	maxText = 200
)

// Trace is what one call of a scripted tool did, as it travels.
type Trace struct {
	Tool       string   `json:"tool"`
	DurationMs float64  `json:"durationMs"`
	Steps      uint64   `json:"interpreterSteps,omitempty"` // 0 when the run failed, as Memory
	Memory     int64    `json:"memory,omitempty"`
	Effects    []Effect `json:"effects"`
	LeftOut    int      `json:"leftOut,omitempty"` // effects that were too many
}

// Effect is one effect of a run. Its key is its position: "4.b1.0" is the first effect of the
// second branch of the parallel at 4, "2/0" the first of the script called at 2.
type Effect struct {
	Key        string  `json:"key"`
	Kind       string  `json:"kind"`
	Name       string  `json:"name,omitempty"`
	StartMs    float64 `json:"startMs"` // since the run began
	DurationMs float64 `json:"durationMs"`
	Bytes      int     `json:"bytes,omitempty"` // of the result
	Replayed   bool    `json:"replayed,omitempty"`
	Error      string  `json:"error,omitempty"`
}

// A recorder collects the effects of one call.
type recorder struct {
	began time.Time

	mu      sync.Mutex
	effects []Effect       // guarded by mu
	index   map[string]int // where the effect of a key is; guarded by mu
	starts  []time.Time    // of effects; guarded by mu
	left    int            // guarded by mu
}

// recorderKey is the key of the recorder in the context of a call, and of the calls that it makes.
type recorderKey struct{}

// Start begins a trace.
func Start(ctx context.Context) context.Context {
	return context.WithValue(ctx, recorderKey{}, &recorder{began: time.Now(), index: map[string]int{}})
}

// wholeKey is the key of what records the call of a context.
type wholeKey struct{}

// Record records the call in ctx, all of it; a trace has what a client may see.
func Record(ctx context.Context, r *cases.Recorder) context.Context {
	return context.WithValue(ctx, wholeKey{}, r)
}

// Whole is what records the call in ctx; nil when nothing does.
func Whole(ctx context.Context) *cases.Recorder {
	r, _ := ctx.Value(wholeKey{}).(*cases.Recorder)
	return r
}

// Recorder notes effects in the trace of ctx, without secrets; nil when there is no trace.
func Recorder(ctx context.Context, secrets *secret.Redactor) func(script.Event) {
	at, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return nil
	}
	return func(e script.Event) { at.add(e, secrets) }
}

func (at *recorder) add(e script.Event, secrets *secret.Redactor) {
	effect := Effect{
		Key: e.Key, Kind: e.Kind, Name: clip.Text(secrets.Text(e.Name), maxText),
		DurationMs: milliseconds(e.Duration), Bytes: e.Bytes, Replayed: e.Replayed,
	}
	if e.Err != nil {
		effect.Error = clip.Text(secrets.Text(e.Err.Error()), maxText)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if i, twice := at.index[e.Key]; twice { // the run has gone on within this request
		if !e.Replayed {
			at.effects[i], at.starts[i] = effect, e.Start
		}
		return
	}
	if len(at.effects) == maxEffects {
		at.left++
		return
	}
	at.index[e.Key] = len(at.effects)
	at.effects, at.starts = append(at.effects, effect), append(at.starts, e.Start)
}

// timed are the effects with their times since the first of them, or since the trace began if that was
// earlier: what was done before a question was done before this request. at is locked.
func (at *recorder) timed() (effects []Effect, took time.Duration) {
	began := at.began
	for _, s := range at.starts {
		if s.Before(began) {
			began = s
		}
	}
	effects = slices.Clone(at.effects)
	for i := range effects {
		effects[i].StartMs = milliseconds(at.starts[i].Sub(began))
	}
	return effects, time.Since(began)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Of is the trace of ctx up to now as JSON, nil when there is none. res is nil when the run
// failed.
func Of(ctx context.Context, tool string, res *script.Result) json.RawMessage {
	at, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	effects, took := at.timed()
	t := Trace{Tool: tool, DurationMs: milliseconds(took), Effects: effects, LeftOut: at.left}
	if res != nil {
		t.Steps, t.Memory = res.Stats.Steps, res.Stats.Memory
	}
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and texts
	}
	return data
}
