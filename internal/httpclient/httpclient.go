// Package httpclient is an HTTP/1.1 client for one plain http:// server that is asked often: what
// a relayed call costs beyond its system calls is mostly that [http.Transport] hands each request
// to two goroutines of a connection, and gets the answer back from them. Here the goroutine that
// calls writes the request and reads the answer.
//
//	t := httpclient.New(u, &http.Transport{MaxIdleConnsPerHost: 256})
//	resp, err := t.RoundTrip(request)
//
// The heads, chunks and trailers of answers are read by net/http ([http.ReadResponse]). What this
// package does by itself is to write requests, byte for byte as [http.Request.Write] does, to keep
// connections, to end a request with its context, and to read an answer that comes before the
// request was written to its end.
//
// A Transport that is made for anything else, TLS, a proxy, a system that is no Unix, and every
// request that is unusual (see takes) uses the http.Transport that it is given.
//
// # One exchange
//
//   - The context ends it by a deadline in the past on its connection (context.AfterFunc). The
//     error is the cause of the context, and the connection is closed.
//   - A request of up to atOnce bytes is put together in memory and written with one system call
//     that does not wait. What the socket does not take then, and every larger request, is written
//     by a goroutine while the answer is waited for: a server may refuse a large body before it has
//     read it. Whoever ends the exchange waits for that goroutine.
//   - A connection goes back to the pool when the answer was read to its end, the request was
//     written, neither side wants it closed and nothing stands behind the answer. Else it is closed.
//   - Before a kept connection is used again, it is peeked at: one that has ended, or on which
//     something has come that nobody asked for, is closed, and the next one is taken.
//   - A request is made again on another connection only if nothing of it was written, to a kept
//     connection whose server has ended it at that moment. http.Transport also repeats requests
//     such as GET after they were written to a kept connection; here these get a new one.
package httpclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Transport makes requests to one server. It is an http.RoundTripper.
type Transport struct {
	std  *http.Transport
	url  *url.URL // as New got it
	host string   // the URL.Host of the requests that are made here; "": all are made by std
	addr string   // where host is dialled
	pool pool
}

// New returns a Transport for the server at u, which may be nil. It takes Proxy, DialContext,
// MaxIdleConnsPerHost, IdleConnTimeout and MaxResponseHeaderBytes from std, and makes requests by
// std that it does not make itself. std must keep to HTTP/1 and have compression disabled.
func New(u *url.URL, std *http.Transport) *Transport {
	t := &Transport{std: std, url: u, pool: pool{most: std.MaxIdleConnsPerHost, timeout: std.IdleConnTimeout}}
	if onUnix && isPlain(u, std) {
		t.host, t.addr = u.Host, address(u)
	}
	return t
}

// isPlain reports whether requests to u go over TCP to u's own host, which has a plain name.
func isPlain(u *url.URL, std *http.Transport) bool {
	if u == nil || u.Scheme != "http" || u.Hostname() == "" || strings.Trim(strings.ToLower(u.Host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "" {
		return false
	}
	if std.Proxy == nil {
		return true
	}
	proxy, err := std.Proxy(&http.Request{URL: u})
	return proxy == nil && err == nil
}

// Clone returns a Transport for the same server that shares no connections with t.
func (t *Transport) Clone() *Transport { return New(t.url, t.std.Clone()) }

// CloseIdleConnections closes the connections that no request uses, and those that requests
// which run now would leave.
func (t *Transport) CloseIdleConnections() {
	t.std.CloseIdleConnections()
	t.pool.closeIdle()
}

// errUnwritten is why a request may be made on another connection: nothing of it was written.
var errUnwritten = errors.New("nothing of the request was written")

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.takes(r) {
		return t.std.RoundTrip(r)
	}
	for {
		c, err := t.acquire(r)
		if err != nil {
			closeBody(r)
			return nil, err
		}
		resp, err := t.exchange(c, r)
		if !errors.Is(err, errUnwritten) {
			return resp, err
		}
		if r, err = rewound(r); err != nil {
			return nil, err
		}
	}
}

// acquire returns a connection for r: a kept one that can be used, or a new one.
func (t *Transport) acquire(r *http.Request) (*conn, error) {
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !isRepeatable(r.Method) {
		if c := t.pool.get(); c != nil {
			return c, nil
		}
	}
	c, err := t.dial(ctx)
	if err == nil {
		return c, nil
	}
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
		<-ctx.Done() // the dialer looks at the deadline by itself
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// rewound is r with its body from the beginning.
func rewound(r *http.Request) (*http.Request, error) {
	again := *r
	if hasBody(r) {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return &again, nil
}

// isRepeatable reports whether http.Transport would make a request of the method again on its own.
func isRepeatable(method string) bool { return method == http.MethodGet }
