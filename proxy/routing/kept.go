package routing

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
)

// Kept is what is kept of one session in its row. The zero value is that of one without a row.
type Kept struct {
	writing sync.Mutex // held while the row is written: what was changed last is written last

	mu    sync.Mutex
	epoch int64         // guarded by mu, like all below
	until time.Time     // how long it is kept
	state cluster.State //
	row   bool          // there is one
}

// begin takes what the row of an adopted session says.
func (k *Kept) begin(row cluster.Row, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch, k.until, k.state, k.row = row.Epoch, until, row.State, true
}

func (k *Kept) epochNow() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// HasRow reports whether anything was kept.
func (k *Kept) HasRow() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.row
}

// dirty are the sessions whose rows could not be written.
type dirty struct {
	mu  sync.Mutex
	all map[string]*edge.Session // guarded by mu
}

// Opened notes a new session. What does not fit into its text is written before its client knows of it.
func (t *Set) Opened(ctx context.Context, s *edge.Session, said *ids.Session) error {
	k := t.o.Kept(s)
	k.mu.Lock()
	k.until = untilOf(said)
	k.mu.Unlock()
	if !said.Elsewhere {
		return nil
	}
	if err := t.change(ctx, s, func(state *cluster.State) { state.Extra = s.Client.Capabilities }); err != nil {
		t.o.Log.Warn("a session was not opened: its capabilities are too large for its id, and its row was not written", "err", err)
		return wire.Errorf(wire.Busy, "capabilities of %d bytes cannot be kept now; try again in a moment", len(s.Client.Capabilities))
	}
	return nil
}

// Change changes what is kept of a session. What cannot be written now is written later.
func (t *Set) Change(ctx context.Context, s *edge.Session, f func(*cluster.State)) {
	err := t.change(ctx, s, f)
	var adopted *cluster.AdoptedError
	switch {
	case err == nil:
	case errors.As(err, &adopted), errors.Is(err, cluster.ErrDeleted):
		t.o.Log.Info("session goes on at another replica", "session", s.ID[:6], "err", err)
		t.o.Edge.Lose(s)
	case errors.Is(err, cluster.ErrUnavailable):
		t.dirty.mu.Lock()
		defer t.dirty.mu.Unlock()
		if t.dirty.all == nil {
			t.dirty.all = map[string]*edge.Session{}
		}
		t.dirty.all[s.ID] = s
	default:
		t.o.Log.Warn("what a session needs elsewhere is not kept", "session", s.ID[:6], "err", err)
	}
}

// change changes the row of a session.
func (t *Set) change(ctx context.Context, s *edge.Session, f func(*cluster.State)) error {
	k := t.o.Kept(s)
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	k.state.Backends = maps.Clone(k.state.Backends)
	f(&k.state)
	row, life := cluster.Row{ID: s.ID, Epoch: k.epoch, State: k.state}, time.Until(k.until)
	k.row = true
	k.mu.Unlock()
	if life <= 0 {
		return nil // nobody adopts it any more
	}
	return t.o.Members.Save(context.WithoutCancel(ctx), row, life)
}

// saveEvery is how often rows are written again that could not be written.
const saveEvery = 2 * time.Second

// saveLater writes the rows that could not be written when they were changed, and the ends of sessions.
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
				t.Change(t.o.Life, s, func(*cluster.State) {})
			}
		}
	}
}

// Deleted notes that a session is over for every replica.
func (t *Set) Deleted(s *edge.Session) {
	k := t.o.Kept(s)
	k.mu.Lock()
	life := time.Until(k.until)
	k.mu.Unlock()
	if life <= 0 {
		return
	}
	t.noteEnd(context.WithoutCancel(t.o.Life), s.ID, life)
}

// ended are sessions that are over though no row says so yet.
type ended struct {
	mu  sync.Mutex
	all map[string]time.Time // until when their ids would be good, guarded by mu
}

// maxEnded bounds them: beyond it a session that is over while the store is away may be begun anew from its id.
const maxEnded = 10_000

// add keeps one for later; false when there are too many.
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

// noteEnd notes that a session is over, later where it cannot be noted now.
func (t *Set) noteEnd(ctx context.Context, id string, life time.Duration) {
	err := t.o.Members.Delete(ctx, id, life)
	if err == nil {
		return
	}
	later := t.ended.add(id, time.Now().Add(life))
	t.o.Log.Warn("a session that is over is not noted as such", "session", id[:6], "later", later, "err", err)
}

// hasEnded reports whether a session is over, as far as it is not in its row.
func (t *Set) hasEnded(id string) bool {
	t.ended.mu.Lock()
	defer t.ended.mu.Unlock()
	_, ok := t.ended.all[id]
	return ok
}

// endLater notes the ends that could not be noted when they came.
func (t *Set) endLater() {
	t.ended.mu.Lock()
	all := maps.Clone(t.ended.all)
	t.ended.mu.Unlock()
	for id, until := range all {
		if life := time.Until(until); life > 0 && t.o.Members.Delete(t.o.Life, id, life) != nil {
			return // the others would not be noted either
		}
		t.ended.mu.Lock()
		delete(t.ended.all, id)
		t.ended.mu.Unlock()
	}
}

// locks are held by those who adopt a session.
type locks struct {
	mu  sync.Mutex
	all map[string]*held // guarded by mu
}

type held struct {
	free  chan struct{} // cap 1: held by who adopts
	users int           // guarded by locks.mu
}

// lock waits until nobody else adopts the session.
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
