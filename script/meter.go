package script

import (
	"fmt"
	"strconv"

	"go.starlark.net/starlark"
)

// Metering holds a run to its limits on steps and memory from inside the interpreter.
// Before a file is compiled, instrument rewrites those operations of its tree that can
// allocate or work more than a step is worth into ones that ask the budget first; the
// universe and the methods of values are replaced by ones that do the same. What is
// charged is counted, never sampled, so the same run ends at the same place everywhere.
// docs/limits.md has the argument why nothing is missed.

// What things weigh in the budget, in bytes and in steps.
const (
	// stepWeight is charged for every step, for the small objects that operations
	// make natively.
	stepWeight = 16
	// entryWeight is an entry of a dict or set: tables are at worst a quarter full
	// while they grow, and the one before is still there.
	entryWeight = 280
	// tinyWeight is a list, tuple or string header, a boxed number, a bound method.
	tinyWeight = 48
	// slotWeight is an element of a list that grows by a quarter at a time.
	slotWeight = 16
	// bytesPerStep is how much text is read for one step where the work for each
	// character is more than a comparison.
	bytesPerStep = 64
	// blockPerStep is how much memory is copied, compared or hashed for one step.
	blockPerStep = 2048
	// elemsPerStep is how many elements are visited for one step.
	elemsPerStep = 8

	// interval is the most steps of the interpreter between two looks at the clock, and
	// worked the most steps of work: operations are far faster than what they are charged.
	interval = 1000
	worked   = 10_000
	// maxNesting bounds how deep a value may be nested to be hashed or written out.
	maxNesting = 400
	// maxIntBits bounds integers; their operations are charged by their size.
	maxIntBits = 16 << 10
)

// budget is what a run may still use. All branches of a run share it; they take turns,
// so it needs no lock.
type budget struct {
	limits  Limits
	run     *Run                       // set when its first branch begins
	look    int64                      // the steps at which work looks at the clock again
	steps   int64                      // used; of the interpreter those up to the last tick
	memory  int64                      // charged
	large   map[starlark.Value]*sketch // tables whose keys are watched
	flooded bool                       // in some of them many keys hash alike
	concats concats
	ops     operators
}

func newBudget(l Limits) *budget {
	b := &budget{limits: l}
	b.ops.init(b)
	return b
}

// budgetOf returns the budget of the run that t belongs to, or nil.
func budgetOf(t *starlark.Thread) *budget {
	if b := branchOf(t); b != nil {
		return b.run.budget
	}
	return nil
}

// Charge takes n bytes from the memory of the run that t belongs to. A builtin charges
// what it is about to allocate, before it does.
func Charge(t *starlark.Thread, n int64) error {
	if b := budgetOf(t); b != nil {
		return b.charge(n)
	}
	return nil
}

// Work takes n steps from the run that t belongs to. A builtin takes them for work
// that grows with its arguments; a step is worth about a microsecond.
func Work(t *starlark.Thread, n int64) error {
	if b := budgetOf(t); b != nil {
		return b.work(n)
	}
	return nil
}

// charge takes n bytes. Charges are never refunded.
func (b *budget) charge(n int64) error {
	if n > b.room() || n < 0 {
		b.memory = b.limits.Memory
		return b.exhausted()
	}
	b.memory += n
	return nil
}

// chargeEach takes n times each bytes; n may be any size.
func (b *budget) chargeEach(n, each int64) error {
	if n > b.room()/each {
		return b.charge(b.limits.Memory + 1)
	}
	return b.charge(n * each)
}

// room is how many bytes are left.
func (b *budget) room() int64 { return b.limits.Memory - b.memory }

func (b *budget) exhausted() error {
	return &LimitError{Limit: "memory", Value: Bytes(b.limits.Memory)}
}

// work takes n steps.
func (b *budget) work(n int64) error {
	if n > int64(b.limits.Steps)-b.steps || n < 0 {
		b.steps = int64(b.limits.Steps)
		return b.outOfSteps()
	}
	b.steps += n
	if b.steps < b.look || b.run == nil {
		return nil
	}
	b.look = b.steps + worked
	return checkpoint(b.run.turns.now.thread)
}

func (b *budget) outOfSteps() error {
	return &LimitError{Limit: "steps", Value: strconv.FormatUint(b.limits.Steps, 10)}
}

// visit takes what it costs to look at n elements.
func (b *budget) visit(n int) error { return b.work(int64(n) / elemsPerStep) }

// used returns the steps and bytes that were taken so far.
func (b *budget) used() (uint64, int64) { return uint64(max(b.steps, 0)), b.memory }

// install makes the steps of t count, and look at the clock now and then.
func (b *budget) install(t *starlark.Thread) {
	b.run = branchOf(t).run
	t.OnMaxSteps = b.tick
	t.SetMaxExecutionSteps(uint64(b.next(t)))
}

// tick accounts for the steps of t since the last tick and decides when to come back.
func (b *budget) tick(t *starlark.Thread) {
	n := int64(t.Steps)
	t.Steps = 0
	b.steps += n
	t.SetMaxExecutionSteps(uint64(b.next(t)))
	switch {
	case b.steps >= int64(b.limits.Steps):
		stop(t, b.outOfSteps())
	case t.CallStackDepth() > b.limits.CallDepth:
		stop(t, &LimitError{Limit: "callDepth", Value: fmt.Sprint(b.limits.CallDepth)})
	default:
		if err := b.charge(n * stepWeight); err != nil {
			stop(t, err)
		} else if err := checkpoint(t); err != nil {
			stop(t, err)
		}
	}
}

// next returns how many steps t may go on unseen: not past its limit, and not deeper
// into calls than allowed, for a call is a step at least.
func (b *budget) next(t *starlark.Thread) int64 {
	depth := int64(b.limits.CallDepth - t.CallStackDepth() + 1)
	return max(1, min(interval, int64(b.limits.Steps)-b.steps, depth))
}
