// Package ledger keeps the budget of a client's request.
//
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
//     by the time that its run computes on: growing waits after each grant of memory (script.account).
//   - Memory is given back in two places alone: what a budget has not spent, and what a run
//     held that another one has called, when it has ended (Refund). Steps, calls and branches are
//     given back nowhere else.
//
// # Who holds which lock
//
// Of package script, below a run, this one and the pool:
//
//	turns.mu     one for each run      who is next, places of groups
//	log.mu       one for each request  calls of the journal
//	request.mu   one for each request  what ledgers have used, and effects that are performed
//	Pool.mu      one for the process   tenants and what they were granted
//	slots.mu     one for the process   the right to compute
//	reading.mu   one for the process   answers that are being read
//
// A mutex is taken only while those are held that stand above it; the last three are never
// held together. None is held while anything waits for memory, a slot or an effect. The
// budget itself has no lock: it belongs to the branch that has the turn.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/pool"
)

// Usage is what a run has used, or one of its effects.
type Usage struct {
	Steps    int64 `json:"steps,omitempty"`
	Memory   int64 `json:"memory,omitempty"`
	Calls    int64 `json:"calls,omitempty"`
	Branches int64 `json:"branches,omitempty"`
	LogBytes int64 `json:"logBytes,omitempty"`
}

// Plus is what both are together.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Steps: u.Steps + v.Steps, Memory: u.Memory + v.Memory, Calls: u.Calls + v.Calls,
		Branches: u.Branches + v.Branches, LogBytes: u.LogBytes + v.LogBytes,
	}
}

// Minus is what is left of u without v.
func (u Usage) Minus(v Usage) Usage {
	return u.Plus(Usage{-v.Steps, -v.Memory, -v.Calls, -v.Branches, -v.LogBytes})
}

// Ledger is what one run may use, and has used.
type Ledger struct {
	Request *Request // that all ledgers of the tree share
	parent  *Ledger  // nil for the run that has no caller
	limits  limits.Run
	used    Usage // guarded by request.mu
}

// Request is what the ledgers of one request share.
type Request struct {
	// Tenant is the request in the pool; nil without one.
	Tenant *pool.Tenant

	mu      sync.Mutex
	root    *Ledger
	effects int             // that are being performed; guarded by mu
	workers int64           // what the workers of its runs weigh in the pool; guarded by mu
	waiting []chan struct{} // effects that wait until others have ended; guarded by mu
}

// enter waits until the request may perform one more effect. limits.parallel is for all
// of its runs together: each keeps to it on its own, by the order of its journal, and
// where the branches of several run at once, their effects wait for each other here. An
// effect that starts a run leaves when that run begins, so nothing that waits is waited for.
func (q *Request) enter(ctx context.Context) error {
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

// forget takes turn out of those who wait; one that was called meanwhile leaves again.
func (q *Request) forget(turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.leave()
}

// leave lets the next effect in. The caller holds the mutex.
func (q *Request) leave() {
	if len(q.waiting) == 0 {
		q.effects--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// New opens a ledger under parent, or a tree of its own.
func New(parent *Ledger, l limits.Run) *Ledger {
	if parent != nil {
		return &Ledger{Request: parent.Request, parent: parent, limits: l}
	}
	root := &Ledger{Request: &Request{}, limits: l}
	root.Request.root = root
	return root
}

// Take takes all of u, or nothing. The error names the first limit that does not allow it.
func (l *Ledger) Take(u Usage) error {
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

// add notes u in l and above. The caller holds the mutex of the request.
func (l *Ledger) add(u Usage) {
	for n := l; n != nil; n = n.parent {
		n.used = n.used.Plus(u)
	}
}

// Weigh notes that the workers of the request weigh n bytes more.
func (q *Request) Weigh(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers += n
}

// Charged is what all runs of the request have been granted of memory, and what their
// workers weigh.
func (q *Request) Charged() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.used.Memory + q.workers
}

// MostReading is how much of answers the request may have under way, in bytes.
func (q *Request) MostReading() int64 { return int64(q.root.limits.Memory) / 4 }

// Give returns what was not used.
func (l *Ledger) Give(u Usage) {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	l.add(Usage{}.Minus(u))
}

// Refund gives back the memory of a run that is over, but for so many bytes.
func (l *Ledger) Refund(keep int64) {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	l.add(Usage{Memory: min(0, keep-l.used.Memory)})
}

// allow returns the limit of l that u is beyond.
func allow(l limits.Run, u Usage) error {
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

func reached(limit string, value any) error {
	return &meter.LimitError{Limit: limit, Value: fmt.Sprint(value)}
}

// Left is what can still be taken from l of steps and memory.
func (l *Ledger) Left() meter.Amount {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	return l.left()
}

// left is Left. The caller holds the mutex.
func (l *Ledger) left() meter.Amount {
	steps, memory := l.limits.Steps-l.used.Steps, int64(l.limits.Memory)-l.used.Memory
	for n := l.parent; n != nil; n = n.parent {
		steps, memory = min(steps, n.limits.Steps-n.used.Steps), min(memory, int64(n.limits.Memory)-n.used.Memory)
	}
	return meter.Amount{Steps: max(steps, 0), Memory: max(memory, 0)}
}

// Grant takes what is wanted, or as much as is left, if that is what is needed.
func (l *Ledger) Grant(need, want meter.Amount) (meter.Amount, error) {
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

// refused is the error for u, which is more than is left. The caller holds the mutex.
func (l *Ledger) refused(u Usage) error {
	for n := l; n != nil; n = n.parent {
		if err := allow(n.limits, n.used.Plus(u)); err != nil {
			return err
		}
	}
	return nil
}

// Total is what l and all below it have used; unspent is what its own run was granted
// and has not used.
func (l *Ledger) Total(unspent Usage) Usage {
	l.Request.mu.Lock()
	defer l.Request.mu.Unlock()
	return l.used.Minus(unspent)
}

// An Effect is what a branch performs: whether it counts for limits.parallel, and what it sets off. The zero value
// is one that has not begun.
type Effect struct {
	performs bool  // guarded by the mutex of the request, like the next
	used     Usage // by the runs that it has started
	unsure   bool  // an outcome in one of these is not known
}

// Enter waits until an effect may be performed, and says why it was not waited longer.
func (q *Request) Enter(ctx context.Context, e *Effect) error {
	if err := q.enter(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e.performs = true
	return nil
}

// Leave ends what Enter began, once.
func (q *Request) Leave(e *Effect) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.performs {
		e.performs = false
		q.leave()
	}
}

// Note adds what a run has used that the effect has started, and whether the outcome of a call in it is not known.
func (q *Request) Note(e *Effect, u Usage, unsure bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.used = e.used.Plus(u)
	e.unsure = e.unsure || unsure
}

// Noted returns what was noted of an effect, and forgets it.
func (q *Request) Noted(e *Effect) (Usage, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, unsure := e.used, e.unsure
	e.used, e.unsure = Usage{}, false
	return u, unsure
}
