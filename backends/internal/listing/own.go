package listing

import (
	"sync"
	"sync/atomic"
)

const (
	// maxOwn bounds what one session may be offered beside what all are.
	maxOwn = 1 << 20
	// maxAllOwn bounds that for all sessions together.
	maxAllOwn = 64 << 20
)

// Own is what a backend offers in one session, where that differs from what it offers to all:
// some show tools after a login, or by what the client can be asked. One reads at a time, others
// wait for what came of it. The zero value knows nothing yet.
type Own struct {
	stale atomic.Bool // a call was made, or a change was announced, since the last look

	mu       sync.Mutex
	offer    *Offer        // guarded by mu, as all below: as of the last look; nil before the first
	base     *Offer        // what the backend offered to all then
	conn     any           // that was asked
	size     int64         // bytes of what is not in base
	reading  chan struct{} // closed when who reads is done; nil when nobody does
	closed   bool
	allBytes *atomic.Int64 // what all sessions hold in sum; nil before the first read
}

// MarkStale notes that the lists may have changed.
func (s *Own) MarkStale() { s.stale.Store(true) }

// Differs reports whether the session was last offered something else than all.
func (s *Own) Differs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer != nil && s.offer != s.base
}

// Look returns what is known for the offer to all, base, and the session's connection; or what to
// wait for while somebody reads. When both are nil the caller has to read, and to call Set.
func (s *Own) Look(base *Offer, conn any) (offer *Offer, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return base, nil
	case s.reading != nil:
		return nil, s.reading
	case s.offer != nil && s.base == base && s.conn == conn && !s.stale.Load():
		return s.offer, nil
	}
	s.reading = make(chan struct{})
	s.stale.Store(false)
	return nil, nil
}

// Set keeps what was read, offer with size bytes of its own, and returns what holds: base where the
// read went wrong or the offer is too large, which tooLarge reports. all is what the sessions hold
// that share a bound.
func (s *Own) Set(base *Offer, conn any, offer *Offer, size int64, err error, all *atomic.Int64) (holds *Offer, tooLarge bool) {
	if err == nil && size > 0 && (size > maxOwn || all.Load() > maxAllOwn) {
		offer, size, tooLarge = base, 0, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading != nil {
		close(s.reading)
		s.reading = nil
	}
	if err != nil || s.closed {
		s.stale.Store(true)
		return base, tooLarge
	}
	all.Add(size - s.size)
	s.offer, s.base, s.conn, s.size, s.allBytes = offer, base, conn, size, all
	return offer, tooLarge
}

// Close forgets everything, for good.
func (s *Own) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allBytes != nil {
		s.allBytes.Add(-s.size)
	}
	if s.reading != nil {
		close(s.reading)
	}
	s.offer, s.base, s.conn, s.size, s.reading, s.allBytes, s.closed = nil, nil, nil, 0, nil, nil, true
}
