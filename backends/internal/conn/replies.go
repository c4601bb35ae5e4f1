package conn

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxReplies bounds the responses to requests of a backend that wait to be sent.
	maxReplies = 64
	// maxSending bounds how many of them are being sent over HTTP, each on a connection of its own.
	maxSending = 4
	// fullTime bounds how long nothing is read from a backend that does not take the responses to its requests.
	fullTime = 5 * time.Second
)

// errReplies is why a connection ends to a backend that sends requests and does not take the responses.
var errReplies = errors.New("the backend sends requests and does not take the responses to them")

// replies sends responses to requests of the backend, beside the calls: they wait for each other only. A backend that sends
// more requests than it takes responses is not read from while the queue is full, which it can end by taking them.
type replies struct {
	send func(frame []byte)
	most int // that are sent at a time

	mu      sync.Mutex
	waiting [][]byte      // at most maxReplies
	sending int           // goroutines that send, none of them while nothing waits
	shorter chan struct{} // closed when waiting has room again; nil if nobody waits for that
}

// add sends a frame, on a goroutine that spawn starts if need be. It returns when the frame is sent or in the queue, and false if
// ctx has ended before, or nothing can be started any more.
func (r *replies) add(ctx context.Context, spawn func(func()) bool, frame []byte) bool {
	for {
		r.mu.Lock()
		switch {
		case r.sending < r.most:
			r.sending++
			r.mu.Unlock()
			return spawn(func() { r.drain(frame) })
		case len(r.waiting) < maxReplies:
			r.waiting = append(r.waiting, frame)
			r.mu.Unlock()
			return true
		}
		if r.shorter == nil {
			r.shorter = make(chan struct{})
		}
		shorter := r.shorter
		r.mu.Unlock()
		select {
		case <-shorter:
		case <-ctx.Done():
			return false
		}
	}
}

// drain sends a frame and those that wait.
func (r *replies) drain(frame []byte) {
	for ok := true; ok; frame, ok = r.next() {
		r.send(frame)
	}
}

// next returns the frame that has waited longest; without one the goroutine that asks ends.
func (r *replies) next() (frame []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.sending, r.waiting = r.sending-1, nil
		return nil, false
	}
	frame, r.waiting[0] = r.waiting[0], nil
	r.waiting = r.waiting[1:]
	if r.shorter != nil {
		close(r.shorter)
		r.shorter = nil
	}
	return frame, true
}

// reply sends the response to a request of the backend. It delays the reader that calls it while too many wait, and ends the
// connection with its calls if that lasts.
func (c *Conn) reply(frame []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, fullTime)
	defer cancel()
	if c.replies.add(ctx, c.d.o.Spawn, frame) || c.ctx.Err() != nil {
		return
	}
	c.Fail(errReplies)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		k.clock.Cancel(errReplies)
	}
}

// later sends a notification behind the responses, without delay for whoever calls it.
func (c *Conn) later(frame []byte) {
	c.d.o.Spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
		defer cancel()
		c.replies.add(ctx, c.d.o.Spawn, frame)
	})
}
