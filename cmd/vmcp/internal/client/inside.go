package client

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// InsideURL is the URL under which the SDK addresses an Inside server.
const InsideURL = "http://localhost/mcp"

// Inside is an HTTP server over pipes in this process: a proxy that opens no port.
type Inside struct {
	server *http.Server
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	done   chan struct{}
}

// NewInside serves h until it is closed.
func NewInside(h http.Handler) *Inside {
	i := &Inside{
		server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second},
		conns:  make(chan net.Conn), closed: make(chan struct{}), done: make(chan struct{}),
	}
	go i.serve()
	return i
}

func (i *Inside) serve() {
	defer close(i.done)
	_ = i.server.Serve(pipes{i}) // ends with Close
}

// Close ends the server and its connections.
func (i *Inside) Close() {
	_ = i.server.Close() // closes the listener, too
	<-i.done
}

// Transport sends requests to the server, whatever their address.
func (i *Inside) Transport() http.RoundTripper {
	return &http.Transport{DialContext: i.dial}
}

func (i *Inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case i.conns <- there:
		return here, nil
	case <-i.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipes is the net.Listener of the server.
type pipes struct{ *Inside }

// Accept returns the next connection that the Transport has opened.
func (i pipes) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (i pipes) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// Addr is a loopback address: clients are in this process.
func (i pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
