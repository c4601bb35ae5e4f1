package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// eventFrames is the transport of 2024-11-05: one event stream for everything that the
// backend sends, and an endpoint to POST to that it names first.
type eventFrames struct {
	http     *httpLink // for its requests only
	endpoint *url.URL
	body     io.ReadCloser
	events   *wire.EventReader
}

// openEvents opens the stream and waits for the endpoint.
func openEvents(ctx context.Context, c *conn, u *url.URL) (*eventFrames, error) {
	h := newHTTPLink(c, u)
	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	defer stop()
	resp, err := h.get(c.ctx, "")
	if err != nil {
		return nil, err
	}
	f := &eventFrames{http: h, body: resp.Body, events: wire.NewEventReader(resp.Body, int(c.b.maxMessage))}
	if f.endpoint, err = f.first(u); err != nil {
		f.body.Close()
		return nil, err
	}
	return f, nil
}

// first reads the endpoint event. The endpoint must be of the same origin: it gets the
// configured headers.
func (f *eventFrames) first(u *url.URL) (*url.URL, error) {
	e, err := f.events.Next()
	if err != nil {
		return nil, fmt.Errorf("wait for the endpoint event: %w", err)
	}
	if e.Name != "endpoint" {
		return nil, fmt.Errorf("first event is %q, want endpoint", e.Name)
	}
	endpoint, err := u.Parse(string(e.Data))
	if err != nil || !sameOrigin(u, endpoint) {
		return nil, fmt.Errorf("endpoint %q is not of the origin of %s", e.Data, u.Redacted())
	}
	return endpoint, nil
}

func (f *eventFrames) read() ([]byte, *buffer, error) {
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

func (f *eventFrames) write(ctx context.Context, frame []byte) (started bool, err error) {
	resp, err := f.http.c.b.http.RoundTrip(newPost(ctx, f.endpoint, frame, *f.http.header.Load()))
	if err != nil {
		return !isDialError(err), err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	switch code := resp.StatusCode; {
	case code < 300:
		return true, nil
	case code == http.StatusNotFound:
		f.http.c.fail(errSessionGone)
		return false, errSessionGone
	case code < 500:
		return false, f.http.c.b.errorf(kindOfStatus(code), "%w", &statusError{code: code, text: brief(body)})
	default:
		return true, errors.New((&statusError{code: code, text: brief(body)}).Error())
	}
}

func (f *eventFrames) close() { f.body.Close() }
