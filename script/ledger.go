package script

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package keeps the budget of one client request.
//
// Everything that a client request causes is paid from one budget, however many runs it takes: a scripted tool that
// another one calls is a run of its own, and its usage is also usage of its caller.
//
// The budget is a tree of ledgers, one per run; the parent of a run's ledger is that of the run which called it. The
// tree exists while the outermost run does. What is taken from a ledger is taken from all its ancestors too, under one
// mutex, or not at all: so no ledger is ever exceeded, and the used amount of a ledger is always the sum of what its
// own run was granted and what is used in the ledgers below.
//
// An interpreter cannot acquire a mutex for every operation. So the meter of a run (its Budget) is granted steps and
// memory in portions, which it spends without asking; the unspent rest is returned when the run ends. Where less than
// a portion is left, it is granted what it needs. A run that is alone in its tree therefore reaches its limits exactly
// where its own counting does; concurrent runs may reach those of their caller up to a portion early.
//
// Calls, branches and bytes of log are taken one by one.
//
// When a run is resumed, the runs that it called before are not executed again. Their usage is in the journal, in the
// entry of the call, and is taken when the answer is delivered. Usage by calls of a cancelled branch is in the entry
// of the parallel().
//
// # Invariants
//
//   - used of a ledger ≤ its limits, for all five kinds, at any time.
//   - used of a ledger = granted to the budget of its own run (spent or not), plus what was taken one by
//     one, plus used of the ledgers below. So used minus what the budget has not spent is what the run
//     has used (Run.used).
//   - When a run continues after a grant of memory, the request's tenant in the pool has been granted at
//     least used.Memory of the root (script.account).
//   - Memory is returned in two cases only: what a budget has not spent, and what a called run held when
//     it has ended (Refund). Steps, calls and branches are never returned otherwise.
//
// # Locks
//
// The mutexes of package script, a run's meter, this package and the pool:
//
//	turns.mu     one for each run      which branch is next, places of groups
//	log.mu       one for each request  calls of the journal
//	watch.mu     one for each run      the time that a run is awake
//	request.mu   one for each request  what ledgers have used, and effects in progress
//	Pool.mu      one for the process   tenants and what they were granted
//	slots.mu     one for the process   slots to compute in
//	reading.mu   one for the process   answers that are being read
//
// A mutex is acquired only while holding ones above it in this list; the watch of a run before that of its caller.
// None is held while anything waits for memory, a slot or an effect. The Budget itself has no lock: it belongs to the
// branch that has the turn.

// Usage is what a run or an effect has used.
type Usage struct {
	Steps    int64 `json:"steps,omitempty"`
	Memory   int64 `json:"memory,omitempty"`
	Calls    int64 `json:"calls,omitempty"`
	Branches int64 `json:"branches,omitempty"`
	LogBytes int64 `json:"logBytes,omitempty"`
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Steps: u.Steps + v.Steps, Memory: u.Memory + v.Memory, Calls: u.Calls + v.Calls,
		Branches: u.Branches + v.Branches, LogBytes: u.LogBytes + v.LogBytes,
	}
}

// Minus returns the difference of u and v.
func (u Usage) Minus(v Usage) Usage {
	return u.Plus(Usage{-v.Steps, -v.Memory, -v.Calls, -v.Branches, -v.LogBytes})
}

// ledger holds what one run may use, and has used.
type ledger struct {
	Request *request // shared by all ledgers of the tree
	parent  *ledger  // nil for the run that has no caller
	limits  limits.Run
	used    Usage // guarded by request.mu
}

// request is the state that the ledgers of one request share.
type request struct {
	// Tenant is the request in the pool; nil without a pool.
	Tenant *Tenant

	mu      sync.Mutex
	root    *ledger
	effects int             // in progress; guarded by mu
	workers int64           // memory of the workers of its runs, in bytes; guarded by mu
	waiting []chan struct{} // effects that wait for others to end, in order; guarded by mu
}

// enter waits until the request may perform one more effect. limits.parallel bounds all of its runs together: each run
// respects it alone, in the order of its journal; where branches of several runs are active at once, their effects
// wait for each other here. An effect that starts a run leaves when that run begins, so no effect that waits is waited
// for.
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
		return ctx.Err()
	}
}

// forget removes turn from the waiting; if it was admitted meanwhile, it leaves again.
func (q *request) forget(turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.leave()
}

// leave admits the next waiting effect. The caller holds the mutex.
func (q *request) leave() {
	if len(q.waiting) == 0 {
		q.effects--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// newLedger makes a ledger below parent, or the root of a new tree if parent is nil.
func newLedger(parent *ledger, l limits.Run) *ledger {
	if parent != nil {
		return &ledger{Request: parent.Request, parent: parent, limits: l}
	}
	root := &ledger{Request: &request{}, limits: l}
	root.Request.root = root
	return root
}

// Reserve takes all of u, or nothing. The error is a *meter.LimitError for the first limit that is exceeded.
func (l *ledger) Reserve(u Usage) error {
	if u == (Usage{}) {
		return nil
	}
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	for n := l; n != nil; n = n.parent {
		if err := allow(n.limits, n.used.Plus(u)); err != nil {
			return err
		}
	}
	l.add(u)
	return nil
}

// add adds u to l and its ancestors. The caller holds the mutex of the request.
func (l *ledger) add(u Usage) {
	for n := l; n != nil; n = n.parent {
		n.used = n.used.Plus(u)
	}
}

// Weigh adds n bytes to the memory of the request's workers.
func (q *request) Weigh(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers += n
}

// Charged returns the memory that all runs of the request have been granted, and that of their workers, in bytes.
func (q *request) Charged() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.used.Memory + q.workers
}

// MostReading returns how many bytes of answers the request may be reading at once.
func (q *request) MostReading() int64 { return int64(q.root.limits.Memory) / 4 }

// Return returns what was granted and not spent.
func (l *ledger) Return(u Usage) {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	l.add(Usage{}.Minus(u))
}

// Refund returns the memory of a run that has ended, except for keep bytes.
func (l *ledger) Refund(keep int64) {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	l.add(Usage{Memory: min(0, keep-l.used.Memory)})
}

// allow returns an error for the first limit of l that u exceeds.
func allow(l limits.Run, u Usage) error {
	switch {
	case u.Steps > l.Steps:
		return ledgerReached("steps", l.Steps)
	case u.Memory > int64(l.Memory):
		return ledgerReached("memory", l.Memory)
	case u.Calls > int64(l.Calls):
		return ledgerReached("calls", l.Calls)
	case u.Branches > int64(l.Branches):
		return ledgerReached("branches", l.Branches)
	case u.LogBytes > int64(l.LogBytes):
		return ledgerReached("logBytes", l.LogBytes)
	}
	return nil
}

func ledgerReached(limit string, value any) error {
	return &meter.LimitError{Limit: limit, Value: fmt.Sprint(value)}
}

// Left returns the steps and memory that can still be taken from l.
func (l *ledger) Left() meter.Amount {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	return l.left()
}

// left is Left. The caller holds the mutex.
func (l *ledger) left() meter.Amount {
	steps, memory := l.limits.Steps-l.used.Steps, int64(l.limits.Memory)-l.used.Memory
	for n := l.parent; n != nil; n = n.parent {
		steps, memory = min(steps, n.limits.Steps-n.used.Steps), min(memory, int64(n.limits.Memory)-n.used.Memory)
	}
	return meter.Amount{Steps: max(steps, 0), Memory: max(memory, 0)}
}

// Grant takes want, or as much of it as is left, provided that need is left; otherwise it returns a *meter.LimitError.
func (l *ledger) Grant(need, want meter.Amount) (meter.Amount, error) {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	left := l.left()
	if need.Steps > left.Steps || need.Memory > left.Memory {
		return meter.Amount{}, l.refused(Usage{Steps: need.Steps, Memory: need.Memory})
	}
	got := meter.Amount{Steps: min(want.Steps, left.Steps), Memory: min(want.Memory, left.Memory)}
	l.add(Usage{Steps: got.Steps, Memory: got.Memory})
	return got, nil
}

// refused returns the error for u, which is more than is left. The caller holds the mutex.
func (l *ledger) refused(u Usage) error {
	for n := l; n != nil; n = n.parent {
		if err := allow(n.limits, n.used.Plus(u)); err != nil {
			return err
		}
	}
	return nil
}

// Total returns what l and all ledgers below have used; unspent is what its own run was granted and has not used.
func (l *ledger) Total(unspent Usage) Usage {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	return l.used.Minus(unspent)
}

// An ledgerEffect is the state of a branch's effect: whether it counts for limits.parallel, and what it has used. The zero
// value is an effect that has not begun.
type ledgerEffect struct {
	performs bool  // guarded by the mutex of the request, like the next
	used     Usage // by the runs that it started
	unsure   bool  // an outcome in one of these is not known
}

// Enter waits until an effect may be performed. The error is that of ctx.
func (q *request) Enter(ctx context.Context, e *ledgerEffect) error {
	if err := q.enter(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e.performs = true
	return nil
}

// Leave ends what Enter began. Further calls have no effect.
func (q *request) Leave(e *ledgerEffect) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.performs {
		e.performs = false
		q.leave()
	}
}

// Note adds the usage of a run that the effect started, and whether the outcome of a call in that run is unknown.
func (q *request) Note(e *ledgerEffect, u Usage, unsure bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.used = e.used.Plus(u)
	e.unsure = e.unsure || unsure
}

// Noted returns what was noted for an effect, and resets it.
func (q *request) Noted(e *ledgerEffect) (Usage, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, unsure := e.used, e.unsure
	e.used, e.unsure = Usage{}, false
	return u, unsure
}
