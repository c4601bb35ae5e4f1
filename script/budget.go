package script

import (
	"context"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// How a run uses the ledgers of its request. Package ledger documents these.

// account is the ledger of a run, with the room in the pool, as its meter uses it.
type account struct{ *Run }

// Grant reserves a portion of the ledger, and for memory also room in the pool. One operation may take much memory, such as
// decoding a long answer: between its portions it shares the slot, and ends with the run.
func (a account) Grant(need, want meter.Amount) (meter.Amount, error) {
	got, err := a.ledger.Grant(need, want)
	if err != nil || got.Memory == 0 {
		return got, err
	}
	if err := a.grow(); err != nil {
		return got, err
	}
	return got, a.check()
}

// Left returns what can still be granted.
func (a account) Left() meter.Amount { return a.ledger.Left() }

// Return returns what was granted and not spent.
func (a account) Return(unused meter.Amount) {
	a.ledger.Return(Usage{Steps: unused.Steps, Memory: unused.Memory})
}

// branchContext is the key of the branch that performs an effect, in the effect's context.
type branchContext struct{}

// callerOf returns the branch whose effect ctx belongs to, or nil. A run that is started inside an effect is paid for
// by the run of that branch.
func callerOf(ctx context.Context) *branch {
	b, _ := ctx.Value(branchContext{}).(*branch)
	return b
}

// within returns l, reduced to what is left at the call stack and nesting of b. All other limits are enforced by the
// ledgers.
func (b *branch) within(l Limits) Limits {
	l.CallDepth = min(l.CallDepth, max(1, b.run.limits.CallDepth-b.meter.Depth()))
	l.Nesting = min(l.Nesting, max(1, b.run.limits.Nesting-b.nesting()))
	l.Parallel = min(l.Parallel, b.run.limits.Parallel)
	return l
}

// lose adds what an effect used whose branch was cancelled. It has no entry in the journal, so its usage is recorded
// with the end of the parallel().
func (b *branch) lose(u Usage) {
	if b.group != nil {
		b.group.lost = b.group.lost.Plus(u)
	}
}

// NoteRead adds n bytes to what the effect that ctx belongs to has read. They are charged even if it fails.
func NoteRead(ctx context.Context, n int64) {
	if b := callerOf(ctx); b != nil {
		b.read += n
		b.keepRoom(b.read)
	}
}

// takeRead returns what the effect has read, and resets it.
func (b *branch) takeRead() int64 {
	n := b.read
	b.read = 0
	return n
}

// request returns what all runs of one client request share.
func (r *Run) request() *request { return r.ledger.Request }

// enter waits until limits.parallel of the request allows the effect of b. Instant effects do not wait.
func (b *branch) enter(e Effect) error {
	if e.Instant {
		return nil
	}
	if b.run.request().Enter(b.ctx, &b.effect) != nil {
		return NotDone(ended(b.ctx))
	}
	return nil
}

// leave ends what enter began. Further calls have no effect.
func (b *branch) leave() { b.run.request().Leave(&b.effect) }
