package meter_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

var (
	compared  = flag.Int("compared", 0, "random programs that TestRandomProgramsBehaveAsWithoutMetering compares; 0 is the form's own number")
	firstSeed = flag.Uint64("seed", 5, "what they are made up from")
)

// Random programs print the same, fail with the same words and at the same places in the
// metered engine and in the interpreter as it is, as long as they stay within the limits.
func TestRandomProgramsBehaveAsWithoutMetering(t *testing.T) {
	n := *compared
	switch {
	case n > 0:
	case testmode.Thorough():
		n = 4000
	default:
		n = 50
	}
	random := rand.New(rand.NewPCG(*firstSeed, 6))
	equal := 0
	for range n {
		source := strings.Replace(metertest.Program(metertest.Choices(random)), "    return 1\n", "    print(repr([a, b, c, d, e]), str(struct(a = a, b = [b])))\n", 1) + "run({})\n"
		metered, within := outputOf(t, source, true)
		if !within {
			continue // without metering it may take everything
		}
		plain, _ := outputOf(t, source, false)
		if diff := cmp.Diff(plain, metered); diff != "" {
			t.Fatalf("metered behaves differently (-plain +metered):\n%.4000s\n%s", diff, source)
		}
		equal++
	}
	t.Logf("%d of %d programs compared, the others reached a limit", equal, n)
	if equal < n/3 {
		t.Errorf("only %d of %d programs stayed within the limits", equal, n)
	}
}

// oursAlone are errors of bounds that the interpreter does not have.
var oursAlone = []string{"integer of", "nested more than", "too large", "too long", "deep", "can be read", "low bits of their hashes", "the same hash"}

// outputOf runs a program and returns what it printed and how its calls failed; within is
// false when it reached a limit.
func outputOf(t *testing.T, source string, metering bool) (out []string, within bool) {
	thread := &starlark.Thread{}
	predeclared := starlark.StringDict{
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
		"json":   starlark.None,
	}
	if metering {
		thread = metertest.Thread(meter.Amount{Steps: 300_000, Memory: 32 << 20}, 200)
		maps.Copy(predeclared, meter.Universe())
	}
	within = true
	predeclared["attempt"] = starlark.NewBuiltin("attempt", func(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(th, args[0], nil, nil)
		if err == nil {
			return v, nil
		}
		if m := meter.ThreadOf(th); m != nil {
			if cause := m.Resume(); cause != nil {
				err = cause
			}
		}
		if boundOfOurs(err) {
			within = false
			return nil, err
		}
		out = append(out, failedAt(err))
		return args[1], nil
	})
	thread.Print = func(_ *starlark.Thread, msg string) { out = append(out, msg) }
	opts := *dialect
	opts.TopLevelControl = true
	if err := execChunk(thread, &opts, source, predeclared, metering); err != nil {
		if boundOfOurs(err) || !within {
			return out, false
		}
		out = append(out, failedAt(err))
	}
	return out, within
}

// failedAt is an error with its place. Two places differ on purpose: where a slice fails,
// the interpreter names the column of its last bound that has one, ours is that of the
// bracket; where a function gets wrong arguments, ours is always its def.
func failedAt(err error) string {
	text := located(err)
	place, msg, ok := strings.Cut(text, ": ")
	switch {
	case !ok:
	case strings.HasPrefix(msg, "function "):
		place = place[:max(0, strings.LastIndex(place, " > "))]
	case strings.Contains(msg, "slice"):
		place = place[:strings.LastIndexByte(place, ':')]
	}
	return place + ": " + msg
}

func boundOfOurs(err error) bool {
	var limit *meter.LimitError
	if errors.As(err, &limit) {
		return true
	}
	for _, words := range oursAlone {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return strings.Contains(fmt.Sprint(err), "limit reached")
}
