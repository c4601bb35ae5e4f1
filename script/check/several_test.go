package check_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// another is one more tool, which stands behind what a file has.
const another = "\n\ntool(name = \"zz\", description = \"Z.\", entry = \"zz_tool\")\n\ndef zz_tool(params):\n    return params\n"

// TestAToolBesideAnother holds what is found in the scripts of the corpus, as the only tool of a file, to what is found
// where another one stands below it.
func TestAToolBesideAnother(t *testing.T) {
	files, _ := filepath.Glob(corpus + "/*/*.star")
	tools := corpusTools(t)
	compared := 0
	for i, name := range files {
		if !testmode.Thorough() && i%5 != 0 {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, known := range []map[string]check.Tool{tools, nil} {
			alone, want := corpusSource(name, text)
			if filepath.Base(filepath.Dir(name)) == "lib" || len(alone.Tools) == 0 && len(want) > 0 {
				continue // it is no tool's, or what it declares cannot be read
			}
			beside, have := corpusSource(name, append(slices.Clone(text), another...))
			switch len(alone.Tools) {
			case 0: // it is run that the configuration says more of
				beside.Tools = append([]check.Entry{{}}, beside.Tools...)
			case 1:
			default:
				t.Fatalf("%s has several tools already", name)
			}
			for _, p := range check.Check([]check.Source{alone}, corpusOptions(known)).Problems() {
				want = append(want, p.Error())
			}
			for _, p := range check.Check([]check.Source{beside}, corpusOptions(known)).Problems() {
				have = append(have, p.Error())
			}
			if slices.Sort(want); !slices.Equal(want, sorted(have)) {
				t.Errorf("%s beside another tool:\n got %s\nwant %s", name, strings.Join(have, "\n     "), strings.Join(want, "\n     "))
			}
			compared++
		}
	}
	if compared < testmode.Count(60, 300) {
		t.Errorf("%d were compared", compared)
	}
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}

// TestWhatEachToolOfAFileIsHeldTo: limits, schemas, hints and cycles of calls are those of one tool, not of its file.
func TestWhatEachToolOfAFileIsHeldTo(t *testing.T) {
	const head = `
tool(name = "slow", description = "S.", entry = "slow")
tool(name = "fast", description = "F.", limits = {"lifetime": "2s"}, annotations = {"readOnlyHint": True}, entry = "fast")
`
	for _, tt := range []struct{ name, text, want string }{
		{"a wait that one has the time for", "def slow(params):\n    sleep(\"5s\")\ndef fast(params):\n    return 1", ""},
		{"a wait that the other has not", "def slow(params):\n    nap()\ndef fast(params):\n    nap()\ndef nap():\n    sleep(\"5s\")",
			"a.star:9:11: warning: waits 5s, a run of the tool ends after 2s (lifetime) [limit]"},
		{"a write of the other one", "def slow(params):\n    call_tool(\"wipe\")\ndef fast(params):\n    return 1", ""},
		{"a write by way of a helper", "def slow(params):\n    return 1\ndef fast(params):\n    return [f() for f in [wipe]]\ndef wipe():\n    call_tool(\"wipe\")",
			"a.star:3:85: warning: declared as read-only, but calls wipe [annotation]"},
		{"a write at top level", "X = call_tool(\"wipe\")\ndef slow(params):\n    return X\ndef fast(params):\n    return 1",
			"a.star:3:85: warning: declared as read-only, but calls wipe [annotation]"},
		{"a circle", "def slow(params):\n    return call_tool(\"fast\")\ndef fast(params):\n    return call_tool(\"slow\")",
			"a.star:7:12: error: fast and slow call each other in a cycle [tool-cycle]"},
		{"one that calls itself", "def slow(params):\n    return 1\ndef fast(params):\n    return call_tool(\"fast\")",
			"a.star:7:12: error: fast always calls itself [tool-cycle]"},
		{"a parameter that is not used", "def slow(_):\n    return helper(1, 2)\ndef fast(params):\n    return 1\ndef helper(a, b):\n    return a",
			"a.star:8:15: warning: b is never used; rename it to _b if this is intended [unused-parameter]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := script.File{Name: "a.star", Source: []byte(head + tt.text + "\n")}
			src := check.Source{File: f}
			declared, problems := check.ReadDeclarations(f, script.Limits{})
			tools := map[string]check.Tool{"wipe": {Annotations: []byte(`{"destructiveHint": true}`)}}
			for _, d := range declared {
				src.Tools = append(src.Tools, d.Tool())
				tools[d.Name] = check.Tool{Script: true}
			}
			o := check.Options{Builtins: builtins.Table(), Tools: tools}
			problems = append(problems, check.Check([]check.Source{src}, o).Problems()...)
			if have := problems.Error(); have != tt.want {
				t.Errorf("\n got %s\nwant %s", have, tt.want)
			}
		})
	}
}

func TestCallsOfOneTool(t *testing.T) {
	const text = `
load("lib.star", "helper")
def a(p): return call_tool("one")
def b(p): return [f(p) for f in [inner]]
def inner(p):
    helper()
    return call_tool(p["name"]) if p else call_tool("two")
def c(p): return a
def d(p): return 1
call_tool("always")
`
	scan := check.NewScan(builtins.Table())
	file := script.File{Name: "shop.star", Source: []byte(text)}
	load := func(_, name string) (script.File, error) {
		return script.File{Name: name, Source: []byte("def helper(): return call_tool(\"lib\")\n")}, nil
	}
	if _, err := script.Compile(file, script.Options{Builtins: builtins.All(), Inspect: scan.File, Load: load, Functions: []string{"a", "b", "c", "d"}}); err != nil {
		t.Fatal(err)
	}
	for function, want := range map[string]string{"a": "always lib one false", "b": "always lib two true", "c": "always lib one false", "d": "always lib false"} {
		calls := scan.CallsOf(file, function)
		have := strings.Join(calls.Tools, " ")
		if calls.Dynamic {
			have += " true"
		} else {
			have += " false"
		}
		if have != want {
			t.Errorf("%s calls %s, want %s", function, have, want)
		}
	}
	if all := scan.Calls(); strings.Join(all.Tools, " ") != "always lib one two" || !all.Dynamic {
		t.Errorf("all together call %+v", all)
	}
}

// TestCirclesAmongManyTools: of forty tools each calls all behind it, and the last one the first.
func TestCirclesAmongManyTools(t *testing.T) {
	var b strings.Builder
	tools := map[string]check.Tool{}
	f := func(back string) string {
		b.Reset()
		for i := range 40 {
			fmt.Fprintf(&b, "tool(name = \"t%02d\", description = \"T.\", entry = \"f%d\")\n", i, i)
			tools[fmt.Sprintf("t%02d", i)] = check.Tool{Script: true}
		}
		for i := range 40 {
			fmt.Fprintf(&b, "def f%d(params):\n", i)
			for j := i + 1; j < 40; j++ {
				fmt.Fprintf(&b, "    call_tool(\"t%02d\")\n", j)
			}
			b.WriteString("    return 1\n")
		}
		src := check.Source{File: script.File{Name: "a.star", Source: []byte(strings.Replace(b.String(), "def f39(params):\n", "def f39(params):\n"+back, 1))}}
		declared, _ := check.ReadDeclarations(src.File, script.Limits{})
		for _, d := range declared {
			src.Tools = append(src.Tools, d.Tool())
		}
		return check.Check([]check.Source{src}, check.Options{Builtins: builtins.Table(), Tools: tools}).Problems().Error()
	}
	if have := f(""); have != "" {
		t.Errorf("there is no circle: %s", have)
	}
	if have := f("    call_tool(\"t38\")\n"); !strings.Contains(have, "t38 and t39 call each other in a cycle [tool-cycle]") || strings.Count(have, "\n") > 0 {
		t.Errorf("the circle of two is reported as %s", have)
	}
}

// TestDeclarationsInsideOfSomething: a declaration that is not at top level is reported; otherwise its tool would be
// missing silently.
func TestDeclarationsInsideOfSomething(t *testing.T) {
	const declared = "def run(params):\n    return 1\ntool(name = \"a\", description = \"A.\")\n"
	for text, want := range map[string]string{
		declared: "",
		declared + "if True:\n    tool(name = \"b\")\n":                "a.star:5:5",
		declared + "for n in [\"b\"]:\n    tool(name = n)\n":           "a.star:5:5",
		declared + "def more(n):\n    tool(name = n)\n":                "a.star:5:5",
		declared + "b = tool(name = \"b\")\n":                          "a.star:4:5",
		declared + "[tool(name = n) for n in [\"b\"]]\n":               "a.star:4:2",
		"def more(n):\n    tool(name = n)\n":                           "a.star:2:5",
		declared + "def call(tool):\n    return tool(1)\n":             "",
		declared + "def call(f):\n    return [tool() for tool in f]\n": "",
	} {
		_, problems := check.ReadDeclarations(script.File{Name: "a.star", Source: []byte(text)}, script.Limits{})
		have := problems.Error()
		if want == "" && have != "" || want != "" && !strings.HasPrefix(have, want+": error: tool: this declares nothing") {
			t.Errorf("%s\nhas %q, want %q", text, have, want)
		}
	}
}

// TestPagesIsCheckedAsACall: the arguments of pages are those of the tool that it calls, without the cursor.
func TestPagesIsCheckedAsACall(t *testing.T) {
	tools := map[string]check.Tool{"issues": {
		Input:  json.RawMessage(`{"type": "object", "required": ["repo", "cursor"], "properties": {"repo": {"type": "string"}, "limit": {"type": "integer"}, "state": {"enum": ["open", "closed"]}, "cursor": {"type": "string"}}, "additionalProperties": false}`),
		Output: json.RawMessage(`{"type": "object", "properties": {"issues": {"type": "array", "items": {"type": "object", "properties": {"title": {"type": "string"}}}}, "nextCursor": {"type": "string"}}}`),
	}}
	body := func(pages string) string {
		return "tool(name = \"p\", description = \"D.\")\n\ndef run(params):\n    return [i.get(\"title\") for i in " + pages + "]\n"
	}
	for _, tt := range []struct{ args, want string }{
		{`, {"repo": "a", "limit": 3, "state": "open"}`, ""},
		{`, {"repo": params["repo"]}`, ""},
		{``, `p.star:4:37: error: issues needs the argument repo [argument-missing]`},
		{`, {"repository": "a", "limit": "x", "state": "weird"}`, `p.star:4:37: error: issues needs the argument repo [argument-missing]
p.star:4:54: error: issues has no argument "repository"; it has repo, limit, state, cursor [argument-unknown]
p.star:4:82: error: limit wants an integer, this is a string [argument-type]
p.star:4:96: error: state is open or closed, this is "weird" [argument-value]`},
	} {
		got := strings.Join(checkText("p.star", body(`pages("issues"`+tt.args+`, items = "issues")`), tools), "\n")
		if got != tt.want {
			t.Errorf("pages(%s):\n got %s\nwant %s", tt.args, got, tt.want)
		}
	}
}
