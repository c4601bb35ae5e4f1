package legacy_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// runLegacy runs a body that uses the module "legacy".
func runLegacy(t *testing.T, h *scripttest.Host, names, body string, o script.RunOptions) (*script.Result, error) {
	t.Helper()
	src := "load(\"legacy\", " + names + ")\ndef run(params):\n    " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ")
	p, err := script.Compile(script.File{Name: "legacy_test.star", Source: []byte(src)}, legacy.With(script.Options{Builtins: builtins.All()}))
	if err != nil {
		t.Fatal(err)
	}
	o.Host = h
	return p.Run(t.Context(), o)
}

// TestLegacyValues prints and compares as Go does.
func TestLegacyValues(t *testing.T) {
	for _, tt := range []struct{ names, expr, want string }{
		{`"text"`, `text({"b": [1.0, None, True], "a": 1e6})`, `"map[a:1e+06 b:[1 <nil> true]]"`},
		{`"text", "NOTHING"`, `[text(None), text(NOTHING)]`, `["<no value>","map[]"]`},
		{`"to_json"`, `to_json({"b": "<a>", "a": 1000000.0})`, `"{\"a\":1000000,\"b\":\"\\u003ca\\u003e\"}"`},
		{`"eq"`, `[eq(5, 5), eq(None, "x"), eq("a", "b", "a")]`, `[true,false,true]`},
		{`"eq"`, `eq(5.0, 5, at = "s.condition:1:2: eq .params.n 5")`, `Workflow execution failed: level execution failed: template expansion failed: failed to evaluate condition for step s: failed to evaluate condition: failed to execute template: template: expand:1:2: executing "expand" at <eq .params.n 5>: error calling eq: incompatible types for comparison: float64 and int`},
		{`"field"`, `field({"a": "text"}, "a", "b", at = "s.arguments.x[0].\"odd key\":1:5: .params.a.b")`, `Workflow execution failed: level execution failed: template expansion failed: failed to expand arguments for step s: failed to expand value for key "x": failed to expand array element 0: failed to expand nested key "odd key": failed to execute template: template: expand:1:5: executing "expand" at <.params.a.b>: can't evaluate field b in type interface {}`},
		{`"printf"`, `printf("%5.1f|%q|%T|%d", 2.25, "a", 1.0, 3)`, `"  2.2|\"a\"|float64|3"`},
		{`"index", "slice", "length"`, `[index({"a": [1, 2]}, "a", 1), slice("text", 1, 3), length("äb")]`, `[2,"ex",3]`},
		{`"field"`, `field(1.0, "b", at = "s.message:1:3: .params.a.b")`, `Workflow execution failed: level execution failed: template expansion failed: failed to expand elicitation message for step s: failed to expand value for key "message": failed to execute template: template: expand:1:3: executing "expand" at <.params.a.b>: can't evaluate field b in type interface {}`},
		{`"as_integer"`, `as_integer("x", name = "outer.inner")`, `Workflow execution failed: output construction failed: failed to construct output property "outer": failed to coerce value for property "inner": cannot coerce "x" to integer: strconv.ParseInt: parsing "x": invalid syntax`},
		{`"index", "printf", "eq"`, `[printf("%T %v", index("text", 0), index("text", 0)), eq(index("text", 0), 116)]`, `["uint8 116",true]`},
		{`"eq", "index"`, `eq(index("text", 0), "t", at = "s.condition:1:2: x")`, `Workflow execution failed: level execution failed: template expansion failed: failed to evaluate condition for step s: failed to evaluate condition: failed to execute template: template: expand:1:2: executing "expand" at <x>: error calling eq: incompatible types for comparison: uint8 and string`},
		{`"arguments", "text"`, `[text(arguments({"n": 2000000}, {"n": 2000000}, filled = f)["n"]) for f in [True, False]]`, `["2000000","2e+06"]`},
		{`"pairs"`, `[[k, v] for k, v in pairs({"b": 1, "a": 2})]`, `[["a",2],["b",1]]`},
	} {
		res, err := runLegacy(t, &scripttest.Host{}, tt.names, "return "+tt.expr, script.RunOptions{})
		got := ""
		var failed *legacy.Error
		switch {
		case errors.As(err, &failed):
			got = failed.Error()
		case err != nil:
			t.Errorf("%s: %v", tt.expr, err)
			continue
		default:
			got = string(res.Structured)
		}
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.expr, got, tt.want)
		}
	}
}

// TestLegacyCallsAnything: the tools of a migrated workflow are not taken for known, although
// its text has no call_tool.
func TestLegacyCallsAnything(t *testing.T) {
	src := "load(\"legacy\", \"call\")\ndef run(params):\n    return call(\"delete_everything\")\n"
	scan := check.NewScan(builtins.Table())
	options := legacy.With(script.Options{Builtins: builtins.All(), Inspect: scan.File})
	if _, err := script.Compile(script.File{Name: "x.star", Source: []byte(src)}, options); err != nil {
		t.Fatal(err)
	}
	if !scan.Calls().Dynamic {
		t.Error("the tools of a migrated workflow are taken for known")
	}
}

// TestLegacyAsksOnce resumes a suspended run: the call before the question is not
// made again, and the question gets the answer.
func TestLegacyAsksOnce(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"charge": scripttest.Returns(`{"id": 7}`)}}
	h.Answer = func(_ context.Context, q script.Question) (json.RawMessage, error) {
		return nil, &script.Suspended{Questions: []script.Question{q}}
	}
	const body = `
charged = call("charge", {"amount": "5"}, step = "charge")
sure = ask("Sure?", {"type": "object"}, step = "sure", on_decline = "continue")
return answer({"id": charged["id"], "said": sure["action"]})`
	store := script.NewJournal()
	_, err := runLegacy(t, h, `"answer", "ask", "call"`, body, script.RunOptions{Journal: store})
	if suspended := new(script.Suspended); !errors.As(err, &suspended) {
		t.Fatalf("the first run ends with %v, want it suspended", err)
	}
	h.Answer = func(context.Context, script.Question) (json.RawMessage, error) {
		return json.RawMessage(`{"action": "decline"}`), nil
	}
	res, err := runLegacy(t, h, `"answer", "ask", "call"`, body, script.RunOptions{Journal: store})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Structured), `{"id":7,"said":"decline"}`; got != want || len(h.Calls()) != 1 {
		t.Errorf("the second run returned %s after %d calls, want %s after 1", got, len(h.Calls()), want)
	}
}

// TestLegacyDeadlinesOutliveTheProcess: the deadline of a workflow counts from its first start, including the time it waits.
func TestLegacyDeadlinesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scripttest.Host{Answer: scripttest.Later, Tools: map[string]scripttest.Tool{"charge": scripttest.Returns(`{"id": 7}`)}}
		const body = `
deadline("10m")
ask("Sure?", {"type": "object"}, step = "sure", timeout = "1h", on_decline = "continue", on_cancel = "continue")
return call("charge", step = "charge")`
		o := script.RunOptions{Journal: script.NewJournal()}
		began := time.Now()
		_, err := runLegacy(t, h, `"answer", "ask", "call", "deadline"`, body, o)
		var s *script.Suspended
		if !errors.As(err, &s) || s.Wake.Sub(began) != 10*time.Minute {
			t.Fatalf("the first run ends with %v, want it to wait for ten minutes", err)
		}
		time.Sleep(11 * time.Minute)
		_, err = runLegacy(t, h, `"answer", "ask", "call", "deadline"`, body, o)
		if err == nil || !strings.Contains(err.Error(), "workflow timed out") || len(h.Calls()) != 0 {
			t.Errorf("the second run ends with %v after %d calls, want the workflow timed out", err, len(h.Calls()))
		}
	})
}

// TestLegacyKeepsDeadlines: a workflow fails with the legacy error at its deadline: in
// the middle of a step, between attempts, and before a step.
func TestLegacyKeepsDeadlines(t *testing.T) {
	slow := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-time.After(time.Minute):
			return json.RawMessage(`{"structuredContent": {}}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	tools := map[string]scripttest.Tool{"slow": slow, "fail": scripttest.Fails("boom")}
	for _, tt := range []struct{ body, want string }{
		{`return call("slow", step = "s", timeout = "1s")`, "Workflow execution timeout exceeded"},
		{"deadline(\"1s\")\nreturn call(\"slow\", step = \"s\")", "Workflow execution failed: workflow timed out"},
		{"deadline(\"1s\")\nattempt(lambda: call(\"slow\", step = \"s\"))\nreturn call(\"slow\", step = \"t\")", "Workflow execution failed: workflow timed out"},
		{`return retry(lambda: call("fail", step = "s"), attempts = 9, delay = "1m", timeout = "10s")`, "Workflow execution timeout exceeded"},
		{`return retry(lambda: call("fail", step = "s"), attempts = 3)`,
			"Workflow execution failed: level execution failed: tool call failed: tool fail in step s: tool execution failed: boom"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := runLegacy(t, &scripttest.Host{Tools: tools}, `"attempt", "call", "deadline", "retry"`, tt.body, script.RunOptions{})
			var failed *legacy.Error
			if !errors.As(err, &failed) || failed.Error() != tt.want {
				t.Errorf("%s\n got %v\nwant %s", tt.body, err, tt.want)
			}
		})
	}
}

// TestLegacySkipsWhatRuns: an answer that skips the remaining steps cancels the other steps of its level.
func TestLegacySkipsWhatRuns(t *testing.T) {
	cancelled := false
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{
		"slow": func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			cancelled = true
			return nil, ctx.Err()
		},
	}}
	h.Answer = func(context.Context, script.Question) (json.RawMessage, error) {
		return json.RawMessage(`{"action": "decline"}`), nil
	}
	const body = `
a, q = gated([
    lambda: attempt(lambda: call("slow", step = "a"), defaults = {"n": 8}),
    lambda: ask("Go on?", {"type": "object"}, step = "q", on_decline = "skip_remaining"),
], [skipped({"n": 9}), NOTHING])
return answer({"a": [a.status, a.output], "q": q})`
	res, err := runLegacy(t, h, `"NOTHING", "answer", "ask", "attempt", "call", "gated", "skipped"`, body, script.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":["skipped",{"n":9}],"q":{"action":"decline","skipped":true}}`
	if got := string(res.Structured); got != want || !cancelled {
		t.Errorf("returned %s, the slow call was cancelled: %v\nwant %s", got, cancelled, want)
	}
}

// TestHostileUseOfLegacy calls the functions with arguments that would exhaust memory or time without bounds.
func TestHostileUseOfLegacy(t *testing.T) {
	const shared = "s = [\"x\" * 1000000] * 1000000\n"
	const chain = "s = [\"x\"]\nfor i in range(60):\n    s = [s, s]\n"
	for _, tt := range []struct{ body, want string }{
		{shared + "return text(s)", "limit reached: memory"},
		{chain + "return to_json(s)", "limit reached: memory"},
		{chain + "return eq(s, s)", "limit reached: memory"},
		{chain + "return call(\"echo\", {\"s\": s})", "limit reached: memory"},
		{chain + "return answer(s)", "limit reached: memory"},
		{"return printf(\"%999999d\" * 1000, 1)", "could make a text of more than"},
		{"return printf(\"%[1]*d\" * 1000, 999999)", "could make a text of more than"},
		{"return printf(\"%[1]s\" * 100000, \"x\" * 100000)", "could make a text of more than"},
		{"return from_json(\"[\" * 1000000)", "nested more than 1000 deep"},
		{"return items(1 << 60)", "too long"},
		{"return for_each(lambda x, i: 1, [1] * 2000, step = \"s\", max_iterations = 100000)", "limit reached: branches"},
		{"l = []\nl.append(l)\nreturn text(l)", "nested more than 1000 deep"},
	} {
		if strings.HasPrefix(tt.body, chain) && !testmode.Thorough() {
			continue // each fills the memory of a run
		}
		_, err := runLegacy(t, &scripttest.Host{}, `"answer", "call", "eq", "for_each", "from_json", "items", "printf", "text", "to_json"`, tt.body, script.RunOptions{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\n got %.200v\nwant %s", tt.body, err, tt.want)
		}
	}
}
