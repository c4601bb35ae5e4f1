package status

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package makes the trace of a scripted tool's call for a client: all effects of the run, including those of
// scripted tools that it called.

// Key is the _meta key by which a client requests a trace, and which the result has. OldKey is its earlier spelling,
// which is still accepted.
const (
	Key    = "dev.vmcp/trace"
	OldKey = "vmcp.dev/trace"
)

const (
	// maxEffects bounds the effects in one trace.
	maxEffects = 2000
	// maxText bounds names and errors of effects, in characters.
	maxText = 200
)

// Trace is the JSON form of a trace.
type Trace struct {
	Tool       string   `json:"tool"`
	DurationMs float64  `json:"durationMs"`
	Steps      uint64   `json:"interpreterSteps,omitempty"` // 0 if the run failed; so is Memory
	Memory     int64    `json:"memory,omitempty"`
	Effects    []Effect `json:"effects"`
	LeftOut    int      `json:"leftOut,omitempty"` // number of effects beyond maxEffects
}

// Effect is one effect of a run. Its key is its position: "4.b1.0" is the first effect of the second branch of the
// parallel at 4, "2/0" the first of the script called at 2.
type Effect struct {
	Key        string  `json:"key"`
	Kind       string  `json:"kind"`
	Name       string  `json:"name,omitempty"`
	StartMs    float64 `json:"startMs"` // since the start of the run
	DurationMs float64 `json:"durationMs"`
	Bytes      int     `json:"bytes,omitempty"` // of the result
	Replayed   bool    `json:"replayed,omitempty"`
	Error      string  `json:"error,omitempty"`
	Note       string  `json:"note,omitempty"` // what was converted in its arguments
}

// A recorder collects the effects of one call.
type recorder struct {
	began time.Time

	mu      sync.Mutex
	effects []Effect       // guarded by mu
	index   map[string]int // of effects by key; guarded by mu
	starts  []time.Time    // of effects; guarded by mu
	left    int            // guarded by mu
}

// recorderKey is the context key of the recorder, for the call and for the calls that it makes.
type recorderKey struct{}

// Start begins a trace in the returned context.
func Start(ctx context.Context) context.Context {
	return context.WithValue(ctx, recorderKey{}, &recorder{began: time.Now(), index: map[string]int{}})
}

// wholeKey is the context key of a cases.Recorder.
type wholeKey struct{}

// Record sets the cases.Recorder of a call, which gets everything, whereas a trace has only what a client may see.
func Record(ctx context.Context, r *cases.Recorder) context.Context {
	return context.WithValue(ctx, wholeKey{}, r)
}

// Whole is the cases.Recorder of ctx; nil for none.
func Whole(ctx context.Context) *cases.Recorder {
	r, _ := ctx.Value(wholeKey{}).(*cases.Recorder)
	return r
}

// Recorder returns a function that adds effects to the trace of ctx, without secrets; nil if there is no trace.
func Recorder(ctx context.Context, secrets *secret.Redactor) func(script.Event) {
	at, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return nil
	}
	return func(e script.Event) { at.add(e, secrets) }
}

func (at *recorder) add(e script.Event, secrets *secret.Redactor) {
	effect := Effect{
		Key: e.Key, Kind: e.Kind, Name: display.ClipText(secrets.Text(e.Name), maxText),
		DurationMs: milliseconds(e.Duration), Bytes: e.Bytes, Replayed: e.Replayed,
	}
	if e.Note != "" {
		effect.Note = display.ClipText(secrets.Text(e.Note), maxText)
	}
	if e.Err != nil {
		effect.Error = display.ClipText(secrets.Text(e.Err.Error()), maxText)
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

// TraceOf is the trace of ctx as JSON, nil if there is none. res is nil if the run failed.
func TraceOf(ctx context.Context, tool string, res *script.Result) json.RawMessage {
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
		panic(err) // cannot fail: numbers and strings
	}
	return data
}
