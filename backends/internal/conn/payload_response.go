package conn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Response is the result of a call. Exactly one of Result and Body is set.
type Response struct {
	// Result is the bytes of "result", unchanged. It is invalid after Close.
	Result json.RawMessage
	// Body streams the bytes of a result that did not fit one buffer.
	Body *Stream
	// AtMost bounds the bytes of Body, by the Content-Length of the response; 0 when that is not
	// known. It does not include bytes that an Edit adds.
	AtMost int64

	held   *Buffer
	closed func() // called at the end of Close; nil afterwards
}

// pooled returns a response whose result is in the buffer held, which Close releases; held may be nil.
func pooled(result json.RawMessage, held *Buffer) *Response {
	return &Response{Result: result, held: held}
}

// OnClose makes Close call f, once, after the functions of earlier OnClose calls. It is for
// what a response needs until its last byte is forwarded.
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

// Bytes returns the whole result, of at most max bytes. The bytes of a streamed result are
// the caller's; those of Result are valid until Close.
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

// Close ends the response and releases its buffers. It may be called more than once.
func (r *Response) Close() error {
	if r.held != nil {
		r.held.Release()
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

// Head reads and returns the beginning of a streamed result, as much as fits one buffer. It
// must be called before anything else is read.
func (r *Response) Head() []byte {
	if r.Body == nil {
		return nil
	}
	return r.Body.head()
}

// ReadAll reads a streamed result of at most max bytes to its end, so that it is Result.
func (r *Response) ReadAll(max int64) error {
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

// Edit changes the result: at once in memory, or while it is streamed.
func (r *Response) Edit(e jsonscan.Edit) {
	if r.Body != nil {
		r.Body.editor = e.Editor()
		return
	}
	r.Result = e.Apply(r.Result)
}

// limitedBuffer collects up to max bytes, in pieces, so that a large result is copied once
// and needs at most twice its size.
type limitedBuffer struct {
	pieces [][]byte
	size   int
	max    int64
}

// largestPiece bounds the pieces, each of which is as large as all before it.
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

// Bytes returns all bytes written.
func (b *limitedBuffer) Bytes() []byte {
	if len(b.pieces) == 1 {
		return b.pieces[0]
	}
	return bytes.Join(b.pieces, nil)
}
