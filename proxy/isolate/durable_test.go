//go:build linux

package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// fixed is a clock that does not advance.
type fixed struct{ now time.Time }

func (c fixed) Now() time.Time                            { return c.now }
func (c fixed) Wait(_ context.Context, _ time.Time) error { return nil }

// TestRunsThatOutliveTheirProcess: unknown outcomes, sleeps and questions have the same results in a worker as in this
// process, in two rounds over one journal.
func TestRunsThatOutliveTheirProcess(t *testing.T) {
	w := newWorkers(t)
	for name, src := range map[string]string{
		"told":          `def run(p): return [try_call_tool("lost").kind, try_call_tool("lost").error]`,
		"doubt":         `def run(p): return parallel([lambda: call_tool("lost"), lambda: call_tool("echo", {"n": 1})["n"]])`,
		"retry":         `def run(p): return retry(lambda: try_call_tool("lost"), delay=0).kind`,
		"retried get":   `def run(p): return retry(lambda: try_call_tool("get"), delay=0).kind`,
		"failing get":   `def run(p): return retry(lambda: call_tool("get"), delay=0)`,
		"late get":      `def run(p): return call_tool("late get")`,
		"late":          `def run(p): return call_tool("late")`,
		"hidden":        "def pay():\n    parallel([lambda: try_call_tool(\"lost\")])\n    fail(\"no\")\ndef run(p): return retry(pay, delay=0)",
		"sleep":         "def run(p):\n    began = time.now()\n    sleep(\"5s\")\n    sleep(\"2d\")\n    return str(began)",
		"sleeps":        `def run(p): return parallel([lambda: sleep("2d"), lambda: sleep(0), lambda: sleep("1h")])`,
		"question":      `def run(p): return elicit("who?", {"type": "object", "properties": {}}, timeout="1m").action`,
		"long question": `def run(p): return parallel([lambda: elicit("who?", {"type": "object", "properties": {}}).action, lambda: sleep("3d")])`,
	} {
		t.Run(name, func(t *testing.T) {
			p := scripttest.Compile(t, src)
			here, there := twoRounds(t, p, nil), twoRounds(t, p, w)
			if here != there {
				t.Errorf("isolated\n got %s\nwant %s", there, here)
			}
		})
	}
}

// twoRounds runs p twice over one journal, the second time two days later, and returns the results.
func twoRounds(t *testing.T, p *script.Program, isolation script.Isolation) (seen string) {
	lost := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("reset") }
	late := func(how script.Repeat) scripttest.Tool {
		return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			if err := script.Decide(ctx, func() script.Repeat { return how }); err != nil {
				return nil, err
			}
			return lost(ctx, args)
		}
	}
	h := &keys{Host: &scripttest.Host{Answer: scripttest.Later, Tools: map[string]scripttest.Tool{
		"lost": lost, "get": lost, "echo": scripttest.Echo, "late": late(script.Once), "late get": late(script.Idempotent),
	}}}
	j := script.NewJournal()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for range 2 {
		res, err := p.Run(t.Context(), script.RunOptions{
			Host: h, Journal: j, Isolation: isolation, ID: "RUN", Clock: fixed{now}, Hold: func() time.Duration { return 10 * time.Second },
			Repeat: func(e script.Effect) script.Repeat {
				return map[string]script.Repeat{"get": script.Idempotent, "late": script.Undecided, "late get": script.Undecided}[e.Name]
			},
		})
		var s *script.Suspended
		switch {
		case errors.As(err, &s):
			seen += fmt.Sprintf("doubts %s, questions %s, wake %s\n", s.Doubts, s.Questions, s.Wake)
		case err != nil:
			seen += err.Error() + "\n"
		default:
			seen += string(res.Structured) + "\n"
		}
		now = now.Add(48 * time.Hour)
	}
	return seen + fmt.Sprint(h.seen)
}

// keys is a host that records the idempotency keys of its calls.
type keys struct {
	*scripttest.Host
	seen []string
}

func (k *keys) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	if name != "echo" { // it runs beside others
		k.seen = append(k.seen, o.IdempotencyKey)
	}
	return k.Host.CallTool(ctx, name, args, o)
}
