package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
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
)

// client answers questions between requests, like a client of MCP 2026-07-28.
type client struct {
	mu      sync.Mutex
	answers map[string]string // by key
}

func (c *client) answer(ctx context.Context, q script.Question) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.answers[q.Key]; ok {
		return json.RawMessage(`{"action":"accept","content":{"v":"` + a + `"}}`), nil
	}
	return scripttest.Later(ctx, q)
}

// reply answers all the questions of a suspended run, each with its own key.
func (c *client) reply(t *testing.T, err error) (asked []string) {
	t.Helper()
	var s *script.Suspended
	if !errors.As(err, &s) {
		t.Fatalf("the run did not stop to ask: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers = map[string]string{}
	}
	for _, q := range s.Questions {
		asked = append(asked, q.Key)
		c.answers[q.Key] = q.Key
	}
	return asked
}

const asksFourTimes = `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def ask(text):
    return elicit(text, FORM).content["v"]

def charge(who):
    call_tool("charge", {"who": who})
    return [who, ask("sure, " + who + "?"), call_tool("charge", {"who": who + " again"})["who"]]

def run(params):
    call_tool("charge", {"who": "first"})
    a = ask("one?")
    call_tool("charge", {"who": "second"})
    b = ask("two?")
    return [a, b, parallel(charge, ["left", "right"])]
`

func charges(h *scripttest.Host) []string {
	var who []string
	for _, c := range h.Calls() {
		var args struct{ Who string }
		_ = json.Unmarshal([]byte(c.Args), &args)
		who = append(who, args.Who)
	}
	slices.Sort(who)
	return who
}

func TestARunGoesOnWhereItStoppedAndRepeatsNothing(t *testing.T) {
	c := &client{}
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"charge": scripttest.Echo}, Answer: c.answer}
	p := scripttest.Compile(t, asksFourTimes)
	j := script.NewJournal()
	run := func() (*script.Result, error) {
		return p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
	}
	for _, want := range [][]string{{"1"}, {"3"}, {"4.b0.1", "4.b1.1"}} {
		_, err := run()
		if got := c.reply(t, err); !slices.Equal(got, want) {
			t.Fatalf("asked %q, want %q", got, want)
		}
	}
	const want = `["1","3",[["left","4.b0.1","left again"],["right","4.b1.1","right again"]]]`
	for range 3 { // the finished run answers again and again
		res, err := run()
		if err != nil || string(res.Structured) != want {
			t.Fatalf("got %v, %v\nwant %s", res, err, want)
		}
	}
	if got, want := charges(h), []string{"first", "left", "left again", "right", "right again", "second"}; !slices.Equal(got, want) {
		t.Errorf("charged %q, want each once: %q", got, want)
	}
}

func TestTheSameStateSentManyTimesAtOnceIsOneRun(t *testing.T) {
	c := &client{}
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"charge": scripttest.Echo}, Answer: c.answer}
	p := scripttest.Compile(t, asksFourTimes)
	j := script.NewJournal()
	for round := range 4 {
		errs := make(chan error, 8)
		for range 8 {
			go func() {
				_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
				errs <- err
			}()
		}
		var last error
		for range 8 {
			err := <-errs
			if last != nil && err.Error() != last.Error() {
				t.Errorf("round %d: %v and %v", round, err, last)
			}
			last = err
		}
		if round < 3 {
			c.reply(t, last)
		}
	}
	if got := charges(h); len(got) != 6 {
		t.Errorf("charged %q, want 6 times", got)
	}
}

// What a script has seen is in the journal, results and caught failures.
func TestCaughtFailuresAreAnswers(t *testing.T) {
	c := &client{}
	h := &scripttest.Host{Answer: c.answer}
	up := false
	h.Tools = map[string]scripttest.Tool{
		"charge": scripttest.Echo,
		"shaky": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if up {
				return scripttest.Structured(`"up"`), nil
			}
			return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "down"}
		},
		"refuse": scripttest.Fails("no"),
	}
	p := scripttest.Compile(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(params):
    seen = []
    def attempt():
        seen.append(len(seen))
        if len(seen) < 3:
            call_tool("shaky")
        return len(seen)
    out = [try_call_tool("shaky").kind, try_call_tool("refuse").kind, retry(attempt, delay=0)]
    elicit("go on?", FORM)
    return out + [call_tool("shaky")]
`)
	j := script.NewJournal()
	_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
	c.reply(t, err)
	before := len(h.Calls())
	up = true
	res, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
	const want = `["unavailable","tool",3,"up"]`
	if err != nil || string(res.Structured) != want {
		t.Errorf("got %v, %v\nwant %s", res, err, want)
	}
	if n := len(h.Calls()) - before; n != 1 {
		t.Errorf("the resumed run made %d calls, want the last one only", n)
	}
	if res.Stats.Replayed == 0 {
		t.Error("Stats.Replayed is 0")
	}
}

func TestWhatTheJournalKnowsOfACallThatGotNoAnswer(t *testing.T) {
	lost := errors.New("connection reset")
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"surely not executed: called again", `"done"`, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "refused"}},
		{"the tool said no: says no again", `test.star:1:29: call_tool("pay"): no money`, &builtins.ToolError{Kind: builtins.Tool, Msg: "no money"}},
		{"perhaps executed: not called again", `suspended: test.star:1:29: call "pay" (effect 0): no answer was received: whether it happened is not known, so it is not repeated`, lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"pay": func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return scripttest.Structured(`"done"`), err
			}}}
			p := scripttest.Compile(t, `def run(p): return call_tool("pay")`)
			j := script.NewJournal()
			if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j}); err == nil {
				t.Fatal("the first run went well")
			}
			err = nil
			if got := outcome(p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})); got != tt.want {
				t.Errorf("second run\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func outcome(res *script.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(res.Structured)
}

func TestAJournalServesOneProgramAndOneSetOfArguments(t *testing.T) {
	h := &scripttest.Host{}
	j := script.NewJournal()
	p := scripttest.Compile(t, `def run(p): return time.now() and 1`)
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j}); err != nil {
		t.Fatal(err)
	}
	edited := scripttest.Compile(t, `def run(p): return time.now() and 2`)
	if _, err := edited.Run(t.Context(), script.RunOptions{Host: h, Journal: j}); !errors.Is(err, script.ErrOtherRun) {
		t.Errorf("another program: %v", err)
	}
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Args: json.RawMessage(`{"a":1}`)}); !errors.Is(err, script.ErrOtherRun) {
		t.Errorf("other arguments: %v", err)
	}
}

func TestTimeAndJitterAreReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{}
		h := &scripttest.Host{Answer: c.answer}
		p := scripttest.Compile(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(p):
    t = time.now()
    sleep("10m")
    elicit("?", FORM)
    return str(t)
`)
		j := script.NewJournal()
		_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
		c.reply(t, err)
		began := time.Now()
		res, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) != 0 {
			t.Errorf("the resumed run slept for %s", time.Since(began))
		}
		if want := began.Add(-10 * time.Minute).UTC().Format(time.RFC3339Nano); string(res.Structured) != `"`+want+`"` {
			t.Errorf("the resumed run began at %s, want %s", res.Structured, want)
		}
	})
}

// busy records the order of its effects, over branches that fail, nest and are retried: whatever the order of the
// host's answers, the journal reproduces it.
const busy = `
log_ = []

def work(n):
    for i in range(3):
        log_.append((n, i, call_tool("echo", {"n": n, "i": i})["i"]))
    if n % 4 == 3:
        log_.append(parallel(lambda m: call_tool("echo", {"m": m})["m"] + len(log_), [1, 2, 3]))
    return len(log_)

def risky(n):
    log_.append(("risky", n))
    r = try_call_tool("sometimes", {"n": n})
    log_.append((n, r.ok))
    if not r.ok and n > 2:
        fail("no")
    call_tool("echo", {"n": n})
    return n

def brave():
    return parallel(risky, range(5))

def cautious():
    out = caught(brave)
    log_.append(("cautious", out))
    return out

def run(params):
    out = parallel([
        lambda: parallel(work, range(8), max_concurrency=3),
        lambda: [retry(brave, max_attempts=20, delay=0), len(log_)],
        lambda: [work(n) for n in range(3)],
        lambda: [cautious() for n in range(3)],
    ])
    return [out, log_]
`

// caught(fn) calls fn and returns None when it fails.
func caught(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	run := script.RunOf(t)
	defer run.Catching(t)()
	v, err := run.Call(t, args[0], nil, nil)
	if err != nil && !script.Final(err) {
		return starlark.None, nil
	}
	return v, err
}

func TestReplayGoesTheSameWayWhateverTheOrderWas(t *testing.T) {
	names := builtins.All()
	names["caught"] = starlark.NewBuiltin("caught", caught)
	p, err := script.Compile(script.File{Name: "busy.star", Source: []byte(busy)}, script.Options{Builtins: names})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(testmode.Count(15, 40)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(n)
		}
		slow := func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			select {
			case <-time.After(time.Duration(draw(1000)) * time.Millisecond):
				return scripttest.Echo(ctx, args)
			case <-ctx.Done():
				time.Sleep(time.Duration(draw(1000)) * time.Millisecond) // takes its time to end
				if draw(2) == 0 {                                        // and answers anyway
					return scripttest.Echo(ctx, args)
				}
				return nil, context.Cause(ctx)
			}
		}
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": slow,
			"sometimes": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				res, err := slow(ctx, args)
				if err == nil && draw(3) == 0 {
					return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "down"}
				}
				return res, err
			}}}
		width := script.Limits{Parallel: 1 + int(seed%10)}
		j := script.NewJournal()
		var want *script.Result
		synctest.Test(t, func(t *testing.T) {
			var err error
			if want, err = p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Limits: width}); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, err.(*script.Error).Backtrace)
			}
		})
		nobody := &scripttest.Host{}
		for range 3 {
			got, err := p.Run(t.Context(), script.RunOptions{Host: nobody, Journal: j, Limits: width})
			if err != nil {
				t.Fatalf("seed %d: replay: %v", seed, err)
			}
			if string(got.Structured) != string(want.Structured) || got.Stats.Steps != want.Stats.Steps {
				t.Fatalf("seed %d: replay\n got %s, %d steps\nwant %s, %d steps", seed,
					got.Structured, got.Stats.Steps, want.Structured, want.Stats.Steps)
			}
		}
		if n := len(nobody.Calls()); n != 0 {
			t.Fatalf("seed %d: the replay made %d calls", seed, n)
		}
	}
}

func TestManyRunsAtOnceCancelledAtRandom(t *testing.T) {
	before := runtime.NumGoroutine()
	p := scripttest.Compile(t, `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def one(n):
    call_tool("echo", {"n": n})
    if n % 5 == 4:
        return elicit("go on?", FORM, when_unavailable="cancel").action
    return parallel(lambda m: call_tool("wait", {"m": m}), range(3))

def run(params):
    return parallel(one, range(10))
`)
	var runs sync.WaitGroup
	for i := range testmode.Count(60, 200) {
		runs.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calls := rng.IntN(60)
			var mu sync.Mutex
			wait := func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				mu.Lock()
				calls--
				if calls == 0 {
					cancel()
				}
				mu.Unlock()
				runtime.Gosched()
				return scripttest.Echo(ctx, args)
			}
			c := &client{}
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": wait, "wait": wait}, Answer: c.answer}
			o := script.RunOptions{Host: h, Journal: script.NewJournal()}
			for range 2 {
				_, err := p.Run(ctx, o)
				var (
					suspended *script.Suspended
					cancelled *script.Cancelled
				)
				if errors.As(err, &suspended) {
					c.reply(t, err)
					continue
				}
				if err != nil && !errors.As(err, &cancelled) && !strings.Contains(err.Error(), "canceled") {
					t.Errorf("run %d: %v", i, err)
				}
			}
		})
	}
	runs.Wait()
	if after := settledGoroutines(before); after > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

// settledGoroutines counts goroutines, after waiting for those that are about to end.
func settledGoroutines(want int) int {
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > want && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	return runtime.NumGoroutine()
}

// A builtin that has changed breaks the promise that replay relies on.
func TestARunThatDoesSomethingElseIsStopped(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"another tool", `
def run(p):
    call_tool("a" if fickle() else "b")
`, `diverged from its journal at 0: does call "b", the journal has another call`},
		{"another kind", `
def run(p):
    call_tool("a") if fickle() else sleep(1)
`, `diverged from its journal at 0: does sleep "1s", the journal has another call`},
		{"something less", `
def run(p):
    if fickle():
        call_tool("a")
    parallel([lambda: call_tool("a")])
    call_tool("b")
`, `diverged from its journal at 0`},
		{"another branch", `
def run(p):
    x = fickle()
    parallel([lambda: call_tool("a") if x else 1, lambda: call_tool("b")])
    call_tool("b")
`, `diverged from its journal at 0.b0.0: does something else, the journal has an effect`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := starlark.True
			names := builtins.All()
			names["fickle"] = starlark.NewBuiltin("fickle", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
				return answer, nil
			})
			p, err := script.Compile(script.File{Name: "s.star", Source: []byte(tt.src)}, script.Options{Builtins: names})
			if err != nil {
				t.Fatal(err)
			}
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"a": scripttest.Echo, "b": scripttest.Echo}}
			o := script.RunOptions{Host: h, Journal: script.NewJournal()}
			if _, err := p.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			answer = starlark.False
			_, err = p.Run(t.Context(), o)
			var diverged *script.Diverged
			if !errors.As(err, &diverged) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestARunGoesOnOverAConnectionOfAnotherKind(t *testing.T) {
	p := scripttest.Compile(t, asksFourTimes)
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"charge": scripttest.Echo}, Answer: scripttest.Later}
	j := script.NewJournal()
	var suspended *script.Suspended
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j}); !errors.As(err, &suspended) {
		t.Fatal(err)
	}
	h.Answer = scripttest.Accept(`{"v": "now"}`)
	res, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
	const want = `["now","now",[["left","now","left again"],["right","now","right again"]]]`
	if err != nil || string(res.Structured) != want {
		t.Errorf("got %v, %v\nwant %s", res, err, want)
	}
	if got := charges(h); len(got) != 6 {
		t.Errorf("charged %q, want each once", got)
	}
}

// once is a host that notices when a call is made a second time.
type once struct {
	*scripttest.Host
	mu   sync.Mutex
	made map[string]int // by position
}

func (o *once) CallTool(ctx context.Context, name string, args json.RawMessage, opts builtins.CallOptions) (json.RawMessage, error) {
	o.mu.Lock()
	o.made[opts.Key]++
	o.mu.Unlock()
	return o.Host.CallTool(ctx, name, args, opts)
}

const busyAsking = `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}
log_ = []

def work(n):
    log_.append((n, call_tool("sometimes", {"n": n})["n"]))
    if n % 3 == 1:
        log_.append((n, elicit("go on?", FORM).content["v"]))
    log_.append((n, call_tool("sometimes", {"n": n})["n"]))
    return len(log_)

def all(ns):
    return caught(lambda: parallel(work, ns))

def run(params):
    return [parallel(all, [range(4), [5, 7, 9], [4]], max_concurrency=2), elicit("sure?", FORM).content["v"], log_]
`

// askedAndAnswered runs busyAsking to its end over one journal, in as many rounds as needed. With cuts, rounds are
// cancelled at random moments. It returns the last outcome.
func askedAndAnswered(t *testing.T, p *script.Program, seed uint64, cuts bool, repeat func(script.Effect) script.Repeat) (h *once, o script.RunOptions, res *script.Result, err error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	c := &client{}
	h = &once{made: map[string]int{}, Host: &scripttest.Host{Answer: c.answer}}
	h.Tools = map[string]scripttest.Tool{"sometimes": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		time.Sleep(time.Duration(draw(1000)) * time.Millisecond) // ignores that it is cancelled
		if draw(8) == 0 {
			return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: "too late"}
		}
		if draw(8) == 0 && cuts {
			return nil, errors.New("connection reset")
		}
		return scripttest.Echo(ctx, args)
	}}
	o = script.RunOptions{Host: h, Journal: script.NewJournal(), Repeat: repeat}
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		if cuts {
			time.AfterFunc(time.Duration(draw(5000))*time.Millisecond, cancel)
		}
		res, err = p.Run(ctx, o)
		cancel()
		var (
			suspended *script.Suspended
			cancelled *script.Cancelled
		)
		switch {
		case errors.As(err, &suspended) && len(suspended.Doubts) > 0 && len(suspended.Questions) == 0:
			return h, o, res, err
		case errors.As(err, &suspended):
			c.reply(t, err)
		case !errors.As(err, &cancelled):
			return h, o, res, err
		}
	}
	t.Fatalf("seed %d: comes to no end: %v", seed, err)
	return
}

func compileBusyAsking(t *testing.T) *script.Program {
	names := builtins.All()
	names["caught"] = starlark.NewBuiltin("caught", caught)
	p, err := script.Compile(script.File{Name: "busy.star", Source: []byte(busyAsking)}, script.Options{Builtins: names})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (o *once) check(t *testing.T, seed uint64) {
	t.Helper()
	for key, n := range o.made {
		if n > 1 {
			t.Errorf("seed %d: the call at %s was made %d times", seed, key, n)
		}
	}
}

func TestRoundsOfQuestionsRepeatNoCall(t *testing.T) {
	p := compileBusyAsking(t)
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			h, o, first, err := askedAndAnswered(t, p, seed, false, nil)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			h.check(t, seed)
			again, err := p.Run(t.Context(), o)
			if err != nil || string(again.Structured) != string(first.Structured) {
				t.Errorf("seed %d: again\n got %v, %v\nwant %s", seed, again, err, first.Structured)
			}
		})
	}
}

// Where calls may be repeated, an interrupted run is resumed, and recorded answers stay.
func TestRunsThatAreCutOffRepeatWhatTheyMay(t *testing.T) {
	p := compileBusyAsking(t)
	repeated := 0
	for seed := range uint64(80) {
		synctest.Test(t, func(t *testing.T) {
			h, o, first, err := askedAndAnswered(t, p, seed, true, func(script.Effect) script.Repeat { return script.Idempotent })
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			for _, n := range h.made {
				repeated += n - 1
			}
			clear(h.made)
			again, err := p.Run(t.Context(), o)
			if err != nil || string(again.Structured) != string(first.Structured) || len(h.made) > 0 {
				t.Errorf("seed %d: again, with %d calls\n got %v, %v\nwant %s", seed, len(h.made), again, err, first.Structured)
			}
		})
	}
	if repeated == 0 {
		t.Error("nothing was repeated: the test tests nothing")
	}
}

// However often a run is interrupted, it makes no call twice. It may end in doubt.
func TestRunsThatAreCutOffRepeatNoCall(t *testing.T) {
	p := compileBusyAsking(t)
	ends := map[string]int{}
	for seed := range uint64(80) {
		synctest.Test(t, func(t *testing.T) {
			h, _, _, err := askedAndAnswered(t, p, seed, true, nil)
			h.check(t, seed)
			switch {
			case err == nil:
				ends["done"]++
			case errors.As(err, new(*script.Suspended)):
				ends["in doubt"]++
			default:
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	if ends["done"] == 0 || ends["in doubt"] == 0 {
		t.Errorf("only %v: the test tests nothing", ends)
	}
}
