package durable

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package is the store of runs in the memory of the process: runs outlive their requests, but not the
// process. A proxy without sessionStorage uses it.

var errClosed = fmt.Errorf("%w: it is closed", ErrUnavailable)

// MemoryStore is a Store in memory. NewMemory makes one.
type MemoryStore struct {
	options Options
	pool    *script.Pool

	mu        sync.Mutex
	runs      map[string]*run    // by id
	live      map[string]*run    // those that have not ended
	keys      map[[2]string]*run // by principal and idempotency key
	changed   chan struct{}
	closed    bool
	kept      int64            // sum of all weights
	of        map[string]int64 // sum of the weights by principal
	givenUp   int64            // number of runs that fit has ended
	forgotten map[State]int64  // how many runs fit has removed, by state
	ended     *list.List       // of *run, in the order in which they ended
	outbox    []queued         // events that were not sent yet, in order
	uncounted []Event          // for Uncounted
}

// run is a run with its journal. The store's mutex guards it.
type run struct {
	Run
	recorded []script.Entry  // in order
	begun    []script.Entry  // that are not recorded yet: a few
	have     map[string]bool // keys of recorded
	lease    *lease          // of the present owner
	place    *list.Element   // in ended
	givenUp  bool            // fit has ended it
	weight   int64           // bytes that are counted for it: 0 while it is executed
}

// NewMemory returns an empty store. The sizes of its runs without an owner are counted in the pool and bounded by in.MostKept, see
// [Store.fit]; the journal of a run that is executed is charged to the budget of that run instead.
func NewMemory(o Options, in *script.Pool) *MemoryStore {
	return &MemoryStore{options: o.WithDefaults(), pool: in, runs: map[string]*run{}, live: map[string]*run{}, keys: map[[2]string]*run{}, changed: make(chan struct{}), of: map[string]int64{}, forgotten: map[State]int64{}, ended: list.New()}
}

// Start implements [Store].
func (s *MemoryStore) Start(_ context.Context, r Run) (Run, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err := s.same(r); old != nil || err != nil {
		return old.copied(), false, err
	}
	return s.add(r).copied(), true, nil
}

// Create implements [Store].
func (s *MemoryStore) Create(_ context.Context, r Run, owner string, entries []script.Entry) (Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err := s.same(r); err != nil {
		return nil, err
	} else if old != nil {
		return nil, ErrExists
	}
	n := s.add(r)
	for _, e := range entries {
		if err := s.put(n, e); err != nil {
			s.forget(n)
			return nil, err
		}
	}
	return s.acquire(n, owner), nil
}

// same returns the run with the id or the idempotency key of r, nil where there is none, ErrOtherRequest where it was begun
// by another principal or with another tool or arguments.
func (s *MemoryStore) same(r Run) (*run, error) {
	if s.closed {
		return nil, errClosed
	}
	old := s.runs[r.ID]
	if old == nil && r.Dedupe != "" {
		old = s.keys[[2]string{r.Principal, r.Dedupe}]
	}
	if old != nil && (old.Principal != r.Principal || old.Tool != r.Tool || !bytes.Equal(old.Args, r.Args)) {
		return nil, ErrOtherRequest
	}
	return old, nil
}

// add stores a new run.
func (s *MemoryStore) add(r Run) *run {
	now := time.Now()
	n := &run{have: map[string]bool{}, Run: Run{
		ID: cmp.Or(r.ID, NewID()), Parent: r.Parent, Tool: r.Tool, Principal: r.Principal, Dedupe: r.Dedupe, Trace: r.Trace,
		Program: r.Program, Limits: r.Limits, Args: r.Args, Header: r.Header, Expires: r.Expires,
		State: Running, Created: now, Updated: now, Wake: now.Add(s.options.Lease), Lease: now.Add(s.options.Lease),
	}}
	s.runs[n.ID], s.live[n.ID] = n, n
	if n.Dedupe != "" {
		s.keys[[2]string{n.Principal, n.Dedupe}] = n
	}
	s.weigh(n)
	s.fit(n)
	return n
}

// weigh counts the present size of r, 0 while it is executed. mu is held.
func (s *MemoryStore) weigh(r *run) {
	n := int64(0)
	if r.lease == nil && s.runs[r.ID] == r {
		n = r.size()
	}
	more := n - r.weight
	r.weight = n
	s.kept += more
	if s.of[r.Principal] += more; s.of[r.Principal] == 0 {
		delete(s.of, r.Principal)
	}
	s.pool.CountKept(more)
}

// size is roughly the number of bytes that the run uses.
func (r *run) size() int64 {
	n := int64(weightOfOne+len(r.Limits)+len(r.Args)+len(r.Result)+len(r.Error)) + r.Bytes
	for _, q := range r.Questions {
		n += int64(len(q.Params) + len(q.Answer))
	}
	return n
}

func (s *MemoryStore) forget(r *run) {
	delete(s.runs, r.ID)
	s.weigh(r)
	delete(s.live, r.ID)
	if r.givenUp {
		s.givenUp--
	}
	delete(s.keys, [2]string{r.Principal, r.Dedupe})
	if r.place != nil {
		s.ended.Remove(r.place)
	}
	s.outbox = slices.DeleteFunc(s.outbox, func(t queued) bool { return t.Run == r.ID })
}

// Acquire implements [Store].
func (s *MemoryStore) Acquire(_ context.Context, id, owner string) (Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return nil, err
	}
	if s.held(r) {
		return nil, ErrBusy
	}
	return s.acquire(r, owner), nil
}

// held reports whether the run has an owner. All owners are in this process, so a lease does not
// expire, unless leases are not renewed.
func (s *MemoryStore) held(r *run) bool {
	return r.Owner != "" && (s.options.Renew > 0 || time.Now().Before(r.Lease))
}

func (s *MemoryStore) acquire(r *run, owner string) *lease {
	if r.lease != nil {
		r.lease.lose()
	}
	r.Epoch++
	r.Owner, r.State, r.Lease = owner, Running, time.Now().Add(s.options.Lease)
	r.Wake, r.Error, r.Doubts = r.Lease, "", nil
	r.lease = &lease{s: s, r: r, epoch: r.Epoch, taken: r.copied(), lost: make(chan struct{})}
	s.weigh(r)
	return r.lease
}

// open returns a run that has not ended.
func (s *MemoryStore) open(id string) (*run, error) {
	r := s.runs[id]
	switch {
	case s.closed:
		return nil, errClosed
	case r == nil:
		return nil, ErrUnknown
	case r.State.Final():
		return nil, ErrEnded
	}
	return r, nil
}

// Due implements [Store].
func (s *MemoryStore) Due(_ context.Context, n int) (ids []string, next time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*run
	now := time.Now()
	next = -1
	for _, r := range s.live {
		held := s.held(r)
		if !held && (past(r.Wake, now) || past(r.Expires, now)) {
			due = append(due, r)
			continue
		}
		then := []time.Time{r.Wake}
		if !held {
			then = append(then, r.Expires)
		}
		for _, t := range then {
			if in := t.Sub(now); in > 0 && (next < 0 || in < next) {
				next = in
			}
		}
	}
	slices.SortFunc(due, func(a, b *run) int { return a.Wake.Compare(b.Wake) })
	for _, r := range due[:min(n, len(due))] {
		ids = append(ids, r.ID)
	}
	if len(due) > n {
		next = 0
	}
	return ids, next, nil
}

func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// List implements [Store].
func (s *MemoryStore) List(_ context.Context, f Filter) ([]Summary, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*run
	for _, r := range s.runs {
		if matches(r, f) && (f.After == "" || position(r) < f.After) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *run) int { return strings.Compare(position(b), position(a)) })
	limit, next := cmp.Or(f.Limit, 100), ""
	if len(found) > limit {
		found = found[:limit]
		next = position(found[limit-1])
	}
	var list []Summary
	for _, r := range found {
		list = append(list, r.summary())
	}
	return list, next, nil
}

// position is the sort key of a run in List, by when it was changed, and the cursor of the runs after it.
func position(r *run) string { return fmt.Sprintf("%020d.%s", r.Updated.UnixMicro(), r.ID) }

func matches(r *run, f Filter) bool {
	return (f.States == nil || slices.Contains(f.States, r.State)) && (f.Tool == "" || r.Tool == f.Tool) &&
		(f.Principal == "" || r.Principal == f.Principal) && !r.Updated.Before(f.Since) && f.SealedBy == ""
}

func (r *run) summary() Summary {
	open := 0
	for _, q := range r.Questions {
		if q.Answer == nil {
			open++
		}
	}
	return Summary{
		ID: r.ID, Tool: r.Tool, Principal: r.Principal, State: r.State, Created: r.Created, Updated: r.Updated, Wake: r.Wake,
		Questions: open, Doubts: len(r.Doubts), Entries: r.Entries, Error: r.Error,
	}
}

// Get implements [Store].
func (s *MemoryStore) Get(_ context.Context, id string) (Run, []script.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return Run{}, nil, ErrUnknown
	}
	return r.copied(), slices.Concat(r.recorded, r.begun), nil
}

// copied returns the run with copies of the slices that the store changes in place; the zero Run for nil.
func (r *run) copied() Run {
	if r == nil {
		return Run{}
	}
	c := r.Run
	c.Questions, c.Doubts = slices.Clone(r.Questions), slices.Clone(r.Doubts)
	return c
}

// Prune implements [Store].
func (s *MemoryStore) Prune(_ context.Context, o Old) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.runs {
		if r.State.Final() && r.Updated.Before(o.Before) && (o.States == nil || slices.Contains(o.States, r.State)) &&
			(o.Principal == nil || r.Principal == *o.Principal) {
			s.forget(r)
			n++
		}
	}
	return n, nil
}

// Sealed implements [Store]: runs in memory are not sealed.
func (s *MemoryStore) Sealed(context.Context) (map[string]int, error) { return nil, nil }

// Stats implements [Store].
func (s *MemoryStore) Stats(context.Context) (Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{States: map[State]int{}, Kept: s.kept, Forgotten: maps.Clone(s.forgotten)}
	for _, state := range States {
		st.States[state] = 0
	}
	for _, r := range s.runs {
		st.States[r.State]++
		if r.State == Waiting && (st.OldestWaiting.IsZero() || r.Updated.Before(st.OldestWaiting)) {
			st.OldestWaiting = r.Updated
		}
	}
	return st, nil
}

// Changed implements [Store].
func (s *MemoryStore) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// notify closes the channel of Changed. mu is held.
func (s *MemoryStore) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Ping implements [Store].
func (s *MemoryStore) Ping(context.Context) error { return nil }

// Close implements [Store].
func (s *MemoryStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.notify()
	return nil
}
