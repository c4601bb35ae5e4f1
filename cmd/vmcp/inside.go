package main

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// insideURL is what the endpoint inside this process is called.
const insideURL = "http://localhost/mcp"

// inside is an HTTP server on pipes: a proxy of this process without a port.
type inside struct {
	server *http.Server
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	done   chan struct{}
}

func newInside(h http.Handler) *inside {
	i := &inside{
		server: &http.Server{Handler: h}, //nolint:gosec // nobody else can connect: no header timeout
		conns:  make(chan net.Conn), closed: make(chan struct{}), done: make(chan struct{}),
	}
	go i.serve()
	return i
}

func (i *inside) serve() {
	defer close(i.done)
	_ = i.server.Serve(i) // ends with close
}

func (i *inside) close() {
	_ = i.server.Close() // closes the listener, too
	<-i.done
}

func (i *inside) transport() http.RoundTripper {
	return &http.Transport{DialContext: i.dial}
}

func (i *inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

// Accept returns the next connection that dial made.
func (i *inside) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (i *inside) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// Addr is a loopback address, which is what the pipe is.
func (i *inside) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
