package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxStrangers bounds the open connections on which no request was verified yet.
	maxStrangers = 1024
	// maxStrangerBytes bounds the bytes that they have sent together. Headers take several times their size while they
	// are parsed.
	maxStrangerBytes = 16 << 20
	// strangerTime is the time during which such a connection is not closed for a new one: a replica sends its first
	// request at once.
	strangerTime = 100 * time.Millisecond
	// maxHeaders bounds the headers of a request, in bytes: those of a client, and maxPassage.
	maxHeaders = 640 << 10
)

// An entrance is a listener that bounds the connections without a verified request. At the bound a new connection
// replaces the oldest one; if that is younger than strangerTime, Accept waits, so that replicas that connect all at
// once succeed.
type entrance struct {
	net.Listener
	left chan struct{} // capacity 1: a place may be free

	mu    sync.Mutex
	all   []*stranger // oldest first; guarded by mu
	bytes int64       // sent by all of them; guarded by mu
}

func newEntrance(l net.Listener) *entrance {
	return &entrance{Listener: l, left: make(chan struct{}, 1)}
}

// A stranger is a connection that counts against the bounds of its entrance until a request on it is verified, or it
// closes.
type stranger struct {
	net.Conn
	entrance *entrance
	since    time.Time
	known    atomic.Bool
	bytes    int64 // guarded by entrance.mu
}

// Accept implements net.Listener.
func (e *entrance) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &stranger{Conn: c, entrance: e, since: time.Now()}
	for wait := e.admit(s); wait > 0; wait = e.admit(s) {
		select {
		case <-e.left:
		case <-time.After(wait):
		}
	}
	return s, nil
}

// admit gives a connection a place and returns 0, or returns how long to wait for one at most.
func (e *entrance) admit(s *stranger) (wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) >= maxStrangers {
		oldest := e.all[0]
		if wait := strangerTime - time.Since(oldest.since); wait > 0 {
			return wait
		}
		e.refuse(oldest)
	}
	e.all = append(e.all, s)
	return 0
}

// refuse closes a connection. mu is held.
func (e *entrance) refuse(s *stranger) {
	e.remove(s)
	s.Conn.Close()
}

// remove frees a connection's place. mu is held.
func (e *entrance) remove(s *stranger) {
	i := slices.Index(e.all, s)
	if i < 0 {
		return
	}
	e.all = slices.Delete(e.all, i, i+1)
	e.bytes -= s.bytes
	select {
	case e.left <- struct{}{}:
	default:
	}
}

// read counts n bytes that a stranger has sent. Above the bound it closes those that have sent the most.
func (e *entrance) read(s *stranger, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.known.Load() || !slices.Contains(e.all, s) {
		return
	}
	s.bytes += int64(n)
	for e.bytes += int64(n); e.bytes > maxStrangerBytes; {
		e.refuse(slices.MaxFunc(e.all, func(a, b *stranger) int { return int(a.bytes - b.bytes) }))
	}
}

// Read implements net.Conn.
func (s *stranger) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if !s.known.Load() {
		s.entrance.read(s, n)
	}
	return n, err
}

// Close implements net.Conn.
func (s *stranger) Close() error {
	s.entrance.mu.Lock()
	s.entrance.remove(s)
	s.entrance.mu.Unlock()
	return s.Conn.Close()
}

type strangerKey struct{}

// connContext puts the connection of a request into its context, for known.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, strangerKey{}, c)
}

// known marks the connection of a verified request: it no longer counts against the bounds.
func known(r *http.Request) {
	s, ok := r.Context().Value(strangerKey{}).(*stranger)
	if !ok || s.known.Swap(true) {
		return
	}
	s.entrance.mu.Lock()
	defer s.entrance.mu.Unlock()
	s.entrance.remove(s)
}

// refusals limits the log of unsigned requests, of which anyone who reaches the port can send any number: one line in
// refusalEvery, with the number of those in between.
type refusals struct {
	mu   sync.Mutex
	last time.Time // guarded by mu
	more int       // not logged since last; guarded by mu
}

const refusalEvery = 10 * time.Second

// note reports whether this refusal is logged, and how many were not since the last that was.
func (f *refusals) note(now time.Time) (more int, logged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.last.IsZero() && now.Sub(f.last) < refusalEvery {
		f.more++
		return 0, false
	}
	more, f.more, f.last = f.more, 0, now
	return more, true
}
