package meter

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Thread is one branch of a run as its meter sees it: the steps of a thread of the
// interpreter, and its stack.
//
// A branch that waits keeps its stack: that of its goroutine, and the frames of the
// interpreter, which are as wide as their functions have variables and operands. Both are
// charged by their high-water mark: what all branches together hold at one time is paid
// once, and a branch that ends makes room for the next one. They are weighed before a
// branch waits, and when it is found deeper than before. Between two looks one branch of
// a run may be deeper, as far as the limit on depth goes.
type Thread struct {
	budget  *Budget
	thread  *starlark.Thread
	base    int   // depth of the calls that it was started in
	deepest int   // the depth of calls that its stack was weighed at
	stack   int64 // the most that it has weighed
	failed  error // stops the interpreter at its next step

	far       bool // the interpreter is in another process, which says:
	farDepth  int
	farWeight int64
}

const (
	// callWeight is the Go stack of a call in a script, which has grown by doubling, and
	// the interpreter's frame.
	callWeight = 3 << 10
	// slotBytes is a variable or an operand.
	slotBytes = 16
	// smallFrame is how many operands the weight of a call allows for.
	smallFrame = 32
)

const threadKey = "vmcp.meter"

// ThreadOf returns what was attached to t, or nil.
func ThreadOf(t *starlark.Thread) *Thread {
	m, _ := t.Local(threadKey).(*Thread)
	return m
}

// Attach makes the steps of t count. It begins base calls deep.
func (b *Budget) Attach(t *starlark.Thread, base int) *Thread {
	m := &Thread{budget: b, thread: t, base: base}
	t.SetLocal(threadKey, m)
	t.OnMaxSteps = m.tick
	t.SetMaxExecutionSteps(uint64(m.next()))
	return m
}

// Depth is how deep in calls m is, those included that it was started in.
func (m *Thread) Depth() int {
	if m.far {
		return m.base + m.farDepth
	}
	return m.base + m.thread.CallStackDepth()
}

// Settle counts the steps since the interpreter last looked.
func (m *Thread) Settle() {
	if !m.far {
		m.tick(m.thread)
	}
}

// tick accounts for the steps of t since the last tick and decides when to come back.
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

// pay pays for n steps, and for the stack where it is deeper than before.
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

// next returns how many steps the thread may go on unseen: not past its limit, and not
// deeper into calls than allowed, for a call is a step at least.
func (m *Thread) next() int64 {
	b := m.budget
	b.grantSteps(interval)
	depth := int64(b.CallDepth - m.Depth() + 1)
	return max(1, min(interval, b.granted.Steps-b.steps, depth))
}

// ChargeStack pays for the stack as it is now.
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

// Resume lets the thread go on after Stop, whose error it returns.
func (m *Thread) Resume() error {
	err := m.failed
	if err != nil {
		m.failed = nil
		m.thread.Uncancel()
	}
	return err
}

// Frames says how many operands the large functions of a program may have, by the place
// of their definition.
type Frames map[syntax.Position]int

// Note notes that a function has a frame of so many operands, if it is a large one.
func (f Frames) Note(at syntax.Position, operands int) {
	if operands > smallFrame {
		f[at] = operands
	}
}

// FrameWeight is what a frame of so many variables and operands weighs.
func FrameWeight(slots int) int { return slotBytes * slots }

// callWeight is what a call weighs while it goes on.
func (f Frames) callWeight(at starlark.DebugFrame) int64 {
	weight := int64(callWeight)
	if fn, ok := at.Callable().(*starlark.Function); ok {
		weight += int64(FrameWeight(at.NumLocals() + f[fn.Position()]))
	}
	return weight
}
