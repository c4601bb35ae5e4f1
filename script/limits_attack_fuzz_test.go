package script_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

// attempt calls a function and returns another value when it fails in an ordinary way.
var attempt = starlark.NewBuiltin("attempt", func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	v, err := script.RunOf(t).Call(t, args[0], nil, nil)
	if err != nil && !script.Final(err) {
		return args[1], nil
	}
	return v, err
})

// Allocations without a charge may be so many times the charges, for short-lived garbage, in addition to what a run
// needs anyway.
const (
	fuzzFactor = 8
	fuzzBase   = 8 << 20
)

// checkContained runs a program with small limits.
func checkContained(t *testing.T, source string) {
	t.Helper()
	p, err := script.Compile(script.File{Name: "fuzz.star", Source: []byte(source)}, script.Options{Builtins: starlark.StringDict{"json": jsonModule, "struct": structBuiltin, "attempt": attempt}})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	limits := script.Limits{Steps: 200_000, Memory: 32 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, err := runForStats(ctx, p, limits)
	runtime.ReadMemStats(&after)
	if crashed(err) {
		t.Errorf("crashed: %v\n%s", err, source)
	}
	if ctx.Err() != nil {
		t.Errorf("works for two minutes on %d steps\n%s", limits.Steps, source)
	}
	if got := int64(after.TotalAlloc - before.TotalAlloc); got > fuzzFactor*used+fuzzBase {
		t.Errorf("allocated %d bytes and was charged %d (%v)\n%s", got, used, err, source)
	}
}

var programs = flag.Int("programs", testmode.Count(100, 500), "random programs that TestRandomProgramsAreContained runs")

// The same programs every time; -programs makes them more.
func TestRandomProgramsAreContained(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for i := range *programs {
		source := metertest.Program(metertest.Choices(random))
		start := time.Now()
		checkContained(t, source)
		if took := time.Since(start); took > time.Second {
			t.Logf("program %d took %v\n%s", i, took, source)
		}
		if t.Failed() {
			return
		}
	}
}

// FuzzContained searches programs that exceed their limits.
func FuzzContained(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range testmode.Count(30, 150) {
		f.Add(metertest.Choices(random))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		checkContained(t, metertest.Program(choices))
	})
}
