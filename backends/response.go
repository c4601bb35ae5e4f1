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
	// AtMost is how many bytes Body has at most, as far as the backend has told; else 0.
	// An Edit that may add some has to be added.
	AtMost int64

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
	all := &limitedBuffer{max: max}
	_, err := io.Copy(all, r.Body)
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

// Head is what has been read of a streamed result: its first bytes, before anything else
// is done with it.
func (r *Response) Head() []byte {
	if s, ok := r.Body.(*resultStream); ok {
		return s.piece
	}
	return nil
}

// Hold reads a streamed result of at most max bytes to its end, so that it is Result.
func (r *Response) Hold(max int64) error {
	if r.Body == nil {
		return nil
	}
	result, err := r.Bytes(max)
	if err != nil {
		return err
	}
	err = r.Close()
	r.Result, r.Body, r.AtMost = result, nil, 0
	return err
}

// Edit changes the result: in memory at once, in a stream on its way.
func (r *Response) Edit(e wire.Edit) {
	if s, ok := r.Body.(*resultStream); ok {
		s.editor = e.Editor()
		return
	}
	r.Result = e.Apply(r.Result)
}

// limitedBuffer collects up to max bytes.
type limitedBuffer struct {
	bytes.Buffer
	max int64
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.max {
		return 0, fmt.Errorf("%w of %d bytes", ErrTooLarge, b.max)
	}
	return b.Buffer.Write(p)
}

// resultStream is the value of "result" in a JSON body that is still arriving. It is
// looked at once, by the editor that passes it on.
type resultStream struct {
	call   *call
	src    io.ReadCloser
	buf    *buffer      // nil once closed
	piece  []byte       // part of buf that was read and not passed on
	editor *wire.Editor // finds the end of the value
	ended  bool         // the value has been passed on
	out    bytes.Buffer // of Read
	err    error
}

// newResultStream goes on behind head, a full buffer in which the result begins at start.
func newResultStream(c *call, src io.ReadCloser, buf *buffer, start int) *resultStream {
	return &resultStream{call: c, src: src, buf: buf, piece: buf.b[start:], editor: wire.Edit{}.Editor()}
}

// fill reads the next piece. The call's clock runs only while it waits for the backend.
func (s *resultStream) fill() error {
	if s.buf == nil {
		return errClosed
	}
	s.call.clock.resume()
	n, err := s.src.Read(s.buf.b)
	s.call.clock.pause()
	s.piece = s.buf.b[:n]
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return s.call.conn.b.failure(s.call.ctx, err, true)
	}
	return nil
}

// pass passes the next piece on; io.EOF behind the last one.
func (s *resultStream) pass(w *countedWriter) error {
	switch {
	case s.err != nil:
		return s.err
	case s.ended:
		return io.EOF
	case len(s.piece) == 0:
		s.err = s.fill()
		return s.err
	}
	n, ended, err := s.editor.Write(w, s.piece)
	s.piece, s.ended = s.piece[n:], ended
	if s.err = err; err != nil && w.err == nil {
		s.err = s.call.conn.b.errorf(Protocol, "result: %w", err)
	}
	return s.err
}

// countedWriter counts what is written to w and keeps its error.
type countedWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *countedWriter) Write(p []byte) (n int, err error) {
	n, c.err = c.w.Write(p)
	c.n += int64(n)
	return n, c.err
}

// WriteTo passes the value on without a copy.
func (s *resultStream) WriteTo(w io.Writer) (int64, error) {
	to := &countedWriter{w: w}
	for {
		if err := s.pass(to); err == io.EOF {
			return to.n, nil
		} else if err != nil {
			return to.n, err
		}
	}
}

func (s *resultStream) Read(p []byte) (int, error) {
	to := &countedWriter{w: &s.out}
	for s.out.Len() == 0 {
		if err := s.pass(to); err != nil {
			return 0, err
		}
	}
	return s.out.Read(p)
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
	s.buf, s.piece = nil, nil
	s.call.finish()
	return nil
}
