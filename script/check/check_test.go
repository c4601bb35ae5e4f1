package check_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

func TestCheckFindsWhatTheTextShows(t *testing.T) {
	tools := map[string]check.Tool{
		"ci_build": {Input: json.RawMessage(`{"type": "object", "required": ["ref"], "additionalProperties": false, "properties": {
			"ref": {"type": "string"}, "clean": {"type": "boolean"}, "jobs": {"type": "array", "items": {"type": "integer"}}}}`)},
		"odd": {Input: json.RawMessage(`{"type": "nonsense"}`)},
	}
	for _, tt := range []struct{ name, src, want string }{
		{"fine", `
def run(params):
    for n in range(3):
        retry(lambda: call_tool("ci_build", {"ref": str(n)}))
    return parallel([lambda n=n: call_tool(n) for n in params])
`, ``},
		{"durations", `
def run(params):
    elicit("m", timeout="3d")
    time.duration("1d12h")
    sleep("1.5d")
    return 1
`, `5:11: sleep: "1.5d" is not a duration; want for example "1h30m" or "2d" [builtin-value]`},
		{"syntax", "def run(params) return 1", `1:23: got return, want ':' [syntax]`},
		{"undefined name", "def run(params): return cal_tool(1)", `1:25: undefined: cal_tool; did you mean call_tool? [undefined]`},
		{"name of another function", "def f(x): return params\ndef run(params): return f(1)", `1:18: undefined: params [undefined]`},
		{"no run", "def rnu(params): pass", `1:1: no function run(params): calls of the tool run it, so it has to be defined in this file [tool-declaration]`},
		{"run without parameter", "def run(): pass", `1:5: run must take one argument, as in run(params): it has 0 [tool-declaration]`},
		{"run with two", "def run(a, b): pass", `1:5: run must take one argument, as in run(params): it has 2 [tool-declaration]`},
		{"run with a default", "def run(a, b=1): pass", ``},
		{"unreachable", `
def run(params):
    if params:
        fail("no")
        log("here")
    else:
        return 1
    log("there")
    while True:
        if params:
            break
    return 2
`, `5:9: warning: this statement is never reached [unreachable]
8:5: warning: this statement is never reached [unreachable]`},
		{"unknown tool", `def run(p): return call_tool("ci_biuld", {})`,
			`1:30: no tool "ci_biuld"; did you mean ci_build? [tool-unknown]`},
		{"unknown tool by keyword", `def run(p): return try_call_tool(args={}, name="x")`, `1:48: no tool "x" [tool-unknown]`},
		{"element of a struct", `def run(p): return struct(a=1)["a"]`, `1:20: a struct has no elements; write .a [index]`},
		{"method of Python's sets", `def run(p): return set([1]).isdisjoint(set([2]))`, `1:29: a set has no isdisjoint; write not (a & b) [method]`},
		{"computed tool", `def run(p): return call_tool("ci_" + p["name"])`, ``},
		{"missing argument", `def run(p): return call_tool("ci_build")`, `1:20: ci_build needs the argument ref [argument-missing]`},
		{"wrong arguments", `def run(p): return call_tool("ci_build", {"ref": 1, "jobs": [1, "2"], "cleen": True})`,
			`1:50: warning: ref wants a string, this is an integer that the call converts [argument-type]
1:65: warning: jobs[1] wants an integer, this is a string that the call converts [argument-type]
1:71: ci_build has no argument "cleen"; did you mean "clean"? [argument-unknown]`},
		{"partly computed arguments", `def run(p): return call_tool("ci_build", {"ref": p, "clean": 1, "new": p})`,
			`1:62: clean wants a bool, this is an integer [argument-type]
1:65: ci_build has no argument "new"; it has ref, clean, jobs [argument-unknown]`},
		{"several lines of arguments, several mistakes in one call", `def run(p):
    return call_tool("ci_build", {
        "clean": "yes",
        "jobs": [
            1,
            "two",
        ],
        "reff": p,
    })`, `2:12: ci_build needs the argument ref [argument-missing]
3:18: clean wants a bool, this is a string [argument-type]
6:13: jobs[1] wants an integer, this is a string [argument-type]
8:9: ci_build has no argument "reff"; it has ref, clean, jobs [argument-unknown]`},
		{"constant arguments", "ARGS = {\"ref\": 1}\ndef run(p): return call_tool(\"ci_build\", ARGS)",
			`1:16: warning: ref wants a string, this is an integer that the call converts [argument-type]`},
		{"computed arguments that the call may convert", `def run(p):
    n = len(p)
    call_tool("ci_build", {"ref": n, "clean": str(n), "jobs": [str(n), "x" + str(n)]})
    return call_tool("ci_build", {"ref": 1.5, "clean": "false", "jobs": ["42", "4.0", "-7"]})`,
			`4:42: warning: ref wants a string, this is a float that the call converts [argument-type]
4:56: warning: clean wants a bool, this is a string that the call converts [argument-type]
4:74: warning: jobs[0] wants an integer, this is a string that the call converts [argument-type]
4:80: jobs[1] wants an integer, this is a string [argument-type]
4:87: warning: jobs[2] wants an integer, this is a string that the call converts [argument-type]`},
		{"arguments that no call converts", `def run(p): return call_tool("ci_build", {"ref": [str(p)], "clean": 1.0, "jobs": [None, "007", True]})`,
			`1:50: ref wants a string, this is a list [argument-type]
1:69: clean wants a bool, this is a float [argument-type]
1:83: jobs[0] wants an integer, this is None [argument-type]
1:89: jobs[1] wants an integer, this is a string [argument-type]
1:96: jobs[2] wants an integer, this is a bool [argument-type]`},
		{"computed arguments", `def run(p): return call_tool("ci_build", p)`, ``},
		{"arguments of a tool with a bad schema", `def run(p): return call_tool("odd", {})`, ``},
		{"captured in a comprehension", `def run(p): return parallel([lambda: call_tool(x) for x in p])`,
			`1:30: warning: all of these functions see the last value of x; bind it: lambda x = x: ..., or use parallel(fn, items) [closure]`},
		{"captured in a loop", `
def run(p):
    fns = []
    for x in p:
        fns.append(lambda: x)
    return parallel(fns)
`, `5:20: warning: all of these functions see the last value of x; bind it: lambda x = x: ..., or use parallel(fn, items) [closure]`},
		{"updates that branches lose", `
def run(p):
    total = [0]
    seen = {}
    def add(x):
        total[0] += call_tool(x)
        seen["n"] += 1
    def helper(x):
        return call_tool(x)
    def deep(x):
        inner(x)
    def inner(x):
        seen["n"] -= len(helper(x))
    parallel(add, p)
    parallel([lambda: deep("a"), lambda: deep("b")])
`, `6:9: warning: branches can overwrite each other's updates: total is read before the call on the right, and other branches run meanwhile; call first: value = ..., then += value [lost-update]
13:9: warning: branches can overwrite each other's updates: seen is read before the call on the right, and other branches run meanwhile; call first: value = ..., then -= value [lost-update]`},
		{"updates that nobody loses", `
def run(p):
    total = [0]
    def add(x):
        n = call_tool(x)
        total[0] += n
        mine = [0]
        mine[0] += call_tool(x)
        total[0] += len([lambda: call_tool(x)])
    parallel(add, p)
    total[0] += call_tool("x")
    for x in p:
        total[0] += call_tool(x)
    return total
`, ``},
		{"a form that no client shows", `def run(p): return elicit("?", {"type": "object", "properties": {"a": {"type": "object"}}})`,
			`1:71: elicit: schema: properties.a: type: want "string", "number", "integer", "boolean", or "array" of choices [form]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := check.Options{Builtins: builtins.Table(), Tools: tools}
			if strings.HasPrefix(tt.name, "updates") {
				o.Tools = nil
			}
			var lines []string
			for _, p := range check.File(script.File{Name: "s.star", Source: []byte(tt.src)}, o) {
				lines = append(lines, strings.Replace(strings.TrimPrefix(p.Error(), "s.star:"), " error:", "", 1))
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("Check(%s)\n got %s\nwant %s", tt.src, got, tt.want)
			}
		})
	}
}

// TestATextInAnotherFormHasOnePlace: of a script that is quoted only its beginning is known. It has no
// end, and no fix, also where the line in the script is that in the file.
func TestATextInAnotherFormHasOnePlace(t *testing.T) {
	at := diag.Origin{Pos: diag.Pos{File: "vmcp.yaml", Line: 2, Column: 51}}
	src := "def run(params):\n    return call_tol([].appendd(1), len)\n"
	found := check.File(script.File{Name: "s.star", Source: []byte(src), Origin: at}, check.Options{Builtins: builtins.Table()})
	if len(found) != 2 {
		t.Fatalf("File = %v, want two problems", found)
	}
	for _, p := range found {
		if p.Pos != at.Pos || p.EndLine != 0 || p.EndColumn != 0 || p.Fix != nil {
			t.Errorf("%v: ends at %d:%d, fix %v", p, p.EndLine, p.EndColumn, p.Fix)
		}
	}
}

func TestCallsAreTheToolsThatTheTextNames(t *testing.T) {
	libs := script.Library{Inline: map[string]string{"lib.star": `
def f(): return call_tool("in_lib")
`}}
	for _, tt := range []struct {
		src     string
		tools   string
		dynamic bool
	}{
		{`def run(p): return [call_tool("b"), try_call_tool(name="a"), pages("c"), call_tool("b")]`, "a b c", false},
		{`def run(p): return call_tool(p["name"])`, "", true},
		{`def run(p): return parallel(call_tool, p)`, "", true},
		{"load(\"lib.star\", \"f\")\ndef run(p): return call_tool(\"a\")", "a in_lib", false},
		{`def run(p): return log("x")`, "", false},
	} {
		scan := check.NewScan(builtins.Table())
		f := script.File{Name: "s.star", Source: []byte(tt.src)}
		if _, err := script.Compile(f, script.Options{Builtins: builtins.All(), Load: libs.Load, Inspect: scan.File}); err != nil {
			t.Fatal(err)
		}
		got := scan.Calls()
		if strings.Join(got.Tools, " ") != tt.tools || got.Dynamic != tt.dynamic {
			t.Errorf("Calls of %s\n got %v\nwant %s, dynamic %v", tt.src, got, tt.tools, tt.dynamic)
		}
	}
}

func TestDeclarationIsReadWithoutRunning(t *testing.T) {
	all, err := check.ReadDeclarations(script.File{Name: "d.star", Source: []byte(`
SERVICE = {"type": "string"}

tool(
    name = "deploy",
    title = "Deploy",
    description = "Deploys a service " + "and waits for it",
    parameters = {"type": "object", "properties": {"service": SERVICE, "n": {"default": -1}}},
    timeout = "5m",
    annotations = {"readOnlyHint": False},
    limits = {"calls": 10},
)

fail("never run")
`)}, script.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d := all[0]
	got := strings.Join([]string{d.Name, d.Title, d.Description, d.Timeout, string(d.Parameters), string(d.Annotations), string(d.Limits)}, "\n")
	const want = `deploy
Deploy
Deploys a service and waits for it
5m
{"type":"object","properties":{"service":{"type":"string"},"n":{"default":-1}}}
{"readOnlyHint":false}
{"calls":10}`
	if got != want || d.Output != nil || d.Problem("").Line != 4 {
		t.Errorf("got %+v\n%s\nwant\n%s", d, got, want)
	}
}

func TestDeclarationErrors(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{`tool(name="a" + str(1))`, `d.star:1:17: error: tool: name: has to be written out: only literals are read without running the script [tool-declaration]`},
		{`tool(nmae="a")`, `d.star:1:6: error: tool: nmae: unknown argument, did you mean "name"? [tool-declaration]`},
		{`tool("a")`, `d.star:1:6: error: tool: want keyword arguments, as in tool(name="deploy", ...) [tool-declaration]`},
		{`tool(name=1, parameters=[])`, "d.star:1:11: error: tool: name: want a string, have int [tool-declaration]\nd.star:1:25: error: tool: parameters: want a dict, have list [tool-declaration]"},
		{`tool(description="x")`, `d.star:1:1: error: tool: want a name, as in tool(name="deploy", ...) [tool-declaration]`},
		{"tool(name=\"a\")\ntool(name=\"b-c\")\ndef run(p): return p", `d.star:2:1: error: tool: b-c needs an entry, as in entry="b_c": run is the function of a above, and a file of several tools has one for each [tool-declaration]`},
		{"tool(name=\"a\")\ntool(name=\"b\", entry=\"b\")\ndef b(p): return p", `d.star:1:1: error: tool: a needs an entry, as in entry="a": this file has no function run [tool-declaration]`},
		{"tool(name=\"a\", entry=\"refnd\")\ndef refund(p): return p", `d.star:1:22: error: tool: entry: no function refnd at the top level of this file; did you mean refund? [tool-declaration]`},
		{`tool(name="a", entry="")`, `d.star:1:22: error: tool: entry: want the name of a function [tool-declaration]`},
		{"tool(name=\"a\", entry=run)\ndef run(p): return p", `d.star:1:22: error: tool: entry: want the name of the function as a string: entry="run" [tool-declaration]`},
		{`tool(name="a"`, `d.star:1:14: error: got end of file, want ')' [syntax]`},
	} {
		_, err := check.ReadDeclarations(script.File{Name: "d.star", Source: []byte(tt.src)}, script.Limits{})
		if err == nil || err.Error() != tt.want {
			t.Errorf("ReadDeclarations(%s)\n got %v\nwant %s", tt.src, err, tt.want)
		}
	}
	if d, err := check.ReadDeclarations(script.File{Name: "lib.star", Source: []byte("def f(): pass")}, script.Limits{}); d != nil || err != nil {
		t.Errorf("a library: got %v, %v", d, err)
	}
}
