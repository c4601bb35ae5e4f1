package conn

import (
	"context"
	"errors"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package has the queue between the reader of a connection and one of its calls: the call's
// messages in order, and then its response.

// Queue is the messages for one call, in order, the response last.
type Queue struct {
	signal chan struct{} // cap 1: there are messages to take
	room   chan struct{} // cap 1: messages were taken

	mu     sync.Mutex
	items  []wire.Message
	bytes  int
	lost   bool // it was full, and messages were dropped
	answer *wire.Message
	held   *Buffer // of the response's frame
}

// ErrFull is the cause of a call that was cancelled because its queue was full.
var ErrFull = errors.New("cancelled: the client reads its messages too slowly")

// maxQueued bounds the queued messages of one call, in bytes.
const maxQueued = 4 << 20

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Ready receives when there are messages to take.
func (q *Queue) Ready() <-chan struct{} { return q.signal }

// Await waits for room; false when ctx ends before.
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

// Put adds a message; false when there is no room, and Take then always fails.
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

// Finish adds the response after all queued messages. Only the first response counts.
func (q *Queue) Finish(m wire.Message, held *Buffer) {
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

// Take empties the queue. ErrFull means that messages were dropped.
func (q *Queue) Take() (items []wire.Message, answer *wire.Message, held *Buffer, err error) {
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
