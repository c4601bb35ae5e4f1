package memory

import (
	"context"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/runs"
)

// maxTold bounds the events that wait; the oldest give way.
const maxTold = 10 * maxRuns

// told is an event that waits to be told.
type told struct {
	runs.Event
	next time.Time
}

// tell puts an event in the outbox. mu is held.
func (s *Store) tell(r *run) {
	if !slices.Contains(s.options.Tell, r.State) {
		return
	}
	if len(s.outbox) >= maxTold {
		s.outbox = slices.Delete(s.outbox, 0, 1)
	}
	s.outbox = append(s.outbox, told{Event: runs.Event{Run: r.ID, Tool: r.Tool, State: r.State, Epoch: r.Epoch, At: r.Updated}})
}

// Claim implements [runs.Outbox].
func (s *Store) Claim(_ context.Context, n int, hold time.Duration) (claimed []runs.Event, _ error) {
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

// Told implements [runs.Outbox].
func (s *Store) Told(_ context.Context, e runs.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.waits(e); i >= 0 {
		s.outbox = slices.Delete(s.outbox, i, i+1)
	}
	return nil
}

// Later implements [runs.Outbox].
func (s *Store) Later(_ context.Context, e runs.Event, in time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.waits(e); i >= 0 {
		s.outbox[i].next = time.Now().Add(in)
	}
	return nil
}

// waits is the place of an event. mu is held.
func (s *Store) waits(e runs.Event) int {
	return slices.IndexFunc(s.outbox, func(t told) bool { return t.Run == e.Run && t.State == e.State && t.Epoch == e.Epoch })
}

// Uncounted implements [runs.Store].
func (s *Store) Uncounted(_ context.Context, n int) ([]runs.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.uncounted))
	ended := slices.Clone(s.uncounted[:n])
	s.uncounted = slices.Delete(s.uncounted, 0, n)
	return ended, nil
}
