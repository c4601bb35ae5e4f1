package edge

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Request bodies. A sender costs what it has sent, never what it announces: a body
// begins in a pooled buffer and doubles while bytes come. Everything over that buffer is
// booked on one account for the whole process until the body is given up, which for a
// call that waits for its client's answer is when the call ends.

const (
	// defaultBody is the largest request body where the configuration does not say.
	defaultBody = 4 << 20
	// keptBody is the largest buffer that is kept for the next request.
	keptBody = 64 << 10
	// maxBodies bounds the bodies of more than keptBody that are held at one time.
	maxBodies = 256 << 20
	// bodyTime is how long a body may stand still, and how long it may take beyond what
	// bodyRate allows.
	bodyTime = 30 * time.Second
	// bodyRate is how many bytes a second a body must bring on average.
	bodyRate = 1 << 10
	// busyRetry is the Retry-After of a refusal for want of room.
	busyRetry = "5"
)

// Held is what clients together can make the edges hold, as far as it is much: bodies
// and streams.
const Held = maxBodies + streamsTotal + replayTotal

var (
	errTooLarge = errors.New("request body is larger")
	errBusy     = errors.New("the endpoint holds as many large requests as it can; try again in a moment")
)

// account counts bytes that are held up to a limit.
type account struct {
	limit int64
	held  atomic.Int64
}

// take books n bytes, unless that exceeds the limit.
func (a *account) take(n int64) bool {
	if a.held.Add(n) <= a.limit {
		return true
	}
	a.held.Add(-n)
	return false
}

// A Buffer is a reusable request body or answer.
type Buffer struct {
	b    []byte
	kept bool // something outlives the request and still reads it, and gives it back

	account *account
	booked  int64 // on account
}

var buffers = sync.Pool{New: func() any { return &Buffer{b: make([]byte, 0, 4<<10)} }}

func takeBuffer() *Buffer { return buffers.Get().(*Buffer) }

// free gives the buffer back, unless something keeps it.
func (b *Buffer) free() {
	if !b.kept {
		b.Settle()
	}
	if cap(b.b) <= keptBody && !b.kept {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// Keep says that something outlives the request and still reads the buffer: it calls Settle
// when it has done so.
func (b *Buffer) Keep() { b.kept = true }

// Size is what the buffer holds in memory.
func (b *Buffer) Size() int64 { return int64(cap(b.b)) }

// Settle takes the body off the account.
func (b *Buffer) Settle() {
	if b.booked > 0 {
		b.account.held.Add(-b.booked)
		b.booked = 0
	}
}

// read takes a request's body of at most so many bytes. It ends a body that stands still, and one that trickles.
func (b *Buffer) read(w http.ResponseWriter, r *http.Request, most int64, a *account) error {
	tooLarge := func() error { return fmt.Errorf("%w than %d bytes", errTooLarge, most) }
	if r.ContentLength > most {
		return tooLarge()
	}
	b.account = a
	rc := http.NewResponseController(w)
	began := time.Now()
	last := began.Add(bodyTime)
	defer rc.SetReadDeadline(time.Time{})
	for {
		if len(b.b) == cap(b.b) {
			if err := b.grow(r.ContentLength); err != nil {
				return err
			}
		}
		rc.SetReadDeadline(last)
		n, err := r.Body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if int64(len(b.b)) > most {
			return tooLarge()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		last = bodyDeadline(began, time.Now(), len(b.b))
	}
}

// bodyDeadline is when the next bytes of a body must have come that began some time ago
// and brought n bytes until now.
func bodyDeadline(began, now time.Time, n int) time.Time {
	still, slow := now.Add(bodyTime), began.Add(bodyTime+time.Duration(n)*time.Second/bodyRate)
	if slow.Before(still) {
		return slow
	}
	return still
}

// grow makes room for more, as much as is announced where that is little.
func (b *Buffer) grow(announced int64) error {
	size := 2 * cap(b.b)
	switch {
	case announced >= 0 && announced < keptBody:
		size = int(announced) + 1
	case size < keptBody:
		size = keptBody
	case announced >= 0:
		size = min(size, int(announced)+1)
	}
	size = max(size, len(b.b)+1)
	if size > keptBody {
		if !b.account.take(int64(size) - b.booked) {
			return errBusy
		}
		b.booked = int64(size)
	}
	more := make([]byte, len(b.b), size)
	copy(more, b.b)
	b.b = more
	return nil
}

func refuseBody(w http.ResponseWriter, err error) {
	status, code := http.StatusBadRequest, wire.ParseError
	switch {
	case errors.Is(err, errTooLarge):
		status, code = http.StatusRequestEntityTooLarge, wire.InvalidRequest
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
		err = errors.New("the body did not come within " + bodyTime.String())
	case errors.Is(err, errBusy):
		refuseBusy(w, nil, err)
		return
	}
	w.Header().Set("Connection", "close")
	refuse(w, status, nil, wire.Errorf(code, "read request: %v", err))
}

// refuseBusy answers a request for which there is no room now.
func refuseBusy(w http.ResponseWriter, id []byte, err error) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", busyRetry)
	refuse(w, http.StatusServiceUnavailable, id, wire.Errorf(wire.Busy, "%v", err))
}
