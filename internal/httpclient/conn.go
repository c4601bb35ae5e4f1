package httpclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// defaultHead is how large the head of an answer may be where std does not say, with all
// informational heads before it.
const defaultHead = 10 << 20

// conn is a connection. One exchange has it, or the pool.
type conn struct {
	net.Conn
	r     *bufio.Reader
	raw   syscall.RawConn
	since time.Time // when the pool got it
	kept  bool      // it comes from the pool
	left  int64     // how many bytes may still be read
	eof   bool      // the server has ended it

	// What the functions of raw work with: one of them for each call would be an allocation.
	peekNow, writeNow func(fd uintptr) bool
	silent            bool   // what peekNow found
	out               []byte // what writeNow writes
	wrote             int
	wroteErr          error
}

// address is where the server of a URL is dialled.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// dial opens a connection.
func (t *Transport) dial(ctx context.Context) (*conn, error) {
	dial := t.std.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	socket, ok := nc.(syscall.Conn)
	if !ok {
		nc.Close()
		return nil, fmt.Errorf("dial %s: a %T is no socket", t.addr, nc)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := &conn{Conn: nc, raw: raw}
	c.r = bufio.NewReader(c)
	c.peekNow, c.writeNow = c.peek, c.write
	return c, nil
}

// Read reads from the socket, at most as much as may still be read.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLongHead
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == io.EOF {
		c.eof = true
	}
	return n, err
}

// unlimited is left where an answer's body is read.
const unlimited = math.MaxInt64

// isSilent reports whether the connection is open and nothing has come on it.
func (c *conn) isSilent() bool {
	return c.raw.Read(c.peekNow) == nil && c.silent
}

// tryWrite writes what the socket takes without waiting. It returns 0 and no error when that is
// nothing.
func (c *conn) tryWrite(p []byte) (int, error) {
	c.out, c.wrote, c.wroteErr = p, 0, nil
	err := c.raw.Write(c.writeNow)
	c.out = nil
	if err == nil {
		err = c.wroteErr
	}
	if err != nil {
		return c.wrote, &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return c.wrote, nil
}

// maxHead is how large the head of an answer may be.
func maxHead(std *http.Transport) int64 {
	if std.MaxResponseHeaderBytes > 0 {
		return std.MaxResponseHeaderBytes
	}
	return defaultHead
}
