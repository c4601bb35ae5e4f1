//go:build linux

package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

const outerSource = `
def run(params):
    found = parallel(lambda n: try_call_tool("inner", {"n": n, "mb": params["mb"]}), [1, 2, 3], max_concurrency=params["width"])
    more = [call_tool("inner", {"n": n, "mb": 1})["n"] for n in range(params["more"])]
    return [[f.ok, f.error, f.output] for f in found] + more
`

const innerSource = `
def run(params):
    kept = ["x" * 1000000 + str(i) for i in range(params["mb"])]
    log("inner %d" % params["n"])
    if params["n"] == 3:
        fail("three is too many")
    return {"n": params["n"], "echo": call_tool("echo", params)["n"], "kept": len(kept)}
`

// TestScriptsThatCallScripts has callers and callees with and without isolation: effects and usage are the same.
func TestScriptsThatCallScripts(t *testing.T) {
	w := newWorkers(t)
	outer, inner := scripttest.Compile(t, outerSource), scripttest.Compile(t, innerSource)
	for name, args := range map[string]string{
		"small":   `{"mb": 1, "width": 1, "more": 3}`,
		"side":    `{"mb": 1, "width": 3, "more": 0}`,
		"large":   `{"mb": 20, "width": 1, "more": 1}`,
		"tooMuch": `{"mb": 40, "width": 1, "more": 1}`,
		"garbage": `{"mb": 12, "width": 1, "more": 40}`,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "small" && name != "side" {
				testmode.NeedThorough(t)
			}
			run := func(around, within script.Isolation, j script.Journal) remains {
				h := world()
				h.Tools["inner"] = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
					res, err := inner.Run(ctx, script.RunOptions{Args: args, Host: h, Isolation: within})
					if err != nil {
						return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: err.Error()}
					}
					return scripttest.Structured(string(res.Structured)), nil
				}
				return observe(t.Context(), outer, script.RunOptions{
					Args: json.RawMessage(args), Isolation: around, Journal: j, Limits: script.Limits{Memory: 32 << 20},
				}, h)
			}
			first := &recorder{Memory: script.NewJournal()}
			want := run(nil, nil, first)
			want.Journal = first.texts()
			for _, ways := range []struct{ around, within script.Isolation }{{w, nil}, {nil, w}, {w, w}} {
				j := &recorder{Memory: script.NewJournal()}
				got := run(ways.around, ways.within, j)
				got.Journal = j.texts()
				if name == "side" {
					got, want = got.sorted(), want.sorted()
				}
				same(t, fmt.Sprintf("caller isolated %v, callee %v", ways.around != nil, ways.within != nil), got, want)
				again := run(nil, nil, j)
				if again.Result != want.Result || again.Error != want.Error || again.Error == "" && again.Stats.Steps != want.Stats.Steps {
					t.Errorf("over its journal: %s %s %+v\nwant %s %s %+v", again.Result, again.Error, again.Stats, want.Result, want.Error, want.Stats)
				}
			}
		})
	}
}

// sorted leaves out which of several calls ended first.
func (r remains) sorted() remains {
	for _, list := range [][]string{r.Journal, r.Trace, r.Calls, r.Notices} {
		slices.Sort(list)
	}
	return r
}

// TestSuspendedRuns asks in one request and is resumed in the next, with and without isolation.
func TestSuspendedRuns(t *testing.T) {
	w := newWorkers(t)
	p := scripttest.Compile(t, `
def ask(name):
    call_tool("echo", {"before": name})
    return elicit("who is " + name + "?").content["who"]

def run(params):
    first = ask("first")
    others = parallel(ask, ["a", "b"])
    return [first] + others
`)
	ways := []script.Isolation{nil, w}
	for i := range 8 {
		t.Run(fmt.Sprintf("%03b", i), func(t *testing.T) {
			j := script.NewJournal()
			known := map[string]string{}
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
			h.Answer = func(_ context.Context, q script.Question) (json.RawMessage, error) {
				if a, ok := known[q.Key]; ok {
					return json.RawMessage(`{"action":"accept","content":{"who":"` + a + `"}}`), nil
				}
				return nil, &script.Suspended{Questions: []script.Question{q}}
			}
			asked := 0
			for round := range 3 {
				res, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, Isolation: ways[i>>round&1]})
				var s *script.Suspended
				switch {
				case errors.As(err, &s):
					for _, q := range s.Questions {
						known[q.Key] = fmt.Sprint(asked)
						asked++
					}
				case err != nil:
					t.Fatal(err)
				case round != 2 || string(res.Structured) != `["0","1","2"]`:
					t.Fatalf("round %d: %s", round, res.Structured)
				}
				if wanted := []int{1, 3, 3}[round]; asked != wanted {
					t.Fatalf("round %d: %d questions were asked, want %d", round, asked, wanted)
				}
			}
			if n := len(h.Calls()); n != 3 {
				t.Errorf("%d calls, want 3: none is made twice", n)
			}
		})
	}
}

// TestPagesApart has runs of functions of the script in the same worker.
func TestPagesApart(t *testing.T) {
	w := newWorkers(t)
	compare(t, w, program{name: "apart", source: `
def total(items):
    return sum(items)

def sum(items):
    s = 0
    for i in items:
        s += i
    return s

def bad(items):
    return items[100]

def run(params):
    both = parallel(lambda n: list(pages("numbers", {"n": n}, each = total)), [7, 9], max_concurrency=1)
    retry(lambda: list(pages("numbers", {"n": 3}, each = bad)), max_attempts=2, delay=0)
    return both
`})
	compare(t, w, program{name: "apart_large", origin: diag.InFile("tools/apart.star"), source: `
def run(params):
    return list(pages("ints", {"n": 500000}, each = count))

def count(items):
    return len(items)
`})
	compare(t, w, program{name: "apart_deep", limits: script.Limits{Steps: 3000}, source: `
def forever(items):
    while True:
        pass

def run(params):
    return list(pages("numbers", {"n": 3}, each = forever))
`})
}

// TestAWorkerWeighsOnce: functions that run apart do so in the worker of their run, so the memory
// of all runs has to have room for one.
func TestAWorkerWeighsOnce(t *testing.T) {
	p := scripttest.Compile(t, `
def run(params):
    return list(pages("numbers", {"n": 5}, each = count))

def count(items):
    return len(items)
`)
	pool := script.NewPool(script.WorkerMemory*3/2, 1, nil)
	res, err := p.Run(t.Context(), script.RunOptions{Isolation: newWorkers(t), Pool: pool, Host: world()})
	if err != nil || string(res.Structured) != "[2,2,1]" {
		t.Errorf("Run = %v, %v", res, err)
	}
	if use := pool.Usage(); use.Charged != 0 {
		t.Errorf("%d bytes stay charged", use.Charged)
	}
}
