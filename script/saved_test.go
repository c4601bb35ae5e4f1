package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// asking is a host whose tools book and look ask two questions before they do their work, like a peer that keeps no
// state between its rounds.
type asking struct {
	*once
	mu       sync.Mutex
	answered map[string]bool // questions by key
	sent     map[string]int  // rounds that were sent with answers
	fails    error           // of the last round, once
}

func newAsking() *asking {
	a := &asking{once: counting(map[string]scripttest.Tool{}), answered: map[string]bool{}, sent: map[string]int{}}
	a.Tools["note"] = scripttest.Echo
	return a
}

// CallTool counts how often a call has happened.
func (a *asking) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	if name == "note" {
		return a.once.CallTool(ctx, name, args, o)
	}
	round := 0
	if held := script.SavedState(ctx); held != nil {
		if err := json.Unmarshal(held, &round); err != nil {
			return nil, err
		}
	}
	for ; round < 2; round++ {
		q := script.Question{Key: fmt.Sprintf("%s/%d/sure", o.Key, round), Method: "elicitation/create"}
		script.SaveState(ctx, json.RawMessage(fmt.Sprint(round)))
		if !a.has(q.Key) {
			return nil, &script.Suspended{Questions: []script.Question{q}}
		}
		if err := script.GoOn(ctx); err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.sent[q.Key]++
		a.mu.Unlock()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fails; err != nil {
		a.fails = nil
		return nil, err
	}
	a.made[o.Key]++
	return scripttest.Structured(string(args)), nil
}

func (a *asking) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answered[key]
}

// reply answers the questions of a run.
func (a *asking) reply(s *script.Suspended) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range s.Questions {
		a.answered[q.Key] = true
	}
}

const books = `
def run(params):
    call_tool("note", {"n": 0})
    a = parallel(lambda n: call_tool("book", {"n": n})["n"], [1, 2])
    b = try_call_tool("book", {"n": 3})
    return a + [b.output["n"] if b.ok else b.kind]
`

// TestACallWhosePeerAsksGoesOn kills a run at each of its writes: it continues from the last round of each call, no
// call that may not be repeated happens twice, and no answered question is asked again.
func TestACallWhosePeerAsksGoesOn(t *testing.T) {
	for _, repeat := range []script.Repeat{script.Once, script.Idempotent, script.ReadOnly} {
		for at := range 25 {
			for _, lost := range []bool{false, true} {
				a := newAsking()
				d := newDurable(t, books, a)
				d.options.Repeat = func(script.Effect) script.Repeat { return repeat }
				asked, doubts := d.killedAt(t, a, at, lost)
				if repeat != script.Once || at == 0 {
					d.ends(t, "[1,2,3]")
				}
				if (repeat != script.Once || at == 0) && (doubts > 0 || asked != 6) {
					t.Errorf("killed at %d: %d questions, want 6; %d doubts, want none", at, asked, doubts)
				}
				for key, n := range a.made {
					if n > 1 && repeat == script.Once {
						t.Errorf("killed at %d, lost %v: the call at %s happened %d times", at, lost, key, n)
					}
				}
			}
		}
	}
}

// killedAt runs a run to its end, killed at its write number at, and between its questions; 0 for never. Doubts are
// resolved as done.
func (d *durable) killedAt(t *testing.T, a *asking, at int, lost bool) (asked, doubts int) {
	for round := range 40 {
		if at > 0 {
			d.killed(t, 1+(at-1+round)%20, lost)
		}
		_, err := d.run(t.Context())
		var s *script.Suspended
		if !errors.As(err, &s) {
			return asked, doubts
		}
		for _, q := range s.Questions {
			if asked++; a.has(q.Key) {
				t.Errorf("killed at %d: %s is asked again", at, q.Key)
			}
		}
		for _, doubt := range s.Doubts {
			doubts++
			d.resolve(t, doubt.Key, string(doubt.Args), "")
		}
		a.reply(s)
	}
	t.Errorf("killed at %d: the run comes to no end", at)
	return asked, doubts
}

// TestARoundOfAnswersIsLost: a connection that is lost after the answers were sent leaves a doubt; a round that was
// certainly not sent is repeated.
func TestARoundOfAnswersIsLost(t *testing.T) {
	const src = `def run(params): return call_tool("book", {"n": 1})["n"]`
	a := newAsking()
	d := newDurable(t, src, a)
	for range 2 {
		a.reply(d.waits(t))
	}
	a.fails = &builtins.ToolError{Kind: builtins.Unknown, Msg: "cut off"}
	if s := d.waits(t); len(s.Doubts) != 1 || len(s.Questions) != 0 {
		t.Fatalf("the run waits for %+v, want a doubt", s)
	}
	d.resolve(t, "0", "", "") // once more: from its beginning, with the answers that there are
	d.ends(t, "1")
	if a.made["0"] != 1 || a.sent["0/0/sure"] != 2 {
		t.Errorf("it happened %d times, the first answer was sent %d times", a.made["0"], a.sent["0/0/sure"])
	}

	for _, ends := range []bool{false, true} {
		a = newAsking()
		d = newDurable(t, src, a)
		for range 2 {
			a.reply(d.waits(t))
		}
		a.fails = &builtins.ToolError{Kind: builtins.Unavailable, Msg: "refused"}
		if ends {
			drain := make(chan struct{})
			close(drain)
			d.options.Drain = drain
			if s := d.waits(t); !s.Paused || len(s.Doubts)+len(s.Questions) != 0 {
				t.Errorf("the process ends, and the run waits for %+v, want a pause", s)
			}
			d.options.Drain = nil
		} else {
			_, _ = d.run(t.Context()) // and the process dies before it writes that the run has failed
		}
		d.ends(t, "1")
		if a.made["0"] != 1 || a.sent["0/0/sure"] != 1 || a.sent["0/1/sure"] != 2 {
			t.Errorf("the process ends: %v: it happened %d times, the answers were sent %v", ends, a.made["0"], a.sent)
		}
	}
}
