package script_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

const covered = `"""What this file is for."""
tool(name = "t")
load("lib.star", "half")

def kind(n):
    "The kind of a number."
    if n < 0:
        return "negative"
    elif n == 0 or n > 1000:
        return "odd one"
    return "even" if n % 2 == 0 else "uneven"

def count(n):
    i = 0
    while i < n and True:
        i += 1
    return i

def never(x):
    while x:
        x = x[1:]
    for i in x:
        fail(i)
    while True:
        break
    return [y for y in [1, 2] if y > 9]

def run(params):
    out = []
    for n in params["numbers"]:
        out.append(kind(n))
    never([])
    return out + [count(2), half(4), 3 if not (out and params["numbers"]) else 4]
`

func coverage(t *testing.T, cover *script.Coverage, args string) *script.Result {
	t.Helper()
	p, err := script.Compile(script.File{Name: "t.star", Source: []byte(covered)}, script.Options{Builtins: builtins.All(), Cover: cover,
		Load: script.Library{Inline: map[string]string{"lib.star": "def half(n):\n    return n // 2\n"}}.Load})
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Run(t.Context(), script.RunOptions{Args: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestCoverageCountsStatementsAndWays(t *testing.T) {
	var cover script.Coverage
	coverage(t, &cover, `{"numbers": [4, 3, 0]}`)
	var have []string
	for _, p := range cover.Points() {
		ways := p.Ways()
		switch {
		case !p.Branch && ways[0] == 0:
			have = append(have, fmt.Sprintf("%s not reached", p.Pos))
		case p.Branch:
			have = append(have, fmt.Sprintf("%s %d/%d", p.Pos, ways[0], ways[1]))
		}
	}
	want := []string{
		"t.star:7:5 0/3",
		"t.star:8:9 not reached",
		"t.star:9:5 1/2", "t.star:9:17 1/2", // elif, or
		"t.star:11:19 1/1", // conditional expression
		"t.star:15:5 1/0",  // while, and
		"t.star:15:17 2/1",
		"t.star:20:5 0/1", // a loop that is not entered
		"t.star:21:9 not reached",
		"t.star:22:5 0/1",
		"t.star:23:9 not reached",
		"t.star:26:31 0/2", // comprehension
		"t.star:30:5 1/0",
		"t.star:33:40 0/1", "t.star:33:52 1/0",
	}
	if !slices.Equal(have, want) {
		t.Errorf("coverage is\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	cover.Count(false)
	before := cover.Points()[0].Ways()
	coverage(t, &cover, `{"numbers": []}`)
	if after := cover.Points()[0].Ways(); after != before {
		t.Errorf("counted while it was off: %v, then %v", before, after)
	}
}

// The marks change neither what a program does nor how many steps it uses.
func TestCoverageCostsNoSteps(t *testing.T) {
	plain, marked := coverage(t, nil, `{"numbers": [-1, 0, 1, 2]}`), coverage(t, new(script.Coverage), `{"numbers": [-1, 0, 1, 2]}`)
	if string(plain.Structured) != string(marked.Structured) || marked.Stats.Steps > plain.Stats.Steps {
		t.Errorf("%s in %d steps, with marks %s in %d", plain.Structured, plain.Stats.Steps, marked.Structured, marked.Stats.Steps)
	}
	for _, source := range []string{
		"def run(p):\n    for x in [1, 2, 3]:\n        if x > 1:\n            continue\n        if x > 2:\n            break\n    return 1\n",
		"def run(p):\n    while True:\n        break\n    return [x * x for x in range(20) if x % 2 and x > 3]\n",
		"def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n\ndef run(p):\n    return f(12)\n",
		"def run(p):\n    d = {}\n    for w in \"a b c a b a\".split(\" \"):\n        d[w] = d.get(w, 0) + 1\n    return sorted(d.items(), key = lambda e: -e[1])\n",
		"def run(p):\n    return fail(\"no\") if not p else 1\n",
		"def run(p):\n    while True:\n        p = not p\n", // the limit
	} {
		steps, failure := stepsOf(t, source, nil)
		if again, other := stepsOf(t, source, new(script.Coverage)); again > steps || other != failure {
			t.Errorf("%s: %d steps, %s\nwith marks %d, %s", source, steps, failure, again, other)
		}
	}
}

func stepsOf(t *testing.T, source string, cover *script.Coverage) (uint64, string) {
	p, err := script.Compile(script.File{Name: "t.star", Source: []byte(source)}, script.Options{Builtins: builtins.All(), Cover: cover})
	if err != nil {
		return 0, "does not compile"
	}
	var stats script.Stats
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = p.Run(ctx, script.RunOptions{Stats: &stats, Limits: script.Limits{Steps: 50_000}})
	return stats.Steps, fmt.Sprint(err)
}
