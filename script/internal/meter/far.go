package meter

import "go.starlark.net/starlark"

// State is what a budget has counted. A run whose interpreter is in another process has a budget in both, of which the
// side that has the turn has the current counts; they are sent with the turn.
type State struct {
	Steps, Memory int64  // used
	Granted       Amount // in all
	Stack, Paid   int64  // weight of the stacks of all threads, and its high-water mark
}

// MostUnseen is how many steps may be used before they are granted.
const MostUnseen = interval

// State returns the present counts.
func (b *Budget) State() State {
	return State{Steps: b.steps, Memory: b.memory, Granted: b.granted, Stack: b.stack, Paid: b.paid}
}

// SetState sets the counts to those of another budget.
func (b *Budget) SetState(s State) {
	b.steps, b.memory, b.granted, b.stack, b.paid = s.Steps, s.Memory, s.Granted, s.Stack, s.Paid
}

// AttachFar makes a Thread for one whose interpreter is in another process.
func (b *Budget) AttachFar(t *starlark.Thread, base int) *Thread {
	m := &Thread{budget: b, thread: t, base: base, far: true}
	t.SetLocal(threadKey, m)
	return m
}

// SetFar sets the call depth of a far thread and the weight of its stack.
func (m *Thread) SetFar(depth int, weight int64) { m.farDepth, m.farWeight = depth, weight }

// Weighed returns the high-water mark of the stack's weight, and the call depth at which it was weighed last.
func (m *Thread) Weighed() (weight int64, deepest int) { return m.stack, m.deepest }

// SetWeighed sets what Weighed returns.
func (m *Thread) SetWeighed(weight int64, deepest int) { m.stack, m.deepest = weight, deepest }

// Weigh returns the call depth of the thread, without that of the calls it was started in, and the weight of its
// stack.
func (m *Thread) Weigh() (depth int, weight int64) {
	if m.far {
		return m.farDepth, m.farWeight
	}
	depth = m.thread.CallStackDepth()
	for i := range depth {
		weight += m.budget.Frames.callWeight(m.thread.DebugFrame(i))
	}
	return depth, weight
}
