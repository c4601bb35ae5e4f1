package script

import (
	"context"

	"go.starlark.net/starlark"
)

// Interlude lets f compute in a run while no branch can: between RunOptions.Idle, called with the number of effects
// that RunOptions.Around holds, and the end of the first of these. The run is charged for what f calls; effects in f
// must not wait.
func (r *Run) Interlude(ctx context.Context, f func(t *starlark.Thread) error) (err error) {
	t := &r.turns
	b := r.bareBranch(ctx, "interlude.")
	b.meter = r.budget.Attach(b.thread, 0)
	t.mu.Lock()
	if t.busy {
		panic("script: an interlude of a run that computes")
	}
	t.busy, t.now = true, b
	t.mu.Unlock()
	defer func() {
		b.meter.CountSteps()
		t.mu.Lock()
		b.meter.End()
		t.busy = false
		t.mu.Unlock()
	}()
	defer recovered(&err)
	return f(b.thread)
}
