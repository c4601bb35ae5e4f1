package backends

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// reopenAtOnce bounds the lost sessions that are reopened concurrently.
const reopenAtOnce = 16

// startDial opens p's connection in the background.
func (b *Backend) startDial(p *private, d *dial, caller *Caller) {
	if !b.spawn(func() { b.dial(p, d, caller) }) {
		d.err = &Error{Backend: b.name, Kind: Unavailable, Err: conn.ErrClosed}
		close(d.ready)
	}
}

// dial opens p's connection, renews p's log level and subscriptions on it, and waits for the
// backend's first requests, such as roots/list, to be answered.
func (b *Backend) dial(p *private, d *dial, caller *Caller) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.Timeout(), conn.ErrDeadline)
	defer cancel()
	c, err := b.openPrivate(ctx, p, caller)
	if err == nil {
		b.renew(ctx, p, c)
		c.AwaitFirstQuestions(ctx, p.askable)
		c.SetOutOfCall(&p.caller)
		b.report(p, c)
	}
	d.conn, d.err = c, err
	close(d.ready)
	if err != nil {
		b.dialFailed(p, d)
		return
	}
	b.relisted(p)
	if b.pool.wantsStream(p) { // may have changed since openPrivate
		b.openStream(c)
	}
	context.AfterFunc(c.Context(), func() { b.lostPrivate(p, d) })
}

// openPrivate opens a connection for p, and its stream if p needs one.
func (b *Backend) openPrivate(ctx context.Context, p *private, caller *Caller) (*conn.Conn, error) {
	var s *slot
	if b.dialer.Via() != TransportHTTP || p.source != nil {
		var err error
		if s, err = b.pool.reserve(ctx); err != nil {
			return nil, err
		}
	}
	c, err := b.openOrResume(ctx, p, conn.Purpose{Capabilities: declaredBy(&p.caller), Caller: caller, Legacy: caller.Session != "" && b.hasBothEras(), Counted: true, Credential: p.source})
	if err != nil {
		s.Release()
		return nil, err
	}
	if s != nil {
		c.SetSlot(s)
	}
	if p.askable || b.pool.wantsStream(p) {
		if err := b.pool.ensureStream(ctx, c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// dialFailed removes a session without subscriptions; others are dialled again.
func (b *Backend) dialFailed(p *private, d *dial) {
	l := &b.pool
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.dial == d && !p.closed && len(p.uris) == 0 {
		p.closed = true
		delete(l.all, p.key)
		l.signal()
	}
}

// renew sets p's log level and subscriptions on a new connection.
func (b *Backend) renew(ctx context.Context, p *private, c *conn.Conn) {
	l := &b.pool
	l.mu.Lock()
	uris, level := slices.Clone(p.uris), p.level
	l.mu.Unlock()
	c.SetLevel(ctx, level)
	for _, uri := range uris {
		if _, err := c.Request(ctx, wire.Subscribe, conn.URI(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// lostPrivate is called when the connection of p was lost or closed.
func (b *Backend) lostPrivate(p *private, d *dial) {
	l := &b.pool
	l.mu.Lock()
	closed := p.closed
	reopen := !closed && p.dial == d && p.wantsStream() && !p.reopening
	p.reopening = p.reopening || reopen
	l.mu.Unlock()
	if closed {
		return
	}
	b.spawn(d.conn.Abandon)
	if reopen {
		b.spawn(func() { b.reopen(p) })
	}
}

// reopen dials p again, with backoff, once the main connection is there.
func (b *Backend) reopen(p *private) {
	var wait endpoint.Backoff
	for {
		if b.awaitUp() != nil || b.reopenOnce(p) || endpoint.Sleep(b.ctx, wait.Next()) != nil {
			return
		}
	}
}

// reopenOnce dials p. It reports whether reopen is done: p is open, or need not be.
func (b *Backend) reopenOnce(p *private) bool {
	select {
	case b.reopening <- struct{}{}:
		defer func() { <-b.reopening }()
	case <-b.ctx.Done():
		return true
	}
	l := &b.pool
	l.mu.Lock()
	over := p.closed || !p.wantsStream() || p.dial != nil && !p.dial.over()
	p.reopening = !over
	var d *dial
	if !over {
		d = &dial{ready: make(chan struct{})}
		p.dial = d
	}
	l.mu.Unlock()
	if over {
		return true
	}
	b.dial(p, d, &p.caller)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.reopening = d.err != nil && !p.closed && conn.KindOf(d.err) != Denied // after Denied the next call dials
	return !p.reopening
}

// awaitUp waits, without a deadline, until the main connection is there.
func (b *Backend) awaitUp() error {
	for {
		_, changed := b.watch()
		if b.usable() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-b.ctx.Done():
			return conn.ErrClosed
		}
	}
}

// closePrivate closes the connection of a session that was removed from the table, in the
// background.
func (b *Backend) closePrivate(p *private) {
	closing := func() {
		if p.dial == nil {
			return
		}
		<-p.dial.ready
		c := p.dial.conn
		if c == nil {
			return
		}
		if p.moved {
			c.Detach()
		}
		c.Close()
	}
	if !b.spawn(closing) {
		closing()
	}
}

// closePrivates closes the sessions for which which, called with pool.mu held, returns true.
func (b *Backend) closePrivates(which func(*private) bool) {
	l := &b.pool
	l.mu.Lock()
	var gone []*private
	for _, p := range l.all {
		if which(p) {
			gone = append(gone, p)
			l.remove(p)
		}
	}
	l.mu.Unlock()
	for _, p := range gone {
		b.closePrivate(p)
	}
}

// endSession ends the private session of a client session that has ended, or has moved to another process; running
// calls on it end first.
func (b *Backend) endSession(session string, moved bool) {
	if p := b.pool.find(session); p != nil {
		b.pool.end(p, moved)
	}
}

// end marks p as ended: it is closed when the last call on it has ended.
func (l *pool) end(p *private, moved bool) {
	l.mu.Lock()
	if !p.closed {
		p.ended, p.moved = true, moved
		p.listening, p.uris = false, nil
	}
	p.users++
	l.mu.Unlock()
	l.release(p)
}

// remove removes p from the table; the caller closes its connection. mu is held.
func (l *pool) remove(p *private) {
	delete(l.all, p.key)
	p.closed = true
	p.lists.Close()
	if c := p.open(); c != nil {
		l.announce(slotOf(c))
	}
	l.signal() // room for another session
}

// expire closes the sessions that have been unused for too long.
func (b *Backend) expire() {
	b.closePrivates(b.pool.expired)
}

func (l *pool) wantsStream(p *private) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.wantsStream()
}

// unlisten records that the client of a session has closed its GET stream.
func (l *pool) unlisten(session string) {
	if p := l.find(session); p != nil {
		l.mu.Lock()
		p.listening = false
		l.mu.Unlock()
	}
}

// listenFor records that the client of a session has a GET stream open, and opens the backend's
// event stream for it.
func (b *Backend) listenFor(session string) {
	p := b.pool.find(session)
	if p == nil {
		return
	}
	l := &b.pool
	l.mu.Lock()
	p.listening = true
	c := p.open()
	l.mu.Unlock()
	if c != nil {
		b.openStream(c)
	}
}

// openStream opens the event stream of a connection for messages between its client's calls, if it is not open, in
// the background.
func (b *Backend) openStream(c *conn.Conn) {
	b.spawn(func() {
		ctx, cancel := context.WithTimeoutCause(b.ctx, b.Timeout(), conn.ErrDeadline)
		defer cancel()
		if err := b.pool.ensureStream(ctx, c); err != nil {
			b.log.Info("event stream for messages between calls not opened", "err", err)
		}
	})
}

// notifySession forwards a client's notification to its private session.
func (b *Backend) notifySession(session, method string, params json.RawMessage) {
	p := b.pool.find(session)
	if p == nil {
		return
	}
	l := &b.pool
	l.mu.Lock()
	d := p.dial
	l.mu.Unlock()
	if d == nil {
		return
	}
	b.spawn(func() {
		select {
		case <-d.ready: // the backend may have sent requests whose results have changed since
		case <-b.ctx.Done():
			return
		}
		if c := d.opened(); c != nil {
			c.Forward(method, params)
		}
	})
}

// inherit copies the private sessions with subscriptions from the pool of the backend that this
// one replaces, and dials them.
func (l *pool) inherit(old *pool) {
	old.mu.Lock()
	var waiting []*private
	for _, p := range old.all {
		if len(p.uris) > 0 && p.key.Session != "" {
			n := newPrivate(p.key, &p.caller, false)
			n.askable, n.uris, n.level, n.listening = p.askable, slices.Clone(p.uris), p.level, p.listening
			if l.b.credentials.PerPrincipal() {
				source, err := l.b.credentials.For(n.caller.User)
				if err != nil {
					continue
				}
				n.source = source
			}
			waiting = append(waiting, n)
		}
	}
	old.mu.Unlock()
	for _, p := range waiting {
		l.mu.Lock()
		if there := l.all[p.key]; there == nil {
			p.reopening = true
			l.all[p.key] = p
		}
		l.mu.Unlock()
		if p.reopening {
			l.b.spawn(func() { l.b.reopen(p) })
		}
	}
}
