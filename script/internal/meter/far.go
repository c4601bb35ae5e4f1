package meter

import "go.starlark.net/starlark"

// State is what a budget has counted. It travels with the turn of a run whose interpreter
// is in another process: there is a budget on either side, and one of them is current.
type State struct {
	Steps, Memory int64  // used
	Granted       Amount // all in all
	Stack, Paid   int64  // what the stacks of all threads weigh, and the most that it has been
}

// MostUnseen is how many steps may be used before they are granted.
const MostUnseen = interval

// State returns what was counted up to now.
func (b *Budget) State() State {
	return State{Steps: b.steps, Memory: b.memory, Granted: b.granted, Stack: b.stack, Paid: b.paid}
}

// SetState goes on from what another budget has counted.
func (b *Budget) SetState(s State) {
	b.steps, b.memory, b.granted, b.stack, b.paid = s.Steps, s.Memory, s.Granted, s.Stack, s.Paid
}

// AttachFar stands for a thread whose interpreter is in another process.
func (b *Budget) AttachFar(t *starlark.Thread, base int) *Thread {
	m := &Thread{budget: b, thread: t, base: base, far: true}
	t.SetLocal(threadKey, m)
	return m
}

// SetFar says how deep in calls a far thread is, and what its stack weighs.
func (m *Thread) SetFar(depth int, weight int64) { m.farDepth, m.farWeight = depth, weight }

// Weighed is the most that the stack has weighed, and the depth of calls at which it was
// weighed last.
func (m *Thread) Weighed() (weight int64, deepest int) { return m.stack, m.deepest }

// SetWeighed goes on from what was weighed elsewhere.
func (m *Thread) SetWeighed(weight int64, deepest int) { m.stack, m.deepest = weight, deepest }

// Weigh returns how deep in calls the thread is, those not included that it was started
// in, and what its stack weighs.
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
