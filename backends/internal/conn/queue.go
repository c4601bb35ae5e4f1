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
	bytes  int  // of items, and of messages that were taken and are not handled
	lost   bool // it was full, and messages were dropped
	answer *wire.Message
	held   *Buffer // of the response's frame
}

// ErrFull is the cause of a call that was cancelled because its queue was full.
var ErrFull = errors.New("cancelled: the client reads its messages too slowly")

const (
	// maxQueued bounds the memory of the messages of one call that are queued or being handled, in bytes: the call of a
	// client that reads more slowly on a connection that clients share fails.
	maxQueued = 4 << 20
	// maxPrivateQueued is the bound on a connection of one client, which is not read from meanwhile.
	maxPrivateQueued = 1 << 20
	// messageOverhead is about what a message takes beside its members: its fields, in a slice that has grown, and
	// what allocations are rounded up by.
	messageOverhead = 256
)

// footprint is about the memory of a queued message, in bytes: with small ones, most of it is not in the members.
func footprint(m *wire.Message) int {
	return len(m.ID) + len(m.Method) + len(m.Params) + messageOverhead
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Ready receives when there are messages to take.
func (q *Queue) Ready() <-chan struct{} { return q.signal }

// Await waits for room on a connection of one client; false when ctx ends before.
func (q *Queue) Await(ctx context.Context) bool {
	for {
		q.mu.Lock()
		full := q.bytes > maxPrivateQueued
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
		q.bytes += footprint(&m)
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

// Take empties the queue. The messages count toward its bound until Handled has been called for each. ErrFull means that
// messages were dropped.
func (q *Queue) Take() (items []wire.Message, answer *wire.Message, held *Buffer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost {
		return nil, nil, nil, ErrFull
	}
	items, q.items = q.items, nil
	return items, q.answer, q.held, nil
}

// Handled makes room for other messages: m, which Take returned, is not used any more, and is cleared.
func (q *Queue) Handled(m *wire.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= footprint(m)
	*m = wire.Message{}
	select {
	case q.room <- struct{}{}:
	default:
	}
}
