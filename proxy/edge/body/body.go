// Package body reads the bodies of requests. A sender costs what it has sent, never what it announces: a body
// begins in a pooled buffer and doubles while bytes come. Everything over that buffer is
// booked on one account for the whole process until the body is given up, which for a
// call that waits for its client's answer is when the call ends.
package body

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Default is the largest request body where the configuration does not say.
	Default = 4 << 20
	// keptSize is the largest buffer that is kept for the next request.
	keptSize = 64 << 10
	// Most bounds the bodies of more than keptSize that are held at one time.
	Most = 256 << 20
	// Time is how long a body may stand still, and how long it may take beyond what
	// rate allows.
	Time = 30 * time.Second
	// rate is how many bytes a second a body must bring on average.
	rate = 1 << 10
)

var (
	// ErrTooLarge refuses a body for its size.
	ErrTooLarge = errors.New("request body is larger")
	// ErrBusy refuses one for what others hold.
	ErrBusy = errors.New("the endpoint holds as many large requests as it can; try again in a moment")
)

// An Account counts bytes that are held up to a limit.
type Account struct {
	Limit int64
	held  atomic.Int64
}

// Take books n bytes, unless that exceeds the limit.
func (a *Account) Take(n int64) bool {
	if a.held.Add(n) <= a.Limit {
		return true
	}
	a.held.Add(-n)
	return false
}

// A Buffer is a reusable request body or answer.
type Buffer struct {
	// B is what was read.
	B    []byte
	kept bool // something outlives the request and still reads it, and gives it back

	account *Account
	booked  int64 // on account
}

var buffers = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 4<<10)} }}

// Take is an empty buffer.
func Take() *Buffer { return buffers.Get().(*Buffer) }

// Free gives the buffer back, unless something keeps it.
func (b *Buffer) Free() {
	if !b.kept {
		b.Settle()
	}
	if cap(b.B) <= keptSize && !b.kept {
		b.B = b.B[:0]
		buffers.Put(b)
	}
}

// Keep says that something outlives the request and still reads the buffer: it calls Settle
// when it has done so.
func (b *Buffer) Keep() { b.kept = true }

// Size is what the buffer holds in memory.
func (b *Buffer) Size() int64 { return int64(cap(b.B)) }

// Settle takes the body off the account.
func (b *Buffer) Settle() {
	if b.booked > 0 {
		b.account.held.Add(-b.booked)
		b.booked = 0
	}
}

// Read takes a request's body of at most so many bytes. It ends a body that stands still, and one that trickles.
func (b *Buffer) Read(w http.ResponseWriter, r *http.Request, most int64, a *Account) error {
	tooLarge := func() error { return fmt.Errorf("%w than %d bytes", ErrTooLarge, most) }
	if r.ContentLength > most {
		return tooLarge()
	}
	b.account = a
	rc := http.NewResponseController(w)
	began := time.Now()
	last := began.Add(Time)
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

// deadline is when the next bytes of a body must have come that began some time ago
// and brought n bytes until now.
func deadline(began, now time.Time, n int) time.Time {
	still, slow := now.Add(Time), began.Add(Time+time.Duration(n)*time.Second/rate)
	if slow.Before(still) {
		return slow
	}
	return still
}

// Held is how many bytes are booked.
func (a *Account) Held() int64 { return a.held.Load() }

// grow makes room for more, as much as is announced where that is little.
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
		if !b.account.Take(int64(size) - b.booked) {
			return ErrBusy
		}
		b.booked = int64(size)
	}
	more := make([]byte, len(b.B), size)
	copy(more, b.B)
	b.B = more
	return nil
}
