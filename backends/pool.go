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

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// The pool of a backend: its private sessions, and the number of its connections. sharing.go
// documents which call runs on which kind of connection, and why.
//
// # Sessions and connections
//
// Over Streamable HTTP a private session is an id. It counts as a connection only while its
// event stream is open: while a client with capabilities has a call running, has a GET stream
// open, or has subscriptions. A child process or an HTTP+SSE stream counts as a connection all
// the time. maxConnections bounds connections (one is always the main connection's),
// maxSessions private sessions.
//
// When all connections are in use, these are closed, in this order: the stream of an idle session
// that needs none now (the next call opens it again); an idle connection that belongs to no
// client session; the connections of the client session that has been unused longest, for at
// least sessionIdle.pressure. That client session is then ended (Options.Pressure), so that its
// client begins a new one and knows that its state is gone. If there is none, the new request is
// refused, unless a running call will free a connection: then it waits.
//
// # States of a private session
//
//	dialing ──► open ──► lost ──► dialing …      close from every state
//
// The private session outlives its connections: subscriptions and log level are renewed on the
// next one. It is dialled at its first use, at the first use after a loss, and right after a loss
// when its client has subscriptions or a GET stream. It ends with its client session and not
// before, unless sessionIdle.backend is set; one without a client session ends after it was unused
// for sessionIdle.client (transient ones: transientIdle).
//
// A call of a kept run may outlast its client session. The private session then ends (ended, then
// closed) when the last call on it has.
//
// # Locks
//
// pool.mu guards the table, the fields of private sessions that change, and the number of
// connections. It is a leaf: while it is held, nothing is waited for or logged, and no other lock
// is acquired but that of private.lists. A dial runs on a goroutine of the backend, because
// several callers of the session may wait for it.
type pool struct {
	b *Backend

	mu       sync.Mutex
	all      map[Key]*private
	used     int           // connections beside the main one
	closing  int           // of those, how many are about to be released
	waiting  int           // callers that wait for freed
	freed    chan struct{} // closed and replaced by a release while waiting > 0
	relieved time.Time     // when pressure last found no session to end
}

// A private is a backend session of one client. All fields but key, caller, askable, transient
// and lists are guarded by pool.mu.
type private struct {
	key       Key
	caller    Caller             // the client; its Sink is the out-of-call sink
	askable   bool               // its client has capabilities and can be sent requests: calls need the event stream
	transient bool               // it serves one call at a time and keeps no state between calls
	source    credentials.Source // of its principal; nil: the shared one

	dial      *dial         // the latest; nil before the first
	resume    *conn.Session // the backend session that the first connection resumes; nil: none
	users     int           // calls that use it
	idle      time.Time     // since when users is 0
	uris      uris          // its client's subscriptions
	level     string        // log level that its client has set
	listening bool          // its client has a GET stream open
	ended     bool          // its client session has ended or moved: it is closed with the last call on it
	moved     bool          // its client session moved to another process, which resumes the backend session
	closed    bool          // removed from the table
	reopening bool          // a goroutine runs reopen
	lists     conn.Own      // has its own lock, a leaf
}

// A dial is one attempt to open a private session's connection.
type dial struct {
	ready chan struct{} // closed when conn or err is set
	conn  *conn.Conn
	err   error
}

// opened returns the dial's connection if it is open, else nil.
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
	// transientIdle is how long an unused session without state is kept.
	transientIdle = 10 * time.Minute
	// relief is the shortest interval between two searches for an idle client session, after one that found
	// none.
	relief = time.Second
)

func (l *pool) init(b *Backend) {
	l.b, l.all, l.freed = b, map[Key]*private{}, make(chan struct{})
}

// maxConnections bounds the connections beside the main one.
func (l *pool) maxConnections() int { return l.b.settings.Load().MaxConnections - 1 }

func (l *pool) maxSessions() int { return l.b.settings.Load().MaxSessions }

func (l *pool) idle() config.SessionIdle { return *l.b.set.idle.Load() }

// acquire finds the private session of key, or adds it with a source of credentials, and counts a user; release ends
// the use. p is nil when there are maxSessions. mine is set when the caller has to start the dial d. With oneAtATime a
// session that is in use is skipped: key.N is counted up to a free one.
func (l *pool) acquire(key Key, caller *Caller, source credentials.Source, oneAtATime bool) (p *private, d *dial, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p = l.all[key]; oneAtATime && p != nil && p.users > 0; p = l.all[key] {
		key.N++
	}
	if p == nil {
		if len(l.all) >= l.maxSessions() {
			return nil, nil, false
		}
		// The next call of a stdio client may run on another process, so that no state is kept
		// for it between calls. The session with N 0 over HTTP+SSE is used again; additional
		// ones (N > 0) are not.
		p = newPrivate(key, caller, oneAtATime && (key.N > 0 || l.b.dialer.Via() == transportStdio))
		p.source = source
		l.all[key] = p
	}
	p.users++
	p.level, p.listening = caller.LogLevel, caller.Listening && !p.ended
	p.lists.MarkStale() // a call may change what its client is shown
	if p.dial == nil || p.dial.over() {
		p.dial, mine = &dial{ready: make(chan struct{})}, true
	}
	return p, p.dial, mine
}

func newPrivate(key Key, caller *Caller, transient bool) *private {
	c := *caller
	c.Capabilities, c.Info, c.Sink = slices.Clone(c.Capabilities), slices.Clone(c.Info), c.OutOfCall
	return &private{key: key, caller: c, askable: caller.Sink != nil && wire.CanAskAny(caller.Capabilities), transient: transient}
}

// find returns the private session of a client session, or nil.
func (l *pool) find(session string) *private {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.all[Key{Session: session}]; p != nil && !p.ended {
		return p
	}
	return nil
}

// conn returns the open connection of p, or nil.
func (l *pool) conn(p *private) *conn.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.dial == nil {
		return nil
	}
	return p.dial.opened()
}

// release ends a use of p, and closes p if it has ended and this was the last.
func (l *pool) release(p *private) {
	l.mu.Lock()
	p.users--
	p.idle = time.Now()
	p.lists.MarkStale()
	over := p.ended && p.users == 0 && !p.closed
	if over {
		l.remove(p)
	} else {
		l.signal()
	}
	l.mu.Unlock()
	if over {
		l.b.closePrivate(p)
	}
}

// signal wakes the callers that wait for a connection or session. mu is held.
func (l *pool) signal() {
	if l.waiting > 0 {
		close(l.freed)
		l.freed = make(chan struct{})
	}
}

// A slot is the right to one connection of maxConnections. Its fields are guarded by pool.mu.
type slot struct {
	pool    *pool
	closing bool // it is about to be released
	over    bool // it has been released
}

// Release returns the slot; s may be nil.
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

// announce marks a slot as about to be released. mu is held.
func (l *pool) announce(s *slot) {
	if s != nil && !s.over && !s.closing {
		s.closing = true
		l.closing++
	}
}

// reserve returns a slot, making room as described above.
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

// errFull is the error of await when no connection can be freed.
var errFull = errors.New("full")

// await waits for a release. Unless soon says that one is certain, it ends an idle client
// session of holders first.
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

// full returns the error of a request for which there is no room.
func (l *pool) full(n int, what, setting string) error {
	l.b.stats.refused.Add(1)
	return l.b.dialer.Errorf(Unavailable, "all %d %s are in use, and none belongs to a client session unused for %s; retry later, or raise %s", n, what, l.idle().Pressure.Std(), setting)
}

// victims finds a connection that can be closed without ending a client session; free closes it,
// to be called without mu. Otherwise soon reports whether one will be released by itself, and
// holders are the idle client sessions that have one. mu is held.
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

// ensureStream opens the event stream of a private session where its transport has one.
func (l *pool) ensureStream(ctx context.Context, c *conn.Conn) error {
	return c.EnsureStream(ctx, func(ctx context.Context) (conn.Slot, error) {
		s, err := l.reserve(ctx)
		if err != nil {
			return nil, err // a nil *slot is not a nil Slot
		}
		return s, nil
	})
}

// slotOf returns the slot of c; nil when it has none.
func slotOf(c *conn.Conn) *slot {
	s, _ := c.Slot().(*slot)
	return s
}

// takable reports whether s can still be released for another session. mu is held.
func (s *slot) takable() bool { return s != nil && !s.over && !s.closing }

// open returns p's usable connection or nil. mu is held.
func (p *private) open() *conn.Conn {
	if p.dial == nil {
		return nil
	}
	return p.dial.opened()
}

// wantsStream reports whether p's client may be sent messages while no call runs. mu is held.
func (p *private) wantsStream() bool { return p.listening || len(p.uris) > 0 }

// mayVanish reports whether p, which no call uses, can be closed without a loss of state that
// its client relies on. mu is held.
func (p *private) mayVanish(pressure time.Duration) bool {
	return p.transient || p.key.Session == "" && time.Since(p.idle) >= pressure || p.stateless(p.open())
}

// stateless reports whether p, with the connection c, exists only for its principal's
// credential, and the backend keeps no state for it. mu is held.
func (p *private) stateless(c *conn.Conn) bool {
	return p.source != nil && c != nil && (c.Modern || !c.KeepsState()) && !p.wantsStream()
}

// press ends the longest unused of the client sessions (Options.Pressure); false when none could be ended.
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

// room removes one private session to make room for another.
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

// expired reports whether p has been unused for longer than its limit. mu is held.
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
		return false // ends with the client's session
	}
	return time.Since(p.idle) > limit
}

// size returns the numbers of connections and private sessions.
func (l *pool) size() (connections, sessions int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.used), int64(len(l.all))
}

// declaredBy returns the capabilities that a client declared, for initialize.
func declaredBy(caller *Caller) json.RawMessage {
	if len(caller.Capabilities) == 0 {
		return json.RawMessage("{}")
	}
	return caller.Capabilities
}
