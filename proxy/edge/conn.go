package edge

import (
	"net"
	"time"
)

const (
	// slowReader is how long a client may leave what it is sent unread.
	slowReader = 30 * time.Second
	// writePiece is how much has to go out within that time.
	writePiece = 64 << 10
)

// Listener makes l one whose connections are given up when the other side does not read:
// whatever is written, an answer, a page of metrics or an event, every piece of it has to
// go within half a minute. A server that has handlers of a Proxy listens on one.
func Listener(l net.Listener) net.Listener { return listenerOfTimed{l} }

type listenerOfTimed struct{ net.Listener }

func (l listenerOfTimed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &timedConn{Conn: c}, nil
}

// timedConn has a deadline for each piece that is written to it.
type timedConn struct{ net.Conn }

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
