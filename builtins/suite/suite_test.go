package suite_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// suiteShop are the tools of the tests: two of a backend, as they are locked, and scripts.
type suiteShop struct {
	tools map[string]*suite.Tool
	cover *script.Coverage
}

func (s *suiteShop) Find(name string) *suite.Tool {
	if own, ok := strings.CutPrefix(name, "shop."); ok {
		name = "shop_" + own
	}
	return s.tools[name]
}

func (s *suiteShop) Names() (names []string) {
	for name := range s.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

type scripted struct {
	program       *script.Program
	input, output *schema.Schema
}

func (s *scripted) Code() *script.Program { return s.program }

func (s *scripted) Arguments(raw json.RawMessage) (json.RawMessage, error) {
	if s.input == nil {
		return raw, nil
	}
	return raw, s.input.Validate(raw)
}

func (s *scripted) CheckOutput(res *script.Result) error {
	if s.output == nil {
		return nil
	}
	return s.output.Validate(res.Structured)
}

func compiled(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	orderOutput = `{"type": "object", "required": ["id", "status"], "properties": {"id": {"type": "string"}, "status": {"enum": ["new", "paid", "shipped"]}}}`
	refundInput = `{"type": "object", "required": ["order", "cents"], "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}}}`
)

func newShop(t testing.TB, scripts map[string]string) *suiteShop {
	s := &suiteShop{tools: map[string]*suite.Tool{
		"shop_get_order": {Name: "shop_get_order", Output: compiled(t, orderOutput)},
		"shop_refund":    {Name: "shop_refund", Input: compiled(t, refundInput)},
		"shop_list":      {Name: "shop_list"},
		"get":            {Name: "get"},
		"setup":          {Name: "setup"},
	}, cover: &script.Coverage{}}
	for name, source := range scripts {
		p, err := script.Compile(script.File{Name: name + ".star", Source: []byte(source)}, script.Options{Builtins: builtins.All(), Cover: s.cover})
		if err != nil {
			t.Fatal(err)
		}
		s.tools[name] = &suite.Tool{Name: name, Script: &scripted{program: p}}
	}
	return s
}

func testOptions(s *suiteShop) suite.Options {
	return suite.Options{Tools: s, Locked: true, Replay: true, Orders: 24, Cover: s.cover}
}

// runTests runs the text of a test file.
func runTests(t testing.TB, o suite.Options, source string) *suite.Report {
	t.Helper()
	s := &suite.Suite{Options: o}
	return s.Run(t.Context(), []script.File{{Name: "x_test.star", Source: []byte(source), Origin: diag.InFile("x_test.star")}})
}

// outcomes are the tests of a report in words.
func outcomes(r *suite.Report) string {
	var lines []string
	for _, t := range r.Tests {
		line := t.Name + " " + t.Status
		for _, p := range t.Problems {
			line += fmt.Sprintf("\n%s:%d:%d: %s [%s]", p.File, p.Line, p.Column, p.Message, p.Code)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

const fanout = `
def run(params):
    seen = []
    def branch(region):
        seen.append(call_tool("get", {"region": region})["region"])
    parallel(branch, ["eu", "us"])
    return seen
`

var rules = []struct {
	name, scripts, test, want string
	change                    func(*suite.Options)
}{
	{name: "a list in order of arrival", scripts: fanout, test: `
def test_a():
    testing.tool("get", answer = lambda args: args)
    testing.run("tool")
`, want: `test_a failed
x_test.star:4:5: the output depends on the order of branches: b0,b1 → ["eu","us"], b1,b0 → ["us","eu"] [test-order]`},
	{name: "orders can be turned off", change: func(o *suite.Options) { o.Orders, o.Replay = 0, false }, scripts: fanout, test: `
def test_a():
    testing.tool("get", answer = lambda args: args)
    testing.run("tool")
`, want: `test_a passed`},
	{name: "who comes first makes the set-up", change: func(o *suite.Options) { o.Orders = 0 }, scripts: `
def run(params):
    done = []
    def branch(region):
        r = call_tool("get", {"region": region})
        if not done:
            done.append(1)
            call_tool("setup")
        return r
    return parallel(branch, ["eu", "us"])
`, test: `
def test_a():
    testing.tool("get", answer = lambda args: args)
    testing.tool("setup", returns = {})
    testing.run("tool")
`, want: `test_a failed
x_test.star:5:5: stopped at 0.b0.0 (call get {"region":"eu"}, tool.star:5:22) and resumed: no call setup at 0.b0.1 (tool.star:8:22) [test-replay]`},
	{name: "what needs the set-up does not wait for it", change: func(o *suite.Options) { o.Orders = 0 }, scripts: `
def run(params):
    done = []
    def branch(region):
        if not done:
            done.append(1)
            call_tool("setup")
        return call_tool("get", {"region": region})
    return parallel(branch, ["eu", "us"])
`, test: `
ready = []
def test_a():
    testing.tool("get", answer = lambda args: args if ready else fail("not set up"))
    testing.tool("setup", answer = lambda args: ready.append(1) or {})
    testing.run("tool")
`, want: `test_a failed
x_test.star:4:5: stopped at 0.b0.0 (call setup, tool.star:7:22) and resumed: the answer of the fake of get: fail: not set up [test-replay]`},
	{name: "a dict in order of arrival", scripts: `
def run(params):
    seen = {}
    def branch(region):
        seen[region] = call_tool("get", {"region": region})
    parallel(branch, ["eu", "us", "asia"])
    return seen
`, test: `
def test_a():
    testing.tool("get", answer = lambda args: {"of": args["region"]})
    testing.run("tool")
`, want: `test_a passed`},
	{name: "a fake that counts", scripts: `
def run(params):
    def branch(region):
        return [call_tool("get", {"region": region}), call_tool("get", {"again": region})]
    return parallel(branch, ["eu", "us"]) + [call_tool("get")]
`, test: `
count = [0]
def next(args):
    count[0] += 1
    return {"n": count[0]}
def test_a():
    testing.tool("get", answer = next)
    r = testing.run("tool")
    testing.eq(r.output[2], {"n": 5})
`, want: `test_a passed`},
	{name: "a fake that breaks the schema", scripts: `def run(params): return call_tool("shop_get_order", {"id": "A"})`, test: `
def test_a():
    testing.tool("shop_get_order",
        returns = {"id": "A", "status": "payed"})
    testing.run("tool")
def test_b():
    testing.tool("shop.get_order", answer = lambda args: {"id": 1, "status": "paid"})
    testing.run("tool")
def test_c():
    testing.tool("shop_get_order", text = "no value")
`, want: `test_a failed
x_test.star:3:5: shop_get_order never returns this: /status: want one of "new", "paid", "shipped", have "payed" [test-fake]
test_b failed
x_test.star:7:5: shop_get_order never returns this: /id: want string, have number [test-fake]
test_c failed
x_test.star:10:5: shop_get_order declares an output schema, but the fake returns no value: returns = ... [test-fake]`},
	{name: "a call that breaks the schema", scripts: `def run(params): return try_call_tool("shop_refund", {"order": "A", "cents": "12 or so"}).ok`, test: `
def test_a():
    testing.tool("shop_refund", returns = {})
    testing.run("tool")
`, want: `test_a failed
x_test.star:3:5: tool.star:1:38 calls shop_refund, and the arguments do not fit its input schema: /cents: want integer, have string [test-fake]`},
	{name: "arguments are converted as in the server", scripts: `def run(params): return call_tool("shop_refund", {"order": 7, "cents": "12"})`, test: `
def test_a():
    testing.tool("shop_refund", returns = {})
    testing.run("tool")
    testing.eq(testing.calls("shop_refund"), [{"order": "7", "cents": 12}])
`, want: `test_a passed`},
	{name: "a fake of no tool", scripts: `def run(params): return 1`, test: `
def test_a():
    testing.tool("shop_refunds", returns = {})
`, want: `test_a failed
x_test.star:3:5: no tool "shop_refunds"; did you mean "shop_refund"? [test-fake]`},
	{name: "without a lock names are not held", change: func(o *suite.Options) { o.Locked = false }, scripts: `def run(params): return call_tool("other")["a"]`, test: `
def test_a():
    testing.tool("other", returns = {"a": 1})
    testing.eq(testing.run("tool").output, 1)
`, want: `test_a passed`},
	{name: "a tool without a fake", scripts: `def run(params): return try_call_tool("shop_refund", {"order": "A", "cents": 1}).ok`, test: `
def test_a():
    testing.tool("shop_list", returns = {})
    x = testing.run("tool")
def test_b():
    testing.run("tool")
`, want: `test_a failed
x_test.star:4:9: tool.star:1:38 calls shop_refund, which has no fake; testing.tool("shop_refund", returns = ...) [test-unfaked]
test_b failed
x_test.star:6:5: tool.star:1:38 calls shop_refund, which has no fake; testing.tool("shop_refund", returns = ...) [test-unfaked]`},
	{name: "what is not used", scripts: `def run(params): return 1`, test: `
def test_a():
    testing.tool("get", returns = {})
    testing.run("tool")
def test_b():
    testing.answer("Sure?")
    testing.run("tool")
`, want: `test_a failed
x_test.star:3:5: get was not called: this fake is not used [test-unused]
test_b failed
x_test.star:6:5: no question contains "Sure?": this answer is not used [test-unused]`},
	{name: "answers that run out", scripts: `def run(params): return [call_tool("get"), call_tool("get"), call_tool("get")]`, test: `
def test_a():
    testing.tool("get", returns_each = [{"n": 1}, {"n": 2}])
    testing.run("tool")
`, want: `test_a failed
x_test.star:3:5: returns_each has 2 answers, and tool.star:1:71 calls get for the 3rd time [test-fake]`},
	{name: "a question without an answer", scripts: `def run(params): return elicit("Refund 12.50?").action`, test: `
def test_a():
    testing.answer("Cancel")
    testing.run("tool")
def test_b():
    testing.answer("Refund 12", action = "decline")
    testing.eq(testing.run("tool").output, "decline")
    testing.eq(testing.questions(), ["Refund 12.50?"])
`, want: `test_a failed
x_test.star:4:5: tool.star:1:31 asks "Refund 12.50?", and the test declares no answer to it: the next one is for "Cancel" [test-unanswered]
test_b passed`},
	{name: "virtual time", scripts: `
def run(params):
    start = time.now()
    sleep("3h")
    r = try_call_tool("get", timeout = "2s")
    retry(lambda: call_tool("shop_list"), max_attempts = 2, delay = "1m", jitter = 0)
    return [str(time.now() - start), r.kind, r.error]
`, change: func(o *suite.Options) {
		o.Tools.(*suiteShop).tools["tool"].Limits = script.Limits{Time: script.Duration(10 * time.Hour)}
	}, test: `
tries = []
def flaky(args):
    tries.append(1)
    return result(content = "busy", is_error = True) if len(tries) == 1 else {}
def test_a():
    testing.tool("get", returns = {}, takes = "1h")
    testing.tool("shop_list", answer = flaky)
    testing.eq(testing.run("tool").output, ["3h0m32s", "unknown", "no answer within 2s: whether it happened is not known"])
    testing.eq(str(testing.now()), "2026-01-01T03:00:32Z")
    testing.clock("2030-05-06T07:08:09Z")
    testing.eq(testing.now().year, 2030)
`, want: `test_a passed`},
	{name: "the time that a run is awake ends", scripts: `
def run(params):
    sleep("5h")
    for i in range(40):
        call_tool("get", {})
        sleep("1h")
`, test: `
def test_a():
    testing.tool("get", returns = {}, takes = "50s")
    r = testing.run("tool")
    testing.is_false(r.ok)
    testing.contains(r.error, "limit reached: time (30m0s)")
    testing.eq(len(testing.calls()), 37)
`, want: `test_a passed`},
	{name: "waiting is not the time of a run", change: func(o *suite.Options) {
		o.Tools.Find("tool").Limits.Time = script.Duration(2 * time.Second)
	}, scripts: `
def run(params):
    sleep("4s")
    parallel([lambda: sleep("3s"), lambda: sleep("5s"), lambda: call_tool("get", {})])
    return try_call_tool("get", {}).ok
`, test: `
def test_a():
    testing.tool("get", returns = {}, takes = "900ms")
    testing.eq(testing.run("tool").output, True)
    testing.eq(str(testing.now()), "2026-01-01T00:00:09.9Z")
def test_b():
    testing.tool("get", returns = {}, takes = "1100ms")
    testing.contains(testing.run("tool").error, "limit reached: time (2s)")
    testing.eq(str(testing.now()), "2026-01-01T00:00:09.9Z")
`, want: "test_a passed\ntest_b passed"},
	{name: "waiting is the lifetime of a run", scripts: `
def run(params):
    sleep("31d")
`, test: `
def test_a():
    testing.contains(testing.run("tool").error, "limit reached: lifetime (720h0m0s)")
`, want: `test_a passed`},
	{name: "a test that loops", change: func(o *suite.Options) { o.Limits.Steps = 10000 }, scripts: `def run(params): return 1`, test: `
def test_a():
    while True:
        pass
def test_b():
    testing.eq(testing.run("tool").output, 1)
`, want: `test_a failed
x_test.star:4:9: limit reached: steps (10000) [test-time]
test_b passed`},
	{name: "assertions", scripts: `def run(params): return 1`, test: `
def test_eq():
    testing.eq({"a": [1, {"b": 2}], "c": 3, "d": 4}, {"a": [1, {"b": 3}, 5], "c": 3, "e": 4})
def test_ne():
    testing.ne(1, 1.0)
def test_true():
    testing.is_true([])
def test_false():
    testing.is_false("x")
def test_contains():
    testing.contains("abc", "b")
    testing.contains([1, 2], 2)
    testing.contains({"a": 1}, "a")
    testing.contains({"a": 1, "b": 2}, {"b": 2})
    testing.contains({"a": 1, "b": 2}, {"b": 3})
def test_fails():
    testing.eq(testing.fails(lambda: fail("one two"), "two"), "fail: one two")
    testing.fails(lambda: 1, "x")
def test_helper():
    def check():
        testing.contains("abc", "z")
    check()
def test_skipped():
    testing.skip("later")
    fail()
def test_last():
    testing.eq(testing.run("tool").output, 1)
`, want: `test_eq failed
x_test.star:3:5: /a/1/b: have 2, want 3; /a/2: is missing, want 5; /e: is missing, want 4; /d: have 4, want none [test-failed]
test_ne failed
x_test.star:5:5: both are 1 [test-failed]
test_true failed
x_test.star:7:5: want something that is true, have [] [test-failed]
test_false failed
x_test.star:9:5: want something that is false, have "x" [test-failed]
test_contains failed
x_test.star:15:5: /b: have 2, want 3 [test-failed]
test_fails failed
x_test.star:18:5: want a failure, have 1 [test-failed]
test_helper failed
x_test.star:21:9: "z" is not in "abc" [test-failed]
test_skipped skipped
test_last passed`},
	{name: "runs side by side", scripts: `def run(params): return call_tool("get", params)["n"]`, test: `
def test_a():
    testing.tool("get", answer = lambda args: args)
    testing.eq(parallel(lambda n: testing.run("tool", {"n": n}).output, [1, 2, 3]), [1, 2, 3])
def test_own_effects():
    testing.tool("get", returns = {"n": 3})
    testing.eq(call_tool("get")["n"], 3)
    sleep("5h")
    testing.eq(testing.now().hour, 5)
`, want: "test_a passed\ntest_own_effects passed"},
	{name: "a fake answers at once", scripts: `def run(params): return call_tool("get")`, test: `
def test_a():
    testing.tool("get", answer = lambda args: call_tool("setup"))
    testing.run("tool")
def test_b():
    testing.tool("get", answer = lambda args: parallel([lambda: sleep("1s"), lambda: 2]))
    testing.run("tool")
def test_c():
    testing.tool("get", answer = lambda args: testing.run("tool"))
    testing.run("tool")
def test_d():
    testing.tool("get", answer = lambda args: testing.is_true(False))
    testing.run("tool")
`, want: `test_a failed
x_test.star:3:5: the answer of the fake of get: call_tool("setup"): a fake answers immediately: it cannot call tools, ask or wait [test-fake]
test_b failed
x_test.star:6:5: the answer of the fake of get: parallel[0]: a fake answers immediately: it cannot call tools, ask or wait [test-fake]
test_c failed
x_test.star:9:5: the answer of the fake of get: testing.run: a fake answers immediately: it cannot call tools, ask or wait [test-fake]
test_d failed
x_test.star:12:47: want something that is true, have False [test-failed]`},
	{name: "a variant whose time differs is not told about", scripts: `
def run(params):
    def ask(name):
        for i in range(2):
            call_tool(name)
    parallel(ask, ["get", "setup"])
    return str(time.now())
`, test: `
def test_a():
    testing.tool("get", returns = {}, takes = "3s")
    testing.tool("setup", returns = {}, takes = "1s")
    testing.eq(testing.run("tool").ok, True)
`, want: "test_a passed"},
	{name: "failures of a tool", scripts: `
def run(params):
    r = try_call_tool("get")
    log("kind " + r.kind, level = "warning")
    call_tool("setup")
`, test: `
def test_a():
    testing.tool("get", fails = "gone", kind = "unavailable")
    testing.tool("setup", fails = "no")
    r = testing.run("tool")
    testing.eq([r.ok, r.output, r.kind], [False, None, "tool"])
    testing.contains(r.error, "call_tool(\"setup\"): no")
    testing.eq(testing.logs(), ["kind unavailable"])
    testing.eq(testing.calls(), [struct(tool = "get", args = {}), struct(tool = "setup", args = {})])
`, want: `test_a passed`},
}

func TestRules(t *testing.T) {
	for _, tt := range rules {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions(newShop(t, map[string]string{"tool": tt.scripts}))
			if tt.change != nil {
				tt.change(&o)
			}
			if have := outcomes(runTests(t, o, tt.test)); have != tt.want {
				t.Errorf("tests\n%s\ngive\n%s\nwant\n%s", tt.test, have, tt.want)
			}
		})
	}
}

// A test that computes for too long ends, and the next one runs.
func TestATestThatComputesTooLongEnds(t *testing.T) {
	o := testOptions(newShop(t, nil))
	o.Limits.Steps = 1 << 50
	for o.Budget = 20 * time.Millisecond; ; o.Budget *= 2 { // a slow machine may take that long for test_b, too
		r := runTests(t, o, "def test_a():\n    while True:\n        pass\ndef test_b():\n    pass\n")
		if len(r.Tests) != 2 || r.Tests[0].Status == suite.Passed || r.Tests[0].Problems[0].Code != suite.CodeTime {
			t.Fatalf("report is\n%s", outcomes(r))
		}
		if r.Tests[1].Status == suite.Passed {
			break
		}
		if o.Budget > 5*time.Second {
			t.Fatalf("report is\n%s", outcomes(r))
		}
	}
}

// Scripts that scripts call are part of the journal: a run can be stopped in them.
func TestNestedScriptsAreStoppedToo(t *testing.T) {
	s := newShop(t, map[string]string{
		"inner": "def run(params):\n    sleep(\"1m\")\n    return {\"n\": call_tool(\"get\", params)[\"n\"]}\n",
		"outer": "def run(params):\n    got = parallel(lambda n: call_tool(\"inner\", {\"n\": n})[\"n\"], [1, 2])\n    return [got, elicit(\"Go on?\").action, try_call_tool(\"inner\", {\"n\": 3}, timeout = \"500ms\").kind]\n",
	})
	r := runTests(t, testOptions(s), `
def test_a():
    testing.tool("get", answer = lambda args: {"n": 10 * args["n"]}, takes = "1s")
    testing.answer("Go on?")
    testing.eq(testing.run("outer").output, [[10, 20], "accept", "unknown"])
    testing.eq([c.tool for c in testing.calls()], ["inner", "get", "inner", "get", "inner", "get"])
`)
	if have := outcomes(r); have != "test_a passed" {
		t.Fatal(have)
	}
	// Three calls of inner, three sleeps and three calls in them, and the question.
	if v := r.Tests[0].Variants; v.Replay != 10 || v.Orders != 4 {
		t.Errorf("variants %+v, want 10 and 4", v)
	}
}

// Many tests are quick, and every one of them is there.
func TestManyTests(t *testing.T) {
	var source strings.Builder
	for i := range 200 {
		fmt.Fprintf(&source, "def test_%d():\n    testing.tool(\"get\", returns = {\"n\": %d})\n    testing.eq(testing.run(\"tool\").output, %d)\n", i, i, i)
	}
	r := runTests(t, testOptions(newShop(t, map[string]string{"tool": "def run(params): return call_tool(\"get\")[\"n\"]"})), source.String())
	if r.Passed != 200 || r.Failed != 0 {
		t.Errorf("%d passed, %d failed", r.Passed, r.Failed)
	}
}
