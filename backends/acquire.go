package backends

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
)

// allCapabilities is what the main connection declares: some backends offer only what
// their client can be asked for, and the lists are for all clients. A call on it for a
// client that cannot be asked is answered for that client when the backend asks.
var allCapabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{"listChanged":true}}`)

// A lease is the use of a connection by one call.
type lease struct {
	conn    *conn.Conn
	private *private // nil on a shared connection
	pool    *pool    // of private
}

// release ends it. The zero lease is of a connection that anybody may use.
func (h lease) release() {
	switch {
	case h.private != nil:
		h.conn.EndIdleCall()
		h.pool.release(h.private)
	case h.conn != nil:
		h.conn.EndTurn()
	}
}

// acquire returns a connection for one call of caller; the lease ends with the call.
func (b *Backend) acquire(ctx context.Context, caller *Caller) (*conn.Conn, lease, error) {
	if c := b.usable(); c != nil {
		switch b.sharing(c, caller) {
		case sharing.Main:
			return c, lease{}, nil
		case sharing.Shared:
			if shared := b.shared.usable(); shared != nil && caller.LogLevel == "" {
				return shared, lease{}, nil
			}
		}
	}
	b.stats.waiting.Add(1)
	defer b.stats.waiting.Add(-1)
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout(), conn.ErrDeadline)
	defer cancel()
	main, err := b.await(ctx)
	if err != nil {
		return nil, lease{}, err
	}
	switch b.sharing(main, caller) {
	case sharing.Shared:
		c, err := b.sharedOr(ctx, main)
		if err == nil {
			c.SetLevel(ctx, caller.LogLevel)
		}
		return c, lease{}, err
	case sharing.InTurns:
		if err := main.TakeTurn(ctx, caller); err != nil {
			return nil, lease{}, err
		}
		return main, lease{conn: main}, nil
	case sharing.Private:
		return b.acquirePrivate(ctx, main, caller)
	}
	return main, lease{}, nil
}

// rules are what decides which connection calls run on; c is the main connection.
func (b *Backend) rules(c *conn.Conn) sharing.Backend {
	return sharing.Backend{
		Mode: b.settings.Load().Sessions, Stdio: b.dialer.Configured() == TransportStdio, SSE: b.dialer.Via() == TransportSSE, PerPrincipal: b.credentials.PerPrincipal(),
		Modern: c.Modern, LegacyToo: c.LegacyToo, KeepsState: c.KeepsState(),
	}
}

// sharing says which connection a call for caller runs on; c is the main connection.
func (b *Backend) sharing(c *conn.Conn, caller *Caller) sharing.Kind {
	if caller == nil {
		return sharing.Main
	}
	rules, who := b.rules(c), shares(caller)
	return rules.Of(&who)
}

// shares is what decides which connection a call for the caller runs on.
func shares(c *Caller) sharing.Caller {
	return sharing.Caller{Session: c.Session, Principal: c.Principal, Capabilities: c.Capabilities, Reachable: c.Sink != nil, LogLevel: c.LogLevel}
}

// usable is the main connection, or nil while there is none.
func (b *Backend) usable() *conn.Conn {
	if c := b.main.Load(); c != nil && c.Usable() {
		return c
	}
	return nil
}

// await returns the main connection. While an attempt to connect is running it waits
// for its outcome; a backend that is down is an error at once.
func (b *Backend) await(ctx context.Context) (*conn.Conn, error) {
	for {
		state, changed := b.watch() // before looking, so that no change is missed
		if c := b.usable(); c != nil {
			return c, nil
		}
		if state.Status == Down || state.Status == Disabled {
			return nil, b.NotUp(state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, b.dialer.Failure(ctx, context.Cause(ctx), false)
		case <-b.ctx.Done():
			return nil, &Error{Backend: b.name, Kind: Unavailable, Err: conn.ErrClosed}
		}
	}
}

// keyOf says whose private session a call for caller runs in, and whether that serves one call at
// a time; c is the main connection.
func (b *Backend) keyOf(c *conn.Conn, caller *Caller) (key sharing.Key, oneAtATime bool, err error) {
	rules, who := b.rules(c), shares(caller)
	key, oneAtATime, err = rules.KeyOf(&who)
	switch err {
	case nil:
		return key, oneAtATime, nil
	case sharing.ErrTooLarge:
		return key, false, &Error{Backend: b.name, Kind: TooLarge, Err: err}
	}
	return key, false, &Error{Backend: b.name, Kind: Unavailable, Err: err}
}

// acquirePrivate finds or opens the private session of caller.
func (b *Backend) acquirePrivate(ctx context.Context, main *conn.Conn, caller *Caller) (*conn.Conn, lease, error) {
	key, oneAtATime, err := b.keyOf(main, caller)
	if err != nil {
		return nil, lease{}, err
	}
	source, err := b.dialer.SourceFor(ctx, caller.User)
	if err != nil {
		return nil, lease{}, err
	}
	p, d, mine := b.pool.acquire(key, caller, source, oneAtATime)
	for p == nil {
		if err := b.pool.room(ctx); err != nil {
			return nil, lease{}, err
		}
		p, d, mine = b.pool.acquire(key, caller, source, oneAtATime)
	}
	if mine {
		b.startDial(p, d, caller)
	}
	c, err := b.ready(ctx, p, d, caller)
	if err != nil {
		b.pool.release(p)
		return nil, lease{}, notExecuted(err)
	}
	return c, lease{c, p, &b.pool}, nil
}

// ready waits for the connection of a private session and for what a call of caller needs
// beside it.
func (b *Backend) ready(ctx context.Context, p *private, d *dial, caller *Caller) (*conn.Conn, error) {
	select {
	case <-d.ready:
	case <-ctx.Done():
		return nil, b.dialer.Failure(ctx, context.Cause(ctx), false)
	}
	if d.err != nil {
		return nil, d.err
	}
	if p.askable || caller.Listening {
		if err := b.pool.ensureStream(ctx, d.conn); err != nil {
			return nil, err
		}
	}
	d.conn.SetLevel(ctx, caller.LogLevel)
	return d.conn, nil
}

// notExecuted is err for a call that never got as far as being sent.
func notExecuted(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Kind == Interrupted || e.Kind == Protocol) {
		return &Error{Backend: e.Backend, Kind: Unavailable, Err: e.Err}
	}
	return err
}

// sharedConn is the connection that all clients share that cannot be asked anything. It
// declares nothing, so that a backend does not begin what such a client cannot end.
// The main connection declares everything, for the sake of its lists; with a child
// process the two are one all the same, because every process has a state of its own.
type sharedConn struct {
	opening chan struct{} // cap 1: held by who opens it

	mu     sync.Mutex
	closed bool                      // guarded by mu
	conn   atomic.Pointer[conn.Conn] // set under mu
}

// usable is the connection if it is open, else nil.
func (p *sharedConn) usable() *conn.Conn {
	if c := p.conn.Load(); c != nil && c.Usable() {
		return c
	}
	return nil
}

// set takes a new connection; false when the backend was closed meanwhile.
func (p *sharedConn) set(c *conn.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conn.Store(c)
	}
	return !p.closed
}

// hasShared reports whether clients that cannot be asked have a connection beside c, the
// main one.
func (b *Backend) hasShared(c *conn.Conn) bool {
	return !c.Modern && b.dialer.Configured() != TransportStdio && b.settings.Load().Sessions != "shared" && b.pool.maxConnections() > 0
}

// sharedOr returns the connection that clients share on which nothing can be asked: the main
// one where there is no other.
func (b *Backend) sharedOr(ctx context.Context, main *conn.Conn) (*conn.Conn, error) {
	if !b.hasShared(main) {
		return main, nil
	}
	if c := b.shared.usable(); c != nil {
		return c, nil
	}
	select {
	case b.shared.opening <- struct{}{}:
		defer func() { <-b.shared.opening }()
	case <-ctx.Done():
		return nil, b.dialer.Failure(ctx, context.Cause(ctx), false)
	}
	return b.openShared(ctx)
}

// openShared replaces a shared connection that was lost, or opens the first one.
func (b *Backend) openShared(ctx context.Context) (*conn.Conn, error) {
	if c := b.shared.usable(); c != nil {
		return c, nil
	}
	if old := b.shared.conn.Swap(nil); old != nil && !b.spawn(old.Abandon) {
		old.Close()
	}
	s, err := b.pool.reserve(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.dialer.Open(ctx, conn.Purpose{Capabilities: json.RawMessage("{}"), Counted: true})
	if err != nil {
		s.Release()
		return nil, notExecuted(err)
	}
	c.Hold(s)
	if !b.shared.set(c) {
		c.Close()
		return nil, &Error{Backend: b.name, Kind: Unavailable, Err: conn.ErrClosed}
	}
	b.resubscribe(c)
	return c, nil
}

// closeShared ends the shared connection for good.
func (b *Backend) closeShared() {
	b.shared.mu.Lock()
	b.shared.closed = true
	c := b.shared.conn.Swap(nil)
	b.shared.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
