package backends

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/listing"
	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// The pool of a backend: the private sessions with it, and how many connections there are. Which
// call runs on which kind of connection, and why, says package sharing.
//
// # Sessions and connections
//
// Over HTTP a private session is an id. It costs a connection only while it has its event
// stream open, which it has while somebody may get something from it: a client that can be
// asked and has a call running, one that listens itself, one with subscriptions. A child
// process and an SSE stream are connections all the time. maxConnections bounds connections
// (one is the main connection's for good), maxSessions private sessions.
//
// When connections run out, these are taken, in this order: the stream of an idle session
// that needs none now (it comes back with the next call); an idle connection that belongs to
// no client; the connections of the client session that has been unused longest, for at least
// sessionIdle.pressure. That client session then ends as a whole (Options.Pressure): its
// client begins a new one and knows that its state is gone. If there is none, the newcomer is
// refused, unless a call that will free a connection is running: then it waits.
//
// # States of a private session
//
//	dialing ──► open ──► lost ──► dialing …      close from every state
//
// The private session outlives its connections: what it is subscribed to and its log level are
// renewed on the next one. It is dialled at its first use, at the first use after a loss, and
// by itself after a loss when its client waits for something to come from it. It ends with the
// client session that it belongs to and not before, unless sessionIdle.backend says otherwise;
// one that belongs to no client session ends when it was unused for sessionIdle.client.
//
// # Locks
//
// pool.mu guards the table, all fields of private sessions and the number of connections. It
// is a leaf: nothing is called, waited for or logged while it is held. A dial runs on a
// goroutine of the backend, not of the caller that needs it first: others of the same session
// may be waiting for it, too.
type pool struct {
	b *Backend

	mu       sync.Mutex
	all      map[sharing.Key]*private
	used     int           // connections beside the main one
	closing  int           // of those, how many are about to be released
	waiting  int           // callers that wait for freed
	freed    chan struct{} // closed and replaced when something was released and somebody waits
	relieved time.Time     // when pressure last found no session to end
}

// A private is a session with the backend that is one client's. All fields but key, caller
// and askable are guarded by pool.mu.
type private struct {
	key       sharing.Key
	caller    Caller             // whom it is opened for; its Sink is the out-of-call sink
	askable   bool               // its client can be asked: calls need the event stream
	transient bool               // it serves one call at a time and keeps no state between calls
	source    credentials.Source // of its principal; nil: all have the same

	dial      *dial         // the newest
	resume    *conn.Session // what its first connection goes on with; nil: nothing
	users     int
	idle      time.Time // since when users is 0
	uris      uris      // what its client is subscribed to on it
	level     string    // of the log messages that its client wants
	listening bool      // its client has a stream open for what belongs to no call
	closed    bool
	reopening bool
	lists     listing.Own // has a lock of its own, a leaf like pool.mu
}

// A dial is one attempt to open a private session's connection.
type dial struct {
	ready chan struct{} // closed when conn or err is set
	conn  *conn.Conn
	err   error
}

// opened is the dial's connection if it has one that is not lost, else nil.
func (d *dial) opened() *conn.Conn {
	select {
	case <-d.ready:
		if d.err == nil && d.conn.Usable() {
			return d.conn
		}
	default:
	}
	return nil
}

// over reports whether the dial failed or its connection was lost.
func (d *dial) over() bool {
	select {
	case <-d.ready:
		return d.err != nil || !d.conn.Usable()
	default:
		return false
	}
}

const (
	// transientIdle is how long a connection without state is kept unused.
	transientIdle = 10 * time.Minute
	// relief is how long after a search that found no idle client session there is none.
	relief = time.Second
)

func (l *pool) init(b *Backend) {
	l.b, l.all, l.freed = b, map[sharing.Key]*private{}, make(chan struct{})
}

// maxConnections is how many connections there may be beside the main one.
func (l *pool) maxConnections() int { return l.b.settings.Load().MaxConnections - 1 }

func (l *pool) maxSessions() int { return l.b.settings.Load().MaxSessions }

func (l *pool) idle() config.SessionIdle { return *l.b.set.idle.Load() }

// acquire finds the private session of key, or adds it with a source of credentials, and counts a user. mine is set when the
// caller has to dial. oneAtATime says that it serves one call at a time.
func (l *pool) acquire(key sharing.Key, caller *Caller, source credentials.Source, oneAtATime bool) (p *private, d *dial, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p = l.all[key]; oneAtATime && p != nil && p.users > 0; p = l.all[key] {
		key.N++
	}
	if p == nil {
		if len(l.all) >= l.maxSessions() {
			return nil, nil, false
		}
		// What one process keeps between calls, the next call may not meet again. A session
		// over SSE is met again, except one that was opened beside it.
		p = newPrivate(key, caller, oneAtATime && (key.N > 0 || l.b.dialer.Via() == TransportStdio))
		p.source = source
		l.all[key] = p
	}
	p.users++
	p.level, p.listening = caller.LogLevel, caller.Listening
	p.lists.MarkStale() // a call may change what its client is shown
	if p.dial == nil || p.dial.over() {
		p.dial, mine = &dial{ready: make(chan struct{})}, true
	}
	return p, p.dial, mine
}

func newPrivate(key sharing.Key, caller *Caller, transient bool) *private {
	c := *caller
	c.Capabilities, c.Info, c.Sink = slices.Clone(c.Capabilities), slices.Clone(c.Info), c.OutOfCall
	return &private{key: key, caller: c, askable: caller.Sink != nil && wire.CanAskAny(caller.Capabilities), transient: transient}
}

// find is the private session of a client session, or nil.
func (l *pool) find(session string) *private {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[sharing.Key{Session: session}]
}

// conn is the open connection of p, or nil.
func (l *pool) conn(p *private) *conn.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.dial == nil {
		return nil
	}
	return p.dial.opened()
}

// release ends a use of p.
func (l *pool) release(p *private) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.users--
	p.idle = time.Now()
	p.lists.MarkStale()
	l.signal()
}

// signal wakes those who wait for something to be released. mu is held.
func (l *pool) signal() {
	if l.waiting > 0 {
		close(l.freed)
		l.freed = make(chan struct{})
	}
}

// A slot is one connection of those that there may be. Its fields are guarded by pool.mu.
type slot struct {
	pool    *pool
	closing bool // it is about to be released
	over    bool // it was
}

// Release counts the connection out; s may be nil.
func (s *slot) Release() {
	if s == nil {
		return
	}
	l := s.pool
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	l.used--
	if s.closing {
		l.closing--
	}
	l.signal()
}

// announce notes that a slot is about to be released. mu is held.
func (l *pool) announce(s *slot) {
	if s != nil && !s.over && !s.closing {
		s.closing = true
		l.closing++
	}
}

// reserve counts a connection in, making room as described above.
func (l *pool) reserve(ctx context.Context) (*slot, error) {
	for {
		l.mu.Lock()
		if l.used < l.maxConnections() {
			l.used++
			l.mu.Unlock()
			return &slot{pool: l}, nil
		}
		free, soon, holders := l.victims()
		freed := l.wait()
		l.mu.Unlock()
		if free != nil {
			free()
			soon = true
		}
		if err := l.await(ctx, freed, soon, holders); err != nil {
			return nil, l.full(l.maxConnections()+1, "connections", "maxConnections")
		}
	}
}

// wait registers a waiter. mu is held.
func (l *pool) wait() <-chan struct{} {
	l.waiting++
	return l.freed
}

// errFull says that nothing can be taken from anybody.
var errFull = errors.New("full")

// await waits until something is released: soon when that is sure to happen, else when a
// client session could be ended.
func (l *pool) await(ctx context.Context, freed <-chan struct{}, soon bool, holders []string) error {
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	if !soon && !l.press(holders) {
		return errFull
	}
	select {
	case <-freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// full is the error of a newcomer that finds no room.
func (l *pool) full(n int, what, setting string) error {
	l.b.stats.refused.Add(1)
	return l.b.dialer.Errorf(Unavailable, "all of its %d %s are in use, and none belongs to a client that has been away for %s; try again later, or raise %s", n, what, l.idle().Pressure.Std(), setting)
}

// victims looks for a connection that can be taken without ending a client session, and
// returns how. Otherwise soon says whether one will come free by itself, and holders are the
// client sessions that have one. mu is held.
func (l *pool) victims() (free func(), soon bool, holders []string) {
	soon = l.closing > 0
	var oldest *private
	for _, p := range l.all {
		c := p.open()
		switch {
		case c == nil:
			soon = soon || p.users > 0 && !p.dial.over() && (p.transient || l.b.dialer.Via() == TransportHTTP && p.source == nil)
		case !slotOf(c).takable():
		case p.users > 0:
			soon = soon || p.transient || p.stateless(c) || c.Streaming() && !p.wantsStream()
		case c.Streaming() && !p.wantsStream(), p.mayVanish(l.idle().Pressure.Std()):
			if oldest == nil || p.idle.Before(oldest.idle) {
				oldest = p
			}
		case p.key.Session != "":
			holders = append(holders, p.key.Session)
		}
	}
	if oldest == nil {
		return nil, soon, holders
	}
	c := oldest.open()
	if c.Streaming() {
		l.announce(slotOf(c))
		return c.EndStream, true, nil
	}
	l.remove(oldest)
	return func() { l.b.closePrivate(oldest) }, true, nil
}

// ensureStream opens the stream of a private session where there is such a thing.
func (l *pool) ensureStream(ctx context.Context, c *conn.Conn) error {
	return c.EnsureStream(ctx, func(ctx context.Context) (conn.Slot, error) {
		s, err := l.reserve(ctx)
		if err != nil {
			return nil, err // no Slot that holds a nil
		}
		return s, nil
	})
}

// slotOf is what c counts as; nil for nothing.
func slotOf(c *conn.Conn) *slot {
	s, _ := c.Slot().(*slot)
	return s
}

// takable reports whether s is a connection that somebody else could get. mu is held.
func (s *slot) takable() bool { return s != nil && !s.over && !s.closing }

// open is p's usable connection or nil. mu is held.
func (p *private) open() *conn.Conn {
	if p.dial == nil {
		return nil
	}
	return p.dial.opened()
}

// wantsStream reports whether p's client may get something while no call runs. mu is held.
func (p *private) wantsStream() bool { return p.listening || len(p.uris) > 0 }

// mayVanish reports whether p, which nobody uses, can be closed without anybody losing what
// it counts on. mu is held.
func (p *private) mayVanish(pressure time.Duration) bool {
	return p.transient || p.key.Session == "" && time.Since(p.idle) >= pressure || p.stateless(p.open())
}

// stateless reports whether p, with the connection c, is only there for its principal's
// credential: the backend keeps nothing for it. mu is held.
func (p *private) stateless(c *conn.Conn) bool {
	return p.source != nil && c != nil && (c.Modern || !c.KeepsState()) && !p.wantsStream()
}

// press has one of the client sessions ended; false when each is in use.
func (l *pool) press(sessions []string) bool {
	f := l.b.set.o.Pressure
	l.mu.Lock()
	again := time.Since(l.relieved) >= min(relief, l.idle().Pressure.Std())
	l.mu.Unlock()
	if f == nil || len(sessions) == 0 || !again {
		return false
	}
	if f(l.b, sessions) {
		return true
	}
	l.mu.Lock()
	l.relieved = time.Now()
	l.mu.Unlock()
	return false
}

// room makes room for one more private session.
func (l *pool) room(ctx context.Context) error {
	l.mu.Lock()
	var oldest *private
	var holders []string
	for _, p := range l.all {
		switch {
		case p.users > 0:
		case p.key.Session != "":
			holders = append(holders, p.key.Session)
		case p.mayVanish(l.idle().Pressure.Std()) && (oldest == nil || p.idle.Before(oldest.idle)):
			oldest = p
		}
	}
	l.mu.Unlock()
	if oldest != nil {
		l.b.closePrivates(func(p *private) bool { return p == oldest && p.users == 0 })
		return nil
	}
	if l.press(holders) && ctx.Err() == nil {
		return nil
	}
	return l.full(l.maxSessions(), "sessions", "maxSessions")
}

// expired reports whether p has been unused for longer than it is kept. mu is held.
func (l *pool) expired(p *private) bool {
	idle := l.idle()
	limit := idle.Client.Std()
	switch {
	case p.users > 0 || p.wantsStream():
		return false
	case p.transient, p.source != nil && (p.key.Session == "" || p.stateless(p.open())):
		limit = transientIdle
	case idle.Backend > 0:
		limit = idle.Backend.Std()
	case p.key.Session != "":
		return false // the client's session ends it
	}
	return time.Since(p.idle) > limit
}

// size is how many connections and private sessions there are.
func (l *pool) size() (connections, sessions int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.used), int64(len(l.all))
}

// declaredBy is what a client declared, as initialize wants it.
func declaredBy(caller *Caller) json.RawMessage {
	if len(caller.Capabilities) == 0 {
		return json.RawMessage("{}")
	}
	return caller.Capabilities
}
