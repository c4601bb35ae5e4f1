package endpoint

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
	// MaxResumes ends a call whose stream keeps breaking without a word.
	MaxResumes = 10
)

// Position is where in an event stream we are, to resume it.
type Position struct {
	Last  string        // id of the last event
	Retry time.Duration // how long to wait before the stream is resumed
}

// Start is the position in a stream of which nothing was read: the backend has named no time.
var Start = Position{Retry: 500 * time.Millisecond}

// Note moves behind an event.
func (p *Position) Note(e wire.Event) {
	if e.HasID {
		p.Last = e.ID
	}
	if e.Retry > 0 {
		p.Retry = min(max(e.Retry, minRetry), maxRetry)
	}
}

// Get opens an event stream, behind the event with the id last if that is not "". An answer that is
// none is a *StatusError.
func (e *Endpoint) Get(ctx context.Context, last string) (*http.Response, error) {
	u := e.url.Load()
	header := e.Header().Clone()
	header.Set("Accept", Events)
	header.Del("Content-Type")
	if last != "" {
		header.Set(wire.HeaderLastEvent, last)
	}
	resp, err := e.do((&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header}).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || MediaType(resp) != Events {
		e.failed(resp)
		return nil, &StatusError{Code: resp.StatusCode}
	}
	return resp, nil
}

// Resume opens a stream again behind the last event, and tries that a few times.
func (e *Endpoint) Resume(ctx context.Context, p *Position) (*http.Response, error) {
	for failures := 0; ; failures++ {
		if err := pace.Sleep(ctx, p.Retry); err != nil {
			return nil, err
		}
		resp, err := e.Get(ctx, p.Last)
		if err == nil || failures == MaxResumes || ctx.Err() != nil {
			return resp, err
		}
		var status *StatusError
		if errors.As(err, &status) && status.Code < 500 {
			return nil, err
		}
	}
}
