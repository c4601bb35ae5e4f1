package builtins_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// failsAtTheEnd has for each function a call that succeeds and one that fails at the
// last element of an argument of the same size; setup makes the arguments of both.
var failsAtTheEnd = []struct{ function, setup, good, bad string }{
	{"call_tool", `s = ["x" * 1000] * 1000`, `call_tool("greet", {"s": s})`, `call_tool("greet", {"s": s + [run]})`},
	{"try_call_tool", `s = list(range(50000))`, `try_call_tool("greet", {"s": s})`, `try_call_tool("greet", {"s": s + [run]})`},
	{"retry", `l = list(range(20000))`, `retry(lambda: json.encode(l))`, `retry(lambda: json.encode(l + [run]), max_attempts=1)`},
	{"parallel", `l = list(range(900))`, `parallel(lambda i: i, l)`, `parallel(lambda i: 1 // (899 - i), l)`},
	{"pages", `s = ["x" * 1000] * 1000`, `[x for x in pages("numbers", {"n": 1, "s": s})]`, `[x for x in pages("numbers", {"n": 1, "s": s + [run]})]`},
	{"elicit", `s = {"type": "object", "properties": {"a" + str(i): {"type": "string"} for i in range(100)}}`, `elicit("?", s, when_unavailable="cancel")`, `elicit("?", {"type": "object", "properties": dict(s["properties"], x={"type": "list"})}, when_unavailable="cancel")`},
	{"log", `s = ["x" * 1000] * 500`, `log("m", s=s)`, `log("m", s=s + [run])`},
	{"log", `s = [[] for i in range(50000)]`, `log(s)`, `log(s + [run])`},
	{"progress", `s = "x" * 100000`, `progress(1, 2, s)`, `progress(1, 2, [s, run])`},
	{"result", `s = [{"type": "text", "text": "x" * 100}] * 3000`, `result(content=s)`, `result(content=s + [1])`},
	{"struct", `d = {"a" + str(i): i for i in range(10000)}`, `struct(**d)`, `struct(1, **d)`},
	{"json.encode", `s = ["x" * 1000] * 1000`, `json.encode(s)`, `json.encode(s + [run])`},
	{"json.encode", `s = {"a" + str(i): i for i in range(20000)}`, `json.encode(s)`, `json.encode(dict(s, b=run))`},
	{"json.encode", ``, `json.encode(range(100000))`, `json.encode([range(100000), run])`},
	{"json.encode", `s = struct(**{"a" + str(i): i for i in range(5000)})`, `json.encode([s] * 10)`, `json.encode([s] * 10 + [run])`},
	{"json.decode", `s = "[" + "{}," * 50000`, `json.decode(s + "1]")`, `json.decode(s + "x]")`},
	{"json.indent", `s = "[" + "{}," * 50000`, `json.indent(s + "1]")`, `json.indent(s + "x]")`},
	{"text", `s = ["x" * 1000] * 1000`, `text(s)`, `text(s + [run])`},
	{"printf", `s = ["x" * 1000] * 1000`, `printf("%s", s)`, `printf("%s", s + [run])`},
	{"re.sub", `s = "x" * 20000`, `re.sub("x", lambda m: "y", s)`, `re.sub("x|(z)", lambda m: 1 if m.groups[0] else "y", s + "z")`},
	{"time.parse", `s = "x" * 900`, `time.parse("2006" * 20, "2006" * 20)`, `time.parse("2006" * 19 + "200x", "2006" * 20)`},
	{"sorted", `l = ["x" * 2000 + str(i) for i in range(500)]`, `sorted(l)`, `sorted(l + [1])`},
	{"join", `l = ["x" * 100] * 20000`, `"".join(l)`, `"".join(l + [1])`},
	{"dict", `l = [(i, i) for i in range(20000)]`, `dict(l)`, `dict(l + [1])`},
	{"set", `l = list(range(20000))`, `set(l)`, `set(l + [[]])`},
	{"bytes", `l = [1] * 20000`, `bytes(l)`, `bytes(l + ["x"])`},
	{"max", `l = list(range(20000))`, `max(l)`, `max(l + ["x"])`},
	{"repr", `l = ["x"] * 20000`, `hash(str(l))`, `hash(l + [str(l)])`},
	{"%", `s = "x" * 100`, `("%s" * 2000) % tuple([s] * 2000)`, `("%s" * 2000 + "%d") % tuple([s] * 2001)`},
	{"format", `s = "x" * 100`, `("{}" * 2000).format(*[s] * 2000)`, `("{}" * 2001).format(*[s] * 2000)`},
	{"dict display", ``, `{i: i for i in range(20000)}`, `{(i if i < 19999 else []): i for i in range(20000)}`},
	{"dict.update", `l = [(i, i) for i in range(20000)]`, `{}.update(l)`, `{}.update(l + [1])`},
	{"set.union", `l = list(range(20000))`, `set().union(l)`, `set().union(l + [[]])`},
	{"==", `l = ["x" * 1000 + str(i) for i in range(1000)]`, `l == ["x" * 1000 + str(i) for i in range(1000)]`, `l < ["x" * 1000 + str(i) for i in range(999)] + [1]`},
}

// TestFailingCostsLikeSucceeding: a call that fails at its last element has done the same work as one that succeeds,
// and is charged at least half of it. Otherwise retry could repeat it without limit.
func TestFailingCostsLikeSucceeding(t *testing.T) {
	testmode.NeedThorough(t)
	for i, tt := range failsAtTheEnd {
		t.Run(fmt.Sprint(i, " ", tt.function), func(t *testing.T) {
			none, _ := costOf(t, tt.setup, "")
			good, err := costOf(t, tt.setup, tt.good)
			if err != nil {
				t.Fatalf("%s: %v", tt.good, err)
			}
			bad, err := costOf(t, tt.setup, tt.bad)
			if err == nil && tt.function != "try_call_tool" {
				t.Fatalf("%s does not fail", tt.bad)
			}
			have, want := work(bad)-work(none), work(good)-work(none)
			if have < want/2 {
				t.Errorf("failing costs %d (%+v), succeeding %d (%+v): %v", have, bad, want, good, err)
			}
		})
	}
}

// work returns the weight of what a run has used: a step takes about as long as 100 bytes.
func work(s script.Stats) int64 { return int64(s.Steps) + s.Memory/100 }

func costOf(t *testing.T, setup, expr string) (script.Stats, error) {
	t.Helper()
	src := "def run(params):\n  " + setup + "\n  " + expr + "\n  return None\n"
	var stats script.Stats
	_, err := scripttest.Compile(t, src).Run(context.Background(), script.RunOptions{Host: world(), Stats: &stats})
	return stats, err
}

// TestEveryFunctionHasAFailingCall: a new builtin needs a row above, or takes nothing
// that has elements.
func TestEveryFunctionHasAFailingCall(t *testing.T) {
	small := []string{
		"caller", "sleep", "tool", "math.", "time.", "re.", // numbers and bounded texts; re and time have rows for what is large
		"html_escape", "js_escape", "url_query", "without_none", // nothing in a text or a dict makes them fail
	}
	var names []string
	for _, b := range builtins.Table() {
		m, ok := b.Value.(starlark.HasAttrs)
		if _, fn := b.Value.(*starlark.Builtin); fn || !ok {
			names = append(names, b.Name)
			continue
		}
		for _, member := range m.AttrNames() {
			names = append(names, b.Name+"."+member)
		}
	}
	for _, name := range names {
		covered := slices.ContainsFunc(small, func(s string) bool { return name == s || strings.HasSuffix(s, ".") && strings.HasPrefix(name, s) })
		for _, tt := range failsAtTheEnd {
			covered = covered || tt.function == name
		}
		if !covered {
			t.Errorf("%s has no call that fails at the last element", name)
		}
	}
}
