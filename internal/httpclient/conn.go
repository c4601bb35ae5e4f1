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

// defaultHead bounds the head of a response, including informational ones before it, where
// std sets no bound.
const defaultHead = 10 << 20

// conn is a connection. It is owned by one exchange, or by the pool.
type conn struct {
	net.Conn
	r     *bufio.Reader
	raw   syscall.RawConn
	since time.Time // when it was put into the pool
	kept  bool      // it was taken from the pool
	left  int64     // bytes that may still be read
	eof   bool      // the server has closed it

	// Arguments and results of the functions for raw, which are created once, because a closure for each call
	// would be allocated.
	peekNow, writeNow func(fd uintptr) bool
	silent            bool   // result of peekNow
	out               []byte // argument of writeNow
	wrote             int
	wroteErr          error
}

// address returns the host and port to dial for a URL.
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
		return nil, fmt.Errorf("dial %s: a %T is not a socket", t.addr, nc)
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

// Read reads from the socket, at most left bytes.
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

// unlimited is the value of left while a body is read.
const unlimited = math.MaxInt64

// isSilent reports whether the connection is open and no data is waiting to be read.
func (c *conn) isSilent() bool {
	return c.raw.Read(c.peekNow) == nil && c.silent
}

// isEmpty is isSilent for a connection whose deadline may have passed.
func (c *conn) isEmpty() bool {
	return c.raw.Control(func(fd uintptr) { c.peek(fd) }) == nil && c.silent
}

// tryWrite writes as much as the socket accepts without blocking. It returns 0 and no error when
// that is nothing.
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

// maxHead returns the bound of the head of a response, in bytes.
func maxHead(std *http.Transport) int64 {
	if std.MaxResponseHeaderBytes > 0 {
		return std.MaxResponseHeaderBytes
	}
	return defaultHead
}
