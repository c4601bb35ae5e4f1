package durable

import (
	"context"
	"slices"
	"time"
)

// maxQueued bounds the events in the outbox; the oldest are dropped.
const maxQueued = 10_000

// queued is an event that is to be sent, not before next.
type queued struct {
	Event
	next time.Time
}

// enqueue puts an event in the outbox. mu is held.
func (s *MemoryStore) enqueue(r *run) {
	if !slices.Contains(s.options.Notify, r.State) {
		return
	}
	if len(s.outbox) >= maxQueued {
		s.outbox = slices.Delete(s.outbox, 0, 1)
	}
	s.outbox = append(s.outbox, queued{Event: Event{Run: r.ID, Tool: r.Tool, State: r.State, Epoch: r.Epoch, At: r.Updated}})
}

// Claim implements [Outbox].
func (s *MemoryStore) Claim(_ context.Context, n int, hold time.Duration) (claimed []Event, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range s.outbox {
		t := &s.outbox[i]
		if len(claimed) == n || t.next.After(now) {
			continue
		}
		t.next, t.Attempts = now.Add(hold), t.Attempts+1
		claimed = append(claimed, t.Event)
	}
	return claimed, nil
}

// Sent implements [Outbox].
func (s *MemoryStore) Sent(_ context.Context, e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(e); i >= 0 {
		s.outbox = slices.Delete(s.outbox, i, i+1)
	}
	return nil
}

// Later implements [Outbox].
func (s *MemoryStore) Later(_ context.Context, e Event, in time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(e); i >= 0 {
		s.outbox[i].next = time.Now().Add(in)
	}
	return nil
}

// index is the index of an event in the outbox; -1 where it is not there. mu is held.
func (s *MemoryStore) index(e Event) int {
	return slices.IndexFunc(s.outbox, func(t queued) bool { return t.Run == e.Run && t.State == e.State && t.Epoch == e.Epoch })
}

// Uncounted implements [Store].
func (s *MemoryStore) Uncounted(_ context.Context, n int) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.uncounted))
	ended := slices.Clone(s.uncounted[:n])
	s.uncounted = slices.Delete(s.uncounted, 0, n)
	return ended, nil
}
