// Package meter holds a run to its limits on steps and memory from inside the interpreter.
//
// Before a file is compiled, package rewrite changes those operations of its tree that can
// allocate or work more than a step is worth into ones that ask the budget first; the
// universal functions and the methods of values are replaced by ones that do the same. What is
// charged is counted, never sampled, so the same run ends at the same place everywhere.
// docs/limits.md has the argument why nothing is missed.
//
//	b := meter.New(meter.Options{Ledger: ledger, CallDepth: 200, Check: check, Final: final})
//	b.Attach(thread, 0) // from now on its steps count
//	defer b.Close()     // returns what was not spent
//
// # What a budget does
//
// It spends what its [Ledger] grants, in portions, so that an operation costs an addition and
// a comparison:
//
//	granted.Memory ≥ memory   charged so far; Charge asks for more before it would pass it
//	granted.Steps  ≥ steps    used so far; next lets a thread run on no further
//
// The steps of the interpreter are counted by the thread itself. It stops after next steps and
// tick takes them over: at most interval of them, no more than are granted, and no more than
// calls may still nest, for a call is a step at least. So all three limits end a run exactly
// where its counting does. Steps of work inside one operation are taken with Work, before
// the work is done.
//
// A rewritten operation is more instructions than the one that stands in the file; an operator takes off
// those that it has on top (saved), and a run uses the steps of the program that its author wrote.
//
// Charges are not refunded, but for one: an entry of a table is paid for before it is known
// whether the key is there already, and returned if it is (inserted).
//
// # Who calls what
//
// A budget has no lock. All threads of a run share it, and the one that computes has it to
// itself; who that is, package script decides. Check is called from tick, and from Work every
// so many steps; Ledger.Grant whenever a portion is used up. Both may wait, for a
// slot or for memory, and the thread goes on afterwards as if nothing had happened. Attach asks
// for steps alone, and so never waits.
//
// What ends a run from inside an operation is the error of the operation. What ends it between
// two, in a tick, stops the thread: Stop keeps the error, and whoever called into the
// interpreter takes it back with Resume, because the interpreter knows only that it was cancelled.
package meter

import (
	"math"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/cover"
	"github.com/vmcp-dev/vmcp/script/internal/meter/repr"
	"github.com/vmcp-dev/vmcp/script/internal/meter/sketch"
)

// What things weigh in the budget, in bytes and in steps.
const (
	// stepWeight is charged for every step, for the small objects that operations
	// make natively.
	stepWeight = 16
	// entryWeight is an entry of a dict or set: tables are at worst a quarter full
	// while they grow, and the one before is still there.
	entryWeight = 280
	// TinyWeight is a list, tuple or string header, a boxed number, a bound method.
	TinyWeight = 48
	// slotWeight is an element of a list that grows by a quarter at a time.
	slotWeight = 16
	// BytesPerStep is how much text is read for one step where the work for each
	// character is more than a comparison.
	BytesPerStep = 64
	// BlockPerStep is how much memory is copied, compared or hashed for one step.
	BlockPerStep = 2048
	// elemsPerStep is how many elements are visited for one step.
	elemsPerStep = 8

	// interval is the most steps of the interpreter between two looks at the clock, and
	// worked the most steps of work: operations are far faster than what they are charged.
	interval = 1000
	worked   = 10_000
	// MaxDigits bounds the text of a number: reading a longer integer takes time that grows
	// with the square of its length.
	MaxDigits = 4096
	// maxNesting bounds how deep a value may be nested to be hashed or written out.
	maxNesting = repr.MaxNesting
	// maxIntBits bounds integers; their operations are charged by their size.
	maxIntBits = 16 << 10

	// portionSteps and portionMemory are what a run takes from its ledger at a time.
	portionSteps  = 10_000
	portionMemory = 256 << 10
)

// Amount is an amount of steps and memory.
type Amount struct{ Steps, Memory int64 }

// Ledger is what a budget is granted steps and memory from, in portions.
type Ledger interface {
	// Grant takes of steps and of memory what is wanted, or as much as is left. Where not even
	// what is needed is left, it takes nothing, and the error names the limit. An error that
	// comes with a grant ends the run all the same.
	Grant(need, want Amount) (Amount, error)
	// Left is what can still be granted.
	Left() Amount
	// Return takes back what was granted and not used.
	Return(unused Amount)
}

// Options say what a budget works with.
type Options struct {
	// Ledger grants what is spent.
	Ledger Ledger
	// CallDepth bounds calls inside of calls.
	CallDepth int
	// Frames are the large ones of the program.
	Frames Frames
	// Check is called every now and then by the branch that computes, and may wait. It returns
	// why the run must end. Nil checks nothing.
	Check func() error
	// Final reports whether an error ends the run whatever the script says: then its text stays.
	Final func(error) bool
	// Cover counts what is reached; nil: nothing does.
	Cover *cover.Set
}

// Budget is the meter of a run: it spends what its ledger has granted. All branches of
// a run share it; they take turns, so it needs no lock.
type Budget struct {
	Options
	look    int64                             // the steps at which work looks at the clock again
	steps   int64                             // used; of the interpreter those up to the last tick
	memory  int64                             // charged
	granted Amount                            // all in all
	stack   int64                             // what the stacks of all threads weigh
	paid    int64                             // the most that stack has been
	large   map[starlark.Value]*sketch.Sketch // tables whose keys are watched
	flooded bool                              // in some of them many keys hash alike
	concats concats
	ops     operators
}

// New makes the budget of a run. Its threads are made known with Attach.
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

// chargeMore takes n bytes, which are more than was granted.
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

// room is how many bytes are left.
func (b *Budget) room() int64 { return b.Ledger.Left().Memory + b.granted.Memory - b.memory }

// stepsLeft is how many steps are left.
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

// Read takes the steps that it costs to read a text of n bytes.
func (b *Budget) Read(n int64) error { return b.Work(n / BytesPerStep) }

// grantSteps sees to it that n steps are granted and not used, as far as there are any.
func (b *Budget) grantSteps(n int64) {
	if need := n - (b.granted.Steps - b.steps); need > 0 {
		more, _ := b.Ledger.Grant(Amount{}, Amount{Steps: max(need, portionSteps)})
		b.granted.Steps += more.Steps
	}
}

// outOfSteps is the error of a run that has used all that it was granted, and gets no more.
func (b *Budget) outOfSteps() error {
	_, err := b.Ledger.Grant(Amount{Steps: math.MaxInt64 / 2}, Amount{})
	return err
}

// visit takes what it costs to look at n elements.
func (b *Budget) visit(n int) error { return b.Work(int64(n) / elemsPerStep) }

// Unspent is what was granted and not used.
func (b *Budget) Unspent() Amount {
	return Amount{Steps: b.granted.Steps - b.steps, Memory: b.granted.Memory - b.memory}
}

// Close returns what was not spent.
func (b *Budget) Close() {
	b.Ledger.Return(b.Unspent())
	b.granted = Amount{b.steps, b.memory}
}
