package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"

	"github.com/vmcp-dev/vmcp/script/journaltest"
)

// durable is one run over its journal, which may be killed several times.
type durable struct {
	program *script.Program
	host    any
	journal *script.Memory
	options script.RunOptions
}

func newDurable(t *testing.T, src string, h any) *durable {
	return &durable{program: scripttest.Compile(t, src), host: h, journal: script.NewJournal()}
}

func (d *durable) run(ctx context.Context) (*script.Result, error) {
	o := d.options
	o.Host, o.Journal, o.ID = d.host, d.journal, "RUN"
	return d.program.Run(ctx, o)
}

// killed runs it until write number at, which is the last one.
func (d *durable) killed(t *testing.T, at int, lost bool) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := d.options
	o.Host, o.ID, o.Journal = d.host, "RUN", &journaltest.Kill{Journal: d.journal, At: at, Lost: lost, Cancel: cancel}
	_, _ = d.program.Run(ctx, o)
}

func (d *durable) waits(t *testing.T) *script.Suspended {
	t.Helper()
	_, err := d.run(t.Context())
	var s *script.Suspended
	if !errors.As(err, &s) {
		t.Fatalf("the run did not wait: %v", err)
	}
	return s
}

func (d *durable) ends(t *testing.T, want string) {
	t.Helper()
	if got := outcome(d.run(t.Context())); got != want {
		t.Errorf("the run ends with\n got %s\nwant %s", got, want)
	}
}

// resolve resolves a doubt in one of the three possible ways.
func (d *durable) resolve(t *testing.T, key, done, failed string) {
	t.Helper()
	e := script.Entry{Key: key}
	for _, known := range d.entries(t) {
		if known.Key == key {
			e = known
		}
	}
	switch {
	case done != "":
		e.Done, e.Result = true, scripttest.Structured(done)
	case failed != "":
		e.Done, e.Failure = true, &script.Failure{Kind: builtins.Tool, Message: failed}
	}
	if err := d.journal.Resolve(e); err != nil {
		t.Fatal(err)
	}
}

func (d *durable) entries(t *testing.T) []script.Entry {
	t.Helper()
	h := script.Header{Program: d.program.Hash(), Engine: script.Engine, Limits: d.options.Limits.Or(script.DefaultLimits())}
	entries, err := d.journal.Open(t.Context(), d.header(h))
	if err != nil {
		t.Fatal(err)
	}
	_ = d.journal.Close()
	return entries
}

// header is h with the digest of no arguments.
func (d *durable) header(h script.Header) script.Header {
	seen := &headers{Memory: script.NewJournal()}
	_, _ = d.program.Run(context.Background(), script.RunOptions{Journal: seen})
	h.Args = seen.header.Args
	return h
}

type headers struct {
	*script.Memory
	header script.Header
}

func (j *headers) Open(ctx context.Context, h script.Header) ([]script.Entry, error) {
	j.header = h
	return j.Memory.Open(ctx, h)
}

// counting is a host that counts the calls of each key, and whose calls end when their run is killed.
func counting(tools map[string]scripttest.Tool) *once {
	return &once{Host: &scripttest.Host{Tools: tools}, made: map[string]int{}}
}

// TestAParallelThatIsKilledInEachBranchIsResolved kills a run at each write of its journal, twice in a row, and
// resolves its doubts in one of the three ways: it ends with the expected result, and makes no call that was not
// allowed.
func TestAParallelThatIsKilledInEachBranchIsResolved(t *testing.T) {
	const src = `
def pay(n):
    first = call_tool("pay", {"n": n})["n"]
    return [first, call_tool("pay", {"n": n + 10})["n"]]

def run(params):
    return [parallel(pay, range(3)), call_tool("pay", {"n": 100})["n"]]
`
	const want = `[[[0,10],[1,11],[2,12]],100]`
	most := testmode.Count(10, 16)
	doubts := 0
	for first := 1; first <= most; first++ {
		for second := 1; second <= most; second += testmode.Count(3, 1) {
			for _, repeat := range []bool{false, true} {
				h := counting(map[string]scripttest.Tool{"pay": scripttest.Echo})
				d := newDurable(t, src, h)
				d.killed(t, first, second%2 == 0)
				d.killed(t, second, first%2 == 0)
				allowed := map[string]int{}
				for range 20 {
					res, err := d.run(t.Context())
					var s *script.Suspended
					if !errors.As(err, &s) {
						if got := outcome(res, err); got != want {
							t.Errorf("killed at %d and %d: got %s, want %s", first, second, got, want)
						}
						break
					}
					for _, doubt := range s.Doubts {
						doubts++
						if repeat {
							allowed[doubt.Key]++
							d.resolve(t, doubt.Key, "", "")
							continue
						}
						d.resolve(t, doubt.Key, string(doubt.Args), "")
					}
				}
				for key, n := range h.made {
					if n > 1+allowed[key] {
						t.Errorf("killed at %d and %d: the call at %s was made %d times, allowed were %d", first, second, key, n, 1+allowed[key])
					}
				}
			}
		}
	}
	if doubts < 50 {
		t.Errorf("only %d doubts: the test tests nothing", doubts)
	}
}

func TestADoubtIsResolvedInThreeWays(t *testing.T) {
	for _, tt := range []struct {
		name, done, failed, want string
		calls                    int
	}{
		{"done", `{"n":7}`, "", `[[7],["tool"],"x"]`, 1},
		{"failed", "", "it was refused", `test.star:6:27: parallel[0]: call_tool("pay"): it was refused`, 1},
		{"repeated", "", "", `[[1],["tool"],"x"]`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := true
			h := counting(map[string]scripttest.Tool{
				"pay": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
					if lost {
						return nil, &builtins.ToolError{Kind: builtins.Unknown, Msg: "connection reset"}
					}
					return scripttest.Echo(ctx, args)
				},
				"refuse": scripttest.Fails("no"),
			})
			d := newDurable(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(params):
    return parallel([
        lambda: [call_tool("pay", {"n": 1})["n"]],
        lambda: [try_call_tool("refuse").kind],
        lambda: elicit("sure?", FORM).content["v"],
    ])
`, h)
			h.Answer = scripttest.Later
			for range 3 { // the same error until the doubt is resolved
				s := d.waits(t)
				if len(s.Doubts) != 1 || s.Doubts[0].Key != "0.b0.0" || s.Doubts[0].Name != "pay" || string(s.Doubts[0].Args) != `{"n":1}` || len(s.Questions) != 1 {
					t.Fatalf("waits for %+v, want one doubt and one question", s)
				}
			}
			lost = false
			h.Answer = scripttest.Accept(`{"v": "x"}`)
			if s := d.waits(t); len(s.Doubts) != 1 || len(s.Questions) != 0 {
				t.Fatalf("waits for %+v, want the doubt", s)
			}
			if joined := slices.ContainsFunc(d.entries(t), func(e script.Entry) bool { return e.Kind == "join" }); joined {
				t.Fatal("a doubt wrote the end of its parallel() into the journal")
			}
			d.resolve(t, "0.b0.0", tt.done, tt.failed)
			for range 2 {
				d.ends(t, tt.want)
			}
			if h.made["0.b0.0"] != tt.calls {
				t.Errorf("the call was made %d times, want %d", h.made["0.b0.0"], tt.calls)
			}
		})
	}
}

// A connection that is lost during a call leaves its outcome unknown.
func TestAnUnknownOutcomeIsToldAndEndsRetry(t *testing.T) {
	for _, tt := range []struct {
		name, src, want string
		calls           int
	}{
		{"try_call_tool", `def run(p): return try_call_tool("pay").kind`, `"unknown"`, 1},
		{"retry of try_call_tool", `def run(p): return retry(lambda: try_call_tool("pay"), delay=0).kind`, `"unknown"`, 1},
		{"retry of call_tool", `def run(p): return retry(lambda: call_tool("pay"), delay=0)`, "in doubt", 1},
		{"call_tool", `def run(p): return call_tool("pay")`, "in doubt", 1},
		{"hidden by the function that is retried", `
def pay():
    if not try_call_tool("pay").ok:
        fail("no")

def run(p): return retry(pay, delay=0)`, `test.star:4:13: fail: no`, 1},
		{"hidden by a branch", `
def pay():
    parallel([lambda: try_call_tool("pay"), lambda: 1])
    fail("no")

def run(p): return retry(pay, delay=0)`, `test.star:4:9: fail: no`, 1},
		{"retry of what may be repeated", `def run(p): return retry(lambda: call_tool("get"), delay=0)`, `test.star:1:43: retry: gave up after 3 attempts: call_tool("get"): reset: whether it happened is not known`, 3},
		{"a call that may be repeated", `def run(p): return [try_call_tool("get").kind, call_tool("get")]`, `test.star:1:57: call_tool("get"): reset: whether it happened is not known`, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("reset") }
			h := counting(map[string]scripttest.Tool{"pay": lost, "get": lost})
			d := newDurable(t, tt.src, h)
			d.options.Repeat = func(e script.Effect) script.Repeat {
				return map[string]script.Repeat{"get": script.Idempotent}[e.Name]
			}
			for i := range 3 {
				res, err := d.run(t.Context())
				var s *script.Suspended
				if errors.As(err, &s) && len(s.Doubts) == 1 && tt.want == "in doubt" {
					continue
				}
				if got := outcome(res, err); got != tt.want {
					t.Fatalf("run %d: got %s, want %s", i, got, tt.want)
				}
				if tt.name == "a call that may be repeated" { // its last failure is an accident
					break
				}
			}
			if n := len(h.Calls()); n != tt.calls {
				t.Errorf("%d calls were made, want %d", n, tt.calls)
			}
		})
	}
}

// TestUndecided: whether a call may be repeated is known only once its peer is. The run is killed at each write of its
// journal: a call that has not begun is made, and one that may have been made is repeated only if that was decided.
func TestUndecided(t *testing.T) {
	doubts := 0
	for _, how := range []script.Repeat{script.Once, script.Idempotent, script.ReadOnly} {
		for at := range 5 {
			for _, lost := range []bool{false, true} {
				sent := map[string]int{}
				h := &scripttest.Host{Tools: map[string]scripttest.Tool{"pay": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
					if err := script.Decide(ctx, func() script.Repeat { return how }); err != nil {
						return nil, err
					}
					sent[string(args)]++
					return scripttest.Echo(ctx, args)
				}}}
				d := newDurable(t, `def run(p): return [call_tool("pay", {"n": n})["n"] for n in range(2)]`, h)
				d.options.Repeat = func(script.Effect) script.Repeat { return script.Undecided }
				d.killed(t, at+1, lost)
				res, err := d.run(t.Context())
				if s := new(script.Suspended); errors.As(err, &s) && len(s.Doubts) == 1 && how == script.Once {
					doubts++
					d.resolve(t, s.Doubts[0].Key, `{"n": `+s.Doubts[0].Key+`}`, "")
					res, err = d.run(t.Context())
				}
				if got := outcome(res, err); got != "[0,1]" {
					t.Errorf("%v, killed at write %d: %s", how, at+1, got)
				}
				for args, n := range sent {
					if n > 1 && how == script.Once {
						t.Errorf("killed at write %d: the call with %s was sent %d times", at+1, args, n)
					}
				}
			}
		}
	}
	if doubts == 0 {
		t.Error("no run was in doubt")
	}
}

func TestARunWithoutAJournalFailsInDoubt(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"pay": func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, errors.New("reset")
	}}}
	_, err := scripttest.Run(t, h, `def run(p): return call_tool("pay")`, "")
	var interrupted *script.Interrupted
	if !errors.As(err, &interrupted) || interrupted.Doubts[0].Name != "pay" {
		t.Errorf("got %v, want Interrupted", err)
	}
}

// TestNestedRunsWriteIntoTheJournalOfTheirCaller: their effects are not repeated, and their questions and doubts are
// those of the whole run.
func TestNestedRunsWriteIntoTheJournalOfTheirCaller(t *testing.T) {
	lost := true
	h := counting(map[string]scripttest.Tool{
		"pay": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			if lost {
				return nil, errors.New("reset")
			}
			return scripttest.Echo(ctx, args)
		},
		"note": scripttest.Echo,
	})
	h.Answer = scripttest.Later
	h.Tools["inner"] = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		res, err := scripttest.Compile(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(params):
    call_tool("note", {})
    answer = elicit("sure?", FORM).content["v"]
    return [answer, parallel(lambda n: call_tool("pay", {"n": n})["n"], [1, 2])]
`).Run(ctx, script.RunOptions{Args: args, Host: h})
		if err != nil {
			return nil, err
		}
		return scripttest.Structured(string(res.Structured)), nil
	}
	d := newDurable(t, `
def run(params):
    call_tool("note", {})
    return try_call_tool("inner").output
`, h)
	d.options.Repeat = func(e script.Effect) script.Repeat {
		return map[string]script.Repeat{"inner": script.ReadOnly}[e.Name]
	}
	if s := d.waits(t); len(s.Questions) != 1 || s.Questions[0].Key != "1/1" {
		t.Fatalf("waits for %+v, want the question at 1/1", s)
	}
	h.Answer = scripttest.Accept(`{"v": "yes"}`)
	s := d.waits(t)
	if len(s.Doubts) != 2 || s.Doubts[0].Key != "1/2.b0.0" || s.Doubts[1].Key != "1/2.b1.0" {
		t.Fatalf("waits for %+v, want two doubts below 1/2", s)
	}
	lost = false
	d.resolve(t, "1/2.b0.0", `{"n": 7}`, "")
	d.resolve(t, "1/2.b1.0", "", "")
	d.ends(t, `["yes",[7,2]]`)
	d.ends(t, `["yes",[7,2]]`)
	for key, n := range map[string]int{"0": 1, "1/0": 1, "1/2.b0.0": 1, "1/2.b1.0": 2} {
		if h.made[key] != n {
			t.Errorf("the call at %s was made %d times, want %d", key, h.made[key], n)
		}
	}
}

func TestASleepOfAnyLengthEndsWhenItWasToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scripttest.Host{Answer: scripttest.Later}
		d := newDurable(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(params):
    began = time.now()
    parallel([lambda: sleep("2d"), lambda: sleep("5s"), lambda: sleep("1d12h")])
    answer = elicit("sure?", FORM, timeout="3d")
    return [str(time.now() - began), answer.content["v"]]
`, h)
		d.options.Hold = holding(10 * time.Second)
		d.options.Limits.ElicitTimeout = script.Duration(72 * time.Hour)
		began := time.Now()
		s := d.waits(t)
		if got := s.Wake.Sub(began); got != 36*time.Hour || time.Since(began) != 5*time.Second {
			t.Fatalf("wakes after %s, and slept here for %s; want 36h0m0s and 5s", got, time.Since(began))
		}
		d.killed(t, 1, true)
		time.Sleep(time.Until(s.Wake) - time.Second) // within hold
		if s = d.waits(t); s.Wake.Sub(began) != 48*time.Hour {
			t.Fatalf("wakes after %s, want 48h", s.Wake.Sub(began))
		}
		time.Sleep(48 * time.Hour)
		asked := time.Now()
		if s = d.waits(t); len(s.Questions) != 1 || s.Questions[0].Deadline.Sub(asked) != 72*time.Hour || !s.Wake.Equal(s.Questions[0].Deadline) {
			t.Fatalf("waits for %+v, want an answer within three days", s)
		}
		time.Sleep(71 * time.Hour)
		if again := d.waits(t); !again.Questions[0].Deadline.Equal(s.Questions[0].Deadline) {
			t.Errorf("the deadline of the question has moved from %s to %s", s.Questions[0].Deadline, again.Questions[0].Deadline)
		}
		h.Answer = scripttest.Accept(`{"v": "x"}`)
		d.ends(t, fmt.Sprintf(`["%s","x"]`, time.Since(began)))
	})
}

func TestAQuestionIsOpenUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scripttest.Host{Answer: scripttest.Later}
		d := newDurable(t, `def run(params): return elicit("sure?", {"type": "object", "properties": {}}, timeout="1h").action`, h)
		d.options.Limits.ElicitTimeout = script.Duration(time.Hour)
		d.waits(t)
		time.Sleep(59 * time.Minute)
		d.waits(t)
		time.Sleep(time.Minute)
		d.ends(t, `test.star:1:31: elicit: no answer within 1h0m0s`)
	})
}

// A paused run ends the effects in progress, and begins none.
func TestAPausedRunBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := make(chan struct{})
		h := counting(map[string]scripttest.Tool{"a": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Second)
			close(pause)
			time.Sleep(time.Second)
			return scripttest.Echo(ctx, args)
		}, "b": scripttest.Echo})
		d := newDurable(t, `
def one(n):
    sleep("20m") if n else call_tool("a")
    return call_tool("b", {"n": n})["n"]

def run(params):
    return parallel(one, [0, 1])
`, h)
		d.options.Pause = pause
		began := time.Now()
		s := d.waits(t)
		if !s.Paused || len(h.Calls()) != 1 || s.Wake.Sub(began) != 20*time.Minute || time.Since(began) != 2*time.Second {
			t.Fatalf("waits for %+v with calls %v after %s, want a pause after one and 2s", s, h.Calls(), time.Since(began))
		}
		d.options.Pause = nil
		d.ends(t, "[0,1]")
		if time.Since(began) != 20*time.Minute || len(h.Calls()) != 3 {
			t.Errorf("ended after %s and %d calls, want 20m0s and 3", time.Since(began), len(h.Calls()))
		}
	})
}

// In a run that is paused or drained, the answer to a call is lost, or the call cannot be made. If it may be repeated,
// or was not performed, the resumed run performs it, and the script does not see a failure. Otherwise it is in doubt.
func TestAnAnswerThatIsLostInAPausedRun(t *testing.T) {
	lost, away := errors.New("closed"), &builtins.ToolError{Kind: builtins.Unavailable, Msg: "down"}
	for _, tt := range []struct {
		name, src, want string
		err             error
		drain           bool
		calls           int // after which the run stops
	}{
		{"idempotent", `def run(p): return call_tool("get", {"n": 1})["n"]`, "1", lost, false, 1},
		{"read only", `def run(p): return call_tool("see", {"n": 1})["n"]`, "1", lost, false, 1},
		{"told", `def run(p): return try_call_tool("get", {"n": 1}).output["n"]`, "1", lost, false, 1},
		{"retried", `def run(p): return retry(lambda: call_tool("get", {"n": 1}), delay=0)["n"]`, "1", lost, false, 1},
		{"in a branch", `def run(p): return parallel([lambda: call_tool("get", {"n": 1})["n"], lambda: 2])`, "[1,2]", lost, false, 1},
		{"not repeatable", `def run(p): return call_tool("pay", {"n": 1})["n"]`, "in doubt", lost, false, 1},
		{"not done", `def run(p): return call_tool("pay", {"n": 1})["n"]`, "1", away, false, 1},
		{"the process ends", `def run(p): return call_tool("get", {"n": 1})["n"]`, "1", lost, true, 2},
		{"the process ends, not repeatable", `def run(p): return call_tool("pay", {"n": 1})["n"]`, "in doubt", lost, true, 1},
		{"the process ends, not done", `def run(p): return call_tool("pay", {"n": 1})["n"]`, "1", away, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stop, calls := make(chan struct{}), 0
			lost := func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				if calls++; calls > tt.calls {
					return scripttest.Echo(ctx, args)
				}
				if calls == 1 {
					close(stop)
				}
				return nil, tt.err
			}
			d := newDurable(t, tt.src, counting(map[string]scripttest.Tool{"get": lost, "see": lost, "pay": lost}))
			if d.options.Pause = stop; tt.drain {
				d.options.Pause, d.options.Drain = nil, stop
			}
			d.options.Repeat = func(e script.Effect) script.Repeat {
				return map[string]script.Repeat{"get": script.Idempotent, "see": script.ReadOnly}[e.Name]
			}
			s := d.waits(t)
			if tt.want == "in doubt" {
				if len(s.Doubts) != 1 {
					t.Fatalf("waits for %+v, want a doubt", s)
				}
				return
			}
			if !s.Paused || len(s.Doubts) != 0 || calls != tt.calls {
				t.Fatalf("waits for %+v behind %d calls, want a pause behind %d", s, calls, tt.calls)
			}
			d.options.Pause, d.options.Drain = nil, nil
			d.ends(t, tt.want)
			if calls != tt.calls+1 {
				t.Errorf("the call was made %d times, want %d", calls, tt.calls+1)
			}
		})
	}
}

// failing is a journal that cannot be written at first.
type failing struct {
	*script.Memory
	down   bool
	writes int
	closed bool
}

func (j *failing) Begin(ctx context.Context, e script.Entry) error {
	if j.down {
		j.writes++
		return errors.New("disk full")
	}
	return j.Memory.Begin(ctx, e)
}

func (j *failing) Record(e script.Entry) error {
	if j.down {
		j.writes++
		return errors.New("disk full")
	}
	return j.Memory.Record(e)
}

func (j *failing) Close() error {
	j.closed = true
	return j.Memory.Close()
}

func TestARunWhoseJournalFailsWritesNothingMore(t *testing.T) {
	j := &failing{Memory: script.NewJournal()}
	h := counting(map[string]scripttest.Tool{"a": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		j.down = true
		return scripttest.Echo(ctx, args)
	}, "b": scripttest.Echo})
	p := scripttest.Compile(t, `
def run(params):
    retry(lambda: parallel([lambda: call_tool("a"), lambda: [log("x"), call_tool("b")]]), delay=0)
    call_tool("b")
`)
	_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Limits: script.Limits{Parallel: 1}})
	var failed *script.JournalError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "journal: disk full") {
		t.Errorf("got %v, want the journal's error", err)
	}
	if !j.closed || j.writes != 1 || len(h.Calls()) != 1 {
		t.Errorf("closed: %v, after %d attempts to write and %d calls; want true, after one each", j.closed, j.writes, len(h.Calls()))
	}
}

// An entry has all that is known of its effect: times, arguments, number of attempts, and what may be done with it.
func TestEntriesSayWhatHappenedAndWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{"slow": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Second)
			return scripttest.Echo(ctx, args)
		}}}
		var keys []string
		d := newDurable(t, `def run(params): return [call_tool("slow", {"n": n})["n"] for n in range(2)]`, h)
		d.options.Repeat = func(e script.Effect) script.Repeat { return script.Idempotent }
		began := time.Now()
		d.killed(t, 3, false) // in the middle of the second call
		time.Sleep(time.Minute)
		var replayed []script.Event
		d.options.Trace = func(e script.Event) { replayed = append(replayed, e) }
		d.ends(t, `[0,1]`)
		if e := replayed[0]; !e.Replayed || !e.Start.Equal(began) || e.Duration != time.Second {
			t.Errorf("the replayed effect began at %s and took %s, want %s and 1s", e.Start, e.Duration, began)
		}
		for i, e := range d.entries(t) {
			keys = append(keys, e.Key)
			if want := (script.Entry{Key: e.Key, Kind: "call", Digest: e.Digest, Name: "slow", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), Done: true,
				Switch: true, Repeatable: true, Attempt: 1 + i, Result: e.Result, Began: e.Began, Ended: e.Began.Add(time.Second), Awake: time.Duration(1+i) * time.Second}); fmt.Sprint(want) != fmt.Sprint(e) {
				t.Errorf("entry %d\n got %+v\nwant %+v", i, e, want)
			}
		}
		if !slices.Equal(keys, []string{"0", "1"}) {
			t.Errorf("entries %q", keys)
		}
	})
}

// A journal pins what its run is resumed with.
func TestAJournalPinsEngineAndLimits(t *testing.T) {
	d := newDurable(t, `def run(params): return time.now() and 1`, &scripttest.Host{})
	d.ends(t, "1")
	d.options.Limits.Calls = 5
	_, err := d.run(t.Context())
	if !errors.Is(err, script.ErrOtherRun) || !strings.Contains(err.Error(), "limits") {
		t.Errorf("other limits: %v", err)
	}
	now := script.Header{Engine: script.Engine}
	if err := (script.Header{Engine: 99}).Admit(now); err == nil || !strings.Contains(err.Error(), "version 99 of the script engine, and this is version 1") {
		t.Errorf("another engine: %v", err)
	}
}

// chaos asks, sleeps, retries, catches and calls another script, in nested branches.
const chaos = `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}
log_ = []

def pay(n):
    log_.append((n, call_tool("pay", {"n": n})["n"]))
    return n

def careful(n):
    r = try_call_tool("pay", {"n": n})
    log_.append((n, r.ok, r.kind))
    return retry(lambda: call_tool("get", {"n": n})["n"], max_attempts=4, delay="1s")

def work(n):
    pay(n)
    if n % 4 == 1:
        log_.append((n, elicit("go on?", FORM).content["v"]))
    if n % 4 == 2:
        sleep("1h")
    if n % 4 == 3:
        return call_tool("inner", {"n": n})["n"]
    return parallel(careful, [n + 100, n + 200]) + [len(log_)]

def some(ns):
    return caught(lambda: parallel(work, ns))

def run(params):
    return [parallel(some, [range(4), [5, 7, 9], [4, 6]], max_concurrency=2), pay(1000), log_]
`

// TestRunsThatAreKilledAtRandom kills runs at random writes, resolves their doubts in random ways, and answers their
// questions late: they never diverge, never repeat a call that may not be repeated unless that was allowed, and their
// end is final.
func TestRunsThatAreKilledAtRandom(t *testing.T) {
	names := builtins.All()
	names["caught"] = starlark.NewBuiltin("caught", caught)
	compile := func(src string) *script.Program {
		p, err := script.Compile(script.File{Name: "chaos.star", Source: []byte(src)}, script.Options{Builtins: names})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	outer := compile(chaos)
	inner := compile(`
def run(p):
    sleep("20s")
    return {"n": parallel(lambda n: call_tool("pay", {"n": n})["n"], [p["n"] + 300, p["n"] + 400])[0]}
`)
	seen := map[string]int{}
	for seed := range uint64(testmode.Count(12, 400)) {
		synctest.Test(t, func(t *testing.T) { killAtRandom(t, seed, outer, inner, seen) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, what := range []string{"killed", "in doubt", "asked", "slept", "repeated"} {
		if seen[what] == 0 {
			t.Errorf("no run was %s: the test tests nothing", what)
		}
	}
}

func killAtRandom(t *testing.T, seed uint64, outer, inner *script.Program, seen map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 5))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	shaky := func(lost int) scripttest.Tool {
		return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Duration(draw(1000)) * time.Millisecond)
			switch draw(lost) {
			case 0:
				return nil, errors.New("connection reset")
			case 1:
				return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "refused"}
			}
			return scripttest.Echo(ctx, args)
		}
	}
	c := &client{}
	h := counting(map[string]scripttest.Tool{"pay": shaky(40), "get": shaky(8)})
	h.Answer = c.answer
	d := &durable{program: outer, host: reached{h}, journal: script.NewJournal()}
	d.options.Hold = holding(time.Minute)
	d.options.Repeat = func(e script.Effect) script.Repeat {
		return map[string]script.Repeat{"get": script.Idempotent, "inner": script.ReadOnly}[e.Name]
	}
	h.Tools["inner"] = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		res, err := inner.Run(ctx, script.RunOptions{Args: args, Host: d.host, Repeat: d.options.Repeat})
		if err != nil {
			return nil, err
		}
		return scripttest.Structured(string(res.Structured)), nil
	}
	allowed := map[string]int{}
	for range 400 {
		if draw(3) > 0 {
			seen["killed"]++
			d.killed(t, 1+draw(20), draw(2) == 0)
			continue
		}
		res, err := d.run(t.Context())
		var s *script.Suspended
		if !errors.As(err, &s) {
			d.check(t, h, res, err, allowed, seen)
			return
		}
		for _, doubt := range s.Doubts {
			seen["in doubt"]++
			switch draw(4) {
			case 0:
				d.resolve(t, doubt.Key, string(doubt.Args), "")
			case 1:
				d.resolve(t, doubt.Key, "", "somebody says no")
			case 2:
				allowed[doubt.Key]++
				d.resolve(t, doubt.Key, "", "")
			}
		}
		if len(s.Questions) > 0 && draw(2) == 0 {
			seen["asked"]++
			c.reply(t, err)
		}
		if !s.Wake.IsZero() {
			seen["slept"]++
			time.Sleep(max(0, time.Until(s.Wake)-time.Duration(draw(80))*time.Second))
		}
	}
	t.Errorf("seed %d comes to no end", seed)
}

// reached is a host that does not count calls which reached no tool.
type reached struct{ *once }

func (h reached) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	raw, err := h.once.CallTool(ctx, name, args, o)
	var known *builtins.ToolError
	if errors.As(err, &known) && known.Kind == builtins.Unavailable {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.made[o.Key]--
	}
	return raw, err
}

// check checks how a run has ended, and that it ends so again.
func (d *durable) check(t *testing.T, h *once, res *script.Result, err error, allowed, seen map[string]int) {
	if errors.As(err, new(*script.Diverged)) || errors.As(err, new(*script.Crash)) {
		t.Error(err)
	}
	for _, e := range d.entries(t) {
		n := h.made[e.Key]
		if n > 1 {
			seen["repeated"]++
		}
		if n > 1+allowed[e.Key] && !e.Repeatable {
			t.Errorf("the call of %s at %s was made %d times, allowed were %d", e.Name, e.Key, n, 1+allowed[e.Key])
		}
	}
	clear(h.made)
	if again, over := d.run(t.Context()); err == nil && (over != nil || string(again.Structured) != string(res.Structured) || len(h.made) > 0) {
		t.Errorf("again, with %d calls\n got %s\nwant %s", len(h.made), outcome(again, over), res.Structured)
	}
}

// A failure that no builtin catches may be an accident, which is not recorded: the parallel() that it ends is not
// recorded either, since the process may die before the run has failed.
func TestAnAccidentInABranchIsMetAnewAfterADeath(t *testing.T) {
	down := true
	h := counting(map[string]scripttest.Tool{"pay": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if down {
			return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "refused"}
		}
		return scripttest.Echo(ctx, args)
	}})
	// A call of the other branch would be cut off by the failure at times, and be in doubt.
	d := newDurable(t, `def run(params): return parallel(lambda n: call_tool("pay", {"n": n})["n"] if n == 1 else n, [1, 2])`, h)
	if _, err := d.run(t.Context()); err == nil { // as if the process died before it wrote that the run had failed
		t.Fatal("the run went well")
	}
	down = false
	d.ends(t, "[1,2]")
}

// holding is a Hold of one length.
func holding(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
