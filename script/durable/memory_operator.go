package durable

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// end gives the run the state of o, and removes the parts of an ended run that are not kept. mu is held.
func (s *MemoryStore) end(r *run, o Outcome) {
	if o.State.Final() {
		s.close(r, "")
	}
	r.State, r.Result, r.Error, r.Doubts = o.State, o.Result, o.Error, slices.Clone(o.Doubts)
	r.Updated, r.Wake, r.Lease = time.Now(), o.Wake, time.Time{}
	if o.State.Final() {
		r.Wake = time.Time{}
		r.place = s.ended.PushBack(r)
		delete(s.live, r.ID)
		s.strip(r)
	} else if answered(r, o) {
		r.Wake = r.Updated
	}
	s.weigh(r)
	s.enqueue(r)
	s.notify()
}

// answered reports whether a question of o has an answer already.
func answered(r *run, o Outcome) bool {
	return slices.ContainsFunc(o.Questions, func(q Question) bool { return find(r, q.Key).Answer != nil })
}

// strip removes the parts of an ended run that are not kept, see Keep.
func (s *MemoryStore) strip(r *run) {
	if s.options.Keep == KeepFull && !r.givenUp {
		return
	}
	r.Questions, r.Bytes = nil, 0
	if s.options.Keep == KeepNone || r.givenUp {
		r.recorded, r.begun, r.have, r.Entries = nil, nil, map[string]bool{}, 0
		return
	}
	for i := range r.recorded {
		r.recorded[i] = Outline(r.recorded[i])
	}
	for i := range r.begun {
		r.begun[i] = Outline(r.begun[i])
	}
}

// Answer implements [Store].
func (s *MemoryStore) Answer(_ context.Context, id, key string, answer json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return err
	}
	q := find(r, key)
	switch {
	case q == nil:
		return ErrNoQuestion
	case q.Answer != nil:
		return ErrAnswered
	case past(q.Deadline, time.Now()):
		return ErrLate
	}
	q.Answer = answer
	s.weigh(r)
	s.fit(r)
	r.Updated = time.Now()
	if r.State == Waiting {
		r.Wake = r.Updated
	}
	s.notify()
	return nil
}

// Resolve implements [Store].
func (s *MemoryStore) Resolve(_ context.Context, id, key string, to Resolution) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.begun, func(e script.Entry) bool { return e.Key == key })
	if i < 0 || r.State != Doubt || !slices.Contains(r.Doubts, key) {
		return ErrNoDoubt
	}
	if e := to.Entry(r.begun[i]); e.Done {
		if err := s.put(r, e); err != nil {
			return err
		}
	} else {
		r.begun[i] = e
	}
	r.Doubts = slices.DeleteFunc(r.Doubts, func(d string) bool { return d == key })
	if r.Updated = time.Now(); len(r.Doubts) == 0 {
		r.State, r.Wake, r.Error = Running, r.Updated, ""
	}
	s.notify()
	return nil
}

// Cancel implements [Store].
func (s *MemoryStore) Cancel(_ context.Context, id, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return err
	}
	if r.lease != nil {
		r.lease.lose()
	}
	s.end(r, Outcome{State: Cancelled, Error: reason})
	s.uncount(r)
	return nil
}

// uncount adds r, which has ended without an owner, to those that Uncounted returns. mu is held.
func (s *MemoryStore) uncount(r *run) {
	if len(s.uncounted) < maxQueued {
		s.uncounted = append(s.uncounted, Event{Run: r.ID, Tool: r.Tool, State: r.State, Epoch: r.Epoch, At: r.Updated})
	}
}

// Resume implements [Store].
func (s *MemoryStore) Resume(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	switch {
	case err != nil:
		return err
	case s.held(r):
		return ErrBusy
	}
	r.Updated = time.Now()
	r.State, r.Wake, r.Error = Running, r.Updated, ""
	s.notify()
	return nil
}
