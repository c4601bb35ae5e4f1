package backends

import (
	"context"
	"strings"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// Sessions that move to another process.
//
// A client session may be adopted by another process of a cluster, with its backend sessions. Over Streamable HTTP a
// backend session has a name, its revision and id, which Options.Kept is called with and which the other process
// resumes. A stdio process and an HTTP+SSE stream have none: they end with this process.

// resumable returns the name of a backend session for Options.Kept: revision and id.
func resumable(s conn.Session) string { return s.Revision + " " + s.ID }

// report calls Options.Kept with the backend session of a client session on c, before its first call.
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

// Resume opens the backend session of a client session by the name that another process passed to Options.Kept. It
// fails when the backend has forgotten the session, or when the session ended with that process.
func (b *Backend) Resume(ctx context.Context, caller *Caller, name string) error {
	b = b.enter()
	defer b.leave()
	revision, id, ok := strings.Cut(name, " ")
	main, err := b.await(ctx)
	switch {
	case err != nil:
		return err
	case !ok || b.sharing(main, caller) != Private:
		return b.dialer.Errorf(Unavailable, "its session for this client cannot be resumed")
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

// openOrResume opens the connection of p; the first time it resumes the backend session of another process if
// there is one.
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

// DetachSession closes the connections of a client session that another process has adopted, without ending the backend
// sessions, which are resumed there. Running calls end first.
func (s *Set) DetachSession(session string) {
	for _, b := range s.All() {
		b.endSession(session, true)
	}
}
