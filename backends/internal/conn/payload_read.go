package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ReadHead reads the body of an HTTP response into a buffer until its end, or until Large bytes are
// read, and complete is then false. For a body with a larger Content-Length it returns earlier, once
// it has more than Small bytes and the result begins in them.
func ReadHead(resp *http.Response) (held *Buffer, n int, complete bool, err error) {
	size := Small
	if resp.ContentLength >= Small {
		size = Large
	}
	held = Grab(size)
	early := resp.ContentLength > Large
	for {
		m, err := resp.Body.Read(held.B[n:])
		n += m
		if err == io.EOF {
			return held, n, true, nil
		}
		if err != nil {
			return held, n, false, err
		}
		if early && n > Small {
			if _, ok := wire.SkimResult(held.B[:n]); ok {
				return held, n, false, nil
			}
			early = false
		}
		if n < len(held.B) {
			continue
		}
		if len(held.B) == Large {
			return held, n, false, nil
		}
		held = held.grow(n, Large)
	}
}

// errLongLine is the error of a line over the limit.
var errLongLine = errors.New("a line on stdout is larger than the limit")

// ReadLine reads up to a line feed into a buffer, max bytes at most. The line has no leading and trailing
// white space.
func ReadLine(r *bufio.Reader, max int64) (line []byte, held *Buffer, err error) {
	held = Grab(Small)
	n := 0
	for {
		part, err := r.ReadSlice('\n')
		if int64(n+len(part)) > max {
			held.Release()
			return nil, nil, fmt.Errorf("%w of %d bytes", errLongLine, max)
		}
		held = held.grow(n, n+len(part))
		n += copy(held.B[n:], part)
		switch err {
		case nil:
			return trimSpace(held.B[:n]), held, nil
		case bufio.ErrBufferFull:
		default:
			held.Release()
			return nil, nil, err
		}
	}
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}
