package script

import (
	"context"
	"slices"
	"sync"
)

// Answers that are being read are charged to no run: a run is charged for an answer when it gets it, in the order of
// its journal; otherwise its limits would depend on which peer answers first. So the bytes being read have separate
// bounds, one for the process and one for each request, a quarter of its memory. A reader of more than Small bytes
// first reserves as much as the answer may have, and cannot reserve more later, so no reader waits for room while
// holding what others wait for. It waits without reading, as long as its call may take. It returns what the answer did
// not need when it has been read, and the rest when the run has been charged.
type reading struct {
	mu      sync.Mutex
	most    int64
	now     int64
	waiting []*reader // in order of arrival
}

// reader is an effect that waits for room.
type reader struct {
	tenant *Tenant
	n      int64
	most   int64 // bytes that the tenant may be reading
	ready  chan struct{}
}

// leastReading is the least room of the process, in bytes.
const leastReading = 64 << 20

// MostReading returns how many bytes of answers all runs together may be reading, where they may be charged total
// bytes.
func MostReading(total int64) int64 { return max(total/8, leastReading) }

func (r *reading) set(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
	r.admit()
}

// admit admits the readers for which there is room. One whose request has no room is skipped; one for which the
// process has none blocks those behind it. The caller holds the mutex.
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

// Read waits until m may read n bytes of an answer, where m may be reading most bytes at once.
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

// HasRead returns room for n bytes.
func (m *Tenant) HasRead(n int64) {
	r := &m.pool.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(m, -n)
	r.admit()
}

// forget removes w from the waiting, or returns what it was admitted for.
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
