package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// firstRetry is how long to wait before a stream is resumed when the backend has
	// not said it.
	firstRetry = 500 * time.Millisecond
	minRetry   = 20 * time.Millisecond
	maxRetry   = 30 * time.Second
	// drainTime is how long an answered stream may take to end by itself.
	drainTime = time.Second
	// maxResumes ends a call whose stream keeps breaking without a word.
	maxResumes = 10
)

// eventReaders are kept for the streams of single calls.
var eventReaders = sync.Pool{New: func() any { return wire.NewEventReader(nil, 0) }}

// position is where in an event stream we are, to resume it.
type position struct {
	last  string // id of the last event
	retry time.Duration
}

func (p *position) note(e wire.Event) {
	if e.HasID {
		p.last = e.ID
	}
	if e.Retry > 0 {
		p.retry = min(max(e.Retry, minRetry), maxRetry)
	}
}

// readEvents reads the call's stream until its answer. A legacy stream that ends before
// it, and has said where it was, is resumed (SEP-1699).
func (h *httpLink) readEvents(k *call, resp *http.Response) (*Response, error) {
	pos := position{retry: firstRetry}
	for quiet := 0; ; quiet++ {
		before := pos.last
		answer, err := h.scan(k, resp.Body, &pos)
		if answer != nil || isFinal(err) {
			return answer, err
		}
		if pos.last != before {
			quiet = 0
		}
		if h.c.modern || pos.last == "" || quiet > maxResumes {
			return nil, h.c.b.failure(k.ctx, fmt.Errorf("%s: the answer's stream ended early: %w", k.method, err), true)
		}
		if p, ok := k.sink().(Poller); ok {
			p.Polled(pos.retry)
		}
		if resp, err = h.resume(k.ctx, &pos); err != nil {
			return nil, h.c.b.failure(k.ctx, fmt.Errorf("%s: resume the answer's stream: %w", k.method, err), true)
		}
	}
}

// isFinal reports whether err is the call's answer, and not the end of its stream.
func isFinal(err error) bool {
	return kindOf(err) != 0 || isAnswer(err)
}

// scan reads events until the answer or the end of the body.
func (h *httpLink) scan(k *call, body io.ReadCloser, pos *position) (*Response, error) {
	events := eventReaders.Get().(*wire.EventReader)
	events.Reset(body, int(h.c.b.maxMessage))
	defer eventReaders.Put(events)
	for {
		e, err := events.Next()
		if err != nil {
			body.Close()
			if errors.Is(err, wire.ErrEventTooLarge) {
				return nil, &Error{Backend: h.c.b.name, Kind: TooLarge, Err: err}
			}
			return nil, err
		}
		pos.note(e)
		if m, ok := h.c.message(e); ok && m.Method != "" {
			h.c.receive(k, m)
		} else if ok && h.c.lookup(m.ID) == k {
			h.drain(k, body)
			return answered(&m, nil)
		}
	}
}

// message takes the frame out of an event. What goes on to a client as a message of its
// own is checked for being JSON.
func (c *conn) message(e wire.Event) (wire.Message, bool) {
	if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
		return wire.Message{}, false
	}
	m, err := wire.Skim(e.Data)
	if err == nil && m.Method != "" {
		m, err = wire.Parse(e.Data)
	}
	if err != nil {
		c.b.junk(e.Data, err)
		return m, false
	}
	return m, true
}

// drain lets an answered stream end by itself, so that its connection can be used
// again, without making the caller wait.
func (h *httpLink) drain(k *call, body io.ReadCloser) {
	k.lingering = h.c.b.spawn(func() {
		t := time.AfterFunc(drainTime, k.clock.expire)
		defer t.Stop()
		discard(body)
		k.clock.cancel(context.Canceled)
	})
	if !k.lingering {
		body.Close()
	}
}

// resume opens the stream again behind the last event.
func (h *httpLink) resume(ctx context.Context, pos *position) (*http.Response, error) {
	for failures := 0; ; failures++ {
		if err := sleep(ctx, pos.retry); err != nil {
			return nil, err
		}
		resp, err := h.get(ctx, pos.last)
		if err == nil || failures == maxResumes || ctx.Err() != nil {
			return resp, err
		}
		var status *statusError
		if errors.As(err, &status) && status.code < 500 {
			return nil, err
		}
	}
}

// get opens an event stream.
func (h *httpLink) get(ctx context.Context, last string) (*http.Response, error) {
	u := h.url.Load()
	header := h.header.Load().Clone()
	header.Set("Accept", contentEvents)
	header.Del("Content-Type")
	if last != "" {
		header.Set(wire.HeaderLastEvent, last)
	}
	r := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header}).WithContext(ctx)
	resp, err := h.c.b.http.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != contentEvents {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		resp.Body.Close()
		return nil, &statusError{code: resp.StatusCode, text: brief(body)}
	}
	return resp, nil
}

// follow keeps the stream on which a legacy backend sends what belongs to no call.
func (h *httpLink) follow() {
	pos := position{retry: firstRetry}
	for h.c.ctx.Err() == nil {
		resp, err := h.get(h.c.ctx, pos.last)
		var status *statusError
		switch {
		case err == nil:
			h.scanAll(resp.Body, &pos)
		case errors.As(err, &status) && status.code == http.StatusNotFound && h.id.Load() != nil:
			h.c.fail(errSessionGone)
			return
		case errors.As(err, &status) && status.code < 500:
			return // 405: the backend has no such stream
		}
		h.c.b.suspect()
		sleep(h.c.ctx, jittered(pos.retry))
	}
}

// scanAll delivers a stream's messages until it ends.
func (h *httpLink) scanAll(body io.ReadCloser, pos *position) {
	defer body.Close()
	events := wire.NewEventReader(body, int(h.c.b.maxMessage))
	for {
		e, err := events.Next()
		if err != nil {
			return
		}
		pos.note(e)
		if m, ok := h.c.message(e); ok && m.Method != "" {
			h.c.receive(nil, m)
		}
	}
}
