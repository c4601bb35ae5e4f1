//go:build unix

package runstest

import (
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Link is a network between this process and a PostgreSQL server. It can be cut, and can deliver late.
type Link struct {
	at net.Listener

	mu    sync.Mutex
	to    *Server                    // guarded by mu, like all below
	conns map[net.Conn]chan struct{} // of both sides; what they send waits until the channel is closed, nil: it passes
	held  chan struct{}              // of Hold; nil: there is none
}

// Through returns a link to the server.
func (s *Server) Through(t testing.TB) *Link {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{at: at, to: s, conns: map[net.Conn]chan struct{}{}}
	var all sync.WaitGroup
	all.Go(func() { l.accept(&all) })
	t.Cleanup(func() {
		at.Close()
		l.Deliver()
		l.Cut()
		all.Wait()
	})
	return l
}

// URL is the connection URL of the server by way of the link.
func (l *Link) URL() string {
	return "postgres://vmcp@" + l.at.Addr().String() + "/postgres?" + url.Values{"sslmode": {"disable"}}.Encode()
}

// To leads new connections to another server.
func (l *Link) To(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = s
}

// Hold keeps what is sent on the connections that there are, until Deliver, also if who has sent it has given up. New
// connections are not affected.
func (l *Link) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
	for c := range l.conns {
		l.conns[c] = l.held
	}
}

// Deliver ends Hold.
func (l *Link) Deliver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// Cut ends all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
}

func (l *Link) accept(all *sync.WaitGroup) {
	for {
		client, err := l.at.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		server, err := net.Dial("unix", filepath.Join(l.to.dir, ".s.PGSQL.5432"))
		if err == nil {
			l.conns[client], l.conns[server] = nil, nil
		}
		l.mu.Unlock()
		if err != nil {
			client.Close()
			continue
		}
		all.Go(func() { l.pump(client, server) })
		all.Go(func() { l.pump(server, client) })
	}
}

// pump copies from one side to the other, and closes both at the end.
func (l *Link) pump(from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		l.mu.Lock()
		held := l.conns[from]
		l.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			break
		}
	}
	l.mu.Lock()
	delete(l.conns, from)
	delete(l.conns, to)
	l.mu.Unlock()
	from.Close()
	to.Close()
}
