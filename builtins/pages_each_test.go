package builtins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// manyPages weigh about 8 MB each in a script, and so many times what it may hold.
var manyPages = testmode.Count(12, 100)

var allRows = fmt.Sprintf("[%d,0]", manyPages*10_001)

// rows is a tool that has manyPages.
func rows(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	var p struct{ Cursor int }
	if err := json.Unmarshal(args, &p); err != nil {
		return nil, err
	}
	next := "null"
	if p.Cursor < manyPages-1 {
		next = fmt.Sprint(p.Cursor + 1)
	}
	return scripttest.Structured(`{"items":[` + strings.Repeat(`{"a":1},`, 10_000) + `{"a":2}],"nextCursor":` + next + `}`), nil
}

const countsRows = `
keep = []
def count(items):
    keep.append(items)
    return len(items)
def run(params):
    total = 0
    for n in pages("rows", each = count):
        total += n
    if params.get("ask"):
        elicit("?", {"type": "object", "properties": {}})
    return [total, len(keep)]
`

// TestPagesEachGoesThroughAnyAmount: with each, a script processes far more than its memory; without, it reaches the
// limit. Values that the function keeps are lost.
func TestPagesEachGoesThroughAnyAmount(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"rows": rows}}
	limits := script.Limits{Memory: 32 << 20, Steps: 10_000_000}
	var stats script.Stats
	res, err := scripttest.Compile(t, countsRows).Run(t.Context(), script.RunOptions{Host: h, Limits: limits, Stats: &stats})
	if err != nil || string(res.Structured) != allRows {
		t.Errorf("got %v, %v", res, err)
	}
	if stats.Memory > 2<<20 {
		t.Errorf("%d bytes stay charged", stats.Memory)
	}
	plain := `def run(params): return len([1 for x in pages("rows")])`
	_, err = scripttest.Compile(t, plain).Run(t.Context(), script.RunOptions{Host: h, Limits: limits})
	var limit *script.LimitError
	if !errors.As(err, &limit) || limit.Limit != "memory" {
		t.Errorf("without each: %v", err)
	}
}

// TestPagesEachIsReplayed: the journal has what each returned, not the pages.
func TestPagesEachIsReplayed(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"rows": rows}, Answer: scripttest.Later}
	limits := script.Limits{Memory: 32 << 20, Steps: 10_000_000}
	p, j := scripttest.Compile(t, countsRows), script.NewJournal()
	o := script.RunOptions{Host: h, Journal: j, Limits: limits, Args: json.RawMessage(`{"ask":true}`)}
	_, err := p.Run(t.Context(), o)
	var suspended *script.Suspended
	if !errors.As(err, &suspended) {
		t.Fatal(err)
	}
	again := &scripttest.Host{Answer: scripttest.Accept("{}")}
	o.Host = again
	res, err := p.Run(t.Context(), o)
	if err != nil || string(res.Structured) != allRows || len(again.Calls()) > 0 {
		t.Errorf("got %v, %v, calls %v", res, err, again.Calls())
	}
}

// TestPagesEachKeepsWithin: a page that is too large ends the script, and so do kept results that are too large.
func TestPagesEachKeepsWithin(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"rows": rows}}
	for _, tt := range []struct{ name, fn, want string }{
		{"a page is too large", "def f(items): return len([list(items) for i in range(300)])", "limit reached: memory"},
		{"the results are", "def f(items): return items", "limit reached: memory"},
		{"no end", "def f(items):\n  while True: pass", "limit reached"},
		{"an error", "def f(items): return items[0][\"b\"]", `key "b" not in dict`},
		{"a tool", "def f(items): return call_tool(\"rows\")", "without a host"},
		{"no JSON", "def f(items): return f", "function cannot be written as JSON"},
		{"a lambda", "f = lambda items: 1", "defined at the top level"},
		{"a number", "f = 1", "want a function, have int"},
		{"no elements", "def f(items): return 1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := tt.fn + "\ndef run(params): return len([x for x in pages(\"rows\", each = f)])"
			_, err := scripttest.Compile(t, src).Run(t.Context(), script.RunOptions{Host: h, Limits: script.Limits{Memory: 20 << 20}})
			if tt.want == "" && err != nil || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && tt.want != "" {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	inner := "def run(params):\n  def f(items): return params\n  return list(pages(\"rows\", each = f))"
	if _, err := scripttest.Run(t, h, inner, ""); err == nil || !strings.Contains(err.Error(), "top level") {
		t.Errorf("an inner function: %v", err)
	}
	if _, err := scripttest.Run(t, h, "def f(x): return 1\ndef run(params): return list(pages(\"rows\", items = \"no\", each = f))", ""); err == nil || !strings.Contains(err.Error(), `no "no"`) {
		t.Errorf("no elements: %v", err)
	}
}
