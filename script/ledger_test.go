package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// runs is a tool that is a script, as in a server with scripted tools.
func runs(t testing.TB, h *scripttest.Host, src string, l script.Limits) scripttest.Tool {
	p := scripttest.Compile(t, src)
	return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		res, err := p.Run(ctx, script.RunOptions{Args: args, Host: h, Limits: l})
		if err != nil && ctx.Err() == nil {
			return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		return scripttest.Structured(string(res.Structured)), nil
	}
}

func limitOf(err error) string {
	var limit *script.LimitError
	if errors.As(err, &limit) {
		return limit.Limit
	}
	return fmt.Sprint(err)
}

// TestInnerRunsArePaidByTheirCaller: each inner run is within its own limits, but all together exceed those of the run
// that called them, two levels above.
func TestInnerRunsArePaidByTheirCaller(t *testing.T) {
	const middle = `def run(params): return [call_tool("inner") for i in range(5)]`
	const outer = `
def run(params):
    for i in range(5):
        try_call_tool("middle")
    parallel(lambda i: try_call_tool("middle"), range(5))
    # as much as an inner run needs is not left
    "x" * 4000000
    [i for i in range(35000)]
    log("x" * 6000)
    call_tool("nothing")
    parallel([lambda: 1] * 10)
`
	for _, tt := range []struct {
		limit, inner string
		limits       script.Limits
	}{
		{"steps", `def run(params): return [i for i in range(1000)][0]`, script.Limits{Steps: 90_000}},
		{"calls", `def run(params): return [call_tool("nothing") for i in range(3)]`, script.Limits{Calls: 60}},
		{"branches", `def run(params): return parallel([lambda: 1] * 3)`, script.Limits{Branches: 40}},
		{"logBytes", `def run(params): log("x" * 1000)`, script.Limits{LogBytes: 20_000}},
	} {
		t.Run(tt.limit, func(t *testing.T) {
			h := &scripttest.Host{}
			h.Tools = map[string]scripttest.Tool{
				"nothing": scripttest.Returns("{}"), "inner": runs(t, h, tt.inner, script.Limits{}), "middle": runs(t, h, middle, script.Limits{}),
			}
			if _, err := h.Tools["middle"](t.Context(), nil); err != nil {
				t.Fatalf("alone: %v", err)
			}
			var stats script.Stats
			_, err := scripttest.Compile(t, outer).Run(t.Context(), script.RunOptions{Host: h, Limits: tt.limits, Stats: &stats})
			if got := limitOf(err); got != tt.limit {
				t.Errorf("ended by %s, want %s", got, tt.limit)
			}
			if l := tt.limits; l.Memory > 0 && stats.Memory > int64(l.Memory) || l.Steps > 0 && stats.Steps > uint64(l.Steps) || l.Calls > 0 && stats.Calls > l.Calls {
				t.Errorf("used %+v of %+v", stats, l)
			}
		})
	}
}

// TestDepthCountsForTheWholeTree: functions and parallel() of an inner run are nested in those of its caller.
func TestDepthCountsForTheWholeTree(t *testing.T) {
	const deep = `
def down(n, f): return down(n - 1, f) if n else f()
def run(params): return down(60, lambda: call_tool("inner") if params.get("go") else 1)
`
	h := &scripttest.Host{}
	h.Tools = map[string]scripttest.Tool{"inner": runs(t, h, deep, script.Limits{})}
	outer := func(n int) string {
		return fmt.Sprintf("def down(n): return down(n - 1) if n else parallel([lambda: call_tool(\"inner\")])\ndef run(params): return down(%d)", n)
	}
	if _, err := scripttest.Run(t, h, outer(60), ""); err != nil {
		t.Errorf("60 and 60 deep: %v", err)
	}
	if _, err := scripttest.Run(t, h, outer(160), ""); err == nil || !strings.Contains(err.Error(), "callDepth") {
		t.Errorf("160 and 60 deep: got %v, want the limit on depth", err)
	}
	const nested = `
def down(n): return parallel([lambda: down(n - 1)]) if n else 1
def run(params): return down(5)
`
	h.Tools["inner"] = runs(t, h, nested, script.Limits{})
	_, err := scripttest.Run(t, h, strings.Replace(nested, "else 1", `else call_tool("inner")`, 1), "")
	if err == nil || !strings.Contains(err.Error(), "nesting") {
		t.Errorf("5 parallel() inside of 5: got %v, want the limit on nesting", err)
	}
}

// TestInnerRunsAreChargedWhileTheyRun: what inner runs hold at one time counts at that time, not when they end.
func TestInnerRunsAreChargedWhileTheyRun(t *testing.T) {
	h := &scripttest.Host{}
	stay := make(chan struct{})
	h.Tools = map[string]scripttest.Tool{
		"stay": func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case <-stay:
			case <-ctx.Done():
			}
			return scripttest.Structured("{}"), nil
		},
		"hold": runs(t, h, `
def run(params):
    keep = "x" * 10000000
    call_tool("stay")
`, script.Limits{}),
		"late": runs(t, h, `def run(params): return len("x" * 10000000)`, script.Limits{}),
	}
	const src = `
def last():
    sleep("100ms")
    return call_tool("late")
def run(params):
    return parallel([lambda: call_tool("hold")] * 3 + [last])
`
	_, err := scripttest.Compile(t, src).Run(t.Context(), script.RunOptions{Host: h, Limits: script.Limits{Memory: 35e6}})
	close(stay)
	if err == nil || !strings.Contains(err.Error(), "limit reached: memory") {
		t.Errorf("four runs of 10 MB with 35 MB: got %v", err)
	}
}

// TestReplayKnowsWhatInnerRunsUsed: a resumed run has the same usage as an uninterrupted one.
func TestReplayKnowsWhatInnerRunsUsed(t *testing.T) {
	const inner = `
def run(params):
    x = [i for i in range(1000)]
    log("hello")
    call_tool("nothing")
    if params.get("fail"):
        fail("no")
    return parallel([lambda: 1] * 3)
`
	const outer = `
def race(n):
    if n == 0:
        call_tool("until", {})
        fail("first")
    call_tool("inner")
    call_tool("hang")
def run(params):
    parallel(lambda i: try_call_tool("inner", {"fail": i == 1}).ok, range(4))
    try_call_tool("long")
    retry(lambda: parallel(race, range(3)) if params.get("x") else 1, max_attempts=2, delay=0)
    a = elicit("?", {"type": "object", "properties": {}}).action
    call_tool("inner")
    return a
`
	h := &scripttest.Host{Answer: scripttest.Accept("{}")}
	h.Tools = map[string]scripttest.Tool{
		"nothing": scripttest.Returns("{}"), "inner": runs(t, h, inner, script.Limits{}), "hang": scripttest.Hangs,
		"long": scripttest.Fails(strings.Repeat("x", 3e6)),
	}
	p := scripttest.Compile(t, outer)
	var whole, resumed script.Stats
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Stats: &whole}); err != nil {
		t.Fatal(err)
	}
	j := script.NewJournal()
	h.Answer = scripttest.Later
	_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j})
	var suspended *script.Suspended
	if !errors.As(err, &suspended) {
		t.Fatal(err)
	}
	h.Answer = scripttest.Accept("{}")
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Stats: &resumed}); err != nil {
		t.Fatal(err)
	}
	if resumed.Replayed == 0 {
		t.Error("nothing was replayed")
	}
	whole.Duration, whole.Replayed, resumed.Duration, resumed.Replayed = 0, 0, 0, 0
	if whole != resumed {
		t.Errorf("resumed: %+v\nat once: %+v", resumed, whole)
	}
	if whole.Memory < 3e6 || whole.Steps < 5*3000 || whole.Calls < 12 || whole.Branches < 16 {
		t.Errorf("the inner runs do not count: %+v", whole)
	}
}

// TestCancelledBranchesStayPaid: usage of calls of cancelled branches is charged to the resumed run too, though it
// does not repeat them.
func TestCancelledBranchesStayPaid(t *testing.T) {
	h := &scripttest.Host{Answer: scripttest.Later}
	begun := make(chan struct{}, 10)
	h.Tools = map[string]scripttest.Tool{
		"begun": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			begun <- struct{}{}
			return scripttest.Structured("{}"), nil
		},
		"wait": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			<-begun
			return scripttest.Structured("{}"), nil
		},
		"hang": scripttest.Hangs,
	}
	h.Tools["inner"] = runs(t, h, `
def run(params):
    x = [i for i in range(20000)]
    call_tool("begun")
    call_tool("hang")
`, script.Limits{})
	p := scripttest.Compile(t, `
def first():
    call_tool("wait")
    fail("no")
def once(state):
    if not state:
        state.append(1)
        parallel([first, lambda: call_tool("inner")])
def run(params):
    state = []
    retry(lambda: once(state), delay=0)
    return elicit("?", {"type": "object", "properties": {}}).action
`)
	j := script.NewJournal()
	var stats script.Stats
	for range 2 {
		_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Stats: &stats})
		var suspended *script.Suspended
		if !errors.As(err, &suspended) {
			t.Fatal(err)
		}
		if stats.Steps < 60000 {
			t.Errorf("the cancelled run is not paid: %+v", stats)
		}
	}
}

// TestFailuresAreCharged: a long message of a failed tool is charged, and cut.
func TestFailuresAreCharged(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"no": scripttest.Fails(strings.Repeat("x", 1e6))}}
	for _, src := range []string{
		`def run(params): retry(lambda: call_tool("no"), max_attempts=100, delay=0)`,
		`def run(params): retry(lambda: try_call_tool("no"), max_attempts=100, delay=0)`,
		"def run(params):\n  for i in range(100): try_call_tool(\"no\")",
	} {
		_, err := scripttest.Compile(t, src).Run(t.Context(), script.RunOptions{Host: h, Limits: script.Limits{Memory: 32 << 20, Steps: 200_000}})
		if got := limitOf(err); got != "memory" && got != "steps" {
			t.Errorf("%s: ended by %.200s", src, got)
		}
	}
	res, err := scripttest.Run(t, h, `def run(params): return len(try_call_tool("no").error)`, "")
	if err != nil || len(res.Structured) > len("16448") {
		t.Errorf("the text of the failure has %s bytes, %v", res.Structured, err)
	}
}
