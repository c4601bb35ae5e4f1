package meter

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Thread is the meter's state of one branch of a run: the steps of a thread of the interpreter, and its stack.
//
// A branch that waits keeps its stack: that of its goroutine, and the frames of the interpreter, whose size is the
// number of variables and operands of their functions. Both are charged by their high-water mark: what all branches
// together hold at one time is charged once, and a branch that ends makes room for the next one. Stacks are weighed
// before a branch waits, and when the call depth is larger than before. In between, one branch of a run may be deeper,
// up to the limit on call depth.
type Thread struct {
	budget  *Budget
	thread  *starlark.Thread
	base    int   // call depth at which it was started
	deepest int   // call depth at which its stack was weighed
	stack   int64 // high-water mark of its stack
	failed  error // stops the interpreter at its next step

	far       bool // the interpreter is in another process, which sends:
	farDepth  int
	farWeight int64
}

const (
	// callWeight is for the Go stack of a call in a script, which has grown by doubling, and the interpreter's frame.
	callWeight = 3 << 10
	// slotBytes is for a variable or an operand.
	slotBytes = 16
	// smallFrame is how many operands callWeight covers.
	smallFrame = 32
)

const threadKey = "vmcp.meter"

// ThreadOf returns the Thread of t, or nil.
func ThreadOf(t *starlark.Thread) *Thread {
	m, _ := t.Local(threadKey).(*Thread)
	return m
}

// Attach starts counting the steps of t, at call depth base.
func (b *Budget) Attach(t *starlark.Thread, base int) *Thread {
	m := &Thread{budget: b, thread: t, base: base}
	t.SetLocal(threadKey, m)
	t.OnMaxSteps = m.tick
	t.SetMaxExecutionSteps(uint64(m.next()))
	return m
}

// Depth returns the call depth of m, with that of the calls it was started in.
func (m *Thread) Depth() int {
	if m.far {
		return m.base + m.farDepth
	}
	return m.base + m.thread.CallStackDepth()
}

// CountSteps adds the steps since the last tick to the budget.
func (m *Thread) CountSteps() {
	if !m.far {
		m.tick(m.thread)
	}
}

// tick counts the steps of t since the last tick and decides when the next one is.
func (m *Thread) tick(t *starlark.Thread) {
	b := m.budget
	n := int64(t.Steps)
	t.Steps = 0
	b.steps += n
	t.SetMaxExecutionSteps(uint64(m.next()))
	switch {
	case b.steps >= b.granted.Steps:
		m.Stop(b.outOfSteps())
	case m.Depth() > b.CallDepth:
		m.Stop(&LimitError{Limit: "callDepth", Value: fmt.Sprint(b.CallDepth)})
	default:
		if err := m.pay(n); err != nil {
			m.Stop(err)
		}
	}
}

// pay charges for n steps, and for the stack if it is deeper than before.
func (m *Thread) pay(n int64) error {
	b := m.budget
	if err := b.Charge(n * stepWeight); err != nil {
		return err
	}
	if m.thread.CallStackDepth() > m.deepest {
		if err := m.ChargeStack(); err != nil {
			return err
		}
	}
	if b.Check == nil {
		return nil
	}
	return b.Check()
}

// next returns how many steps the thread may run until the next tick: not beyond its limit, and not deeper into calls
// than allowed, for a call is at least one step.
func (m *Thread) next() int64 {
	b := m.budget
	b.grantSteps(interval)
	depth := int64(b.CallDepth - m.Depth() + 1)
	return max(1, min(interval, b.granted.Steps-b.steps, depth))
}

// ChargeStack charges for the stack as it is now.
func (m *Thread) ChargeStack() error {
	b := m.budget
	var now int64
	m.deepest, now = m.Weigh()
	if now <= m.stack {
		return nil
	}
	b.stack += now - m.stack
	m.stack = now
	if b.stack <= b.paid {
		return nil
	}
	more := b.stack - b.paid
	b.paid = b.stack
	return b.Charge(more)
}

// End makes room for the stack of another thread.
func (m *Thread) End() { m.budget.stack -= m.stack }

// Stop makes the interpreter end with err at its next step, unless it is stopped already.
func (m *Thread) Stop(err error) {
	if m.failed == nil {
		m.failed = err
	}
	m.thread.Cancel(err.Error())
}

// Stopped returns the error of Stop, until Resume.
func (m *Thread) Stopped() error { return m.failed }

// Resume lets the thread continue after Stop, and returns the error of Stop.
func (m *Thread) Resume() error {
	err := m.failed
	if err != nil {
		m.failed = nil
		m.thread.Uncancel()
	}
	return err
}

// Frames are the numbers of operands of functions with large frames, by the position of their definition.
type Frames map[syntax.Position]int

// Note adds a function with that many operands, if its frame is large.
func (f Frames) Note(at syntax.Position, operands int) {
	if operands > smallFrame {
		f[at] = operands
	}
}

// frameWeight returns the weight of a frame of slots variables and operands, in bytes.
func frameWeight(slots int) int { return slotBytes * slots }

// callWeight returns the weight of a call in progress, in bytes.
func (f Frames) callWeight(at starlark.DebugFrame) int64 {
	weight := int64(callWeight)
	if fn, ok := at.Callable().(*starlark.Function); ok {
		weight += int64(frameWeight(at.NumLocals() + f[fn.Position()]))
	}
	return weight
}
