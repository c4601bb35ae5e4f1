package runs

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A record is the history of one run.
type record struct {
	runs     *Runs
	id, tool string
	began    time.Time
	bytes    atomic.Int64

	mu      sync.Mutex // guards what follows
	state   durable.State
	ended   time.Time // zero while it may continue
	err     string
	args    json.RawMessage
	result  json.RawMessage
	steps   []step
	index   map[string]int // of steps, by key
	current []step         // begun and not ended, the newest last
	left    int            // number of steps that were not kept
}

// step is one recorded step.
type step struct {
	key, kind, name string
	start           time.Time
	took            time.Duration
	bytes           int
	err             string
	args, result    json.RawMessage
	waits           bool // the run is suspended in it
}

func (s *step) size() int64 {
	return int64(overhead + len(s.key) + len(s.kind) + len(s.name) + len(s.err) + len(s.args) + len(s.result))
}

func (r *record) size() int64 { return r.bytes.Load() }

// grow adds bytes of a run in progress to the account.
func (r *record) grow(n int64) {
	r.bytes.Add(n)
	r.runs.held.Add(n)
}

// begin records that a part of the run begins.
func (r *record) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.ended, r.err = durable.Running, time.Time{}, ""
}

// value is the recorded form of arguments or a result.
func (r *record) value(v json.RawMessage) json.RawMessage {
	if !r.runs.keepValues.Load() || len(v) == 0 {
		return nil
	}
	kept := bounded(r.runs.o.Secrets.JSON(v))
	r.grow(int64(len(kept)))
	return kept
}

// bounded is a value, or, if it is long, the beginning of its text.
func bounded(v json.RawMessage) json.RawMessage {
	if len(v) <= maxValue {
		return slices.Clone(v)
	}
	return jsonscan.Quote(display.Counted(string(v), maxValue))
}

// maxCurrent bounds the recorded steps in progress: a parallel may have many branches.
const maxCurrent = 64

func (r *record) at(key, kind, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.current) < maxCurrent {
		r.current = append(r.current, step{key: display.ClipText(key, maxText), kind: kind, name: r.text(name), start: time.Now()})
	}
}

// waitsAt records the step in which the run waits.
func (r *record) waitsAt(e script.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = slices.DeleteFunc(r.current, func(c step) bool { return c.key == e.Key })
	if len(r.current) < maxCurrent {
		r.current = append(r.current, step{key: display.ClipText(e.Key, maxText), kind: e.Kind, name: r.text(e.Name), start: latest(e.Start, r.began), waits: true})
	}
}

// text is the recorded form of a name or an error.
func (r *record) text(s string) string { return display.ClipText(r.runs.o.Secrets.Text(s), maxText) }

func (r *record) step(e script.Event) {
	if errors.As(e.Err, new(*script.Suspended)) { // it continues in a later part of the run
		r.waitsAt(e)
		return
	}
	s := step{key: display.ClipText(e.Key, maxText), kind: e.Kind, name: r.text(e.Name), start: e.Start, took: e.Duration, bytes: e.Bytes}
	if e.Err != nil {
		s.err = r.text(e.Err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = slices.DeleteFunc(r.current, func(c step) bool {
		if c.key == s.key && c.waits { // begun by an earlier part of the run
			s.took, s.start = s.start.Add(s.took).Sub(c.start), c.start
		}
		return c.key == s.key
	})
	i, known := r.index[s.key]
	switch {
	case known && e.Replayed:
		return // done by an earlier part of the run
	case !known && (len(r.steps) == maxSteps || r.runs.held.Load() > historyMaxBytes):
		r.left++
		return
	}
	s.args, s.result = r.value(e.Args), r.value(e.Result)
	s.start = latest(s.start, r.began)
	if known {
		r.grow(s.size() - r.steps[i].size() - int64(len(s.args)+len(s.result)))
		r.steps[i] = s
		return
	}
	r.grow(s.size() - int64(len(s.args)+len(s.result))) // args and result are counted already
	r.index[s.key] = len(r.steps)
	r.steps = append(r.steps, s)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (r *record) end(e End) {
	err := r.text(e.Error)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == "" && e.State == durable.Failed {
		err = r.text(textOf(e.Result))
	}
	r.state, r.err = e.State, err
	r.current = slices.DeleteFunc(r.current, func(c step) bool { return !c.waits || e.State.Final() })
	if e.State.Final() {
		r.ended = time.Now()
		r.result = r.value(e.Result)
	}
}

// textOf is the first text in a CallToolResult.
func textOf(result json.RawMessage) (text string) {
	jsonscan.Elements(jsonscan.Get(result, "content"), func(v []byte) bool {
		text = jsonscan.GetString(v, "text")
		return text == ""
	})
	return text
}

// forgetValues drops arguments and results, and returns the number of bytes.
func (r *record) forgetValues() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := len(r.args) + len(r.result)
	r.args, r.result = nil, nil
	for i := range r.steps {
		gone += len(r.steps[i].args) + len(r.steps[i].result)
		r.steps[i].args, r.steps[i].result = nil, nil
	}
	r.bytes.Add(-int64(gone))
	return int64(gone)
}

// show returns the run for display: with steps as a document of its own, without them as an element of a list.
func (r *record) show(now time.Time, steps bool) status.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := status.Run{ID: r.id, Tool: r.tool, State: string(r.state), StartedAt: r.began.UTC(), EndedAt: utc(r.ended), Error: r.err, StepCount: len(r.steps) + r.left}
	end := now
	if !r.ended.IsZero() {
		end = r.ended
	}
	s.DurationMs = milliseconds(end.Sub(r.began))
	if n := len(r.current); n > 0 {
		s.Step = r.shown(r.current[n-1], now, true)
	} else if n := len(r.steps); n > 0 && !r.state.Final() {
		s.Step = r.shown(r.steps[n-1], now, false)
		s.Step.Arguments, s.Step.Result = nil, nil
	}
	if !steps {
		return s
	}
	s.Arguments, s.Result, s.LeftOut = r.args, r.result, r.left
	for _, one := range r.steps {
		s.Steps = append(s.Steps, *r.shown(one, now, false))
	}
	for _, one := range r.current {
		s.Steps = append(s.Steps, *r.shown(one, now, true))
	}
	return s
}

func (r *record) shown(s step, now time.Time, running bool) *status.Step {
	if running {
		s.took = now.Sub(s.start)
	}
	return &status.Step{
		Key: s.key, Kind: s.kind, Name: s.name, StartMs: milliseconds(s.start.Sub(r.began)), DurationMs: milliseconds(s.took),
		Running: running, Bytes: s.bytes, Error: s.err, Arguments: s.args, Result: s.result,
	}
}

func milliseconds(d time.Duration) float64 { return max(0, float64(d.Microseconds())/1000) }

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
