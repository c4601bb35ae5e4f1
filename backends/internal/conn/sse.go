package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// sseStream is the HTTP+SSE transport of 2024-11-05: one event stream for all messages
// of the backend, whose first event names the endpoint to POST to.
type sseStream struct {
	http   *httpTransport // for its requests only
	to     *url.URL       // the endpoint
	body   io.ReadCloser
	events *wire.EventReader
}

// A URL without a configured transport is tried with Streamable HTTP. When the server refuses
// the POST of initialize with a 4xx status, it may be an HTTP+SSE server (2025-11-25,
// basic/transports, "Backwards compatibility"): the response to a GET must then begin with the
// endpoint event. The result is kept in old until a connection over HTTP+SSE fails.

// Via returns the transport in use.
func (d *Dialer) Via() string {
	if d.old.Load() {
		return TransportSSE
	}
	return d.transport
}

// mayBeOld reports whether err, of a connection over Streamable HTTP, may be the response
// of a server that supports only HTTP+SSE. Statuses that ask for credentials or for a
// retry are not.
func (d *Dialer) mayBeOld(err error) bool {
	var status *endpoint.StatusError
	if d.cfg.Transport != "" || d.old.Load() || !errors.As(err, &status) {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status.Code >= 400 && status.Code < 500
}

// openOld opens a connection over HTTP+SSE after Streamable HTTP was refused with err.
func (d *Dialer) openOld(ctx context.Context, p Purpose, refused error) (*Conn, error) {
	d.old.Store(true)
	c, err := d.connect(ctx, p)
	if err == nil {
		if _, err = c.handshake(ctx); err == nil {
			return c, nil
		}
		c.Close()
	}
	d.old.Store(false)
	return nil, &Error{Backend: d.name, Kind: Unavailable, Err: fmt.Errorf("%w (nor does it support HTTP+SSE: %v)", Bare(refused), Bare(err))}
}

// openSSE opens the stream and waits for the endpoint event.
func openSSE(ctx context.Context, c *Conn, u *url.URL) (*sseStream, error) {
	h := newHTTPTransport(c, u)
	stop := context.AfterFunc(ctx, func() { c.Fail(context.Cause(ctx)) })
	defer stop()
	resp, err := h.at.Get(c.ctx, "")
	if err != nil {
		return nil, err
	}
	f := &sseStream{http: h, body: resp.Body, events: wire.NewEventReader(resp.Body, int(c.d.o.MaxMessage))}
	if f.to, err = f.first(u); err != nil {
		f.body.Close()
		return nil, err
	}
	return f, nil
}

// first reads the endpoint event. The endpoint must have the same origin, because requests
// to it have the configured headers.
func (f *sseStream) first(u *url.URL) (*url.URL, error) {
	e, err := f.events.Next()
	if err != nil {
		return nil, fmt.Errorf("wait for the endpoint event: %w", err)
	}
	if e.Name != "endpoint" {
		return nil, fmt.Errorf("first event is %q, want endpoint", e.Name)
	}
	to, err := u.Parse(string(e.Data))
	if err != nil {
		return nil, fmt.Errorf("the endpoint that %s names is not a URL", endpoint.Shown(u))
	}
	if !endpoint.SameOrigin(u, to) {
		return nil, fmt.Errorf("the endpoint %s does not have the origin of %s", endpoint.Shown(to), endpoint.Shown(u))
	}
	return to, nil
}

func (f *sseStream) read() ([]byte, *Buffer, error) {
	for {
		e, err := f.events.Next()
		if err != nil {
			return nil, nil, err
		}
		if len(e.Data) > 0 && (e.Name == "" || e.Name == "message") {
			return e.Data, nil, nil
		}
	}
}

func (f *sseStream) write(ctx context.Context, frame []byte) (started bool, err error) {
	resp, err := f.http.at.PostTo(ctx, f.to, frame)
	if err != nil {
		return !IsDialError(err), err
	}
	f.http.c.d.failedBody(resp)
	switch code := resp.StatusCode; {
	case code < 300:
		return true, nil
	case code == http.StatusNotFound:
		f.http.c.Fail(ErrSessionGone)
		return false, ErrSessionGone
	case code < 500:
		return false, f.http.c.d.Errorf(kindOfStatus(code), "%w", &endpoint.StatusError{Code: code})
	default:
		return true, errors.New((&endpoint.StatusError{Code: code}).Error())
	}
}

func (f *sseStream) close() { f.body.Close() }
