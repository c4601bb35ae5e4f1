package edge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	prefaceSize = 256
	// directBytes is the size from which a piece is written directly, without buffering.
	directBytes = 16 << 10
	// partBytes is how much of a large result is buffered for a piece.
	partBytes = 4 << 10
)

// eventWriter writes a stream to one HTTP connection.
type eventWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	buf  []byte
	turn int
}

// Pump writes the events behind the one numbered after, or, if that is negative, those that were not read yet, until
// the stream ends, the client disconnects (done), or another connection takes over the stream. With prime it begins
// with an event that has only an id to resume from, if the stream is resumable.
func (s *stream) Pump(w http.ResponseWriter, after int, prime bool, done <-chan struct{}) error {
	return startEvents(w, s, after, prime).pump(s, done)
}

// startEvents sends the headers of an event stream, and the event to resume from.
func startEvents(w http.ResponseWriter, s *stream, after int, prime bool) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &eventWriter{w: w, rc: http.NewResponseController(w), buf: make([]byte, 0, prefaceSize)}
	var next int
	e.turn, next = s.attach(after)
	if prime && s.resumable {
		e.buf = append(append(append(e.buf, "id: "...), s.eventID(next-1)...), "\ndata: \n\n"...)
	} else {
		e.buf = append(e.buf, ": stream\n\n"...)
	}
	return e
}

// errTakenOver ends a pump whose stream another connection reads now, or whose client was told to reconnect.
var errTakenOver = errors.New("stream continues on another connection")

// pump writes events until the stream ends, the client disconnects (done), or another connection takes over the stream.
func (e *eventWriter) pump(s *stream, done <-chan struct{}) (err error) {
	defer func() {
		var timeout net.Error
		s.detach(e.turn, errors.As(err, &timeout) && timeout.Timeout())
	}()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	if err := e.flush(); err != nil {
		return err
	}
	for {
		pieces, more, retry := s.take(e.turn)
		for _, p := range pieces {
			if err := e.write(s, p); err != nil {
				return err
			}
		}
		if retry > 0 {
			e.buf = append(strconv.AppendInt(append(e.buf, "retry: "...), retry.Milliseconds(), 10), "\n\n"...)
		}
		if err := e.flush(); err != nil {
			return err
		}
		switch {
		case !more && s.isTurn(e.turn):
			return nil
		case !more:
			return errTakenOver
		case len(pieces) > 0:
			continue
		}
		select {
		case <-s.wake:
		case <-tick.C:
			e.buf = append(e.buf, ": ping\n\n"...)
		case <-done:
			return errors.New("client closed the stream")
		}
	}
}

// write buffers a piece, or writes it with what was buffered before it.
func (e *eventWriter) write(s *stream, p piece) error {
	if p.start {
		if id := s.eventID(p.seq); id != "" {
			e.buf = append(append(append(e.buf, "id: "...), id...), '\n')
		}
		e.buf = append(e.buf, "event: message\ndata: "...)
	}
	data := wire.Line(p.data)
	if len(data) < directBytes {
		e.buf = append(e.buf, data...)
	} else {
		if err := e.put(e.buf); err != nil {
			return err
		}
		e.buf = e.buf[:0]
		if err := e.put(data); err != nil {
			return err
		}
	}
	if p.end {
		e.buf = append(e.buf, "\n\n"...)
	}
	return nil
}

func (e *eventWriter) put(b []byte) error {
	_, err := e.w.Write(b)
	return err
}

func (e *eventWriter) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	err := e.put(e.buf)
	e.buf = e.buf[:0]
	if err == nil {
		err = e.rc.Flush()
	}
	return err
}

// Finish sends the response as one event. The caller ends the stream.
func (s *stream) Finish(ctx context.Context, frame []byte) {
	s.beginResult()
	s.sendPart(ctx, piece{data: frame, start: true, end: true})
}

// FinishFrom sends the response to the request with this id; the result is sent in pieces as it is read and consumed.
// After an error the caller calls Fail.
func (s *stream) FinishFrom(ctx context.Context, id json.RawMessage, result io.WriterTo) error {
	s.beginResult()
	w := &resultWriter{ctx: ctx, s: s}
	w.buf = append(append(append(w.buf, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	if _, err := result.WriteTo(w); err != nil {
		return err
	}
	return w.end()
}

// resultWriter splits what is written to it into pieces.
type resultWriter struct {
	ctx    context.Context
	s      *stream
	buf    []byte
	inside bool // a piece was sent
}

func (w *resultWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), takeBytes)
		w.buf = append(w.buf, rest[:n]...)
		rest = rest[n:]
		if len(w.buf) < partBytes {
			continue
		}
		if err := w.send(false); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// end writes the end of the frame.
func (w *resultWriter) end() error {
	w.buf = append(w.buf, '}')
	return w.send(true)
}

func (w *resultWriter) send(end bool) error {
	p := piece{data: w.buf, start: !w.inside, end: end}
	w.buf, w.inside = nil, true
	return w.s.sendPart(w.ctx, p)
}
