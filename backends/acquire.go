package backends

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// allCapabilities is what the main connection declares: some backends list tools according
// to the client's capabilities, and the lists are for all clients. When the backend then
// sends a request for a client without the capability, the proxy answers it.
var allCapabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{"listChanged":true}}`)

// A lease is the use of a connection by one call.
type lease struct {
	conn    *conn.Conn
	private *private // nil on a shared connection
	pool    *pool    // of private
}

// release ends the lease. The zero lease is one of a shared connection.
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
		case Main:
			return c, lease{}, nil
		case Shared:
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
	case Shared:
		c, err := b.sharedOr(ctx, main)
		if err == nil {
			c.SetLevel(ctx, caller.LogLevel)
		}
		return c, lease{}, err
	case InTurns:
		if err := main.TakeTurn(ctx, caller); err != nil {
			return nil, lease{}, err
		}
		return main, lease{conn: main}, nil
	case Private:
		return b.acquirePrivate(ctx, main, caller)
	}
	return main, lease{}, nil
}

// rules returns the facts about the backend by which sharing.go chooses connections; c is the main
// connection.
func (b *Backend) rules(c *conn.Conn) SharingBackend {
	return SharingBackend{
		Mode: b.settings.Load().Sessions, Stdio: b.dialer.Configured() == transportStdio, SSE: b.dialer.Via() == TransportSSE, PerPrincipal: b.credentials.PerPrincipal(),
		Modern: c.Modern, LegacyToo: c.LegacyToo, KeepsState: c.KeepsState(),
	}
}

// sharing returns the kind of connection that a call for caller runs on; c is the main connection.
func (b *Backend) sharing(c *conn.Conn, caller *Caller) SharingKind {
	if caller == nil {
		return Main
	}
	rules, who := b.rules(c), shares(caller)
	return rules.Of(&who)
}

// shares returns the facts about a caller by which sharing.go chooses its connection.
func shares(c *Caller) SharingCaller {
	return SharingCaller{Session: c.Session, Principal: c.Principal, Capabilities: c.Capabilities, Reachable: c.Sink != nil, LogLevel: c.LogLevel}
}

// usable returns the main connection, or nil while there is none.
func (b *Backend) usable() *conn.Conn {
	if c := b.main.Load(); c != nil && c.Usable() {
		return c
	}
	return nil
}

// await returns the main connection. It waits while an attempt to connect is running,
// and fails at once when the backend is down or disabled.
func (b *Backend) await(ctx context.Context) (*conn.Conn, error) {
	for {
		state, changed := b.watch() // before usable, so that no change is missed
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

// keyOf returns the key of the private session for a call of caller, and whether that session serves
// one call at a time; c is the main connection.
func (b *Backend) keyOf(c *conn.Conn, caller *Caller) (key Key, oneAtATime bool, err error) {
	rules, who := b.rules(c), shares(caller)
	key, oneAtATime, err = rules.KeyOf(&who)
	switch err {
	case nil:
		return key, oneAtATime, nil
	case ErrSharingTooLarge:
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
		if caller.Left() {
			b.pool.end(p, false) // Set.Release was called before p was in the table
		}
		b.startDial(p, d, caller)
	}
	c, err := b.ready(ctx, p, d, caller)
	if err != nil {
		b.pool.release(p)
		return nil, lease{}, notExecuted(err)
	}
	return c, lease{c, p, &b.pool}, nil
}

// ready waits for the connection of a private session, and for its event stream where a call
// of caller needs one.
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

// notExecuted returns err as that of a call that was not sent: Interrupted and Protocol become Unavailable.
func notExecuted(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Kind == Interrupted || e.Kind == Protocol) {
		return &Error{Backend: e.Backend, Kind: Unavailable, Err: e.Err}
	}
	return err
}

// sharedConn is the connection shared by all clients that declare no capabilities. It
// declares none, so that a backend sends no requests that such a client cannot answer. (The
// main connection declares all, for its lists.) A stdio backend has no such connection: its
// clients share the main one, because each process has its own state.
type sharedConn struct {
	opening chan struct{} // cap 1: held while the connection is opened

	mu     sync.Mutex
	closed bool                      // guarded by mu
	conn   atomic.Pointer[conn.Conn] // set under mu
}

// usable returns the connection if it is open, else nil.
func (p *sharedConn) usable() *conn.Conn {
	if c := p.conn.Load(); c != nil && c.Usable() {
		return c
	}
	return nil
}

// set stores a new connection; false when the backend has been closed.
func (p *sharedConn) set(c *conn.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conn.Store(c)
	}
	return !p.closed
}

// hasShared reports whether clients without capabilities have a shared connection beside c,
// the main one.
func (b *Backend) hasShared(c *conn.Conn) bool {
	return !c.Modern && b.dialer.Configured() != transportStdio && b.settings.Load().Sessions != "shared" && b.pool.maxConnections() > 0
}

// sharedOr returns the shared connection, opened if necessary; the main one where there is no
// other.
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
	c.SetSlot(s)
	if !b.shared.set(c) {
		c.Close()
		return nil, &Error{Backend: b.name, Kind: Unavailable, Err: conn.ErrClosed}
	}
	b.resubscribe(c)
	return c, nil
}

// closeShared closes the shared connection; none is opened afterwards.
func (b *Backend) closeShared() {
	b.shared.mu.Lock()
	b.shared.closed = true
	c := b.shared.conn.Swap(nil)
	b.shared.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
