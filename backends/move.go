package backends

import (
	"context"
	"strings"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
)

// Sessions that move.
//
// A client's session may go on in another process of a cluster, and with it what backends keep for it. Over Streamable HTTP
// that has a name, which Options.Kept is told of and which the other process resumes. A process over standard input and
// output and a stream of HTTP+SSE have none: they end with this process.

// resumable is the name of what a backend keeps, as Options.Kept gets it: revision and id.
func resumable(s conn.Session) string { return s.Revision + " " + s.ID }

// report tells which session the backend keeps for a client session on c, before anything is done in it.
func (b *Backend) report(p *private, c *conn.Conn) {
	kept := b.set.o.Kept
	if kept == nil || p.key.Session == "" || c.Modern {
		return
	}
	s, ok := c.Kept()
	switch {
	case ok:
		kept(p.key.Session, b.name, resumable(s))
	case b.dialer.Via() != TransportHTTP:
		kept(p.key.Session, b.name, "")
	}
}

// Resume goes on with what the backend keeps for a client session, which another process has named so. It is an error
// when that cannot be: the backend has forgotten it, or it is gone with that process.
func (b *Backend) Resume(ctx context.Context, caller *Caller, name string) error {
	b = b.enter()
	defer b.leave()
	revision, id, ok := strings.Cut(name, " ")
	main, err := b.await(ctx)
	switch {
	case err != nil:
		return err
	case !ok || b.sharing(main, caller) != sharing.Private:
		return b.dialer.Errorf(Unavailable, "what it keeps for this session cannot be resumed")
	}
	key, oneAtATime, err := b.keyOf(main, caller)
	if err != nil {
		return err
	}
	source, err := b.dialer.SourceFor(ctx, caller.User)
	if err != nil {
		return err
	}
	p, d, mine := b.pool.acquire(key, caller, source, oneAtATime)
	if p == nil {
		return b.pool.full(b.pool.maxSessions(), "sessions", "maxSessions")
	}
	defer b.pool.release(p)
	if mine {
		b.pool.mu.Lock()
		p.resume = &conn.Session{ID: id, Revision: revision}
		b.pool.mu.Unlock()
		b.startDial(p, d, caller)
	}
	_, err = b.ready(ctx, p, d, caller)
	return err
}

// openOrResume opens the connection of p: with what another process has left to it, the first time.
func (b *Backend) openOrResume(ctx context.Context, p *private, purpose conn.Purpose) (*conn.Conn, error) {
	l := &b.pool
	l.mu.Lock()
	resume := p.resume
	p.resume = nil
	l.mu.Unlock()
	main := b.usable()
	if resume == nil || main == nil {
		return b.dialer.Open(ctx, purpose)
	}
	return b.dialer.Resume(ctx, purpose, *resume, main.Peer)
}

// leaveSession closes what belongs to a client session here, which goes on in another process.
func (b *Backend) leaveSession(session string) {
	l := &b.pool
	l.mu.Lock()
	p := l.all[sharing.Key{Session: session}]
	if p != nil {
		l.remove(p)
	}
	l.mu.Unlock()
	if p == nil {
		return
	}
	leaving := func() {
		<-p.dial.ready
		if c := p.dial.conn; c != nil {
			c.Leave()
			c.Close()
		}
	}
	if p.dial != nil && !b.spawn(leaving) {
		leaving()
	}
}

// Leave closes what was exclusive to a client's session that goes on in another process, which resumes it there.
func (s *Set) Leave(session string) {
	for _, b := range s.All() {
		b.leaveSession(session)
	}
}
