package suite_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script"
)

// A test loads what is below the top level of a tool's file, private names too.
func TestTestsLoadPrivateNames(t *testing.T) {
	o := testOptions(newShop(t, nil))
	o.Load = script.Library{Inline: map[string]string{"refund.star": `
tool(name = "refund")
_RATE = 100
def _cents(x):
    return int(x * _RATE)
def run(params):
    return _cents(params["x"])
`}}.Load
	const source = `
load("refund.star", "_cents", "run", rate = "_RATE")
def test_a():
    testing.eq([_cents(12.5), run({"x": 2}), rate], [1250, 200, 100])
`
	if have := outcomes(runTests(t, o, source)); have != "test_a passed" {
		t.Error(have)
	}
	const wrong = `
load("refund.star", "_centz")
def test_a():
    pass
`
	const want = "test_a failed\nx_test.star:2:1: load: name _centz not found in module refund.star (did you mean _cents?) [test-failed]"
	if have := outcomes(runTests(t, o, wrong)); have != want {
		t.Errorf("have %q\nwant %q", have, want)
	}
}
