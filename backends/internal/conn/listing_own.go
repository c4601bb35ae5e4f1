package conn

import (
	"sync"
	"sync/atomic"
)

const (
	// maxOwn bounds the items of one session that differ from the shared ones, in bytes.
	maxOwn = 1 << 20
	// maxAllOwn bounds those of all sessions together, in bytes.
	maxAllOwn = 64 << 20
)

// Own is the offer of a backend to one private session: some backends list tools after a login, or
// according to the client's capabilities. One caller reads the lists at a time, others wait for its
// result. The zero value has no offer yet.
type Own struct {
	stale atomic.Bool // a call was made, or a change was announced, since the last read

	mu       sync.Mutex
	offer    *Offer        // guarded by mu, as all below: of the last read; nil before the first
	base     *Offer        // the shared offer at that time
	conn     any           // the connection that was read on
	size     int64         // bytes of the items that are not in base
	reading  chan struct{} // closed at the end of the running read; nil: none
	closed   bool
	allBytes *atomic.Int64 // sum of size over all sessions; nil before the first read
}

// MarkStale records that the lists may have changed.
func (s *Own) MarkStale() { s.stale.Store(true) }

// Differs reports whether the session's last offer was not the shared one.
func (s *Own) Differs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer != nil && s.offer != s.base
}

// Known returns the current offer for the shared offer base and the session's connection, or a channel
// to wait for while another caller reads. When both are nil the caller must read the lists and call
// Set.
func (s *Own) Known(base *Offer, conn any) (offer *Offer, wait <-chan struct{}) {
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

// Set stores the result of a read: offer, with size bytes that are not in base. It returns the offer to
// use: base after an error, or if the offer is too large, which tooLarge reports. all is the sum over
// the sessions that share maxAllOwn.
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

// Close discards the offer; Known then always returns base.
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
