package cluster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Kept rows: what the store has of a session, so that another replica can adopt it.
//
// A row is written only for what the sealed id does not contain. Kept is the owner's copy of the row:
//
//	no row   only until is set (Opened); the replica that the id names is the owner, with epoch 0
//	row      from the first change on, even if writing it has failed so far (it is in dirty then); or
//	         from the adoption on, with the epoch and the state of the row (begin)
//	ended    the session has ended here (Deleted): the row says so, or, while the store is away, ended does
//	lost     another replica has a higher epoch: change gets an AdoptedError or ErrDeleted, or news reports it;
//	         Edge.Lose removes the session from this process and leaves the row alone
//
// Invariants: only the owner writes a row, since Save compares owner and epoch in its statement. Writes of one session
// are in the order of its changes, since writing is held for both. A row expires with the id of its session (until, by
// the clock that replicas share), after which nothing is written.
//
// A request of a session in memory does not use any of this. For another one, Route (routing.go) first asks hasEnded,
// then reads the row. If the owner is gone, the request holds the session's lock of locks: one request of this process
// adopts, the others find the session in memory afterwards. begin is called before others can find the session.
//
// While the store is away: changes are kept in memory, and saveLater writes the sessions of dirty and the ends of ended
// every saveEvery. A request of the client fails only if it opens a session whose capabilities do not fit into the id
// (Opened).
//
// Locks: Kept.writing, then Kept.mu; f of Change is called with both and must not block. dirty.mu, ended.mu and
// locks.mu are held alone. The store is asked with writing or a session's lock held, never with another one. saveLater
// is the only goroutine; it ends with Options.Life. Kept is the owner's copy of one session's row. The zero value
// belongs to a session without one.
type Kept struct {
	writing sync.Mutex // held while the row is changed and written, so that writes are in order

	mu    sync.Mutex
	epoch int64     // guarded by mu, like all below
	until time.Time // expiry of the row and of the session id
	state State     //
	row   bool      // there is a row, written or to be written
}

// begin sets the state of an adopted session from its row.
func (k *Kept) begin(row Row, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch, k.until, k.state, k.row = row.Epoch, until, row.State, true
}

func (k *Kept) epochNow() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// HasRow reports whether the session has a row.
func (k *Kept) HasRow() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.row
}

// dirty has the sessions whose rows have to be written again.
type dirty struct {
	mu  sync.Mutex
	all map[string]*edge.Session // guarded by mu
}

// Opened is called for a new session. Capabilities that do not fit into its id are written to a row before the client
// gets the id.
func (t *Set) Opened(ctx context.Context, s *edge.Session, said *edge.IDSession) error {
	k := t.o.Kept(s)
	k.mu.Lock()
	k.until = untilOf(said)
	k.mu.Unlock()
	if !said.Elsewhere {
		return nil
	}
	if err := t.change(ctx, s, func(state *State) { state.Extra = s.Client.Capabilities }); err != nil {
		t.o.Log.Warn("a session was not opened: its capabilities are too large for its id, and they could not be stored", "err", err)
		return wire.Errorf(wire.Busy, "capabilities of %d bytes cannot be stored now; try again in a moment", len(s.Client.Capabilities))
	}
	return nil
}

// Change changes the stored state of a session. If the store is away, it is written later.
func (t *Set) Change(ctx context.Context, s *edge.Session, f func(*State)) {
	err := t.change(ctx, s, f)
	var adopted *AdoptedError
	switch {
	case err == nil:
	case errors.As(err, &adopted), errors.Is(err, ErrDeleted):
		t.o.Log.Info("session continues at another replica", "session", s.ID[:6], "err", err)
		t.o.Edge.Lose(s)
	case errors.Is(err, ErrUnavailable):
		t.dirty.mu.Lock()
		defer t.dirty.mu.Unlock()
		if t.dirty.all == nil {
			t.dirty.all = map[string]*edge.Session{}
		}
		t.dirty.all[s.ID] = s
	default:
		t.o.Log.Warn("the state of a session could not be stored: another replica that adopts it restores an earlier state", "session", s.ID[:6], "err", err)
	}
}

// change changes and writes the row of a session.
func (t *Set) change(ctx context.Context, s *edge.Session, f func(*State)) error {
	k := t.o.Kept(s)
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	k.state.Backends = maps.Clone(k.state.Backends)
	f(&k.state)
	row, life := Row{ID: s.ID, Epoch: k.epoch, State: k.state}, t.until(k.until)
	k.row = true
	k.mu.Unlock()
	if life <= 0 {
		return nil // the id has expired: no replica adopts the session
	}
	return t.o.Members.Save(context.WithoutCancel(ctx), row, life)
}

// saveEvery is the interval at which failed writes are repeated.
const saveEvery = 2 * time.Second

// saveLater repeats failed writes of rows and of ends.
func (t *Set) saveLater() {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.o.Life.Done():
			return
		}
		t.endLater()
		t.dirty.mu.Lock()
		all := t.dirty.all
		t.dirty.all = nil
		t.dirty.mu.Unlock()
		for id, s := range all {
			if t.o.Edge.Session(id) == s {
				t.Change(t.o.Life, s, func(*State) {})
			}
		}
	}
}

// Deleted records that a session has ended for all replicas.
func (t *Set) Deleted(s *edge.Session) {
	k := t.o.Kept(s)
	k.mu.Lock()
	life := t.until(k.until)
	k.mu.Unlock()
	if life <= 0 {
		return
	}
	t.noteEnd(context.WithoutCancel(t.o.Life), s.ID, life)
}

// ended has the sessions whose end could not be written yet.
type ended struct {
	mu  sync.Mutex
	all map[string]time.Time // expiry of their ids; guarded by mu
}

// maxEnded bounds them: beyond it, another request with the id of a session that was ended while the store was away may
// restore it.
const maxEnded = 10_000

// add adds a session; false if there are too many.
func (e *ended) add(id string, until time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) >= maxEnded {
		return false
	}
	if e.all == nil {
		e.all = map[string]time.Time{}
	}
	e.all[id] = until
	return true
}

// noteEnd records that a session has ended, in ended if the store is away.
func (t *Set) noteEnd(ctx context.Context, id string, life time.Duration) {
	err := t.o.Members.Delete(ctx, id, life)
	if err == nil {
		return
	}
	later := t.ended.add(id, time.Now().Add(life))
	t.o.Log.Warn("the end of a session could not be stored", "session", id[:6], "later", later, "err", err)
}

// hasEnded reports whether a session has ended although its row may not say so.
func (t *Set) hasEnded(id string) bool {
	t.ended.mu.Lock()
	defer t.ended.mu.Unlock()
	_, ok := t.ended.all[id]
	return ok
}

// endLater writes the ends that could not be written before.
func (t *Set) endLater() {
	t.ended.mu.Lock()
	all := maps.Clone(t.ended.all)
	t.ended.mu.Unlock()
	for id, until := range all {
		if life := time.Until(until); life > 0 && t.o.Members.Delete(t.o.Life, id, life) != nil {
			return // the store is still away
		}
		t.ended.mu.Lock()
		delete(t.ended.all, id)
		t.ended.mu.Unlock()
	}
}

// locks are one lock per session, held during its adoption.
type locks struct {
	mu  sync.Mutex
	all map[string]*held // guarded by mu
}

type held struct {
	free  chan struct{} // capacity 1: holds an element while locked
	users int           // guarded by locks.mu
}

// lock acquires the lock of a session.
func (l *locks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*held{}
	}
	h := l.all[id]
	if h == nil {
		h = &held{free: make(chan struct{}, 1)}
		l.all[id] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.all, id)
		}
	}
	select {
	case h.free <- struct{}{}:
		return func() { <-h.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
