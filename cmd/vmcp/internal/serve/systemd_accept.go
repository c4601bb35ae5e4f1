package serve

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// accepts records the connections that are accepted during a probe. The kernel completes connections by itself until its queue
// is full, so that a dial succeeds also when nothing accepts: the probe waits until Accept has returned its connection.
type accepts struct {
	mu      sync.Mutex
	looking bool                // guarded by mu: a probe is under way
	seen    map[string]struct{} // guarded by mu: remote addresses accepted since the probe began
	news    chan struct{}       // cap 1
}

// Listener returns l with its Accept observed; l itself if there is no watchdog.
func (m *Manager) Listener(l net.Listener) net.Listener {
	if m == nil || m.watchdog == 0 {
		return l
	}
	m.accepts.news = make(chan struct{}, 1)
	return &listener{l, &m.accepts}
}

type listener struct {
	net.Listener
	to *accepts
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.to.note(c.RemoteAddr().String())
	}
	return c, err
}

// maxSeen bounds the addresses kept during a probe; when it is reached, the probe counts as passed.
const maxSeen = 10_000

func (a *accepts) note(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.looking || len(a.seen) >= maxSeen {
		return
	}
	a.seen[addr] = struct{}{}
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *accepts) probe(ctx context.Context, addr net.Addr) error {
	a.begin()
	defer a.end()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", reachable(addr))
	if err != nil {
		return fmt.Errorf("connect to the own port: %w", err)
	}
	defer c.Close()
	for !a.has(c.LocalAddr().String()) {
		select {
		case <-a.news:
		case <-ctx.Done():
			return fmt.Errorf("a connection to the own port %s was not accepted", addr)
		}
	}
	return nil
}

func (a *accepts) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looking, a.seen = true, map[string]struct{}{}
}

func (a *accepts) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looking, a.seen = false, nil
}

func (a *accepts) has(addr string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.seen[addr]
	return ok || len(a.seen) >= maxSeen
}

// reachable is an address of this machine for a listener on all of them.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	to := *tcp
	to.IP = net.IPv4(127, 0, 0, 1)
	if tcp.IP.To4() == nil {
		to.IP = net.IPv6loopback
	}
	return to.String()
}
