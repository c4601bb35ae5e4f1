package script_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// The call depth at which a branch was started counts from its first step on.
func TestCallDepthHoldsFromTheFirstStepOfABranch(t *testing.T) {
	const src = `
def down(n):
    return down(n - 1) if n else 0

def under(n, f):
    return under(n - 1, f) if n else f()

def run(params):
    return under(185, lambda: parallel(lambda x: down(x), [%d]))
`
	for _, tt := range []struct {
		deep int
		fits bool
	}{{4, true}, {16, false}} {
		_, err := scripttest.Compile(t, fmt.Sprintf(src, tt.deep)).Run(t.Context(), script.RunOptions{
			Limits: script.Limits{CallDepth: 200},
		})
		var limit *script.LimitError
		if got := errors.As(err, &limit) && limit.Limit == "callDepth"; got == tt.fits || tt.fits && err != nil {
			t.Errorf("%d calls deep in a branch that was started 189 deep, of 200: %v", tt.deep, err)
		}
	}
}
