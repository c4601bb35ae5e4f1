// Package meter enforces the limits of a run on steps and memory from inside the interpreter.
//
// Before a file is compiled, rewrite.go changes those operations of its tree that can allocate, or work more than
// a step is worth, so that they ask the budget first; the universal functions and the methods of values are replaced
// by ones that do the same. Charges are counted, never sampled, so the same run ends at the same place everywhere.
// docs/limits.md explains why nothing is missed.
//
//	b := meter.New(meter.Options{Ledger: ledger, CallDepth: 200, Check: check, Final: final})
//	b.Attach(thread, 0) // from now on its steps count
//	defer b.Close()     // returns what was not spent
//
// # What a budget does
//
// It spends what its [Ledger] grants, in portions, so that an operation costs an addition and a comparison:
//
//	granted.Memory ≥ memory   charged so far; Charge asks for more before it would be exceeded
//	granted.Steps  ≥ steps    used so far; next bounds how far a thread runs
//
// The thread counts the steps of the interpreter. It stops after next() steps, and tick adds them to the budget: at
// most interval of them, not more than are granted, and not more than calls may still nest, for a call is at least one
// step. So all three limits end a run exactly where the counts reach them. Steps for work inside one operation are
// taken with Work, before the work is done.
//
// A rewritten operation has more instructions than the original; its operator subtracts the additional ones (saved),
// so a run uses the steps of the program that its author wrote.
//
// Charges are not refunded, with one exception: an entry of a table is charged before it is known whether the key
// exists, and returned if it does (inserted).
//
// # Callers
//
// A budget has no lock. All threads of a run share it, and only the one that has the turn uses it; package script
// decides which. Check is called from tick, and from Work every so many steps; Ledger.Grant whenever a portion is used
// up. Both may wait, for a slot or for memory, and the thread then continues. Attach asks for steps only, and so never
// waits.
//
// What ends a run inside an operation is the error of the operation. Between two operations, in a tick, the thread is
// stopped: Stop keeps the error, and the caller of the interpreter gets it with Resume, because the interpreter only
// knows that it was cancelled.
package meter

import (
	"math"

	"go.starlark.net/starlark"
)

// Weights and costs, in bytes and in steps.
const (
	// stepWeight is charged for every step, for the small objects that native operations make.
	stepWeight = 16
	// entryWeight is for an entry of a dict or set: while tables grow they are at worst a quarter full, and the
	// previous one still exists.
	entryWeight = 280
	// tinyWeight is for a list, tuple or string header, a boxed number, a bound method.
	tinyWeight = 48
	// slotWeight is for an element of a list that grows by a quarter at a time.
	slotWeight = 16
	// bytesPerStep is how much text is processed for one step where the work for each character is more than a
	// comparison.
	bytesPerStep = 64
	// blockPerStep is how many bytes are copied, compared or hashed for one step.
	blockPerStep = 2048
	// elemsPerStep is how many elements are visited for one step.
	elemsPerStep = 8

	// interval is the most steps of the interpreter between two calls of Check, and worked the most steps of work:
	// operations take far less time than they are charged for.
	interval = 1000
	worked   = 10_000
	// maxDigits bounds the text of a number: the time to parse a longer integer grows with the square of its length.
	maxDigits = 4096

	// maxIntBits bounds integers; their operations are charged by their size.
	maxIntBits = 16 << 10

	// portionSteps and portionMemory are what a run is granted by its ledger at a time.
	portionSteps  = 10_000
	portionMemory = 256 << 10
)

// Amount is an amount of steps and memory.
type Amount struct{ Steps, Memory int64 }

// Ledger grants a budget steps and memory, in portions.
type Ledger interface {
	// Grant takes want, or as much of it as is left. If need is not left, it takes nothing, and the error names the
	// limit. An error together with a grant also ends the run.
	Grant(need, want Amount) (Amount, error)
	// Left returns what can still be granted.
	Left() Amount
	// Return returns what was granted and not used.
	Return(unused Amount)
}

// Options configure a budget.
type Options struct {
	// Ledger grants what is spent.
	Ledger Ledger
	// CallDepth bounds the depth of calls.
	CallDepth int
	// Frames are the functions of the program with large frames.
	Frames Frames
	// Check is called at intervals by the branch that computes, and may wait. It returns the reason why the run must
	// end. May be nil.
	Check func() error
	// Final reports whether the script cannot catch an error: then its text is not changed.
	Final func(error) bool
	// Cover counts what is reached; nil: nothing is counted.
	Cover *Set
}

// Budget is the meter of a run. All branches of the run share it; only the one that has the turn uses it, so it has no
// lock.
type Budget struct {
	Options
	look    int64                      // the steps at which Work calls Check again
	steps   int64                      // used, those of the interpreter up to the last tick
	memory  int64                      // charged
	granted Amount                     // in all
	stack   int64                      // weight of the stacks of all threads
	paid    int64                      // high-water mark of stack
	large   map[starlark.Value]*sketch // sketches of large tables
	flooded bool                       // in some of them many hashes collide
	concats concats
	ops     operators
}

// New makes the budget of a run. Its threads are added with Attach.
func New(o Options) *Budget {
	b := &Budget{Options: o}
	b.ops.init(b)
	return b
}

// Of returns the budget of the run that t belongs to, or nil.
func Of(t *starlark.Thread) *Budget {
	if m := ThreadOf(t); m != nil {
		return m.budget
	}
	return nil
}

// Charge takes n bytes. Charges are never refunded.
func (b *Budget) Charge(n int64) error {
	if n > b.granted.Memory-b.memory || n < 0 {
		return b.chargeMore(n)
	}
	b.memory += n
	return nil
}

// chargeMore takes n bytes, which exceed what was granted.
func (b *Budget) chargeMore(n int64) error {
	if n < 0 {
		n = math.MaxInt64 / 2
	}
	need := n - (b.granted.Memory - b.memory)
	more, err := b.Ledger.Grant(Amount{Memory: need}, Amount{Memory: max(need, portionMemory)})
	b.granted.Memory += more.Memory
	if n > b.granted.Memory-b.memory {
		b.memory = b.granted.Memory
		return err
	}
	b.memory += n
	return err
}

// chargeEach takes n times each bytes; n may be any size.
func (b *Budget) chargeEach(n, each int64) error {
	if n > math.MaxInt64/2/each {
		return b.Charge(math.MaxInt64 / 2)
	}
	return b.Charge(n * each)
}

// room returns how many bytes are left.
func (b *Budget) room() int64 { return b.Ledger.Left().Memory + b.granted.Memory - b.memory }

// stepsLeft returns how many steps are left.
func (b *Budget) stepsLeft() int64 { return b.Ledger.Left().Steps + b.granted.Steps - b.steps }

// Work takes n steps.
func (b *Budget) Work(n int64) error {
	if n > b.granted.Steps-b.steps || n < 0 {
		b.grantSteps(n)
		if n > b.granted.Steps-b.steps || n < 0 {
			b.steps = b.granted.Steps
			return b.outOfSteps()
		}
	}
	b.steps += n
	if b.steps < b.look || b.Check == nil {
		return nil
	}
	b.look = b.steps + worked
	return b.Check()
}

// Read takes the steps for reading a text of n bytes.
func (b *Budget) Read(n int64) error { return b.Work(n / bytesPerStep) }

// grantSteps makes sure that n steps are granted and unused, or all that are left.
func (b *Budget) grantSteps(n int64) {
	if need := n - (b.granted.Steps - b.steps); need > 0 {
		more, _ := b.Ledger.Grant(Amount{}, Amount{Steps: max(need, portionSteps)})
		b.granted.Steps += more.Steps
	}
}

// outOfSteps returns the error of a run that has used all that it was granted and gets no more.
func (b *Budget) outOfSteps() error {
	_, err := b.Ledger.Grant(Amount{Steps: math.MaxInt64 / 2}, Amount{})
	return err
}

// visit takes the steps for visiting n elements.
func (b *Budget) visit(n int) error { return b.Work(int64(n) / elemsPerStep) }

// Unspent returns what was granted and not used.
func (b *Budget) Unspent() Amount {
	return Amount{Steps: b.granted.Steps - b.steps, Memory: b.granted.Memory - b.memory}
}

// Close returns what was not spent to the ledger.
func (b *Budget) Close() {
	b.Ledger.Return(b.Unspent())
	b.granted = Amount{b.steps, b.memory}
}
