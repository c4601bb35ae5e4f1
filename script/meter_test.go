package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// endOf returns the result of a program, or its error.
func endOf(t *testing.T, source string, l script.Limits) string {
	t.Helper()
	p, err := script.Compile(script.File{Name: "a.star", Source: []byte(source)}, script.Options{Builtins: starlark.StringDict{"json": jsonModule, "struct": structBuiltin}})
	if err != nil {
		return err.Error()
	}
	res, err := p.Run(context.Background(), script.RunOptions{Limits: l})
	if err != nil {
		return err.Error()
	}
	return string(res.Structured)
}

// An error of a rewritten operation has the position in the text, and its backtrace has no frames of operators.
func TestErrorsKeepTheirPlace(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"operator", `return params +  1`, `a.star:2:19: unknown binary op: dict + int`},
		{"augmented", `params -= {}`, `a.star:2:12: unknown binary op: dict - dict`},
		{"comparison", `return [params <  params]`, `a.star:2:20: dict < dict not implemented`},
		{"membership", `return [params] in "x" + ""`, `a.star:2:21: 'in <string>' requires string as left operand, not list`},
		{"key", `return params["a" + "b"]`, `a.star:2:18: key "ab" not in dict; it is empty`},
		{"index", `return [1][len([1, 2])]`, `a.star:2:15: list index 2 out of range [-1:0]`},
		{"assignment", `params[[]] = 1`, `a.star:2:11: unhashable type: list`},
		{"augmented index", `params["x" + ""] += 1`, `a.star:2:11: key "x" not in dict; it is empty`},
		{"slice", `return params[1:2]`, `a.star:2:18: invalid slice operand dict`},
		{"slice bound", `return "abc"["x":]`, `a.star:2:17: invalid start index: got string, want int`},
		{"dict display", `return {"a": 1, params: 2}`, `a.star:2:27: unhashable type: dict`},
		{"dict comprehension", `return {[]: 1 for x in [1]}`, `a.star:2:15: unhashable type: list`},
		{"unary", `return -params`, `a.star:2:12: unknown unary op: - dict`},
		{"method", `return "a".jion([])`, `a.star:2:15: string has no .jion field or method`},
		{"metered method of another type", `return params.upper()`, `a.star:2:18: dict has no .upper field or method`},
		{"method that fails", `return "a".index("b")`, `a.star:2:21: index: substring not found`},
		{"field", `params.x += 1`, `a.star:2:11: dict has no .x field or method`},
		{"augmented only", `x += 1`, `a.star:2:5: local variable x referenced before assignment`},
		{"spread", `return len(*1)`, `a.star:2:15: argument after * must be iterable, not int`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := endOf(t, "def run(params):\n    "+tt.body+"\n", script.Limits{}); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.body, got, tt.want)
			}
		})
	}
}

// The error of a run lists the keys that exist; errors that scripts catch and the interpreter's text do not change.
func TestAMissingKeyNamesThoseThatThereAre(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"a slip", `return {"title": 1, "texts": 2, "body": 3}["text"]`, `key "text" not in dict; it has "texts", "title", "body"`},
		{"many", `return {"k%d" % i: i for i in range(9)}["k9"]`, `key "k9" not in dict; it has "k0", "k1", "k2", "k3", "k4" and 4 more`},
		{"other types", `return {1: 1, "a": 2}["b"]`, `key "b" not in dict; it has "a" and 1 more`},
		{"not a text", `return {1: 1}[2]`, `key 2 not in dict`},
		{"long keys", `return {"a" * 100: 1}["b"]`, `key "b" not in dict`},
		{"line breaks", "return {\"a\\nb\": 1}[\"b\"]", `key "b" not in dict; it has "a\nb"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := endOf(t, "def run(params):\n    "+tt.body+"\n", script.Limits{})
			if _, got, _ = strings.Cut(got, ": "); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.body, got, tt.want)
			}
		})
	}
}

func TestBacktraceHasNoFramesOfOurs(t *testing.T) {
	p := compile(t, "def add(x):\n    return x + 1\n\ndef run(params):\n    return [add(x) for x in ['a']]\n", nil)
	_, err := p.Run(context.Background(), script.RunOptions{})
	var e *script.Error
	if !errors.As(err, &e) {
		t.Fatalf("Run: got %v, want an *Error", err)
	}
	want := `Traceback (most recent call last):
  test.star:5:16: in run
  test.star:2:14: in add
Error: unknown binary op: string + int`
	if e.Backtrace != want {
		t.Errorf("backtrace:\n%s\nwant:\n%s", e.Backtrace, want)
	}
}

// The target of an augmented assignment is evaluated once, before the value, and a list
// is changed in place.
func TestAugmentedAssignmentsEvaluateOnce(t *testing.T) {
	got := endOf(t, `
log = []

def at(name, v):
    log.append(name)
    return v

def run(params):
    l = [[1], 2]
    same = l[0]
    at("list", l)[at("index", 0)] += at("value", [5])
    l[1] *= 21
    d = {"a": {"x": 1}}
    d["a"] |= {"y": 2}
    s = set([1])
    s |= set([2])
    n = 7
    n //= 2
    t = "a"
    t += "b"
    t %= ()
    return [l, same, d, sorted(s), n, t, log]
`, script.Limits{})
	want := `[[[1,5],42],[1,5],{"a":{"x":1,"y":2}},[1,2],3,"ab",["list","index","value"]]`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A dict comprehension ends at the first key that no dict can have, before the next
// entry is made.
func TestDictComprehensionsEndAtTheirFirstBadKey(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{`def run(params):
    seen = []
    attempt(lambda: {[]: seen.append(i) for i in range(5)}, None)
    return seen
`, `[0]`},
		{`
def run(params):
    seen = []
    def key(i):
        seen.append(i)
        return fail("no key") if i == 1 else i
    attempt(lambda: {key(i): 1 for i in range(5)}, None)
    return seen
`, `[0,1]`},
		{`def run(params): return {k: v for v, k in enumerate("b a c b".elems()) if k != " "}`, `{"b":6,"a":2,"c":4}`},
		{`def run(params): return {(x, [1]): 1 for x in [1]}`, `a.star:1:34: unhashable type: list`},
	} {
		p, err := script.Compile(script.File{Name: "a.star", Source: []byte(tt.source)}, script.Options{Builtins: starlark.StringDict{"attempt": attempt}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.Run(context.Background(), script.RunOptions{})
		got := fmt.Sprint(err)
		if err == nil {
			got = string(res.Structured)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s\n got %s\nwant %s", tt.source, got, tt.want)
		}
	}
}

// A struct reads as it does in the interpreter, however it is formatted.
func TestStructsReadAsStructs(t *testing.T) {
	got := endOf(t, `
def run(params):
    s = struct(a = 1, b = struct(c = "x"))
    return [str(s), repr(s), "%s" % s, "%r" % (s,), "{}".format(s), str([s]), str({"k": s})]
`, script.Limits{})
	one := `struct(a = 1, b = struct(c = \"x\"))`
	want := `["` + strings.Repeat(one+`","`, 5) + `[` + one + `]","{\"k\": ` + one + `}"]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A limit names itself, its value and the place.
func TestLimitErrors(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		limits       script.Limits
		want         string
	}{
		{"steps", "def run(params):\n    for i in range(1 << 60):\n        pass\n", script.Limits{Steps: 5000}, `a.star:2:5: limit reached: steps (5000)`},
		{"steps in one operation", "def run(params):\n    return max(range(1 << 60))\n", script.Limits{}, `a.star:2:15: limit reached: steps (1000000)`},
		{"steps of while", "def run(params):\n    x = 1\n    while True:\n        pass\n", script.Limits{Steps: 5000}, `a.star:3:5: limit reached: steps (5000)`},
		{"steps of a helper's while", "def spin():\n    n = [1]\n\n    while n:\n        continue\n\ndef run(params):\n    spin()\n", script.Limits{Steps: 5000}, `a.star:4:11: limit reached: steps (5000)`},
		{"steps of a while in a for", "def run(params):\n    for x in [1, 2]:\n        y = x\n        while y:\n            y = x\n", script.Limits{Steps: 5000}, `a.star:4:15: limit reached: steps (5000)`},
		{"steps of a comprehension", "def run(params):\n    x = 1\n    return [1\n        for i in range(1 << 60)]\n", script.Limits{Steps: 5000}, `a.star:4:9: limit reached: steps (5000)`},
		{"time", "def run(params):\n    x = 1\n    while True:\n        x = 2\n", script.Limits{Steps: 1 << 40, Memory: 1 << 50, Time: script.Duration(200 * time.Millisecond)}, `a.star:3:5: limit reached: time (200ms)`},
		{"memory", "def run(params):\n    x = 'x' * (1 << 29)\n", script.Limits{}, `a.star:2:13: limit reached: memory (256MB)`},
		{"memory in small pieces", "def run(params):\n    l = []\n    while True:\n        l.append({})\n", script.Limits{Memory: 1 << 20}, `a.star:4:18: limit reached: memory (1MB)`},
		{"callDepth", "def f(n):\n    return f(n + 1)\n\ndef run(params):\n    return f(0)\n", script.Limits{CallDepth: 50}, `a.star:2:12: limit reached: callDepth (50)`},
		{"callDepth through a builtin", "def f(n):\n    return sorted([n], key = f)\n\ndef run(params):\n    return f(0)\n", script.Limits{}, `a.star:2:12: limit reached: callDepth (200)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := endOf(t, tt.source, tt.limits); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A recursion within the limit is not stopped, and one that is a call deeper is.
func TestCallDepthIsExact(t *testing.T) {
	source := "def f(n):\n    return 0 if n == 0 else f(n - 1)\n\ndef run(params):\n    return f(%d)\n"
	if got := endOf(t, fmt.Sprintf(source, 98), script.Limits{CallDepth: 100}); got != "0" {
		t.Errorf("100 calls deep: got %s", got)
	}
	if got := endOf(t, fmt.Sprintf(source, 99), script.Limits{CallDepth: 100}); !strings.HasSuffix(got, "limit reached: callDepth (100)") {
		t.Errorf("101 calls deep: got %s", got)
	}
}

// What a run is charged depends on nothing but the run: processes have different seeds for hashes.
func TestChargesAreDeterministic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.star")
	source := `
def run(params):
    d = {("key number %d" % i, i) + ("x" * 20,) * 39: i for i in range(3000)}
    s = set(["another key %d" % i for i in range(5000)])
    return len([k for k in d if k in d]) + len(s & s) + len(sorted(s)) + len(str(s))
`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := inChild(t, path, 1_000_000), inChild(t, path, 1_000_000)
	if one.Kind != "completed" {
		t.Fatalf("ended with %s", one.Text)
	}
	if one.Used.Steps != two.Used.Steps || one.Used.Memory != two.Used.Memory {
		t.Errorf("one process used %+v, another %+v", one.Used, two.Used)
	}
}

// A string that grows by += is charged its length, not the sum of all its former lengths.
func TestGrowingTextIsCheap(t *testing.T) {
	p := compile(t, "def run(params):\n    s = ''\n    for i in range(20000):\n        s += 'a line of the text that grows\\n'\n    return len(s)\n", nil)
	used, err := runForStats(context.Background(), p, script.Limits{})
	if err != nil || used > 16<<20 {
		t.Errorf("600 kB in 20,000 lines: charged %d bytes, %v", used, err)
	}
}

// The spare capacity of a sum is used once: other strings with the same beginning do not change.
func TestGrowingTextsDoNotShareTheirEnds(t *testing.T) {
	got := endOf(t, `
def run(params):
    s = "x" * 300
    s += "a"
    s += "b"
    one, two = s + "1", s + "2"
    one += "!"
    three = s + "3"
    s += "c"
    return [v[298:] for v in [s, one, two, three]]
`, script.Limits{})
	if want := `["xxabc","xxab1!","xxab2","xxab3"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTreesThatAreRefused(t *testing.T) {
	run := "\ndef run(params):\n    return 1\n"
	for _, tt := range []struct{ name, source, want string }{
		{"nodes", "x = [" + strings.Repeat("1,", 60_000) + "]", `the file has more than 50000 nodes`},
		{"name", "def f():\n    " + strings.Repeat("x", 300) + " = 1", `name of 300 bytes`},
		{"keyword", "x = dict(" + strings.Repeat("x", 300) + " = 1)", `name of 300 bytes`},
		{"attribute", "x = f." + strings.Repeat("x", 300), `name of 300 bytes`},
		{"sum", "x = 1" + strings.Repeat(" + 1", 600), `nested more than 500 deep`},
		{"attributes", "x = f" + strings.Repeat(".a", 600), `nested more than 500 deep`},
		{"calls", "x = f" + strings.Repeat("()", 600), `nested more than 500 deep`},
		{"indexes", "x = f" + strings.Repeat("[0]", 600), `nested more than 500 deep`},
		{"conditions", "x = " + strings.Repeat("1 if 1 else ", 600) + "1", `nested more than 500 deep`},
		{"elifs", "if 1:\n    pass\n" + strings.Repeat("elif 1:\n    pass\n", 600), `nested more than 500 deep`},
		{"functions", "x = " + strings.Repeat("lambda: ", 40) + "1", `functions nested more than 32 deep`},
		{"clauses", "x = [1" + strings.Repeat(" for x in [1]", 40) + "]", `comprehension of 40 clauses`},
		{"digits", "x = " + strings.Repeat("1", 5000), `integer of 5000 digits, at most 4096`},
		{"parameters", "def f(" + strings.Repeat("a,", 300) + "b):\n    pass", `function of 301 parameters`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := endOf(t, tt.source+run, script.Limits{})
			if !strings.Contains(got, tt.want) || !strings.HasPrefix(got, "a.star:") {
				t.Errorf("got %.200s\nwant a place and %q", got, tt.want)
			}
		})
	}
}

// The names of operators are not for scripts: they cannot be written, nor loaded.
func TestOperatorsCannotBeLoaded(t *testing.T) {
	_, err := script.Compile(script.File{Name: "a.star", Source: []byte("load('lib.star', x = '_ +')\ndef run(params):\n    return 1\n")}, script.Options{
		Load: func(_, name string) (script.File, error) {
			return script.File{Name: name, Source: []byte("y = 1 + len([])\n")}, nil
		},
	})
	if err == nil || !strings.Contains(err.Error(), "names with leading underscores are not exported") {
		t.Errorf("load of an operator: %v", err)
	}
}

// A file may rebind None; what looks like a comparison with a constant is then metered.
func TestRenamedConstantsPay(t *testing.T) {
	got := endOf(t, `
def run(params):
    a, None = [0], [0]
    for i in range(8):
        a, None = [a] * 60, [None] * 60
    return a == None
`, script.Limits{})
	if !strings.HasSuffix(got, "limit reached: steps (1000000)") {
		t.Errorf("got %s", got)
	}
}

// Branches that compute notice immediately that they are cancelled, also inside one operation.
func TestCancelledRunEnds(t *testing.T) {
	for _, body := range []string{
		"for i in range(1 << 50):\n        pass",
		"max(range(1 << 50))",
		"all(range(1, 1 << 50))",
		"l = list(range(1000000))\n    sorted(l + l[::-1] + l, key = lambda x: cancel() or -x)",
		"x = [[0] * 60]\n    for i in range(7):\n        x = [x] * 60\n    cancel() or x == x + []",
	} {
		ctx, cancel := context.WithCancel(context.Background())
		p := compile(t, "def run(params):\n    cancel()\n    "+body+"\n", starlark.StringDict{
			"cancel": starlark.NewBuiltin("cancel", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
				cancel()
				return starlark.None, nil
			}),
		})
		_, err := p.Run(ctx, script.RunOptions{Limits: script.Limits{Steps: 1 << 60, Memory: 1 << 50}})
		var c *script.Cancelled
		if !errors.As(err, &c) {
			t.Errorf("%s\n got %v, want *Cancelled", body, err)
		}
	}
}
