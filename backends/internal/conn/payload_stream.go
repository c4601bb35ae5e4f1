package conn

import (
	"cmp"
	"io"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Call is the call that a Stream is the result of.
type Call interface {
	// Broken returns the error of a result whose rest could not be read because of err.
	Broken(err error) error
	// Malformed returns the error of a result that is not valid JSON.
	Malformed(err error) error
	// Finish ends the call.
	Finish()
}

// pieceSize is the size of a read from a streamed result. Each piece is copied from the socket,
// scanned and copied to the client; measured, 32 KiB, which fits the L1 cache, takes a tenth less
// time for that than 64 KiB.
const pieceSize = 32 << 10

// Stream is the value of "result" in a JSON body that is still being received. WriteTo and
// WriteWith pass its bytes through an editor, which scans them once, finds the end of the
// value, and makes the changes of Response.Edit.
type Stream struct {
	call   Call
	clock  *Clock
	src    io.ReadCloser
	buf    *Buffer          // nil once closed
	piece  []byte           // part of buf that was read and not forwarded yet
	editor *jsonscan.Editor // finds the end of the value
	ended  bool             // the whole value has been forwarded
	err    error
}

// NewStream returns the stream of a result that begins at buf.B[start:n] and continues
// in src. From now on the call's clock runs only while src is read.
func NewStream(c Call, clock *Clock, src io.ReadCloser, buf *Buffer, start, n int) *Stream {
	clock.Pause()
	return &Stream{call: c, clock: clock, src: src, buf: buf, piece: buf.B[start:n], editor: jsonscan.Edit{}.Editor()}
}

// head fills the buffer before anything is forwarded. A read error is reported by the next
// read.
func (s *Stream) head() []byte {
	if s.buf == nil {
		return nil
	}
	s.clock.Resume()
	defer s.clock.Pause()
	free := s.buf.B[len(s.buf.B)-cap(s.piece)+len(s.piece):]
	n, _ := io.ReadFull(s.src, free)
	s.piece = s.piece[:len(s.piece)+n]
	return s.piece
}

// fill reads the next piece.
func (s *Stream) fill() error {
	if s.buf == nil {
		return io.ErrClosedPipe
	}
	s.clock.Resume()
	n, err := s.src.Read(s.buf.B[:min(len(s.buf.B), pieceSize)])
	s.clock.Pause()
	s.piece = s.buf.B[:n]
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return s.call.Broken(err)
	}
	return nil
}

// pass forwards the next piece; io.EOF after the last one.
func (s *Stream) pass(w *lastWriter) error {
	switch {
	case s.err != nil:
		return s.err
	case s.ended:
		return io.EOF
	case len(s.piece) == 0:
		w.flush() // fill overwrites the buffer
		if s.err = w.err; s.err == nil {
			s.err = s.fill()
		}
		return s.err
	}
	n, ended, err := s.editor.Write(w, s.piece)
	s.piece, s.ended = s.piece[n:], ended
	if s.err = err; err != nil && w.err == nil {
		s.err = s.call.Malformed(err)
	}
	return s.err
}

// lastWriter delays each write until the next one, so that bytes can be appended to the
// last. It counts the bytes written and keeps the error of w.
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

// WriteTo writes the value to w without a copy.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	to := &lastWriter{w: w}
	err := s.passAll(to)
	to.flush()
	return to.n, cmp.Or(err, to.err)
}

// WriteWith writes the value, and after it the result of end for the value's length in
// bytes. Both are one write if the unused bytes after the value in the buffer leave room.
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

// passAll forwards all pieces up to the end of the value.
func (s *Stream) passAll(to *lastWriter) error {
	for {
		if err := s.pass(to); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Close closes the stream. When the whole result was read, it reads the rest of the body
// first, so that the connection can be used again.
func (s *Stream) Close() error {
	if s.buf == nil {
		return nil
	}
	if s.ended {
		s.clock.Resume()
		io.ReadFull(s.src, s.buf.B) // the rest of the envelope: a bracket and perhaps an id
	}
	s.src.Close()
	s.buf.Release()
	s.buf, s.piece = nil, nil
	s.call.Finish()
	return nil
}
