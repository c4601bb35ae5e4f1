package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// slowly has tools that take a second, and one that waits a second for a person.
func slowly() *scripttest.Host {
	return &scripttest.Host{Tools: map[string]scripttest.Tool{
		"slow": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Second)
			return scripttest.Structured(`{}`), nil
		},
		"person": func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			defer script.Resting(ctx)()
			time.Sleep(time.Hour)
			return scripttest.Structured(`{}`), nil
		},
	}}
}

// limits.time bounds the time that a run is awake: sleeps and waiting for people do not count, unless other effects
// are in progress.
func TestTimeIsTheTimeAwake(t *testing.T) {
	over := "limit reached: time (5s)"
	for _, tt := range []struct{ name, body, want string }{
		{"calls", `[call_tool("slow") for i in range(4)]`, ""},
		{"too many calls", `[call_tool("slow") for i in range(6)]`, over},
		{"sleeps between calls", `[[call_tool("slow"), sleep("1h")] for i in range(4)]`, ""},
		{"too many calls between sleeps", `[[call_tool("slow"), sleep("1h")] for i in range(6)]`, over},
		{"pauses of retry", `retry(lambda: fail("no"), max_attempts=5, delay="1m")`, "no"},
		{"calls beside a sleep", `parallel([lambda: sleep("1h"), lambda: [call_tool("slow") for i in range(4)]])`, ""},
		{"too many calls beside a sleep", `parallel([lambda: sleep("1h"), lambda: [call_tool("slow") for i in range(6)]])`, over},
		{"sleeps beside each other", `parallel(lambda i: [sleep("1h"), call_tool("slow")], range(4))`, ""},
		{"a person", `[call_tool("person"), call_tool("slow")]`, ""},
		{"a call beside a person", `parallel([lambda: call_tool("person"), lambda: [call_tool("slow") for i in range(6)]])`, over},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, j := range []script.Journal{nil, script.NewJournal()} {
					p := scripttest.Compile(t, "def run(params):\n    "+tt.body+"\n    return 1\n")
					_, err := p.Run(t.Context(), script.RunOptions{Host: slowly(), Journal: j, Limits: script.Limits{Time: script.Duration(5 * time.Second)}})
					if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
						t.Errorf("Run = %v, want %q", err, tt.want)
					}
				}
			})
		})
	}
}

// The parts of a run share one limit: what the journal answers is not counted again, however long the replay takes,
// nor is the time between the parts.
func TestTimeIsOverAllParts(t *testing.T) {
	for calls, want := range map[int]string{4: "", 6: "time"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDurable(t, fmt.Sprintf("def run(params):\n    for i in range(%d):\n        print(i)\n        call_tool(\"slow\")\n        sleep(\"1h\")\n    return 1\n", calls), slowly())
			d.options.Hold, d.options.Limits.Time = holding(time.Second), script.Duration(5500*time.Millisecond)
			parts, printed := 0, map[string]bool{}
			d.options.Print = func(_, text string) {
				if printed[text] {
					time.Sleep(time.Minute) // only what is replayed
				}
				printed[text] = true
			}
			var err error
			for ; parts < 10; parts++ {
				var s *script.Suspended
				if _, err = d.run(t.Context()); !errors.As(err, &s) {
					break
				}
				time.Sleep(time.Until(s.Wake))
			}
			if err != nil && limitOf(err) != want || (err == nil) != (want == "") || parts != min(calls, 5) {
				t.Errorf("%d calls of a second: %v after %d parts, want limit %q", calls, err, parts, want)
			}
		})
	}
}

// A called run has a separate limit of time, and its caller is awake while it is; also after a restart.
func TestTimeOfCalledRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		body  string
		inner time.Duration
		want  string
	}{
		"it sleeps":             {`sleep("1h")` + "\n    " + `call_tool("slow")`, time.Minute, ""},
		"it takes too long":     {`[call_tool("slow") for i in range(6)]`, time.Minute, "limit reached: time (5.5s)"},
		"it has less than that": {`[call_tool("slow") for i in range(3)]`, 1500 * time.Millisecond, "limit reached: time (1.5s)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, once := slowly(), func(script.Effect) script.Repeat { return script.ReadOnly }
				inner := scripttest.Compile(t, "def run(params):\n    "+tt.body+"\n    return {}\n")
				h.Tools["inner"] = func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
					res, err := inner.Run(ctx, script.RunOptions{Host: h, Repeat: once, Limits: script.Limits{Time: script.Duration(tt.inner), CallTimeout: script.Duration(24 * time.Hour)}})
					if err != nil {
						return nil, err
					}
					return scripttest.Structured(string(res.Structured)), nil
				}
				limits := script.Limits{Time: script.Duration(5500 * time.Millisecond), CallTimeout: script.Duration(24 * time.Hour)}
				d := newDurable(t, `def run(params): return call_tool("inner")`, h)
				d.options.Limits = limits
				d.options.Repeat = once
				for range 2 { // cut off behind its next call
					d.killed(t, 1, false)
				}
				if _, err := d.run(t.Context()); tt.want == "" && err != nil || !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Errorf("Run = %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// With Whole, the time counts from the beginning, waits included.
func TestWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, "def run(params):\n    call_tool(\"slow\")\n    sleep(\"3s\")\n    call_tool(\"slow\")\n    sleep(\"3s\")\n", slowly())
		d.options.Hold, d.options.Whole, d.options.Limits.Time = holding(time.Second), true, script.Duration(6*time.Second)
		for range 2 {
			time.Sleep(time.Until(d.waits(t).Wake))
		}
		if _, err := d.run(t.Context()); limitOf(err) != "time" {
			t.Errorf("Run = %v, want the limit time", err)
		}
	})
}
