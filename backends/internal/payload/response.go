package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Response is the result of a call. Exactly one of Result and Body is set.
type Response struct {
	// Result is the bytes of "result", untouched. It is invalid after Close.
	Result json.RawMessage
	// Body streams the bytes of a result that did not fit one buffer.
	Body *Stream
	// AtMost is how many bytes Body has at most, as far as the backend has announced; else 0.
	// An Edit that may add some has to be added.
	AtMost int64

	held   *Buffer
	closed func() // what Close does last; nil once done
}

// Held is a response whose result lies in held, which it releases; held may be nil.
func Held(result json.RawMessage, held *Buffer) *Response {
	return &Response{Result: result, held: held}
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
