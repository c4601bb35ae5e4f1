package edge

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// writePiece is the number of bytes that have to be written within stream.slowReader.
const writePiece = 64 << 10

// Listener wraps l so that a connection is closed when the peer does not read: of every response, page of metrics or
// event, each piece of writePiece bytes has to be written within half a minute. Servers of a Proxy's handlers listen on
// one.
func Listener(l net.Listener) *TimedListener { return &TimedListener{Listener: l} }

// TimedListener is what Listener makes.
type TimedListener struct {
	net.Listener
	silent sync.Map // of *timedConn: those on which nothing was read yet
}

// Accept waits for the next connection.
func (l *TimedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	timed := &timedConn{Conn: c, from: l}
	l.silent.Store(timed, nil)
	return timed, nil
}

// CloseSilent closes the connections on which nothing was ever read: those that were opened ahead of need, or by a probe.
// A request whose first bytes arrive at the same moment is either served or not read at all.
func (l *TimedListener) CloseSilent() {
	l.silent.Range(func(key, _ any) bool {
		if c := key.(*timedConn); c.decided.CompareAndSwap(false, true) {
			_ = c.Close()
		}
		return true
	})
}

// timedConn sets a deadline for each piece that it writes.
type timedConn struct {
	net.Conn
	from    *TimedListener
	decided atomic.Bool // by the first Read with bytes, or by CloseSilent, whichever came first
	heard   bool        // of the one goroutine that reads: its Read came first
}

func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard {
		if !c.decided.CompareAndSwap(false, true) {
			return 0, net.ErrClosed
		}
		c.heard = true
		c.from.silent.Delete(c)
	}
	return n, err
}

func (c *timedConn) Close() error {
	c.from.silent.Delete(c)
	return c.Conn.Close()
}

func (c *timedConn) Write(b []byte) (n int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(slowReader)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(b[n:min(n+writePiece, len(b))])
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
	}
}
