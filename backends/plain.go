package backends

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
)

// plain is the connection that all clients share that cannot be asked anything. It
// declares nothing, so that a backend does not begin what such a client cannot end.
// The main connection declares everything, for the sake of its lists; with a child
// process the two are one all the same, because every process has a state of its own.
type plain struct {
	opening chan struct{} // cap 1: held by who opens it

	mu     sync.Mutex
	closed bool                 // guarded by mu
	conn   atomic.Pointer[conn] // set under mu
}

// usable is the connection if it is open, else nil.
func (p *plain) usable() *conn {
	if c := p.conn.Load(); c != nil && c.ctx.Err() == nil {
		return c
	}
	return nil
}

// set takes a new connection; false when the backend was closed meanwhile.
func (p *plain) set(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conn.Store(c)
	}
	return !p.closed
}

// apart reports whether clients that cannot be asked have a connection beside c, the
// main one.
func (b *Backend) apart(c *conn) bool {
	return !c.modern && b.transport != TransportStdio && b.cfg.Sessions != "shared" && cap(b.slots) > 1
}

// common returns the connection that clients share on which nothing can be asked.
func (b *Backend) common(ctx context.Context, main *conn) (*conn, error) {
	if !b.apart(main) {
		return main, nil
	}
	if c := b.plain.usable(); c != nil {
		return c, nil
	}
	select {
	case b.plain.opening <- struct{}{}:
		defer func() { <-b.plain.opening }()
	case <-ctx.Done():
		return nil, b.failure(ctx, context.Cause(ctx), false)
	}
	return b.openPlain(ctx)
}

// openPlain replaces a plain connection that was lost, or opens the first one.
func (b *Backend) openPlain(ctx context.Context) (*conn, error) {
	if c := b.plain.usable(); c != nil {
		return c, nil
	}
	old := b.plain.conn.Load()
	c, err := b.open(ctx, purpose{capabilities: json.RawMessage("{}")})
	if err != nil {
		return nil, notExecuted(err)
	}
	if !b.plain.set(c) {
		c.close()
		return nil, &Error{Backend: b.name, Kind: Unavailable, Err: errClosed}
	}
	if old != nil && !b.spawn(old.abandon) {
		old.close()
	}
	b.resubscribe(c)
	return c, nil
}

// closePlain ends the plain connection for good.
func (b *Backend) closePlain() {
	b.plain.mu.Lock()
	b.plain.closed = true
	c := b.plain.conn.Swap(nil)
	b.plain.mu.Unlock()
	if c != nil {
		c.close()
	}
}
