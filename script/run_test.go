package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

func TestALimitEndsABranchThatComputes(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"hang": scripttest.Hangs}}
	_, err := scripttest.Run(t, h, `
def spin():
    while True:
        pass

def run(params):
    return retry(lambda: parallel([lambda: call_tool("hang"), spin]))
`, `{}`)
	var limit *script.LimitError
	if !errors.As(err, &limit) || limit.Limit != "steps" {
		t.Fatalf("got %v, want the limit of steps", err)
	}
	if want := "parallel[1]: limit reached: steps (1000000)"; err.(*script.Error).Msg != want {
		t.Errorf("got  %s\nwant %s", err.(*script.Error).Msg, want)
	}
}

func TestErrorsCarryTheWayToThem(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"no": scripttest.Fails("no")}}
	_, err := scripttest.Run(t, h, `
def inner(n):
    return call_tool("no") if n == 1 else n

def outer(n):
    return parallel(inner, [n])

def run(params):
    return parallel(outer, [1, 2])
`, `{}`)
	var e *script.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if want := `test.star:3:21: parallel[0]: parallel[0]: call_tool("no"): no`; e.Error() != want {
		t.Errorf("got  %s\nwant %s", e, want)
	}
	const want = `Traceback (most recent call last):
  test.star:9:20: in run
  test.star:6:20: in outer
  test.star:3:21: in inner
Error in call_tool: parallel[0]: parallel[0]: call_tool("no"): no`
	if e.Backtrace != want {
		t.Errorf("got\n%s\nwant\n%s", e.Backtrace, want)
	}
}

// TestABacktraceHasEachFrameOnce: retry passes on errors of functions, which have the frames
// around retry already. A branch that looks like what is around it is still another one.
func TestABacktraceHasEachFrameOnce(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"retry in retry", `
def inner():
    fail("no")

def outer():
    retry(inner, max_attempts=2, delay=0)

def run(params):
    retry(outer, max_attempts=2, delay=0)
`, "test.star:9:10: in run test.star:6:10: in outer test.star:3:9: in inner"},
		{"retry in a branch", `
def inner():
    fail("no")

def run(params):
    parallel([lambda: retry(inner, max_attempts=2, delay=0)])
`, "test.star:6:13: in run test.star:6:28: in lambda test.star:3:9: in inner"},
		{"a branch that is its parent again", `
def run(params):
    if type(params) == "int":
        if params == 0:
            fail("no")
        parallel(run, [params - 1])
    parallel(run, [2])
`, "test.star:7:13: in run test.star:6:17: in run test.star:6:17: in run test.star:5:17: in run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scripttest.Run(t, &scripttest.Host{}, tt.src, `{}`)
			var e *script.Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			lines := strings.Split(e.Backtrace, "\n")
			if got := strings.Join(strings.Fields(strings.Join(lines[1:len(lines)-1], " ")), " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func ExampleProgram_Run() {
	p, err := script.Compile(script.File{Name: "hello.star", Source: []byte(`
def run(params):
    return {"text": "Hello, " + params["name"]}
`)}, script.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := p.Run(context.Background(), script.RunOptions{Args: json.RawMessage(`{"name": "World"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Structured))
	// Output: {"text":"Hello, World"}
}

func TestLimitsOfWhatARunReturns(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"size", `def run(p): return "x" * (11 << 20)`, `test.star:1:5: the returned value: limit reached: output (10MB)`},
		{"shared parts count each time", "def run(p):\n  x = [\"x\" * 1000]\n  for i in range(20):\n    x = x + x\n  return x",
			`test.star:1:5: the returned value: limit reached: output (10MB)`},
		{"content", `def run(p): return result(content="x" * (11 << 20))`, `test.star:1:5: the returned content: limit reached: output (10MB)`},
		{"depth", "def run(p):\n  x = []\n  for i in range(200):\n    x = [x]\n  return x", `nested more than 100 deep`},
		{"no JSON", `def run(p): return {"a": [run]}`, `test.star:1:5: the returned value: $.a[0]: function cannot be written as JSON`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := outcome(scripttest.Run(t, &scripttest.Host{}, tt.src, `{}`)); !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAResultIsWhatTheScriptMadeOfIt(t *testing.T) {
	res, err := scripttest.Run(t, &scripttest.Host{}, `
def run(p):
    return result(content=["done", {"type": "image", "data": ""}], structured={"n": p["n"]}, is_error=True)
`, `{"n": 9007199254740993}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Content), `[{"type":"text","text":"done"},{"type":"image","data":""}]`; got != want {
		t.Errorf("content\n got %s\nwant %s", got, want)
	}
	if got, want := string(res.Structured), `{"n":9007199254740993}`; got != want || !res.IsError {
		t.Errorf("structured\n got %s, isError %v\nwant %s, isError", got, res.IsError, want)
	}
}

func TestTraceTellsOfEveryEffect(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo, "no": scripttest.Fails("no")}}
	p := scripttest.Compile(t, `
def run(p):
    time.now()
    parallel(lambda n: call_tool("echo", {"n": n}), [1, 2], max_concurrency=1)
    return try_call_tool("no").kind
`)
	j := script.NewJournal()
	for _, replayed := range []bool{false, true} {
		var got []string
		o := script.RunOptions{Host: h, Journal: j, Trace: func(e script.Event) {
			got = append(got, fmt.Sprintf("%s %s %s %v %v", e.Key, e.Kind, e.Name, e.Replayed, e.Err))
		}}
		if _, err := p.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll("0 now  R <nil>|1.b0.0 call echo R <nil>|1.b1.0 call echo R <nil>|2 call no R no", "R", fmt.Sprint(replayed))
		if strings.Join(got, "|") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
		}
	}
}

func TestAPanicEndsItsRunAndNothingElse(t *testing.T) {
	names := builtins.All()
	names["boom"] = starlark.NewBuiltin("boom", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		panic("boom")
	})
	for _, src := range []string{
		`def run(p): boom()`,
		`def run(p): retry(boom)`,
		`def run(p): parallel([lambda: call_tool("hang"), lambda: boom()])`,
		`def run(p): call_tool("panic")`,
		`def run(p): try_call_tool("panic")`,
		`boom()` + "\ndef run(p): pass",
	} {
		p, err := script.Compile(script.File{Name: "s.star", Source: []byte(src)}, script.Options{Builtins: names})
		if err != nil {
			t.Fatal(err)
		}
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{
			"hang":  scripttest.Hangs,
			"panic": func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("boom") },
		}}
		_, err = p.Run(t.Context(), script.RunOptions{Host: h, Journal: script.NewJournal()})
		var crash *script.Crash
		if !errors.As(err, &crash) || crash.Value != "boom" || len(crash.Stack) == 0 {
			t.Errorf("%s: got %v, want the panic as an error", src, err)
		}
	}
}

func TestEveryLimitNamesItselfItsValueAndThePlace(t *testing.T) {
	for _, tt := range []struct {
		limits script.Limits
		body   string
		want   string
	}{
		{script.Limits{Steps: 1000}, `[x for x in range(1000)]`, `test.star:2:4: limit reached: steps (1000)`},
		{script.Limits{Memory: 1 << 20}, `"x" * (2 << 20)`, `test.star:2:7: limit reached: memory (1MB)`},
		{script.Limits{Time: script.Duration(time.Minute)}, `call_tool("hang")`, `test.star:2:12: call_tool("hang"): limit reached: time (1m0s)`},
		{script.Limits{Time: script.Duration(time.Minute)}, `retry(lambda: try_call_tool("hang"))`, `test.star:2:30: try_call_tool("hang"): limit reached: time (1m0s)`},
		{script.Limits{CallTimeout: script.Duration(time.Second)}, `call_tool("hang")`, `test.star:2:12: call "hang" (effect 0): no answer within 1s: whether it happened is not known, so it is not repeated`},
		{script.Limits{ElicitTimeout: script.Duration(time.Second)}, `elicit("?")`, `test.star:2:9: elicit: no answer within 1s`},
		{script.Limits{Calls: 3}, `[call_tool("echo") for _ in range(4)]`, `test.star:2:13: call_tool("echo"): limit reached: calls (3)`},
		{script.Limits{Calls: 3}, `[try_call_tool("echo") for _ in range(4)]`, `test.star:2:17: try_call_tool("echo"): limit reached: calls (3)`},
		{script.Limits{Branches: 3}, `parallel([len] * 4)`, `test.star:2:11: limit reached: branches (3)`},
		{script.Limits{Nesting: 1}, `parallel(lambda _: parallel([]), [1])`, `test.star:2:30: parallel[0]: limit reached: nesting (1)`},
		{script.Limits{CallDepth: 20}, `run(p)`, `test.star:2:3: limit reached: callDepth (20)`},
		{script.Limits{Result: 20}, `call_tool("echo", {"a": "long enough to be too long"})`,
			`test.star:2:12: call_tool("echo"): limit reached: result (20B): it has 69B`},
		{script.Limits{Output: 20}, `call_tool("echo", {"a": "long enough to be too long"})`,
			`test.star:2:12: call_tool("echo"): limit reached: output (20B)`},
		{script.Limits{LogBytes: 10}, `log("far too much to say")`, `test.star:2:6: limit reached: logBytes (10B)`},
		{script.Limits{LogBytes: 10}, `print("far too much to say")`, `test.star:2:8: limit reached: logBytes (10B)`},
	} {
		t.Run(tt.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &scripttest.Host{
					Tools: map[string]scripttest.Tool{"echo": scripttest.Echo, "hang": scripttest.Hangs},
					Answer: func(ctx context.Context, _ script.Question) (json.RawMessage, error) {
						return scripttest.Hangs(ctx, nil)
					},
				}
				p := scripttest.Compile(t, "def run(p):\n  "+tt.body)
				_, err := p.Run(t.Context(), script.RunOptions{Host: h, Limits: tt.limits})
				if err == nil || err.Error() != tt.want {
					t.Errorf("%s\n got %v\nwant %s", tt.body, err, tt.want)
				}
			})
		})
	}
}

func TestBranchesOverlapUpToTheWidth(t *testing.T) {
	for _, tt := range []struct {
		arg  string
		want int
	}{{"", 10}, {", max_concurrency=3", 3}, {", max_concurrency=100", 10}} {
		t.Run(tt.arg, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				now, most := 0, 0
				count := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					now += n
					most = max(most, now)
				}
				h := &scripttest.Host{Tools: map[string]scripttest.Tool{"wait": func(context.Context, json.RawMessage) (json.RawMessage, error) {
					count(1)
					defer count(-1)
					time.Sleep(time.Second)
					return scripttest.Structured("1"), nil
				}}}
				began := time.Now()
				_, err := scripttest.Run(t, h, `def run(p): return parallel(lambda n: call_tool("wait"), range(30)`+tt.arg+`)`, `{}`)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); most != tt.want || took != time.Duration(30/tt.want)*time.Second {
					t.Errorf("%d calls at once in %s, want %d in %ds", most, took, tt.want, 30/tt.want)
				}
			})
		})
	}
}

func TestStatsAreThereHoweverTheRunEnds(t *testing.T) {
	p := scripttest.Compile(t, `
def run(p):
    parallel([lambda: try_call_tool("x")] * 2)
    fail("no")
`)
	var s script.Stats
	if _, err := p.Run(t.Context(), script.RunOptions{Host: &scripttest.Host{}, Stats: &s}); err == nil {
		t.Fatal("the run did not fail")
	}
	if s.Calls != 2 || s.Branches != 2 || s.Steps == 0 || s.Memory == 0 || s.Duration <= 0 {
		t.Errorf("got %+v", s)
	}
}

// TestLongBacktraces: of many calls with long names, a backtrace has the outermost and the innermost.
func TestLongBacktraces(t *testing.T) {
	name := strings.Repeat("n", 250)
	p := scripttest.Compile(t, "def "+name+"(n):\n    return "+name+"(n - 1) if n else 1 // 0\ndef run(params):\n    return "+name+"(400)\n")
	_, err := p.Run(t.Context(), script.RunOptions{Limits: script.Limits{CallDepth: 500}})
	var e *script.Error
	if !errors.As(err, &e) || e.Pos.Line != 2 {
		t.Fatalf("Run = %.200v", err)
	}
	lines := strings.Split(e.Backtrace, "\n")
	if n := len(e.Backtrace); n > 66<<10 || n < 32<<10 {
		t.Errorf("the backtrace has %d bytes", n)
	}
	for i, want := range map[int]string{1: "in run", len(lines) - 2: "2:", len(lines) - 1: "Error: floored division by zero"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %.100q, want %q", i, lines[i], want)
		}
	}
	if !strings.Contains(e.Backtrace, "\n  ... ") {
		t.Error("it does not say how many calls are left out")
	}
}
