package backends

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// idleTime is how long a connection that is exclusive to a client is kept unused.
const idleTime = 10 * time.Minute

// allCapabilities is what the main connection declares: some backends offer only what
// their client can be asked for, and the lists are for all clients. A call on it for a
// client that cannot be asked is told so when it asks.
var allCapabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{"listChanged":true}}`)

// leaseKey names whom an exclusive connection belongs to: a session, or, for stateless
// clients, a principal with certain capabilities.
type leaseKey struct {
	session, principal, capabilities string
}

// lease is an exclusive connection, or the attempt to open one.
type lease struct {
	key   leaseKey
	ready chan struct{} // closed when conn or err is set
	conn  *conn
	err   error

	users int       // guarded by leases.mu
	idle  time.Time // guarded by leases.mu: since when users is 0
}

// leases are a backend's exclusive connections.
type leases struct {
	mu    sync.Mutex
	all   map[*lease]bool // guarded by mu
	freed chan struct{}   // guarded by mu; closed and replaced when a lease is returned
}

func (l *leases) init() {
	l.all, l.freed = map[*lease]bool{}, make(chan struct{})
}

// borrow returns a connection for one call and what to do when the call is over.
func (b *Backend) borrow(ctx context.Context, caller *Caller) (*conn, func(), error) {
	if c := b.atHand(caller); c != nil {
		return c, func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, errDeadline)
	defer cancel()
	main, err := b.await(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case caller != nil && b.shares(main, caller):
		c, err := b.common(ctx, main)
		return c, func() {}, err
	case b.shares(main, caller):
		return main, func() {}, nil
	case main.turn != nil && !b.bothEras(main, caller):
		return main.takeTurn(ctx, caller)
	}
	return b.lend(ctx, caller)
}

// atHand is the shared connection for caller if it is open, else nil.
func (b *Backend) atHand(caller *Caller) *conn {
	c := b.usable()
	if c == nil || !b.shares(c, caller) {
		return nil
	}
	if caller != nil && b.apart(c) {
		return b.plain.usable()
	}
	return c
}

// bothEras reports whether a client with a session can be served by c's process in the
// client's own era: with requests of the backend in mid-call, as if there were no proxy.
func (b *Backend) bothEras(c *conn, caller *Caller) bool {
	return c.modern && c.legacyToo && b.transport == TransportStdio && b.cfg.Sessions != "shared" &&
		caller.Session != "" && caller.Sink != nil && callbacks(caller.Capabilities)
}

// shares reports whether a call for caller may run on the main connection c beside others.
func (b *Backend) shares(c *conn, caller *Caller) bool {
	switch {
	case caller == nil, c.modern && b.transport != TransportStdio:
		return true
	case b.bothEras(c, caller):
		return false
	case c.modern:
		return caller.Sink == nil || caller.LogLevel == ""
	case b.cfg.Sessions == "exclusive":
		return false
	}
	return caller.Sink == nil || caller.LogLevel == "" && !callbacks(caller.Capabilities)
}

// usable is the main connection, or nil while there is none.
func (b *Backend) usable() *conn {
	if c := b.main.Load(); c != nil && c.ctx.Err() == nil {
		return c
	}
	return nil
}

// await returns the main connection. While an attempt to connect is running it waits
// for its outcome; a backend that is down is an error at once.
func (b *Backend) await(ctx context.Context) (*conn, error) {
	for {
		state, changed := b.watch() // before looking, so that no change is missed
		if c := b.usable(); c != nil {
			return c, nil
		}
		if state.Status == Down {
			return nil, &Error{Backend: b.name, Kind: Unavailable, Err: state.Err}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, b.failure(ctx, context.Cause(ctx), false)
		case <-b.ctx.Done():
			return nil, &Error{Backend: b.name, Kind: Unavailable, Err: errClosed}
		}
	}
}

// takeTurn waits until no other call that may call back is running on c.
func (c *conn) takeTurn(ctx context.Context, caller *Caller) (*conn, func(), error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, c.b.failure(ctx, context.Cause(ctx), false)
	case <-c.lost():
		return nil, nil, c.b.failure(ctx, c.cause(), false)
	}
	c.mu.Lock()
	c.turnOf = caller
	c.mu.Unlock()
	c.setLevel(ctx, caller.LogLevel)
	return c, func() {
		c.mu.Lock()
		c.turnOf = nil
		c.mu.Unlock()
		<-c.turn
	}, nil
}

// lend finds or opens an exclusive connection.
func (b *Backend) lend(ctx context.Context, caller *Caller) (*conn, func(), error) {
	l, mine, err := b.claim(ctx, caller)
	if err != nil {
		return nil, nil, err
	}
	if mine && !b.spawn(func() { b.fill(l, caller) }) {
		l.err = &Error{Backend: b.name, Kind: Unavailable, Err: errClosed}
		close(l.ready)
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		b.giveBack(l)
		return nil, nil, b.failure(ctx, context.Cause(ctx), false)
	}
	if l.err != nil {
		b.drop(l)
		return nil, nil, notExecuted(l.err)
	}
	l.conn.setLevel(ctx, caller.LogLevel)
	return l.conn, func() { b.giveBack(l) }, nil
}

// fill opens a lease's connection. It does not depend on the first caller's patience:
// others of the same session may be waiting for it, too.
func (b *Backend) fill(l *lease, caller *Caller) {
	defer close(l.ready)
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.timeout, errDeadline)
	defer cancel()
	l.conn, l.err = b.open(ctx, purpose{private: true, capabilities: declaredBy(caller), caller: caller})
	if l.err == nil {
		b.renewSubscriptions(ctx, l)
	}
}

// notExecuted is err for a call that never got as far as being sent.
func notExecuted(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Kind == Interrupted || e.Kind == Protocol) {
		return &Error{Backend: e.Backend, Kind: Unavailable, Err: e.Err}
	}
	return err
}

func declaredBy(caller *Caller) json.RawMessage {
	if len(caller.Capabilities) == 0 {
		return json.RawMessage("{}")
	}
	return caller.Capabilities
}

// claim returns a lease that caller may use; mine when the caller has to open it. When
// the backend has all the connections it may have, it waits for one.
func (b *Backend) claim(ctx context.Context, caller *Caller) (l *lease, mine bool, err error) {
	key := leaseKey{session: caller.Session}
	if key.session == "" {
		key = leaseKey{principal: caller.Principal, capabilities: string(caller.Capabilities)}
	}
	for {
		l, freed := b.leases.find(key)
		if l != nil {
			return l, false, nil
		}
		if len(b.slots) == cap(b.slots) {
			b.evict()
		}
		select {
		case b.slots <- struct{}{}:
			l, mine := b.leases.findOrAdd(key)
			if !mine {
				<-b.slots
			}
			return l, mine, nil
		case <-freed:
		case <-ctx.Done():
			return nil, false, &Error{Backend: b.name, Kind: Unavailable, Err: errors.New("all of its connections are in use")}
		}
	}
}

// find takes a lease that key may use, and returns what to wait for when there is none. A session's calls
// share one; of stateless callers each call has its own.
func (l *leases) find(key leaseKey) (*lease, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(key), l.freed
}

// findOrAdd takes a lease that key may use, or adds one, which is then mine to fill.
func (l *leases) findOrAdd(key leaseKey) (x *lease, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x = l.take(key); x != nil {
		return x, false
	}
	x = &lease{key: key, ready: make(chan struct{}), users: 1}
	l.all[x] = true
	return x, true
}

// take finds a lease that key may use and uses it. mu is held.
func (l *leases) take(key leaseKey) *lease {
	for x := range l.all {
		if x.key == key && (key.session != "" || x.users == 0) && !x.broken() {
			x.users++
			return x
		}
	}
	return nil
}

// opened reports whether the lease has its connection.
func (l *lease) opened() bool {
	select {
	case <-l.ready:
		return l.err == nil
	default:
		return false
	}
}

// broken reports whether the lease could not be opened or has been lost.
func (l *lease) broken() bool {
	select {
	case <-l.ready:
		return l.err != nil || l.conn.ctx.Err() != nil
	default:
		return false
	}
}

// giveBack ends the use of a lease. One that was lost is closed with its last user.
func (b *Backend) giveBack(l *lease) {
	if l.opened() {
		l.conn.dismiss()
	}
	if b.leases.unuse(l) && l.broken() {
		b.drop(l)
	}
}

func (l *leases) unuse(x *lease) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.users--
	x.idle = time.Now()
	close(l.freed)
	l.freed = make(chan struct{})
	return x.users == 0
}

// drop closes a lease, once.
func (b *Backend) drop(l *lease) {
	b.leases.mu.Lock()
	present := b.leases.all[l]
	delete(b.leases.all, l)
	b.leases.mu.Unlock()
	if present {
		b.end(l)
	}
}

// end closes a lease's connection in the background and frees its slot.
func (b *Backend) end(l *lease) {
	closing := func() {
		<-l.ready
		if l.conn != nil {
			l.conn.close()
		}
		<-b.slots
	}
	if !b.spawn(closing) {
		closing()
	}
}

// evict closes the connection that has been idle longest, if one is.
func (b *Backend) evict() {
	b.leases.mu.Lock()
	var oldest *lease
	for x := range b.leases.all {
		if x.users == 0 && (oldest == nil || x.idle.Before(oldest.idle)) {
			oldest = x
		}
	}
	delete(b.leases.all, oldest)
	b.leases.mu.Unlock()
	if oldest != nil {
		b.end(oldest)
	}
}

// of returns the open connections of a session.
func (l *leases) of(session string) (conns []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for x := range l.all {
		if x.key.session == session && x.opened() {
			conns = append(conns, x.conn)
		}
	}
	return conns
}

// expire closes the connections that nobody has used for idleTime, and lost ones.
func (b *Backend) expire() {
	b.closeLeases(func(l *lease) bool {
		unused := time.Since(l.idle) > idleTime && !b.sessionSubs.has(l.key.session)
		return l.users == 0 && (unused || l.broken())
	})
}

// release closes what is exclusive to a session. Its calls are over.
func (b *Backend) release(session string) {
	if session != "" {
		b.closeLeases(func(l *lease) bool { return l.key.session == session })
	}
}

func (b *Backend) closeLeases(which func(*lease) bool) {
	b.leases.mu.Lock()
	var gone []*lease
	for l := range b.leases.all {
		if which(l) {
			gone = append(gone, l)
			delete(b.leases.all, l)
		}
	}
	b.leases.mu.Unlock()
	for _, l := range gone {
		b.end(l)
	}
}

// setLevel asks a legacy backend for log messages of the caller's level, and waits until
// it has heard.
func (c *conn) setLevel(ctx context.Context, level string) {
	if c.modern || level == "" || !declares(c.hello.Capabilities, "logging") {
		return
	}
	c.levelMu.Lock()
	defer c.levelMu.Unlock()
	if c.level == level {
		return
	}
	if _, err := c.request(ctx, wire.SetLevel, append(append([]byte(`{"level":`), wire.Quote(level)...), '}')); err != nil {
		c.b.log.Info("log level not set", "level", level, "err", err)
		if !isAnswer(err) {
			return
		}
	}
	c.level = level
}
