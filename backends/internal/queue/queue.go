// Package queue holds what the reader of a connection has for one of its calls until the call takes
// it: the messages that belong to it, in order, and behind them its answer.
package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/vmcp-dev/vmcp/backends/internal/payload"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Queue holds what a connection's reader has for one call, in order, the answer last.
type Queue struct {
	signal chan struct{} // cap 1: there is something to take
	room   chan struct{} // cap 1: something was taken

	mu     sync.Mutex
	items  []wire.Message
	bytes  int
	lost   bool // it was full
	answer *wire.Message
	held   *payload.Buffer // of the answer's frame
}

// ErrFull gives up a call whose queue was full.
var ErrFull = errors.New("given up: more messages came than the client read")

// maxQueued bounds what waits for one slow caller.
const maxQueued = 4 << 20

// New is an empty queue.
func New() *Queue {
	return &Queue{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Ready says that there is something to take.
func (q *Queue) Ready() <-chan struct{} { return q.signal }

// Await waits for room; false when the call has ended before.
func (q *Queue) Await(ctx context.Context) bool {
	for {
		q.mu.Lock()
		full := q.bytes > maxQueued
		q.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return false
		}
	}
}

// Put adds a message; false when there is no room, and then the queue is of no use any more.
func (q *Queue) Put(m wire.Message) bool {
	q.mu.Lock()
	room := q.bytes <= maxQueued && !q.lost
	if room {
		q.items = append(q.items, m)
		q.bytes += len(m.Params) + 64
	} else {
		q.lost, q.items = true, nil
	}
	q.mu.Unlock()
	q.wake()
	return room
}

func (q *Queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Finish puts the answer behind everything queued. The first one is it.
func (q *Queue) Finish(m wire.Message, held *payload.Buffer) {
	q.mu.Lock()
	first := q.answer == nil
	if first {
		q.answer, q.held = &m, held
	}
	q.mu.Unlock()
	if !first && held != nil {
		held.Release()
	}
	q.wake()
}

// Take empties the queue. With ErrFull some of what it held is lost.
func (q *Queue) Take() (items []wire.Message, answer *wire.Message, held *payload.Buffer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost {
		return nil, nil, nil, ErrFull
	}
	items, q.items, q.bytes = q.items, nil, 0
	select {
	case q.room <- struct{}{}:
	default:
	}
	return items, q.answer, q.held, nil
}
