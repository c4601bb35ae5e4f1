// Package routing finds the replica that has what a request is about: a session, or a call that waits. It passes the
// request on while that replica lives, and adopts its sessions when it is gone.
//
// A session is in the memory of one replica, its owner: the one that its sealed id names, unless the session has a row in
// the table of sessions that names another one. A row is written for what cannot be in the id (log level, subscriptions,
// sessions with backends), by whoever adopts the session, and when its client deletes it.
//
//	in memory                              serve                                        no store is asked
//	the id's owner lives                   pass on; it says (421) when it is not its    no store is asked
//	                                       own any more: read the row
//	the id's owner is gone, or it is me    read the row: deleted → 404; its owner lives
//	                                       → pass on; gone → adopt
//
// Of several that adopt one wins, and the others pass on to it. A request that another replica has passed on is never
// passed on again.
package routing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/cluster/peers"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
)

// ErrLost says that a session cannot be taken over: something of it is gone with its replica.
var ErrLost = errors.New("it cannot be taken over")

// Options are what a Set takes from its surroundings. All are needed.
type Options struct {
	Members *cluster.Members
	Edge    *edge.Server
	Log     *slog.Logger
	// Kept is where what is kept of a session is.
	Kept func(*edge.Session) *Kept
	// Restore renews what an adopted session had. ErrLost ends it.
	Restore func(ctx context.Context, s *edge.Session, state cluster.State) error
	// Holder is the replica that has the call which waits for a request; "" for none.
	Holder func(edge.Request) string
	// Status is how this replica is, as JSON without secrets.
	Status func() []byte
	// Adopted is called for every session that was.
	Adopted func()
	// Life ends with the process; Spawn runs what is waited for then.
	Life  context.Context
	Spawn func(func()) bool
}

// A Set is what is elsewhere. It is safe for concurrent use.
type Set struct {
	o       Options
	self    string
	leaving atomic.Bool // Leave was called
	peers   *peers.Peers
	locks   locks
	dirty   dirty
	ended   ended

	mu     sync.Mutex
	owners map[string]string // of sessions whose id names another one, guarded by mu
}

// maxOwners bounds the sessions of which it is known who has adopted them.
const maxOwners = 10_000

// New makes a Set, whose peers are made of p; Edge is to be told of it.
func New(o Options, p peers.Options) *Set {
	t := &Set{o: o, self: o.Members.Self(), owners: map[string]string{}}
	p.Ring, p.Space, p.Self, p.Address, p.Refresh = o.Members.Ring(), o.Members.Schema(), t.self, o.Members.Address, o.Members.Refresh
	p.Serve, p.MaxBody, p.Log = t.serve, o.Edge.MaxBody, o.Log
	t.peers = peers.New(p)
	o.Members.OnAdoption(t.news)
	o.Spawn(t.saveLater)
	return t
}

// Peers are the other replicas.
func (t *Set) Peers() *peers.Peers { return t.peers }

// Awake is called before a session of this process is used.
func (t *Set) Awake(ctx context.Context) { t.peers.Awake(ctx) }

// serve serves a request that another replica has passed on.
func (t *Set) serve(w http.ResponseWriter, r *http.Request, p peers.Passage) {
	if p.Kind == peers.Status {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(t.o.Status()) // whoever asked may be gone
		return
	}
	if t.leaving.Load() && p.Kind != peers.Live {
		peers.Moved(w)
		return
	}
	who, err := auth.Kept(p.Principal)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.o.Edge.ServePassed(w, r, who)
}

var errBusy = wire.Errorf(wire.Busy, "whose session this is cannot be found out now; try again in a moment")

// Route finds the session of a request that is not here.
func (t *Set) Route(w http.ResponseWriter, r *http.Request, body []byte, said *ids.Session) (*edge.Session, error) {
	if edge.WasPassed(r.Context()) {
		return t.passed(w, r, said)
	}
	gone := ""
	for try := range tries {
		at, err := t.find(r.Context(), said, try > 0, gone)
		if err != nil {
			return nil, err
		}
		if at.here {
			s, err := t.adopt(r, said, at)
			if !errors.Is(err, errTaken) {
				return s, err
			}
			continue
		}
		err = t.pass(w, r, peers.Passage{To: at.Owner, Session: said.ID, Kind: kindOf(r), Body: body})
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, peers.ErrMoved) && try == 0:
			t.forget(said.ID)
		case errors.Is(err, peers.ErrMoved): // though its row says so: it gives its sessions away
			gone = at.Owner
		case errors.Is(err, peers.ErrGone):
			t.forget(said.ID)
			gone = at.Owner
		default:
			return nil, t.broken(r, err)
		}
	}
	return nil, errBusy
}

// tries is how often it is looked whose a session is, while replicas come and go.
const tries = 4

// broken ends a request that may have been begun elsewhere: its client sees the connection break off, and decides itself.
func (t *Set) broken(r *http.Request, err error) error {
	if r.Context().Err() == nil {
		t.o.Log.Warn("a request was not passed on", "err", err)
	}
	if errors.Is(err, peers.ErrRefused) {
		return errBusy
	}
	panic(http.ErrAbortHandler)
}

func kindOf(r *http.Request) string {
	if r.Method == http.MethodGet {
		return peers.Stream
	}
	return peers.Session
}

// pass passes a request on, with who it comes from.
func (t *Set) pass(w http.ResponseWriter, r *http.Request, p peers.Passage) error {
	p.Principal, p.Client = edge.PrincipalOf(r.Context()).Keep(), r.RemoteAddr
	return t.peers.Forward(w, r, p)
}

// place is where a session is: its row as far as there is one.
type place struct {
	cluster.Row
	here bool // or is to be: Owner is the replica before
}

// find says where a session is that is not in memory. again has the row read in any case; gone is a replica that is not there,
// whatever the table of replicas says.
func (t *Set) find(ctx context.Context, said *ids.Session, again bool, gone string) (place, error) {
	if !again {
		for _, owner := range []string{t.ownerOf(said.ID), said.Owner} {
			if t.lives(owner, gone) {
				return place{Row: cluster.Row{Owner: owner}}, nil
			}
		}
	}
	row, ok, err := t.row(ctx, said)
	switch {
	case err != nil:
		return place{}, err
	case !ok && said.Owner == t.self:
		return place{}, edge.ErrNoSession // it was here, and is over
	case !ok:
		row.Owner = said.Owner
	}
	if t.lives(row.Owner, gone) || row.Owner != gone && t.hasCome(ctx, row.Owner) {
		if row.Owner != said.Owner {
			t.remember(said.ID, row.Owner)
		}
		return place{Row: row}, nil
	}
	return place{Row: row, here: true}, nil
}

// hasCome reports whether a replica has come that is not known yet: its sessions are not to be adopted.
func (t *Set) hasCome(ctx context.Context, id string) bool {
	return id != t.self && t.o.Members.Refresh(ctx) == nil && t.lives(id, "")
}

// row reads the row of a session. One that has ended here, or is over, has none of those that are of use.
func (t *Set) row(ctx context.Context, said *ids.Session) (row cluster.Row, ok bool, err error) {
	if t.hasEnded(said.ID) {
		return row, false, edge.ErrNoSession
	}
	row, ok, err = t.o.Members.Session(ctx, said.ID)
	switch {
	case errors.Is(err, cluster.ErrUnavailable):
		return row, false, errBusy
	case err != nil:
		t.o.Log.Warn("the row of a session cannot be read", "session", said.ID[:6], "err", err)
		return row, false, edge.ErrNoSession
	case ok && (row.Deleted || row.Owner == t.self && row.Epoch == 0):
		return row, false, edge.ErrNoSession
	}
	return row, ok, nil
}

// lives reports whether a replica is another one that is there.
func (t *Set) lives(id, gone string) bool {
	if id == "" || id == t.self || id == gone {
		return false
	}
	_, ok := t.o.Members.Address(id)
	return ok
}

// passed finds a session for a request that was passed on, and says so where it is another replica's.
func (t *Set) passed(w http.ResponseWriter, r *http.Request, said *ids.Session) (*edge.Session, error) {
	row, ok, err := t.row(r.Context(), said)
	switch {
	case err != nil:
		return nil, err
	case ok && row.Owner == t.self:
		return t.adopt(r, said, place{Row: row, here: true})
	case !ok && said.Owner == t.self:
		return nil, edge.ErrNoSession
	}
	peers.Moved(w)
	return nil, nil
}

// errTaken says that another replica was quicker.
var errTaken = errors.New("another replica has adopted the session")

// adopt makes a session this replica's.
func (t *Set) adopt(r *http.Request, said *ids.Session, at place) (*edge.Session, error) {
	ctx := r.Context()
	if said.Expired(time.Now()) {
		return nil, edge.ErrNoSession
	}
	unlock, err := t.locks.lock(ctx, said.ID)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer unlock()
	if s := t.o.Edge.Session(said.ID); s != nil {
		return s, nil
	}
	row, from := at.Row, at.Owner
	if from != t.self {
		row, err = t.o.Members.Adopt(ctx, said.ID, from, lifeOf(said))
	}
	switch {
	case errors.Is(err, cluster.ErrDeleted):
		return nil, edge.ErrNoSession
	case err != nil:
		t.o.Log.Warn("a session cannot be adopted now", "session", said.ID[:6], "err", err)
		return nil, errBusy
	case row.Owner != t.self:
		return nil, errTaken
	}
	capabilities := said.Capabilities
	if said.Elsewhere {
		if capabilities = row.State.Extra; len(capabilities) == 0 {
			return nil, t.end(ctx, said, ErrLost)
		}
	}
	s, err := t.o.Edge.Adopt(r, said, edge.Adoption{Epoch: row.Epoch, Level: row.State.Level, Capabilities: capabilities}, func(s *edge.Session) error {
		t.o.Kept(s).begin(row, untilOf(said))
		return t.o.Restore(ctx, s, row.State)
	})
	if errors.Is(err, ErrLost) {
		return nil, t.end(ctx, said, err)
	}
	if err != nil {
		return nil, err
	}
	t.forget(said.ID)
	t.o.Adopted()
	t.o.Log.Info("session adopted", "session", said.ID[:6], "of", from)
	return s, nil
}

// end ends a session that cannot be taken over: its client begins a new one and knows that its state is gone.
func (t *Set) end(ctx context.Context, said *ids.Session, why error) error {
	t.o.Log.Warn("session ended: its replica is gone", "session", said.ID[:6], "err", why)
	t.noteEnd(ctx, said.ID, lifeOf(said))
	return edge.ErrNoSession
}

// untilOf is how long the text of a session is good, and so is what is known of it.
func untilOf(said *ids.Session) time.Time { return said.Issued.Add(ids.Life + 2*ids.Skew) }

func lifeOf(said *ids.Session) time.Duration { return max(time.Until(untilOf(said)), ids.Skew) }

// news is called when a session has another owner, or is over.
func (t *Set) news(a cluster.Adoption) {
	t.remember(a.Session, a.Owner) // whose replica is the one before need not be found silent here, too
	s := t.o.Edge.Session(a.Session)
	if s == nil || t.o.Kept(s).epochNow() >= a.Epoch {
		return
	}
	t.o.Log.Info("session goes on at another replica", "session", a.Session[:6], "owner", a.Owner, "deleted", a.Deleted)
	t.o.Edge.Lose(s)
}

// Holds passes a request on that brings the state of a call which waits elsewhere.
func (t *Set) Holds(w http.ResponseWriter, r *http.Request, body []byte, asked edge.Request) (bool, error) {
	holder := t.o.Holder(asked)
	if holder == "" || holder == t.self {
		return false, nil
	}
	err := t.pass(w, r, peers.Passage{To: holder, Kind: peers.Live, Body: body})
	switch {
	case err == nil:
		return true, nil
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	}
	t.o.Log.Warn("a call that waited for its client is lost", "err", err)
	lost := wire.Errorf(wire.InternalError, "the call was lost with its replica")
	lost.Data = new(jsonscan.Object).Text("reason", "replica lost").Text("replica", holder).JSON()
	return true, lost
}

// ownerOf is who has adopted a session, as far as it is remembered.
func (t *Set) ownerOf(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[id]
}

// remember notes who has adopted a session, so that its row is not read for every request.
func (t *Set) remember(id, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.owners) >= maxOwners {
		clear(t.owners) // they are read again
	}
	t.owners[id] = owner
}

func (t *Set) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owners, id)
}

// Leave gives the sessions of this replica away: the others adopt them from now on. What runs goes on.
func (t *Set) Leave() {
	if !t.leaving.Swap(true) {
		t.o.Members.Leave()
	}
}

// Shutdown lets no more requests of other replicas in, and waits until those that run have ended, or ctx has.
func (t *Set) Shutdown(ctx context.Context) error { return t.peers.Shutdown(ctx) }

// Close ends what is under way to other replicas and from them.
func (t *Set) Close() { t.peers.Close() }
