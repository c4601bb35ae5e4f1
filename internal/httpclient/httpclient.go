// Package httpclient is an HTTP/1.1 client for many requests to one plain http:// server:
// [http.Transport] passes each request to two goroutines of a connection, which is most of a relayed
// call's cost besides system calls. Here the calling goroutine writes the request and reads the
// response.
//
//	t := httpclient.New(u, &http.Transport{MaxIdleConnsPerHost: 256})
//	resp, err := t.RoundTrip(request)
//
// The heads, chunks and trailers of responses are read by net/http ([http.ReadResponse]). What this
// package does by itself is to write requests, byte for byte as [http.Request.Write] does, to keep
// connections, to end a request with its context, and to read a response that arrives before the request
// was written to its end.
//
// For TLS, a proxy, a system other than Unix, and for each unusual request (see Takes) a Transport
// uses the http.Transport that it is given.
//
// # One exchange
//
//   - The end of the context sets a deadline in the past on the connection (context.AfterFunc).
//     The error is the cause of the context, and the connection is closed.
//   - A request of up to atOnce bytes is assembled in memory and written with one non-blocking system
//     call. The part that the socket does not accept, and every larger request, is written by a
//     goroutine while the calling one reads the response, because a server may refuse a large body
//     before it has read it. The end of the exchange waits for that goroutine.
//   - A connection is put back into the pool when the response was read to its end, the request was
//     written, neither side wants it closed and no bytes follow the response. Else it is closed.
//   - Before a pooled connection is used again, it is peeked at: one that has ended, or on which
//     unexpected data was received, is closed, and the next one is used.
//   - A request is retried on another connection only if no byte of it was written, because the
//     server had closed the pooled connection. http.Transport also retries requests such as GET
//     after they were written to a pooled connection; here these use a new one.
package httpclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// Transport makes requests to one server. It is an http.RoundTripper.
type Transport struct {
	// Ahead is called for each informational response (a status below 200), and for a request that Takes allows and
	// that fails after a part of a response was received: the server has begun to handle it. It must be set before the
	// first request, and may be nil.
	Ahead func(*http.Request)

	std  *http.Transport
	url  *url.URL // of New
	host string   // the URL.Host of the requests made here; "": std makes all
	addr string   // the address to dial for host
	pool pool
}

// New returns a Transport for the server at u, which may be nil. It uses Proxy, DialContext,
// MaxIdleConnsPerHost, IdleConnTimeout and MaxResponseHeaderBytes of std, and std itself for the
// requests that it does not make. std must be limited to HTTP/1 and have compression disabled.
func New(u *url.URL, std *http.Transport) *Transport {
	t := &Transport{std: std, url: u, pool: pool{most: std.MaxIdleConnsPerHost, timeout: std.IdleConnTimeout}}
	if onUnix && isPlain(u, std) {
		t.host, t.addr = u.Host, address(u)
	}
	return t
}

// isPlain reports whether requests to u use plain TCP to u's host, without a proxy.
func isPlain(u *url.URL, std *http.Transport) bool {
	if u == nil || u.Scheme != "http" || u.Hostname() == "" || !isPlainHost(u.Host) {
		return false
	}
	if std.Proxy == nil {
		return true
	}
	proxy, err := std.Proxy(&http.Request{URL: u})
	return proxy == nil && err == nil
}

// isPlainHost reports whether a host is ASCII that headers contain unchanged.
func isPlainHost(host string) bool {
	return strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == ""
}

// Clone returns a Transport for the same server that shares no connections with t.
func (t *Transport) Clone() *Transport {
	c := New(t.url, t.std.Clone())
	c.Ahead = t.Ahead
	return c
}

// CloseIdleConnections closes the idle connections, and those of running requests when these
// end.
func (t *Transport) CloseIdleConnections() {
	t.std.CloseIdleConnections()
	t.pool.closeIdle()
}

// errUnwritten is the error of a request of which no byte was written, so that it can be retried.
var errUnwritten = errors.New("no byte of the request was written")

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.Takes(r) {
		return t.std.RoundTrip(t.traced(r))
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

// traced returns r with a trace that calls Ahead for informational responses.
func (t *Transport) traced(r *http.Request) *http.Request {
	if t.Ahead == nil {
		return r
	}
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { t.Ahead(r); return nil },
	}))
}

// acquire returns a connection for r: a usable one of the pool, or a new one.
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
		<-ctx.Done() // the dialer has its own timer for the deadline
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// rewound returns r with its body from the beginning.
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

// isRepeatable reports whether http.Transport would retry a request of the method by itself.
func isRepeatable(method string) bool { return method == http.MethodGet }
