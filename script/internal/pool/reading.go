package pool

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
	tenant *Tenant
	n      int64
	most   int64 // that the tenant may have under way
	ready  chan struct{}
}

// leastReading is what the process has room for at least.
const leastReading = 64 << 20

// MostReading is what all runs together may have under way of answers, where they may be
// charged total bytes.
func MostReading(total int64) int64 { return max(total/8, leastReading) }

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
		if full = full || r.now > 0 && r.now+w.n > r.most; full || w.tenant.reading+w.n > w.most {
			return false
		}
		r.take(w.tenant, w.n)
		close(w.ready)
		return true
	})
}

func (r *reading) take(m *Tenant, n int64) {
	r.now += n
	m.reading += n
}

// Read waits until m may read n bytes of an answer, where it may have most bytes under way.
func (m *Tenant) Read(ctx context.Context, n, most int64) error {
	r := &m.pool.reading
	r.mu.Lock()
	w := &reader{tenant: m, n: n, most: most, ready: make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.admit()
	r.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		r.forget(w)
		return context.Cause(ctx)
	}
}

// HasRead gives back room for n bytes.
func (m *Tenant) HasRead(n int64) {
	r := &m.pool.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(m, -n)
	r.admit()
}

// forget takes w out of those who wait, or back what it got meanwhile.
func (r *reading) forget(w *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, w); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		return
	}
	r.take(w.tenant, -w.n)
	r.admit()
}
