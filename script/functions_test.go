package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

// compileFor compiles a text for runs that call functions of it.
func compileFor(t *testing.T, src string, functions ...string) (*script.Program, error) {
	t.Helper()
	return script.Compile(script.File{Name: "shop.star", Source: []byte(src)}, script.Options{Builtins: builtins.All(), Functions: functions})
}

const shop = `
def refund(params):
    return call_tool("pay", {"cents": -params["cents"]})

def charge(params):
    return call_tool("pay", params)
`

func TestAProgramForEachFunction(t *testing.T) {
	refund, err := compileFor(t, shop, "refund", "charge")
	if err != nil {
		t.Fatal(err)
	}
	charge := refund.For("charge")
	if refund.For("refund").Hash() != refund.Hash() || refund.For("run") != nil || refund.For("") != nil || charge.For("refund").Hash() != refund.Hash() {
		t.Error("a program is for the functions that it was compiled for, and no others")
	}
	if have := fmt.Sprint(refund.Function(), refund.Entry().Line, charge.Function(), charge.Entry().Line); have != "refund2charge5" {
		t.Errorf("the functions are at %s, want refund2charge5", have)
	}
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"pay": scripttest.Echo}}
	for p, want := range map[*script.Program]string{refund: `{"cents":-5}`, charge: `{"cents":5}`} {
		res, err := p.Run(t.Context(), script.RunOptions{Host: h, Args: json.RawMessage(`{"cents": 5}`)})
		if err != nil || string(res.Structured) != want {
			t.Errorf("%s returned %v, %v; want %s", p.Function(), res, err, want)
		}
	}
}

// A kept run is identified by its program: the identity of run is that from before there were other entry functions,
// and no function resumes a run of another one.
func TestWhatIdentifiesAFunction(t *testing.T) {
	const text = "def run(params):\n    return 1\n\ndef other(params):\n    return 2\n"
	alone, err := compileFor(t, text)
	if err != nil {
		t.Fatal(err)
	}
	both, err := compileFor(t, text, "other", "run")
	if err != nil {
		t.Fatal(err)
	}
	const before = "f72e218e9aa9150b11c13712d39fb74f" // of this text in shop.star, ever since
	if alone.Hash() != before || both.For("run").Hash() != before {
		t.Errorf("run is %s, and %s among others; want %s", alone.Hash(), both.For("run").Hash(), before)
	}
	if both.Hash() == before {
		t.Error("another function is identified as run is")
	}
	j := script.NewJournal()
	if _, err := both.Run(t.Context(), script.RunOptions{Journal: j}); err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Run(t.Context(), script.RunOptions{Journal: j}); err == nil || !strings.Contains(err.Error(), "belongs to another run") {
		t.Errorf("a run of another function was resumed: %v", err)
	}
}

func TestFunctionsThatCannotBeRun(t *testing.T) {
	for _, tt := range []struct {
		functions []string
		want      string
	}{
		{[]string{"refund", "charge_all"}, "shop.star:2:1: no function charge_all(params): calls of the tool run it, so it has to be defined in this file"},
		{[]string{"two"}, "shop.star:8:5: two must take one argument, as in two(params): it has 2"},
		{[]string{"none", "two"}, "shop.star:11:5: none must take one argument, as in none(params): it has 0\nshop.star:8:5: two must take one argument, as in two(params): it has 2"},
	} {
		_, err := compileFor(t, shop+"\ndef two(a, b):\n    pass\n\ndef none():\n    pass\n", tt.functions...)
		var all script.Errors
		if one := new(script.Error); !errors.As(err, &all) && errors.As(err, &one) {
			all = script.Errors{one}
		}
		var lines []string
		for _, e := range all {
			lines = append(lines, e.Error())
		}
		if have := strings.Join(lines, "\n"); have != tt.want {
			t.Errorf("functions %v:\n got %s\nwant %s", tt.functions, have, tt.want)
		}
	}
}

// TestAToolBesideAnother compares random programs that are the only function of a file with the same ones beside
// another: results, errors and steps are equal, except for the steps that define the other one.
func TestAToolBesideAnother(t *testing.T) {
	const other = "\ndef two(params):\n    return [params, params]\n"
	names := starlark.StringDict{"json": jsonModule, "struct": structBuiltin, "attempt": attempt}
	choices := rand.New(rand.NewPCG(17, 6))
	random := func(src string, functions ...string) *script.Program {
		p, err := script.Compile(script.File{Name: "shop.star", Source: []byte(src)}, script.Options{Builtins: names, Functions: functions})
		if err != nil && !strings.Contains(err.Error(), "got ") {
			t.Fatal(err)
		}
		return p // nil: it cannot be parsed
	}
	outcome := func(p *script.Program) (string, script.Stats) {
		var used script.Stats
		res, err := p.Run(t.Context(), script.RunOptions{Stats: &used, Limits: script.Limits{Steps: 300_000}, Host: &scripttest.Host{}})
		used.Duration = 0
		if err != nil {
			return err.Error(), used
		}
		return string(res.Structured), used
	}
	cost := func(src string) script.Stats {
		_, used := outcome(random(src))
		return used
	}
	const least = "def run(params):\n    return 1\n"
	bare, with := cost(least), cost(least+other)
	for range testmode.Count(40, 1000) {
		src := metertest.Program(metertest.Choices(choices))
		alone := random(src)
		beside := random(strings.Replace(src, "def run(", "def one(", 1)+other, "two", "one")
		if alone == nil || beside == nil {
			if alone != beside {
				t.Fatalf("alone: %v, beside another: %v\n%s", alone, beside, src)
			}
			continue
		}
		want, used := outcome(alone)
		have, usedToo := outcome(beside.For("one"))
		if strings.HasPrefix(want, "limit reached") || strings.Contains(want, "limit reached: steps") {
			continue // they are reached elsewhere
		}
		used.Steps += with.Steps - bare.Steps
		used.Memory = usedToo.Memory // it is charged with the steps, so many of them at a time
		if have != strings.ReplaceAll(want, "in run", "in one") || usedToo != used {
			t.Fatalf("beside another: %s %+v\nalone: %s %+v\n%s", have, usedToo, want, used, src)
		}
	}
}
