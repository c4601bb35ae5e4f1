package cases

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

const (
	// maxRecorded bounds the memory of the recorder of one call, in bytes.
	maxRecorded = 64 << 20
	// maxHeld bounds the memory of all recorders of the process, in bytes.
	maxHeld = 256 << 20
	// effectSize is the memory of an effect besides its texts, in bytes.
	effectSize = 400
)

// held is the memory of all recorders, in bytes.
var held atomic.Int64

// A Recorder collects the effects of one call of a scripted tool, over all its requests. A call that exceeds the
// bounds is not recorded at all. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	began   time.Time
	effects []timed
	index   map[string]int // indexes of effects, by key
	raw     map[string]json.RawMessage
	asked   map[string]time.Time // when the questions that wait for another request were first asked
	size    int64
	full    bool
}

// timed is an effect with the times of its beginning and its answer.
type timed struct {
	Effect
	start, end time.Time
}

// NewRecorder makes a recorder of a call that began at began.
func NewRecorder(began time.Time) *Recorder {
	return &Recorder{began: began, index: map[string]int{}, raw: map[string]json.RawMessage{}, asked: map[string]time.Time{}}
}

// Answered records what a tool answered, where the script gets another value made from it.
func (r *Recorder) Answered(key string, result json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.take(int64(len(result))) {
		r.raw[key] = result
	}
}

// Add adds an effect. The first record of a key stays; an effect that waits for an answer is not recorded yet.
func (r *Recorder) Add(e script.Event) {
	key := e.Key
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := errors.AsType[*script.Suspended](e.Err); waits {
		r.ask(key, e.Start)
		return
	}
	if _, twice := r.index[key]; twice {
		return
	}
	answered := r.raw[key]
	delete(r.raw, key)
	if answered == nil {
		answered = e.Result
	} else {
		r.give(int64(len(answered)))
	}
	if !r.take(int64(len(e.Name)+len(e.Args)+len(e.Note)+len(answered)) + effectSize) {
		return
	}
	effect := Effect{Key: key, Kind: e.Kind, Name: e.Name, Args: e.Args, Note: e.Note, Line: int(e.Pos.Line)}
	if effect.Line > 0 {
		effect.File = e.Pos.Filename() // Case replaces it by the name to show, which takes longer
	}
	if e.Err != nil {
		effect.Failure = failureOf(e.Err)
	} else {
		effect.Result = answered
	}
	start, end := e.Start, e.Start.Add(e.Duration)
	if asked, ok := r.asked[key]; ok && asked.Before(start) {
		start = asked
	}
	r.index[key] = len(r.effects)
	r.effects = append(r.effects, timed{effect, start, end})
}

// ask stores when a question was asked. The recorder is locked.
func (r *Recorder) ask(key string, at time.Time) {
	if _, twice := r.asked[key]; !twice && r.take(effectSize) {
		r.asked[key] = at
	}
}

// failureOf returns an error as a recorded failure.
func failureOf(err error) *Failure {
	if f, ok := errors.AsType[*script.Failure](err); ok {
		return &Failure{f.Kind, f.Message}
	}
	if t, ok := errors.AsType[*builtins.ToolError](err); ok {
		return &Failure{t.Kind, t.Msg}
	}
	return &Failure{"script", script.Clip(err.Error())}
}

// take adds n bytes; it returns false if they exceed a bound. The recorder is locked.
func (r *Recorder) take(n int64) bool {
	if r.full {
		return false
	}
	r.size += n
	if held.Add(n) > maxHeld || r.size > maxRecorded || len(r.effects) >= maxEffects {
		r.forget()
		r.full = true
		return false
	}
	return true
}

func (r *Recorder) give(n int64) {
	r.size -= n
	held.Add(-n)
}

func (r *Recorder) forget() {
	held.Add(-r.size)
	r.size, r.effects, r.index, r.raw, r.asked = 0, nil, nil, nil, nil
}

// Close drops what was recorded.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	r.full = true
}

// Ended is the outcome of a run.
type Ended struct {
	Result *script.Result // nil when it failed
	Err    error
	Time   time.Time
}

// Case returns the recorded case of a call; nil when it exceeded a bound. It shares its texts with the recorder.
func (r *Recorder) Case(tool string, args json.RawMessage, p *script.Program, end Ended) *Case {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return nil
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	began := r.began
	for i := range r.effects { // an earlier request, of another process, may have begun the call
		if start := r.effects[i].start; start.Before(began) {
			began = start
		}
	}
	shown := map[string]string{"": ""} // names of files
	c := &Case{
		Version: Version, Tool: tool, Recorded: began.UTC().Truncate(time.Millisecond), Program: programOf(p), Arguments: args,
		Effects: []Effect{}, Order: []string{}, DurationMs: milliseconds(end.Time.Sub(began)),
	}
	for i := range r.effects {
		e := r.effects[i]
		c.Order = append(c.Order, e.Key)
		e.StartMs, e.DurationMs = milliseconds(e.start.Sub(began)), milliseconds(e.end.Sub(e.start))
		if _, known := shown[e.File]; !known {
			shown[e.File] = diag.File(e.File)
		}
		e.File = shown[e.File]
		c.Effects = append(c.Effects, e.Effect)
	}
	slices.SortStableFunc(c.Effects, func(a, b Effect) int { return CompareKeys(a.Key, b.Key) })
	c.ended(end)
	return c
}

func (c *Case) ended(end Ended) {
	switch {
	case end.Err != nil:
		c.Failure = failureOfRun(end.Err)
	default:
		c.Output, c.Content, c.IsError = end.Result.Structured, end.Result.Content, end.Result.IsError
	}
}

// failureOfRun returns why a run failed, without the position in the script.
func failureOfRun(err error) *Failure {
	f := failureOf(err)
	if e, ok := errors.AsType[*script.Error](err); ok {
		f.Message = script.Clip(e.Msg)
	}
	if l, ok := errors.AsType[*script.LimitError](err); ok {
		f.Kind = "limit"
		f.Message = l.Error()
	}
	return f
}

// programOf returns the hashes of the files of a program.
func programOf(p *script.Program) map[string]string {
	if p == nil {
		return nil
	}
	all := map[string]string{}
	for name, sum := range p.Sums() {
		all[diag.File(name)] = "sha256:" + sum
	}
	return all
}

// milliseconds returns a length of time, at least 0 even if the clock was set back.
func milliseconds(d time.Duration) float64 { return max(0, float64(d.Microseconds())/1000) }

// CompareKeys orders positions as in the script: "2" before "10", "2.b0.0" before "3".
func CompareKeys(a, b string) int {
	for a != "" && b != "" {
		x, y := "", ""
		x, a = cutPart(a)
		y, b = cutPart(b)
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// cutPart splits off the first part of a position.
func cutPart(key string) (part, rest string) {
	if i := strings.IndexAny(key, "./"); i >= 0 {
		return key[:i], key[i+1:]
	}
	return key, ""
}
