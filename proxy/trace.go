package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// metaTrace is the _meta key by which a client asks to see what a scripted tool did, and
// under which the result of the call shows it.
const metaTrace = "dev.vmcp/trace"

// oldMetaTrace is the same in its first spelling, which is still read.
const oldMetaTrace = "vmcp.dev/trace"

// traceMax bounds the steps of one trace; a run may do many more.
const traceMax = 2000

// A runTrace collects what one call of a scripted tool does, the scripted tools that it
// calls included.
type runTrace struct {
	began time.Time

	mu    sync.Mutex
	steps []traceStep // guarded by mu
	left  int         // steps that were too many; guarded by mu
}

// traceStep is one effect of a run. Its key is its position: "4.b1.0" is the first effect
// of the second branch of the parallel at 4, "2/0" the first of the script called at 2.
type traceStep struct {
	Key      string  `json:"key"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name,omitempty"`
	Start    float64 `json:"startMs"` // since the run began
	Duration float64 `json:"durationMs"`
	Bytes    int     `json:"bytes,omitempty"` // of the result
	Replayed bool    `json:"replayed,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// tracing is where in which trace a run is; it travels with the context of its calls.
type tracing struct {
	trace  *runTrace
	prefix string
}

type tracingKey struct{}

func tracingOf(ctx context.Context) tracing {
	t, _ := ctx.Value(tracingKey{}).(tracing)
	return t
}

// startTrace begins a trace when the client asks for one.
func (h *host) startTrace(ctx context.Context) context.Context {
	if h.x.trace == "" {
		return ctx
	}
	return context.WithValue(ctx, tracingKey{}, tracing{trace: &runTrace{began: time.Now()}})
}

// forClient is an effect as the client may see it. A failed call may tell in its error
// what is behind a tool, so of it nothing is told either.
func (h *host) forClient(e script.Event) script.Event {
	if h.x.traceAll || e.Kind != "call" {
		return e
	}
	if t := h.catalog.Find(catalog.AnyTool(e.Name)); t == nil || t.Hidden {
		e.Name = "(hidden)"
	}
	if e.Err != nil {
		e.Err = errHiddenFailure
	}
	return e
}

var errHiddenFailure = errors.New("failed")

// belowStep says that what happens now is part of the effect at key.
func belowStep(ctx context.Context, key string) context.Context {
	t := tracingOf(ctx)
	if t.trace == nil {
		return ctx
	}
	return context.WithValue(ctx, tracingKey{}, tracing{t.trace, t.prefix + key + "/"})
}

// observer is told of every effect of a run.
func (h *host) observer(ctx context.Context) func(script.Event) {
	t := tracingOf(ctx)
	if t.trace == nil {
		return h.effect
	}
	return func(e script.Event) {
		h.effect(e)
		t.trace.add(t.prefix, h.forClient(e), h.p.secrets)
	}
}

func (t *runTrace) add(prefix string, e script.Event, secrets *secret.Redactor) {
	step := traceStep{
		Key: prefix + e.Key, Kind: e.Kind, Name: shorten(secrets.Text(e.Name)), Start: milliseconds(e.Start.Sub(t.began)),
		Duration: milliseconds(e.Duration), Bytes: e.Bytes, Replayed: e.Replayed,
	}
	if e.Err != nil {
		step.Error = shorten(secrets.Text(e.Err.Error())) // half of a secret would not be found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == traceMax {
		t.left++
		return
	}
	t.steps = append(t.steps, step)
}

// shorten keeps names and messages to what fits a line.
func shorten(s string) string {
	const most = 200
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// showTrace adds what the call did to its result, if the client asked for it. res is
// nil when the run failed.
func (h *host) showTrace(ctx context.Context, result json.RawMessage, res *script.Result) json.RawMessage {
	t := tracingOf(ctx).trace
	if t == nil {
		return result
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := struct {
		Tool     string      `json:"tool"`
		Duration float64     `json:"durationMs"`
		Steps    uint64      `json:"interpreterSteps,omitempty"`
		Memory   int64       `json:"memory,omitempty"`
		Effects  []traceStep `json:"effects"`
		Left     int         `json:"leftOut,omitempty"`
	}{Tool: h.tool.Name, Duration: milliseconds(time.Since(t.began)), Effects: t.steps, Left: t.left}
	if res != nil {
		shown.Steps, shown.Memory = res.Stats.Steps, res.Stats.Memory
	}
	data, err := json.Marshal(shown)
	if err != nil {
		panic(err) // numbers and texts
	}
	return jsonscan.Set(result, "_meta", new(jsonscan.Object).Raw(h.x.trace, data).JSON())
}
