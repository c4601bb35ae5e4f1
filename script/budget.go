package script

import (
	"context"

	"github.com/vmcp-dev/vmcp/script/internal/ledger"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// What a run draws on the ledgers of its request, which package ledger explains.

// Usage is what a run has used, or one of its effects.
type Usage = ledger.Usage

// account is the ledger of a run as its meter sees it.
type account struct{ *Run }

// Grant takes portions, and room in the pool for the memory.
func (a account) Grant(need, want meter.Amount) (meter.Amount, error) {
	got, err := a.ledger.Grant(need, want)
	if err != nil || got.Memory == 0 {
		return got, err
	}
	return got, a.grow()
}

// Left is what can still be granted.
func (a account) Left() meter.Amount { return a.ledger.Left() }

// Return gives back what was not spent.
func (a account) Return(unused meter.Amount) {
	a.ledger.Give(Usage{Steps: unused.Steps, Memory: unused.Memory})
}

// branchContext is the key of the branch that performs an effect, in the effect's context.
type branchContext struct{}

// callerOf returns the branch of another run that ctx belongs to, or nil: a run that is
// started inside of an effect is paid for by the run that has the effect.
func callerOf(ctx context.Context) *branch {
	b, _ := ctx.Value(branchContext{}).(*branch)
	return b
}

// within is what of l is left in the middle of the effect that b performs. Only what
// depends on the place is in it; for the rest the ledgers see to.
func (b *branch) within(l Limits) Limits {
	l.CallDepth = min(l.CallDepth, max(1, b.run.limits.CallDepth-b.meter.Depth()))
	l.Nesting = min(l.Nesting, max(1, b.run.limits.Nesting-b.nesting()))
	l.Parallel = min(l.Parallel, b.run.limits.Parallel)
	return l
}

// lose notes what an effect has used that ended with its branch, and so is not in the
// journal: it is recorded with the end of the parallel().
func (b *branch) lose(u Usage) {
	if b.group != nil {
		b.group.lost = b.group.lost.Plus(u)
	}
}

// NoteRead says that the effect that ctx belongs to has read n bytes. When it fails, they
// are charged all the same.
func NoteRead(ctx context.Context, n int64) {
	if b := callerOf(ctx); b != nil {
		b.read += n
		b.keepRoom(b.read)
	}
}

// takeRead returns what the effect has read.
func (b *branch) takeRead() int64 {
	n := b.read
	b.read = 0
	return n
}

// request is what the runs of one request share.
func (r *Run) request() *ledger.Request { return r.ledger.Request }

// enter waits until b may perform its effect.
func (b *branch) enter(e Effect) error {
	if e.Instant {
		return nil
	}
	if b.run.request().Enter(b.ctx, &b.effect) != nil {
		return NotDone(ended(b.ctx))
	}
	return nil
}

// leave ends what enter began, once.
func (b *branch) leave() { b.run.request().Leave(&b.effect) }
