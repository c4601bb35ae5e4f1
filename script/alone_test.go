package script_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// TestInnerRunsGiveTheirMemoryBack: what an inner run has held is garbage when it has ended, so consecutive runs may
// hold what concurrent ones may not; the memory of their results is kept.
func TestInnerRunsGiveTheirMemoryBack(t *testing.T) {
	h := &scripttest.Host{}
	h.Tools = map[string]scripttest.Tool{"inner": runs(t, h, `
def run(params):
    x = "x" * 10000000
    return "y" * params["keep"]
`, script.Limits{})}
	p := scripttest.Compile(t, `
def run(params):
    keep = []
    for i in range(50):
        keep.append(call_tool("inner", {"keep": params["keep"]}))
`)
	var stats script.Stats
	o := script.RunOptions{Host: h, Limits: script.Limits{Memory: 32 << 20}, Stats: &stats, Args: []byte(`{"keep": 10}`)}
	if _, err := p.Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if stats.Memory > 1<<20 {
		t.Errorf("%d bytes stay charged", stats.Memory)
	}
	o.Args = []byte(`{"keep": 500000}`)
	if _, err := p.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "limit reached: memory") {
		t.Errorf("50 results of 500 kB with 32 MB: %v", err)
	}
}

// TestApartWhereverTheTextStands: a function of the file can run separately, whether the text is a file or part of a
// configuration, in either form.
func TestApartWhereverTheTextStands(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"list": scripttest.Returns(`{"items":[1,2,3]}`)}}
	inline := diag.Pos{File: "vmcp.yaml", Line: 7, Column: 9}
	for name, origin := range map[string]diag.Origin{
		"nowhere": {}, "a file": diag.InFile("tools/count.star"),
		"a block": {Pos: inline, Exact: true}, "a quoted text": {Pos: inline},
	} {
		p, err := script.Compile(script.File{Name: "count", Origin: origin, Source: []byte(`
def count(items):
    return len(items)

def run(params):
    return list(pages("list", {}, each = count))
`)}, script.Options{Builtins: builtins.All()})
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.Run(t.Context(), script.RunOptions{Host: h})
		if err != nil || string(res.Structured) != "[3]" {
			t.Errorf("%s: %v, want [3]", name, err)
		}
	}
}
