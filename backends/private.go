package backends

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/encode"
	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// reopenAtOnce is how many lost sessions are opened again side by side.
const reopenAtOnce = 16

// startDial opens p's connection in the background.
func (b *Backend) startDial(p *private, d *dial, caller *Caller) {
	if !b.spawn(func() { b.dial(p, d, caller) }) {
		d.err = &Error{Backend: b.name, Kind: Unavailable, Err: conn.ErrClosed}
		close(d.ready)
	}
}

// dial opens p's connection, renews what p had on the one before and lets the backend ask
// its first questions.
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
		c.Hold(s)
	}
	if p.askable || b.pool.wantsStream(p) {
		if err := b.pool.ensureStream(ctx, c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// dialFailed forgets a session that never had anything; others stay, to be dialled again.
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

// renew makes on a new connection what p had on the one before.
func (b *Backend) renew(ctx context.Context, p *private, c *conn.Conn) {
	l := &b.pool
	l.mu.Lock()
	uris, level := slices.Clone(p.uris), p.level
	l.mu.Unlock()
	c.SetLevel(ctx, level)
	for _, uri := range uris {
		if _, err := c.Request(ctx, wire.Subscribe, encode.URI(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// lostPrivate is called when the connection of p is over, lost or closed.
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

// reopen opens p again, for a client that waits for what comes from it, as soon as the
// backend is there.
func (b *Backend) reopen(p *private) {
	var wait pace.Backoff
	for {
		if b.awaitUp() != nil || b.reopenOnce(p) || pace.Sleep(b.ctx, wait.Next()) != nil {
			return
		}
	}
}

// reopenOnce is true when p is open again, or need not be.
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
	p.reopening = d.err != nil && !p.closed && conn.KindOf(d.err) != Denied // who was denied a credential has to come again
	return !p.reopening
}

// awaitUp waits until the main connection is there, however long that takes.
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

// closePrivate closes the connection of a session that was taken off the table, in the
// background.
func (b *Backend) closePrivate(p *private) {
	closing := func() {
		if p.dial == nil {
			return
		}
		<-p.dial.ready
		if p.dial.conn != nil {
			p.dial.conn.Close()
		}
	}
	if !b.spawn(closing) {
		closing()
	}
}

// closePrivates closes the sessions that which says, asked with pool.mu held.
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

// closeSession closes what belongs to a client session, which is over.
func (b *Backend) closeSession(session string) {
	l := &b.pool
	l.mu.Lock()
	p := l.all[sharing.Key{Session: session}]
	if p != nil {
		l.remove(p)
	}
	l.mu.Unlock()
	if p != nil {
		b.closePrivate(p)
	}
}

// remove takes p off the table; its connection is about to be closed. mu is held.
func (l *pool) remove(p *private) {
	delete(l.all, p.key)
	p.closed = true
	p.lists.Close()
	if c := p.open(); c != nil {
		l.announce(slotOf(c))
	}
	l.signal() // there is room for another session
}

// expire closes what has been unused for too long.
func (b *Backend) expire() {
	b.closePrivates(b.pool.expired)
}

func (l *pool) wantsStream(p *private) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.wantsStream()
}

// unlisten notes that the client of a session has no stream open any more for what belongs to
// no call.
func (l *pool) unlisten(session string) {
	if p := l.find(session); p != nil {
		l.mu.Lock()
		p.listening = false
		l.mu.Unlock()
	}
}

// listenFor notes that the client of a session has a stream open for what belongs to no call,
// and opens the backend's stream for it.
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
		b.spawn(func() {
			ctx, cancel := context.WithTimeoutCause(b.ctx, b.Timeout(), conn.ErrDeadline)
			defer cancel()
			if err := b.pool.ensureStream(ctx, c); err != nil {
				b.log.Info("no stream for what comes between a client's calls", "err", err)
			}
		})
	}
}

// notifySession passes a client's notification on to its private session.
func (b *Backend) notifySession(session, method string, params json.RawMessage) {
	p := b.pool.find(session)
	if p == nil {
		return
	}
	if c := b.pool.conn(p); c != nil {
		b.spawn(func() { c.Forward(method, params) })
	}
}

// inherit takes over what the clients of another pool, whose backend this one replaces, wait
// for: their sessions are opened anew with it.
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
