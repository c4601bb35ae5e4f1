package script

import (
	"context"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/pool"
)

// What a client's request sets off is paid from one budget, however many runs it takes:
// a scripted tool that another one calls is a run of its own, and what it uses, its
// caller has used.
//
// The budget is a tree of ledgers, one for each run; the parent of a run's ledger is
// that of the run which called it. The tree lives from the beginning to the end of the
// run that has no caller. What is taken from a ledger is taken from all above it too,
// at once and under one mutex, or not at all: so nothing is ever used that some ledger
// does not have, and used of a ledger is always the sum of what its own run was granted
// and what is used of the ledgers below.
//
// An interpreter cannot take a mutex for every operation. So the meter of a run (budget)
// is granted steps and memory in portions, which it spends without asking; what it has
// not spent goes back when the run ends. Where less than a portion is left, it is granted
// what it needs. A run alone in its tree therefore reaches its limits exactly where its
// own counting does; runs side by side reach those of their caller up to a portion early.
//
// Calls, branches and bytes of log are taken one by one.
//
// For a run that is resumed, the runs that it called are not run again. What they have
// used is in the journal, in the entry of the call; it is taken when the answer is
// delivered. What was used by calls that ended with a branch that was cancelled is in
// the entry of the parallel().
//
// # Invariants
//
//   - used of a ledger ≤ its limits, for all five kinds, at any time.
//   - used of a ledger = granted to the budget of its own run (spent or not), and what was
//     taken one by one, and used of the ledgers below. So used minus what the budget has not
//     spent is what the run has used (Run.used).
//   - A request's tenant in the pool has been granted at least what used.Memory of the root is
//     by the time that its run computes on: growing waits after each grant of memory (account.Grant).
//   - Memory is given back in two places alone: what a budget has not spent, and what a run
//     held that another one has called, when it has ended (refund). Steps, calls and branches are
//     given back nowhere else.
//
// # Who holds which lock
//
//	turns.mu     one for each run      who is next, places of groups
//	log.mu       one for each request  calls of the journal
//	request.mu   one for each request  ledger.used, branch.used, effects that are performed
//	Pool.mu      one for the process   tenants and what they were granted
//	slots.mu     one for the process   the right to compute
//	reading.mu   one for the process   answers that are being read
//
// A mutex is taken only while those are held that stand above it; the last three are never
// held together. None is held while anything waits for memory, a slot or an effect. The
// budget itself has no lock: it belongs to the branch that has the turn.

// Usage is what a run has used, or one of its effects.
type Usage struct {
	Steps    int64 `json:"steps,omitempty"`
	Memory   int64 `json:"memory,omitempty"`
	Calls    int64 `json:"calls,omitempty"`
	Branches int64 `json:"branches,omitempty"`
	LogBytes int64 `json:"logBytes,omitempty"`
}

func (u Usage) plus(v Usage) Usage {
	return Usage{
		Steps: u.Steps + v.Steps, Memory: u.Memory + v.Memory, Calls: u.Calls + v.Calls,
		Branches: u.Branches + v.Branches, LogBytes: u.LogBytes + v.LogBytes,
	}
}

func (u Usage) minus(v Usage) Usage {
	return u.plus(Usage{-v.Steps, -v.Memory, -v.Calls, -v.Branches, -v.LogBytes})
}

// ledger is what one run may use, and has used.
type ledger struct {
	request *request
	parent  *ledger // nil for the run that has no caller
	limits  Limits
	used    Usage // guarded by request.mu
}

// request is what the ledgers of one request share.
type request struct {
	mu      sync.Mutex
	root    *ledger
	effects int             // that are being performed; guarded by mu
	workers int64           // what the workers of its runs weigh in the pool; guarded by mu
	tenant  *pool.Tenant    // nil without a pool
	waiting []chan struct{} // effects that wait until others have ended; guarded by mu
}

// enter waits until the request may perform one more effect. limits.parallel is for all
// of its runs together: each keeps to it on its own, by the order of its journal, and
// where the branches of several run at once, their effects wait for each other here. An
// effect that starts a run leaves when that run begins, so nothing that waits is waited for.
func (q *request) enter(ctx context.Context) error {
	q.mu.Lock()
	if q.effects < q.root.limits.Parallel {
		q.effects++
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		q.forget(turn)
		return NotDone(ended(ctx))
	}
}

// forget takes turn out of those who wait; one that was called meanwhile leaves again.
func (q *request) forget(turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.leave()
}

// leave lets the next effect in. The caller holds the mutex.
func (q *request) leave() {
	if len(q.waiting) == 0 {
		q.effects--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// enter waits until b may perform its effect.
func (b *branch) enter(e Effect) error {
	if e.Instant {
		return nil
	}
	if err := b.run.ledger.request.enter(b.ctx); err != nil {
		return err
	}
	b.performs = true
	return nil
}

// leave ends what enter began, once.
func (b *branch) leave() {
	q := b.run.ledger.request
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.performs {
		b.performs = false
		q.leave()
	}
}

// newLedger opens a ledger under parent, or a tree of its own.
func newLedger(parent *ledger, l Limits) *ledger {
	if parent != nil {
		return &ledger{request: parent.request, parent: parent, limits: l}
	}
	root := &ledger{request: &request{}, limits: l}
	root.request.root = root
	return root
}

// take takes all of u, or nothing. The error names the first limit that does not allow it.
func (l *ledger) take(u Usage) error {
	if u == (Usage{}) {
		return nil
	}
	l.request.mu.Lock()
	defer l.request.mu.Unlock()
	for n := l; n != nil; n = n.parent {
		if err := allow(n.limits, n.used.plus(u)); err != nil {
			return err
		}
	}
	l.add(u)
	return nil
}

// add notes u in l and above. The caller holds the mutex of the request.
func (l *ledger) add(u Usage) {
	for n := l; n != nil; n = n.parent {
		n.used = n.used.plus(u)
	}
}

// weigh notes that the workers of the request weigh n bytes more.
func (q *request) weigh(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers += n
}

// charged is what all runs of the request have been granted of memory, and what their
// workers weigh.
func (q *request) charged() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.used.Memory + q.workers
}

// give returns what was not used.
func (l *ledger) give(u Usage) {
	l.request.mu.Lock()
	defer l.request.mu.Unlock()
	l.add(Usage{}.minus(u))
}

// allow returns the limit of l that u is beyond.
func allow(l Limits, u Usage) error {
	switch {
	case u.Steps > l.Steps:
		return reached("steps", l.Steps)
	case u.Memory > int64(l.Memory):
		return reached("memory", l.Memory)
	case u.Calls > int64(l.Calls):
		return reached("calls", l.Calls)
	case u.Branches > int64(l.Branches):
		return reached("branches", l.Branches)
	case u.LogBytes > int64(l.LogBytes):
		return reached("logBytes", l.LogBytes)
	}
	return nil
}

// left is what can still be taken from l of steps and memory. The caller holds the mutex.
func (l *ledger) left() meter.Amount {
	steps, memory := l.limits.Steps-l.used.Steps, int64(l.limits.Memory)-l.used.Memory
	for n := l.parent; n != nil; n = n.parent {
		steps, memory = min(steps, n.limits.Steps-n.used.Steps), min(memory, int64(n.limits.Memory)-n.used.Memory)
	}
	return meter.Amount{Steps: max(steps, 0), Memory: max(memory, 0)}
}

// grant takes what is wanted, or as much as is left, if that is what is needed.
func (l *ledger) grant(need, want meter.Amount) (meter.Amount, error) {
	l.request.mu.Lock()
	defer l.request.mu.Unlock()
	left := l.left()
	if need.Steps > left.Steps || need.Memory > left.Memory {
		return meter.Amount{}, l.refused(Usage{Steps: need.Steps, Memory: need.Memory})
	}
	got := meter.Amount{Steps: min(want.Steps, left.Steps), Memory: min(want.Memory, left.Memory)}
	l.add(Usage{Steps: got.Steps, Memory: got.Memory})
	return got, nil
}

// account is the ledger of a run as its meter sees it.
type account struct{ *Run }

// Grant takes portions, and room in the pool for the memory.
func (a account) Grant(need, want meter.Amount) (meter.Amount, error) {
	got, err := a.ledger.grant(need, want)
	if err != nil || got.Memory == 0 {
		return got, err
	}
	return got, a.grow()
}

// Left is what can still be granted.
func (a account) Left() meter.Amount {
	a.ledger.request.mu.Lock()
	defer a.ledger.request.mu.Unlock()
	return a.ledger.left()
}

// Return gives back what was not spent.
func (a account) Return(unused meter.Amount) {
	a.ledger.give(Usage{Steps: unused.Steps, Memory: unused.Memory})
}

// refused is the error for u, which is more than is left. The caller holds the mutex.
func (l *ledger) refused(u Usage) error {
	for n := l; n != nil; n = n.parent {
		if err := allow(n.limits, n.used.plus(u)); err != nil {
			return err
		}
	}
	return nil
}

// total is what l and all below it have used; unspent is what its own run was granted
// and has not used.
func (l *ledger) total(unspent Usage) Usage {
	l.request.mu.Lock()
	defer l.request.mu.Unlock()
	return l.used.minus(unspent)
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

// noteUsed adds what a run has used that an effect of b has started, and whether the outcome of a call in it is
// not known.
func (b *branch) noteUsed(u Usage, unsure bool) {
	b.run.ledger.request.mu.Lock()
	defer b.run.ledger.request.mu.Unlock()
	b.used = b.used.plus(u)
	b.below = b.below || unsure
}

// lose notes what an effect has used that ended with its branch, and so is not in the
// journal: it is recorded with the end of the parallel().
func (b *branch) lose(u Usage) {
	if b.group != nil {
		b.group.lost = b.group.lost.plus(u)
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

// takeUsed returns what the runs have used that the present effect of b has started, and whether the outcome of a
// call in one of them is not known.
func (b *branch) takeUsed() (Usage, bool) {
	b.run.ledger.request.mu.Lock()
	defer b.run.ledger.request.mu.Unlock()
	u, unsure := b.used, b.below
	b.used, b.below = Usage{}, false
	return u, unsure
}
