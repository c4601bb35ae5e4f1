package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// drainTime bounds how long a stream may stay open after its response.
	drainTime = time.Second
	// keptAnswer bounds a response on a resumable stream that is read whole before it is passed
	// on, so that the stream can be resumed when it breaks off.
	keptAnswer = 256 << 10
)

// eventReaders pools the readers of single calls, whose buffers may be large.
var eventReaders = sync.Pool{New: func() any { return wire.NewEventReaderSize(nil, 0, 16<<10) }}

// readEvents reads the call's stream until its response. A legacy stream that ends before
// it, after an event with an id, is resumed with Last-Event-ID (SEP-1699).
func (h *httpTransport) readEvents(k *call, resp *http.Response) (*Response, error) {
	pos := endpoint.Start
	for quiet := 0; ; quiet++ {
		before := pos.Last
		answer, err := h.scan(k, resp.Body, &pos)
		if answer != nil || isFinal(err) {
			return answer, err
		}
		if pos.Last != before {
			quiet = 0
		}
		if h.c.Modern || pos.Last == "" || quiet > endpoint.MaxResumes || k.ctx.Err() != nil {
			return nil, h.c.d.Failure(k.ctx, fmt.Errorf("%s: the response stream ended early: %w", k.method, err), true)
		}
		if p, ok := k.sink().(poller); ok {
			p.Polled(pos.Retry)
		}
		if resp, err = h.at.Resume(k.ctx, &pos); err != nil {
			return nil, h.c.d.Failure(k.ctx, fmt.Errorf("%s: resume the response stream: %w", k.method, err), true)
		}
	}
}

// isFinal reports whether err is the outcome of the call, and not the end of its stream.
func isFinal(err error) bool {
	return KindOf(err) != 0 || IsAnswer(err)
}

// scan reads events until the response or the end of the body.
func (h *httpTransport) scan(k *call, body io.ReadCloser, pos *endpoint.Position) (*Response, error) {
	events := eventReaders.Get().(*wire.EventReader)
	events.Reset(body, int(h.c.d.o.MaxMessage))
	resp, err := h.scanEvents(k, &eventBody{h, k, events, body}, pos)
	if resp == nil || resp.Body == nil {
		eventReaders.Put(events)
	}
	return resp, err
}

func (h *httpTransport) scanEvents(k *call, body *eventBody, pos *endpoint.Position) (*Response, error) {
	held := Grab(Large)
	for {
		e, whole, err := body.events.NextPart(held.B[:0])
		if err == nil && !whole {
			var resp *Response
			if resp, e.Data, err = h.largeEvent(k, body, e, held, pos); resp != nil {
				return resp, nil
			}
		}
		if err != nil {
			held.Release()
			return nil, h.broken(body.body, err)
		}
		pos.Note(e)
		m, ok := h.c.message(e)
		switch {
		case ok && m.Method != "":
			h.c.receive(k, m) // the buffer is used for the next event
		case ok && h.c.lookup(m.ID) == k:
			h.drain(k, body.body)
			return k.respond(&m, held)
		case m.Method == "" && m.ID != nil && h.c.lookup(m.ID) == k: // reported by message
			h.drain(k, body.body)
			held.Release()
			return nil, k.Malformed(errors.New("the response is not a valid JSON-RPC message"))
		}
	}
}

// broken closes a body that ended before its response.
func (h *httpTransport) broken(body io.Closer, err error) error {
	body.Close()
	if errors.Is(err, wire.ErrEventTooLarge) {
		return &Error{Backend: h.c.d.name, Kind: TooLarge, Err: err}
	}
	return err
}

// largeEvent returns a response larger than held as a stream, and reads any other event
// whole. A response on a resumable stream is read whole up to keptAnswer bytes.
func (h *httpTransport) largeEvent(k *call, body *eventBody, e wire.Event, held *Buffer, pos *endpoint.Position) (*Response, []byte, error) {
	start, ok := wire.SkimResult(e.Data)
	if ok {
		from, to := jsonscan.Find(e.Data[:start], "id")
		ok = from >= 0 && h.c.lookup(e.Data[from:to]) == k
	}
	if !ok {
		all, err := readRest(e.Data, body.events, h.c.d.o.MaxMessage)
		return nil, all, err
	}
	if pos.Last == "" {
		return &Response{Body: NewStream(k, k.clock, body, held, start, len(e.Data))}, nil, nil
	}
	more := Grab(keptAnswer)
	n := copy(more.B, e.Data)
	m, err := io.ReadFull(body.events, more.B[n:])
	n += m
	switch {
	case err == nil:
		pos.Note(e)
		held.Release()
		return &Response{Body: NewStream(k, k.clock, body, more, start, n)}, nil, nil
	case body.events.Ended():
		err = nil
	}
	return nil, more.B[:n], err
}

// readRest returns the whole data of an event whose start is part, up to max bytes.
func readRest(part []byte, rest io.Reader, max int64) ([]byte, error) {
	all := bytes.NewBuffer(bytes.Clone(part))
	n, err := all.ReadFrom(io.LimitReader(rest, max-int64(len(part))+1))
	if err == nil && n+int64(len(part)) > max {
		err = fmt.Errorf("%w of %d bytes", wire.ErrEventTooLarge, max)
	}
	return all.Bytes(), err
}

// eventBody reads the data of a large event.
type eventBody struct {
	h      *httpTransport
	call   *call
	events *wire.EventReader
	body   io.ReadCloser
}

func (b *eventBody) Read(p []byte) (int, error) { return b.events.Read(p) }

// Close closes the stream; after the whole event it drains it first.
func (b *eventBody) Close() error {
	if b.events.Ended() {
		b.h.drain(b.call, b.body)
	} else {
		b.body.Close()
	}
	b.events.Reset(nil, 0)
	eventReaders.Put(b.events)
	return nil
}

// message returns the message of an event; false for other events. Requests and
// notifications, which are forwarded, are checked for valid JSON.
func (c *Conn) message(e wire.Event) (wire.Message, bool) {
	if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
		return wire.Message{}, false
	}
	m, err := wire.Skim(e.Data)
	if err == nil && m.Method != "" {
		m, err = wire.Parse(e.Data)
	}
	if err != nil {
		c.d.logMalformed(e.Data, err)
		return m, false
	}
	return m, true
}

// drain reads a stream to its end after the response, in the background, so that its
// connection can be used again.
func (h *httpTransport) drain(k *call, body io.ReadCloser) {
	k.lingering = h.c.d.o.Spawn(func() {
		t := time.AfterFunc(drainTime, func() { k.clock.Cancel(errAnswered) })
		defer t.Stop()
		endpoint.Discard(body)
		k.clock.Cancel(errAnswered)
	})
	if !k.lingering {
		body.Close()
	}
}

// scanAll delivers a stream's messages until it ends.
func (h *httpTransport) scanAll(body io.ReadCloser, pos *endpoint.Position) {
	defer body.Close()
	events := wire.NewEventReader(body, int(h.c.d.o.MaxMessage))
	for {
		e, err := events.Next()
		if err != nil {
			return
		}
		pos.Note(e)
		if m, ok := h.c.message(e); ok && m.Method != "" {
			h.c.receive(nil, m)
		}
	}
}
