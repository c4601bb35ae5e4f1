package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// This part of the package finds the replica that has the session or the suspended call of a request. It forwards the request
// while that replica is alive, and adopts its sessions when it is gone.
//
// A session is in the memory of one replica, its owner: the one that its sealed id names, unless the session has a row
// in the table of sessions that names another one. A row is written for what is not in the id (log level,
// subscriptions, backend sessions), by a replica that adopts the session, and when its client deletes it.
//
//	in memory                              serve                                        the store is not read
//	the id's owner is alive                forward; it answers 421 if it is no          the store is not read
//	                                       longer the owner: read the row
//	the id's owner is gone, or this one    read the row: deleted → 404; its owner alive
//	                                       → forward; gone → adopt
//
// Of several replicas that adopt a session one wins, and the others forward to it. A forwarded request is never
// forwarded again.

// ErrLost says that a session cannot be adopted, since a part of its state was lost with its replica.
var ErrLost = errors.New("the session cannot be adopted")

// RoutingOptions configure a Set. All are required.
type RoutingOptions struct {
	Members *Members
	Edge    *edge.Server
	Log     *slog.Logger
	// Kept returns the Kept of a session.
	Kept func(*edge.Session) *Kept
	// Restore restores the state of an adopted session. ErrLost ends the session.
	Restore func(ctx context.Context, s *edge.Session, state State) error
	// Holder is the replica that has the suspended call of a request; "" for none.
	Holder func(edge.Request) string
	// Status is the status of this replica, as JSON without secrets.
	Status func() []byte
	// Adopted is called for every adopted session.
	Adopted func()
	// Life is cancelled at the end of the process; Spawn runs a goroutine that the end waits for.
	Life  context.Context
	Spawn func(func()) bool
}

// A Set is the access to the other replicas. It is safe for concurrent use.
type Set struct {
	o         RoutingOptions
	self      string
	leaving   atomic.Bool // Leave was called
	peers     *Peers
	locks     locks
	dirty     dirty
	ended     ended
	unreached unreached

	mu     sync.Mutex
	owners map[string]string // adopted sessions, by id; guarded by mu
}

// maxOwners bounds the cached owners of adopted sessions.
const maxOwners = 10_000

// NewRouting makes a Set, with peers from the options p. The caller passes it to Edge.Join.
func NewRouting(o RoutingOptions, p PeerOptions) *Set {
	t := &Set{o: o, self: o.Members.Self(), owners: map[string]string{}}
	p.Ring, p.Space, p.Self, p.Address, p.Refresh = o.Members.Ring(), o.Members.Schema(), t.self, o.Members.Address, o.Members.Refresh
	p.Serve, p.MaxBody, p.Log, p.Now = t.serve, o.Edge.MaxBody, o.Log, o.Members.Now
	t.peers = NewPeers(p)
	o.Members.OnAdoption(t.news)
	o.Spawn(t.saveLater)
	return t
}

// Peers forwards requests to the other replicas, and receives theirs.
func (t *Set) Peers() *Peers { return t.peers }

// Awake is called before a session of this process is used.
func (t *Set) Awake(ctx context.Context) { t.peers.Awake(ctx) }

// serve serves a request that another replica has forwarded.
func (t *Set) serve(w http.ResponseWriter, r *http.Request, p Passage) {
	if p.Kind == status {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(t.o.Status()) // the replica may have disconnected
		return
	}
	if t.leaving.Load() && p.Kind != live {
		moved(w)
		return
	}
	who, err := auth.Decode(p.Principal)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.o.Edge.ServePassed(w, r, who)
}

var errBusy = wire.Errorf(wire.Busy, "the replica that owns the session cannot be determined now; try again in a moment")

// Route finds the session of a request that is not in memory, or forwards the request. It implements edge.Elsewhere.
func (t *Set) Route(w http.ResponseWriter, r *http.Request, body []byte, said *edge.IDSession) (*edge.Session, error) {
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
		err = t.pass(w, r, Passage{To: at.Owner, Session: said.ID, Kind: kindOf(r), Body: body})
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, errMoved) && try == 0:
			t.forget(said.ID)
		case errors.Is(err, errMoved): // although the row names it: the replica is leaving
			gone = at.Owner
		case errors.Is(err, errGone):
			t.logUnreached(at.Owner, err)
			t.forget(said.ID)
			gone = at.Owner
		default:
			return nil, t.broken(r, err)
		}
	}
	return nil, errBusy
}

// tries bounds the attempts to find the owner of a session, while replicas join and leave.
const tries = 4

// broken ends a request that another replica may have started. If this replica has cut it off, the client is answered so;
// otherwise its connection breaks, and the client decides whether to repeat it.
func (t *Set) broken(r *http.Request, err error) error {
	if r.Context().Err() == nil {
		t.o.Log.Warn("a request could not be forwarded", "err", err)
	}
	var cut *wire.Error
	switch {
	case errors.Is(err, errRefused):
		return errBusy
	case errors.As(context.Cause(r.Context()), &cut):
		return cut
	}
	panic(http.ErrAbortHandler)
}

func kindOf(r *http.Request) string {
	if r.Method == http.MethodGet {
		return stream
	}
	return Session
}

// pass forwards a request, with its principal.
func (t *Set) pass(w http.ResponseWriter, r *http.Request, p Passage) error {
	p.Principal, p.Client = edge.PrincipalOf(r.Context()).Encode(), r.RemoteAddr
	return t.peers.Forward(w, r, p)
}

// place is where a session is: the owner, and the row if it was read.
type place struct {
	Row
	here bool // to be adopted by this replica, from Owner
}

// find finds the owner of a session that is not in memory. again: the row is read in any case; gone is a replica that
// does not answer, whatever the table of replicas says.
func (t *Set) find(ctx context.Context, said *edge.IDSession, again bool, gone string) (place, error) {
	if !again {
		for _, owner := range []string{t.ownerOf(said.ID), said.Owner} {
			if t.lives(owner, gone) {
				return place{Row: Row{Owner: owner}}, nil
			}
		}
	}
	row, ok, err := t.row(ctx, said)
	switch {
	case err != nil:
		return place{}, err
	case !ok && said.Owner == t.self:
		return place{}, edge.ErrNoSession // it was here, and has ended
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

// hasCome reports whether a replica has joined that was not known yet: its sessions must not be adopted.
func (t *Set) hasCome(ctx context.Context, id string) bool {
	return id != t.self && t.o.Members.Refresh(ctx) == nil && t.lives(id, "")
}

// row reads the row of a session. For one that has ended the error is edge.ErrNoSession.
func (t *Set) row(ctx context.Context, said *edge.IDSession) (row Row, ok bool, err error) {
	if t.hasEnded(said.ID) {
		return row, false, edge.ErrNoSession
	}
	row, ok, err = t.o.Members.Session(ctx, said.ID)
	switch {
	case errors.Is(err, ErrUnavailable):
		return row, false, errBusy
	case err != nil:
		t.o.Log.Warn("the stored state of a session cannot be read", "session", said.ID[:6], "err", err)
		return row, false, edge.ErrNoSession
	case ok && (row.Deleted || row.Owner == t.self && row.Epoch == 0):
		return row, false, edge.ErrNoSession
	}
	return row, ok, nil
}

// lives reports whether id is another replica, and alive.
func (t *Set) lives(id, gone string) bool {
	if id == "" || id == t.self || id == gone {
		return false
	}
	_, ok := t.o.Members.Address(id)
	return ok
}

// passed finds the session of a forwarded request, or answers 421 if another replica owns it.
func (t *Set) passed(w http.ResponseWriter, r *http.Request, said *edge.IDSession) (*edge.Session, error) {
	row, ok, err := t.row(r.Context(), said)
	switch {
	case err != nil:
		return nil, err
	case ok && row.Owner == t.self:
		return t.adopt(r, said, place{Row: row, here: true})
	case !ok && said.Owner == t.self:
		return nil, edge.ErrNoSession
	}
	moved(w)
	return nil, nil
}

// errTaken says that another replica has adopted the session first.
var errTaken = errors.New("another replica has adopted the session")

// adopt makes this replica the owner of a session, and restores it.
func (t *Set) adopt(r *http.Request, said *edge.IDSession, at place) (*edge.Session, error) {
	ctx := r.Context()
	if said.Expired(t.o.Members.Now()) {
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
		row, err = t.o.Members.Adopt(ctx, said.ID, from, t.lifeOf(said))
	}
	switch {
	case errors.Is(err, ErrDeleted):
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

// end ends a session that cannot be adopted: its client begins a new one, and knows that its state is lost.
func (t *Set) end(ctx context.Context, said *edge.IDSession, why error) error {
	t.o.Log.Warn("session ended: its replica is gone", "session", said.ID[:6], "err", why)
	t.noteEnd(ctx, said.ID, t.lifeOf(said))
	return edge.ErrNoSession
}

// untilOf is the expiry of a session's id, and of its row.
func untilOf(said *edge.IDSession) time.Time { return said.Issued.Add(edge.Life + 2*edge.Skew) }

func (t *Set) lifeOf(said *edge.IDSession) time.Duration {
	return max(t.until(untilOf(said)), edge.Skew)
}

// until is the time until then, by the clock that all replicas share.
func (t *Set) until(then time.Time) time.Duration { return then.Sub(t.o.Members.Now()) }

// news is called when another replica has adopted or ended a session.
func (t *Set) news(a Adoption) {
	t.remember(a.Session, a.Owner) // so that requests here do not try its previous owner first
	s := t.o.Edge.Session(a.Session)
	if s == nil || t.o.Kept(s).epochNow() >= a.Epoch {
		return
	}
	t.o.Log.Info("session continues at another replica", "session", a.Session[:6], "owner", a.Owner, "deleted", a.Deleted)
	t.o.Edge.Lose(s)
}

// Holds forwards a request that resumes a call suspended at another replica. It implements edge.Elsewhere.
func (t *Set) Holds(w http.ResponseWriter, r *http.Request, body []byte, asked edge.Request) (bool, error) {
	holder := t.o.Holder(asked)
	if holder == "" || holder == t.self {
		return false, nil
	}
	err := t.pass(w, r, Passage{To: holder, Kind: live, Body: body})
	switch {
	case err == nil:
		return true, nil
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	}
	t.o.Log.Warn("a suspended call was lost with its replica", "err", err)
	lost := wire.Errorf(wire.InternalError, "the call was lost with its replica")
	lost.Data = new(jsonscan.Object).Text("reason", "replica lost").Text("replica", holder).JSON()
	return true, lost
}

// ownerOf is the replica that has adopted a session, if that is cached.
func (t *Set) ownerOf(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[id]
}

// remember caches the replica that has adopted a session, so that its row is not read for every request.
func (t *Set) remember(id, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.owners) >= maxOwners {
		clear(t.owners) // they are read from the rows again
	}
	t.owners[id] = owner
}

func (t *Set) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owners, id)
}

// Leave takes this replica out of the cluster: others adopt its sessions from now on. Requests in progress continue.
func (t *Set) Leave() {
	if !t.leaving.Swap(true) {
		t.o.Members.Leave()
	}
}

// Shutdown stops accepting requests of other replicas, and waits until those in progress have ended, or ctx has.
func (t *Set) Shutdown(ctx context.Context) error { return t.peers.Shutdown(ctx) }

// Close cancels requests to and from other replicas.
func (t *Set) Close() { t.peers.Close() }
