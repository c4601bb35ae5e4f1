package backends

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Response is the result of a call. Exactly one of Result and Body is set.
type Response struct {
	// Result is the bytes of "result", untouched. It is invalid after Close.
	Result json.RawMessage
	// Body streams the bytes of a result that did not fit one buffer.
	Body *Stream
	// AtMost is how many bytes Body has at most, as far as the backend has told; else 0.
	// An Edit that may add some has to be added.
	AtMost int64

	held   *buffer
	closed func() // what Close does last; nil once done
}

// OnClose has Close call f, once, after what it did before: what a response needs until
// its last byte has been passed on ends there, and not when the call returns.
func (r *Response) OnClose(f func()) {
	before := r.closed
	r.closed = func() {
		if before != nil {
			before()
		}
		f()
	}
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
	_, err := r.Body.WriteTo(all)
	return all.Bytes(), err
}

// Close ends the response and gives its buffers back. It may be called more than once.
func (r *Response) Close() error {
	if r.held != nil {
		r.held.release()
		r.held, r.Result = nil, nil
	}
	var err error
	if r.Body != nil {
		err = r.Body.Close()
	}
	if closed := r.closed; closed != nil {
		r.closed = nil
		closed()
	}
	return err
}

// Head is the beginning of a streamed result, as much of it as one buffer holds, before
// anything else is done with it.
func (r *Response) Head() []byte {
	if r.Body == nil {
		return nil
	}
	return r.Body.head()
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
func (r *Response) Edit(e jsonscan.Edit) {
	if r.Body != nil {
		r.Body.editor = e.Editor()
		return
	}
	r.Result = e.Apply(r.Result)
}

// limitedBuffer collects up to max bytes, in pieces: a large result is copied once, and
// needs no more room than twice its size.
type limitedBuffer struct {
	pieces [][]byte
	size   int
	max    int64
}

// largestPiece bounds the pieces, which are as large as all before.
const largestPiece = 1 << 20

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.size+len(p)) > b.max {
		return 0, fmt.Errorf("%w of %d bytes", ErrTooLarge, b.max)
	}
	n := len(p)
	if last := len(b.pieces) - 1; last >= 0 {
		fits := min(len(p), cap(b.pieces[last])-len(b.pieces[last]))
		b.pieces[last] = append(b.pieces[last], p[:fits]...)
		p = p[fits:]
	}
	if len(p) > 0 {
		b.pieces = append(b.pieces, append(make([]byte, 0, max(len(p), min(b.size, largestPiece))), p...))
	}
	b.size += n
	return n, nil
}

// Bytes returns everything that was written.
func (b *limitedBuffer) Bytes() []byte {
	if len(b.pieces) == 1 {
		return b.pieces[0]
	}
	return bytes.Join(b.pieces, nil)
}

// Stream is the value of "result" in a JSON body that is still arriving. Its bytes are
// scanned once, by the editor that WriteTo and WriteWith pass them through: it finds where
// the value ends, and makes the changes of Response.Edit.
type Stream struct {
	call   *call
	src    io.ReadCloser
	buf    *buffer          // nil once closed
	piece  []byte           // part of buf that was read and not passed on
	editor *jsonscan.Editor // finds the end of the value
	ended  bool             // the value has been passed on
	err    error
}

// newStream begins with the result at start of what buf holds, n bytes, and goes on
// with src. From here on the call's clock runs only while the backend is waited for.
func newStream(c *call, src io.ReadCloser, buf *buffer, start, n int) *Stream {
	c.clock.Pause()
	return &Stream{call: c, src: src, buf: buf, piece: buf.b[start:n], editor: jsonscan.Edit{}.Editor()}
}

// head fills the buffer before anything is passed on. An error that ends it early comes
// again to who reads on.
func (s *Stream) head() []byte {
	if s.buf == nil {
		return nil
	}
	s.call.clock.Resume()
	defer s.call.clock.Pause()
	free := s.buf.b[len(s.buf.b)-cap(s.piece)+len(s.piece):]
	n, _ := io.ReadFull(s.src, free)
	s.piece = s.piece[:len(s.piece)+n]
	return s.piece
}

// fill reads the next piece.
func (s *Stream) fill() error {
	if s.buf == nil {
		return errClosed
	}
	s.call.clock.Resume()
	n, err := s.src.Read(s.buf.b)
	s.call.clock.Pause()
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
func (s *Stream) pass(w *lastWriter) error {
	switch {
	case s.err != nil:
		return s.err
	case s.ended:
		return io.EOF
	case len(s.piece) == 0:
		w.flush() // the buffer is needed again
		if s.err = w.err; s.err == nil {
			s.err = s.fill()
		}
		return s.err
	}
	n, ended, err := s.editor.Write(w, s.piece)
	s.piece, s.ended = s.piece[n:], ended
	if s.err = err; err != nil && w.err == nil {
		s.err = s.call.conn.b.errorf(Protocol, "result: %w", err)
	}
	return s.err
}

// lastWriter holds the last write back, so that something can come behind it. It counts
// what is written to it and keeps the error of w.
type lastWriter struct {
	w    io.Writer
	last []byte
	n    int64
	err  error
}

func (l *lastWriter) Write(p []byte) (n int, err error) {
	l.flush()
	l.last = p
	l.n += int64(len(p))
	return len(p), l.err
}

func (l *lastWriter) flush() {
	if l.err == nil && len(l.last) > 0 {
		_, l.err = l.w.Write(l.last)
	}
	l.last = nil
}

// WriteTo passes the value on without a copy.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	to := &lastWriter{w: w}
	err := s.passAll(to)
	to.flush()
	return to.n, cmp.Or(err, to.err)
}

// WriteWith passes the value on, and behind it what end returns for its length in bytes:
// in the same write if the bytes behind the value, which nobody wants, leave the place.
func (s *Stream) WriteWith(w io.Writer, end func(n int64) ([]byte, error)) error {
	to := &lastWriter{w: w}
	err := s.passAll(to)
	if err == nil {
		var behind []byte
		behind, err = end(to.n)
		if jsonscan.Adjacent(to.last, s.piece) && len(behind) <= len(s.piece) {
			to.last = append(to.last, behind...)
		} else {
			to.Write(behind)
		}
	}
	to.flush()
	return cmp.Or(err, to.err)
}

// passAll passes on all pieces up to the end of the value.
func (s *Stream) passAll(to *lastWriter) error {
	for {
		if err := s.pass(to); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Close ends the stream. When the result was read to its end, so is the body, and the
// connection can be used again.
func (s *Stream) Close() error {
	if s.buf == nil {
		return nil
	}
	if s.ended {
		s.call.clock.Resume()
		io.ReadFull(s.src, s.buf.b) // the rest of the envelope: a bracket and perhaps an id
	}
	s.src.Close()
	s.buf.release()
	s.buf, s.piece = nil, nil
	s.call.finish()
	return nil
}
