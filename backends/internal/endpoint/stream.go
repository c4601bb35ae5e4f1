package endpoint

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
	// MaxResumes bounds the resumptions of a stream that breaks without new events.
	MaxResumes = 10
)

// Position is the position in an event stream from which it is resumed.
type Position struct {
	Last  string        // id of the last event
	Retry time.Duration // the wait before the stream is resumed
}

// Start is the position before the first event.
var Start = Position{Retry: 500 * time.Millisecond}

// Note moves the position past an event.
func (p *Position) Note(e wire.Event) {
	if e.HasID {
		p.Last = e.ID
	}
	if e.Retry > 0 {
		p.Retry = min(max(e.Retry, minRetry), maxRetry)
	}
}

// Get opens an event stream, after the event with the id last if that is not "". A response that is not
// an event stream is a *StatusError.
func (e *Endpoint) Get(ctx context.Context, last string) (*http.Response, error) {
	u := e.at()
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

// Resume opens a stream again after the last event. It retries up to MaxResumes times, but not after a 4xx
// status.
func (e *Endpoint) Resume(ctx context.Context, p *Position) (*http.Response, error) {
	for failures := 0; ; failures++ {
		if err := Sleep(ctx, p.Retry); err != nil {
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
