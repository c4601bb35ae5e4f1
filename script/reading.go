package script

import (
	"context"
	"slices"
	"sync"
)

// Answers that are being read are charged to nobody: a run is charged for an answer when
// it gets it, in the order of its journal, or its limits would depend on who answers
// first. So what is under way has bounds of its own, one for the process and one for each
// request, a quarter of its memory. Whoever reads more than a little asks first, for as
// much as the answer may have; there is no asking for more later, so nobody waits for
// room while holding what others wait for. Who gets no room waits, reading nothing, as
// long as its call may take. It gives back what the answer did not need when it has been
// read, and the rest when the run has been charged.
type reading struct {
	mu      sync.Mutex
	most    int64
	now     int64
	waiting []*reader // in the order in which they came
}

// reader is an effect that waits for room.
type reader struct {
	request *request
	n       int64
	ready   chan struct{}
}

// leastReading is what the process has room for at least.
const leastReading = 64 << 20

// MostReading is what all runs together may have under way of answers, where they may be
// charged total bytes.
func MostReading(total int64) int64 { return max(total/8, leastReading) }

// Small is the size of answers that are read without asking.
const Small = 64 << 10

func (r *reading) set(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
	r.admit()
}

// admit lets those in for whom there is room. One whose request has no room is passed
// over, one for whom the process has none is not. The caller holds the mutex.
func (r *reading) admit() {
	full := false
	r.waiting = slices.DeleteFunc(r.waiting, func(w *reader) bool {
		if full = full || r.now > 0 && r.now+w.n > r.most; full || w.request.reading+w.n > w.request.mostReading() {
			return false
		}
		r.take(w.request, w.n)
		close(w.ready)
		return true
	})
}

func (r *reading) take(q *request, n int64) {
	r.now += n
	q.reading += n
}

// mostReading is how much of answers a request may have under way.
func (q *request) mostReading() int64 { return int64(q.root.limits.Memory) / 4 }

// Room waits until n bytes of an answer may be read by the effect that ctx belongs to,
// and returns how many of them: fewer where its request may never have so many under way.
// NoteRead says how many it were in the end.
func Room(ctx context.Context, n int64) (int64, error) {
	b := callerOf(ctx)
	if b == nil {
		return n, nil
	}
	q := b.run.ledger.request
	n = min(n, q.mostReading())
	if q.tenant == nil || n <= Small {
		return n, nil
	}
	r := &q.tenant.pool.reading
	r.mu.Lock()
	w := &reader{request: q, n: n, ready: make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.admit()
	r.mu.Unlock()
	select {
	case <-w.ready:
		b.room += n
		return n, nil
	case <-ctx.Done():
		r.forget(w)
		return 0, context.Cause(ctx)
	}
}

// forget takes w out of those who wait, or back what it got meanwhile.
func (r *reading) forget(w *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, w); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		return
	}
	r.take(w.request, -w.n)
	r.admit()
}

// keepRoom gives back all but n bytes of the room that b has.
func (b *branch) keepRoom(n int64) {
	back := b.room - n
	if back <= 0 {
		return
	}
	b.room -= back
	q := b.run.ledger.request
	r := &q.tenant.pool.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(q, -back)
	r.admit()
}
