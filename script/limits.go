package script

import (
	"fmt"
	"time"

	"go.starlark.net/syntax"
)

// Limits bound one run. A field that is zero has its default.
//
// All of them are counted, not sampled, except Time, CallTimeout and
// ElicitTimeout: the same program over the same journal reaches the same limit at
// the same place.
type Limits struct {
	// Steps bounds the instructions of a run, all branches together. Default 1,000,000.
	Steps uint64
	// Memory bounds the bytes that a run may ask for, never refunded. Default 256 MiB.
	Memory int64
	// Time bounds a run from its start. Default 30 minutes.
	Time time.Duration
	// CallTimeout bounds one call of a tool. Default 5 minutes.
	CallTimeout time.Duration
	// ElicitTimeout bounds the wait for one answer of the user. Default 10 minutes.
	ElicitTimeout time.Duration
	// Calls bounds the effects of a run: tool calls, questions, clock reads. Default 1,000.
	Calls int
	// Parallel bounds how many branches of one parallel() go on at a time. Default 10.
	Parallel int
	// Branches bounds the branches of a run, all parallel() together. Default 1,000.
	Branches int
	// Nesting bounds parallel() inside of parallel(). Default 8.
	Nesting int
	// CallDepth bounds function calls inside of function calls. Default 200.
	CallDepth int
	// LoadDepth bounds load() inside of loaded files. Default 10.
	LoadDepth int
	// Source bounds the bytes of one file. Default 256 KiB.
	Source int
	// Program bounds the bytes of a file and all that it loads. Default 1 MiB.
	Program int
	// Result bounds the bytes of one result that a run reads. Default 8 MiB.
	Result int64
	// Output bounds the JSON bytes that a run returns, or sends in one effect. Default 10 MiB.
	Output int64
	// Depth bounds the nesting of values that come in or go out as JSON. Default 100.
	Depth int
	// LogBytes bounds what a run writes with log() and print(), in all. Default 1 MiB.
	LogBytes int64
}

// DefaultLimits returns the limits of a run that sets none.
func DefaultLimits() Limits {
	return Limits{
		Steps:         1_000_000,
		Memory:        256 << 20,
		Time:          30 * time.Minute,
		CallTimeout:   5 * time.Minute,
		ElicitTimeout: 10 * time.Minute,
		Calls:         1000,
		Parallel:      10,
		Branches:      1000,
		Nesting:       8,
		CallDepth:     200,
		LoadDepth:     10,
		Source:        256 << 10,
		Program:       1 << 20,
		Result:        8 << 20,
		Output:        10 << 20,
		Depth:         100,
		LogBytes:      1 << 20,
	}
}

// Or returns l with the fields that are zero taken from base.
func (l Limits) Or(base Limits) Limits {
	return Limits{
		Steps:         or(l.Steps, base.Steps),
		Memory:        or(l.Memory, base.Memory),
		Time:          or(l.Time, base.Time),
		CallTimeout:   or(l.CallTimeout, base.CallTimeout),
		ElicitTimeout: or(l.ElicitTimeout, base.ElicitTimeout),
		Calls:         or(l.Calls, base.Calls),
		Parallel:      or(l.Parallel, base.Parallel),
		Branches:      or(l.Branches, base.Branches),
		Nesting:       or(l.Nesting, base.Nesting),
		CallDepth:     or(l.CallDepth, base.CallDepth),
		LoadDepth:     or(l.LoadDepth, base.LoadDepth),
		Source:        or(l.Source, base.Source),
		Program:       or(l.Program, base.Program),
		Result:        or(l.Result, base.Result),
		Output:        or(l.Output, base.Output),
		Depth:         or(l.Depth, base.Depth),
		LogBytes:      or(l.LogBytes, base.LogBytes),
	}
}

// orDefault returns l with the fields that are zero taken from DefaultLimits.
func (l Limits) orDefault() Limits { return l.Or(DefaultLimits()) }

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// LimitError says that a run reached one of its own limits. A script cannot catch it.
type LimitError struct {
	// Limit names the limit as the configuration does: "steps", "memory", "time", "calls", ...
	Limit string
	// Value is the limit that was reached, in words: "1000000", "256 MiB", "30m0s".
	Value string
	// Pos is the place in the script; filled in when the run ends.
	Pos syntax.Position
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit reached: %s (%s)", e.Limit, e.Value)
}

// Bytes writes a number of bytes for a reader: "256 MiB", "1000 bytes".
func Bytes(n int64) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
