package edge

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This part of the package reads the bodies of requests. A sender occupies memory for what it has sent, never for what it
// announces: a body begins in a pooled buffer, which doubles as bytes arrive. What exceeds that buffer is reserved on
// one account for the whole process until the body is released; for a suspended call that is when the call ends.

const (
	// defaultMaxBody is the size limit of a request body, in bytes, without a configured one.
	defaultMaxBody = 4 << 20
	// keptSize is the largest buffer that is reused.
	keptSize = 64 << 10
	// most bounds the bodies of more than keptSize together, in bytes.
	most = 256 << 20
	// bodyTime is how long no byte of a body may arrive, and how long it may take in addition to the time that rate allows.
	bodyTime = 30 * time.Second
	// bodyRate is the lowest average rate of a body, in bytes per second.
	bodyRate = 1 << 10
)

var (
	// errTooLarge is wrapped by the error for a body above the limit.
	errTooLarge = errors.New("request body is larger")
	// errBusy refuses a body when the account is full.
	errBusy = errors.New("the memory for large requests is in use; try again in a moment")
)

// An Account counts reserved bytes, up to a limit.
type Account struct {
	Limit    int64
	reserved atomic.Int64
}

// Reserve reserves n bytes; false if that exceeds the limit.
func (a *Account) Reserve(n int64) bool {
	if a.reserved.Add(n) <= a.Limit {
		return true
	}
	a.reserved.Add(-n)
	return false
}

// A Buffer is a reusable buffer for a request body or a response.
type Buffer struct {
	// B is the content.
	B        []byte
	retained bool // something outlives the request, reads B, and calls Unreserve

	account  *Account
	reserved int64 // bytes reserved on account
}

var buffers = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 4<<10)} }}

// newBody is an empty buffer.
func newBody() *Buffer { return buffers.Get().(*Buffer) }

// Free returns the buffer to the pool, unless it is retained.
func (b *Buffer) Free() {
	if !b.retained {
		b.Unreserve()
	}
	if cap(b.B) <= keptSize && !b.retained {
		b.B = b.B[:0]
		buffers.Put(b)
	}
}

// Retain marks the buffer as used beyond the request: its user calls Unreserve when it has finished.
func (b *Buffer) Retain() { b.retained = true }

// Size is the memory of the buffer, in bytes.
func (b *Buffer) Size() int64 { return int64(cap(b.B)) }

// Unreserve returns the reserved bytes to the account.
func (b *Buffer) Unreserve() {
	if b.reserved > 0 {
		b.account.reserved.Add(-b.reserved)
		b.reserved = 0
	}
}

// Read reads a request's body of at most most bytes. It fails if the body stalls or is slower than rate.
func (b *Buffer) Read(w http.ResponseWriter, r *http.Request, most int64, a *Account) error {
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
		if len(b.B) == cap(b.B) {
			if err := b.grow(r.ContentLength); err != nil {
				return err
			}
		}
		rc.SetReadDeadline(last)
		n, err := r.Body.Read(b.B[len(b.B):cap(b.B)])
		b.B = b.B[:len(b.B)+n]
		if int64(len(b.B)) > most {
			return tooLarge()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		last = deadline(began, time.Now(), len(b.B))
	}
}

// deadline is when the next bytes must arrive of a body that began at began and has n bytes so far.
func deadline(began, now time.Time, n int) time.Time {
	still, slow := now.Add(bodyTime), began.Add(bodyTime+time.Duration(n)*time.Second/bodyRate)
	if slow.Before(still) {
		return slow
	}
	return still
}

// Reserved is the number of reserved bytes.
func (a *Account) Reserved() int64 { return a.reserved.Load() }

// grow makes room for more: the announced size if that is small, else twice the size.
func (b *Buffer) grow(announced int64) error {
	size := 2 * cap(b.B)
	switch {
	case announced >= 0 && announced < keptSize:
		size = int(announced) + 1
	case size < keptSize:
		size = keptSize
	case announced >= 0:
		size = min(size, int(announced)+1)
	}
	size = max(size, len(b.B)+1)
	if size > keptSize {
		if !b.account.Reserve(int64(size) - b.reserved) {
			return errBusy
		}
		b.reserved = int64(size)
	}
	more := make([]byte, len(b.B), size)
	copy(more, b.B)
	b.B = more
	return nil
}
