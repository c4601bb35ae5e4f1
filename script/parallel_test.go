package script_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// crowd is a tool that takes a second and counts how many calls there are at once.
type crowd struct {
	mu             sync.Mutex
	now, most, all int
}

func (c *crowd) call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	c.now++
	c.all++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	time.Sleep(time.Second)
	return scripttest.Echo(ctx, args)
}

// TestOneWidthForAllNestedParallel: however parallel() is nested, exactly limits.parallel calls are in progress at
// once while there are calls to make, and no branch waits for itself.
func TestOneWidthForAllNestedParallel(t *testing.T) {
	const three = `
def leaf(i): return call_tool("crowd")
def mid(i): return parallel(leaf, range(5))
def top(i): return parallel(mid, range(4))
def run(params): parallel(top, range(3))
`
	for _, tt := range []struct {
		width, most int
		src         string
		calls       int
	}{
		{1, 1, three, 60},
		{2, 2, three, 60},
		{10, 10, three, 60},
		{100, 60, three, 60},
		{10, 2, `def run(params): parallel(lambda i: parallel([lambda: call_tool("crowd")] * 6, max_concurrency=2), range(5), max_concurrency=1)`, 30},
		{3, 3, `def run(params): parallel([lambda: call_tool("crowd")] * 2 + [lambda: parallel([lambda: call_tool("crowd")] * 4)])`, 6},
	} {
		t.Run(fmt.Sprint(tt.width, " ", tt.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c crowd
				h := &scripttest.Host{Tools: map[string]scripttest.Tool{"crowd": c.call}}
				start := time.Now()
				_, err := scripttest.Compile(t, tt.src).Run(t.Context(), script.RunOptions{Host: h, Limits: script.Limits{Parallel: tt.width}})
				if err != nil || c.most != tt.most || c.all != tt.calls {
					t.Errorf("%d calls, %d at once, want %d and %d; %v", c.all, c.most, tt.calls, tt.most, err)
				}
				if took, want := time.Since(start), time.Duration((tt.calls+tt.most-1)/tt.most)*time.Second; took > want*3/2+time.Second {
					t.Errorf("took %v, want about %v", took, want)
				}
			})
		})
	}
}

// TestInnerRunsShareTheWidth: the calls of runs that branches start count for the request.
func TestInnerRunsShareTheWidth(t *testing.T) {
	for _, width := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			var c crowd
			h := &scripttest.Host{}
			h.Tools = map[string]scripttest.Tool{
				"crowd":  c.call,
				"inner":  runs(t, h, `def run(params): return parallel(lambda i: call_tool("crowd"), range(5))`, script.Limits{}),
				"middle": runs(t, h, `def run(params): return parallel(lambda i: call_tool("inner"), range(5))`, script.Limits{}),
			}
			p := scripttest.Compile(t, `def run(params): parallel(lambda i: call_tool("middle"), range(4))`)
			_, err := p.Run(t.Context(), script.RunOptions{Host: h, Limits: script.Limits{Parallel: width}})
			if err != nil || c.most != width || c.all != 100 {
				t.Errorf("width %d: %d calls, %d at once, %v", width, c.all, c.most, err)
			}
		})
	}
}

// TestStacksAreCharged: what branches hold on their stacks while they wait is charged,
// once for those that wait together.
func TestStacksAreCharged(t *testing.T) {
	const deep = `
def down(n):
    if n:
        return down(n - 1)
    sleep("1s")
def run(params): parallel(lambda i: down(params["depth"]), range(params["branches"]))
`
	used := func(depth, branches int) int64 {
		var stats script.Stats
		synctest.Test(t, func(t *testing.T) {
			o := script.RunOptions{Host: &scripttest.Host{}, Stats: &stats, Args: json.RawMessage(fmt.Sprintf(`{"depth":%d,"branches":%d}`, depth, branches))}
			if _, err := scripttest.Compile(t, deep).Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		})
		return stats.Memory
	}
	ten, hundred := used(150, 10), used(150, 100)
	if flat := used(1, 10); ten < flat+10*149*2000 {
		t.Errorf("ten branches 150 deep are charged %d, flat ones %d", ten, flat)
	}
	if hundred > 2*ten {
		t.Errorf("a hundred branches, ten at a time, are charged %d, ten %d: those that have ended hold nothing", hundred, ten)
	}
}

// TestWideFramesAreCharged: variables and operands of a waiting function are charged, used or not.
func TestWideFramesAreCharged(t *testing.T) {
	used := func(body string) int64 {
		var stats script.Stats
		src := "def down(n):\n  if n: return down(n - 1)\n  sleep(0)\n" + body + "\ndef run(params): down(100)"
		_, err := scripttest.Compile(t, src).Run(t.Context(), script.RunOptions{Host: &scripttest.Host{}, Stats: &stats})
		if err != nil {
			t.Fatal(err)
		}
		return stats.Memory
	}
	names, operands := "", ""
	for i := range 200 {
		names += fmt.Sprintf("v%d, ", i)
		operands += fmt.Sprintf("n + %d, ", i)
	}
	narrow := used("  pass")
	for what, body := range map[string]string{
		"variables": "  for " + strings.TrimSuffix(names, ", ") + " in []: pass",
		"operands":  "  if n == 1000: return [" + operands + "]",
	} {
		if wide := used(body); wide < narrow+100*200*16 {
			t.Errorf("100 frames with 200 %s are charged %d, without %d", what, wide, narrow)
		}
	}
}
