package backends

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Response is the result of a call. Exactly one of Result and Body is set.
type Response struct {
	// Result is the bytes of "result", untouched. It is invalid after Close.
	Result json.RawMessage
	// Body streams the bytes of a result that did not fit one buffer.
	Body io.ReadCloser

	held     *buffer
	giveBack func() // what a streamed answer holds on to; nil once done
}

// ErrTooLarge is wrapped by the error of Response.Bytes for a result over the limit.
var ErrTooLarge = errors.New("result is larger than the limit")

// Bytes returns the whole result, whichever way it came. The bytes of a streamed result
// are the caller's; those of Result live until Close.
func (r *Response) Bytes(max int64) ([]byte, error) {
	if r.Body == nil {
		if int64(len(r.Result)) > max {
			return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, max)
		}
		return r.Result, nil
	}
	var all bytes.Buffer
	n, err := io.Copy(&all, io.LimitReader(r.Body, max+1))
	if err == nil && n > max {
		err = fmt.Errorf("%w of %d bytes", ErrTooLarge, max)
	}
	return all.Bytes(), err
}

// Close ends the response and gives its buffers back. It may be called more than once.
func (r *Response) Close() error {
	if r.held != nil {
		r.held.release()
		r.held, r.Result = nil, nil
	}
	if r.Body == nil {
		return nil
	}
	err := r.Body.Close()
	if r.giveBack != nil {
		r.giveBack()
		r.giveBack = nil
	}
	return err
}

// resultStream is the value of "result" in a JSON body that is still arriving.
type resultStream struct {
	call    *call
	src     io.ReadCloser
	buf     *buffer // nil once closed
	pending []byte  // part of buf that was read and not handed out
	scan    wire.ValueScanner
	ended   bool // the value is complete
	err     error
}

// newResultStream goes on behind head, a full buffer in which the result begins at start.
func newResultStream(c *call, src io.ReadCloser, buf *buffer, start int) (*resultStream, error) {
	s := &resultStream{call: c, src: src, buf: buf}
	return s, s.take(buf.b[start:])
}

// take cuts what belongs to the value off p.
func (s *resultStream) take(p []byte) error {
	n, done, err := s.scan.Scan(p)
	if err != nil {
		return s.call.conn.b.errorf(Protocol, "result: %w", err)
	}
	s.pending, s.ended = p[:n], done
	return nil
}

// fill reads the next piece. The call's clock runs only while it waits for the backend.
func (s *resultStream) fill() error {
	switch {
	case s.err != nil:
		return s.err
	case s.buf == nil:
		return errClosed
	case s.ended:
		return io.EOF
	}
	s.call.clock.resume()
	n, err := s.src.Read(s.buf.b)
	s.call.clock.pause()
	if n > 0 {
		s.err = s.take(s.buf.b[:n])
		return s.err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.err = s.call.conn.b.failure(s.call.ctx, err, true)
	}
	return s.err
}

func (s *resultStream) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// WriteTo lets io.Copy write straight from the read buffer.
func (s *resultStream) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		for len(s.pending) == 0 {
			if err := s.fill(); err == io.EOF {
				return total, nil
			} else if err != nil {
				return total, err
			}
		}
		n, err := w.Write(s.pending)
		total += int64(n)
		if err != nil {
			return total, err
		}
		s.pending = nil
	}
}

// Close ends the stream. When the result was read to its end, so is the body, and the
// connection can be used again.
func (s *resultStream) Close() error {
	if s.buf == nil {
		return nil
	}
	if s.ended {
		s.call.clock.resume()
		io.ReadFull(s.src, s.buf.b) // the rest of the envelope: a bracket and perhaps an id
	}
	s.src.Close()
	s.buf.release()
	s.buf, s.pending = nil, nil
	s.call.finish()
	return nil
}
