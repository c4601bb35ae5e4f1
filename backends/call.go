package backends

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends/internal/deadline"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// call is one request that is running on a connection.
type call struct {
	conn   *conn
	id     int64
	method string
	params json.RawMessage
	header http.Header
	modern bool
	caller *Caller         // nil: the proxy itself
	token  json.RawMessage // the caller's progress token; nil when it gave none
	frame  []byte          // the request as it is sent
	ctx    context.Context // ends with the clock, the caller or the connection
	clock  *deadline.Clock
	queue  *queue // of a multiplexed connection; nil when the call reads its own stream

	over bool // guarded by conn.mu: it has its answer

	renewed atomic.Bool // a listen request that was ended to be made again

	mu        sync.Mutex // orders deliveries; guards ended
	ended     bool
	lingering bool // its answered stream is being drained, which ends the context
}

// sink is where what belongs to the call goes; nil when nobody listens.
func (c *call) sink() Sink {
	if c.caller == nil {
		return nil
	}
	return c.caller.Sink
}

// via is on what kind of stream a message came.
type via int

const (
	onCall         via = iota // the call's own
	onClientStream            // one that the calls of one client share
	onSharedStream            // one that clients share
)

// deliver hands one message of the backend to the caller. On a call's own stream and on a
// connection of its client alone, the stream waits for a caller that is slow, and the
// backend with it. On what others depend on, nothing waits: messages go through the queue
// that the calling goroutine drains, and a call whose queue is full is given up. What came
// beside calls that clients share may give way, the oldest notifications first.
func (c *call) deliver(m wire.Message, by via) {
	switch {
	case c.queue == nil:
		c.handle(m, by)
	case c.conn.private && !c.queue.await(c.ctx): // nobody else waits
	case !c.queue.put(m):
		c.conn.b.stats.dropped.Add(1)
		c.clock.Cancel(errSlowCaller)
	}
}

// handle passes a notification or request on, unless the call is over.
func (c *call) handle(m wire.Message, by via) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.IsRequest():
		c.ask(m, by)
	case c.ended || c.sink() == nil:
	case m.Method == wire.Progress:
		if c.token != nil {
			c.clock.Extend()
			c.notify(m.Method, jsonscan.Set(m.Params, "progressToken", c.token), by == onSharedStream)
		}
	case m.Method == wire.LogMessage && c.caller.Session == "" && c.caller.LogLevel == "":
		// A stateless client gets log messages only when it asks for them.
	default:
		c.notify(m.Method, m.Params, by == onSharedStream)
	}
}

// notify gives a notification to the sink. The clock stands still while that waits.
func (c *call) notify(method string, params json.RawMessage, shared bool) {
	if o, ok := c.sink().(Offerer); ok && shared {
		o.Offer(method, params)
		return
	}
	c.clock.Interrupt()
	c.sink().Notify(method, params)
	c.clock.Continue()
}

// finish ends the deliveries and frees what the call held.
func (c *call) finish() {
	c.mu.Lock()
	over := c.ended
	c.ended = true
	c.mu.Unlock()
	if over {
		return
	}
	c.conn.forget(c)
	c.clock.Stop()
	if !c.lingering {
		c.clock.Cancel(errAnswered)
	}
}

// queue holds what a connection's reader has for one call, in order, the answer last.
type queue struct {
	signal chan struct{} // cap 1: there is something to take
	room   chan struct{} // cap 1: something was taken

	mu     sync.Mutex
	items  []wire.Message
	bytes  int
	lost   bool // it was full
	answer *wire.Message
	held   *buffer // of the answer's frame
}

// maxQueued bounds what waits for one slow caller.
const maxQueued = 4 << 20

func newQueue() *queue {
	return &queue{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// await waits for room; false when the call has ended before.
func (q *queue) await(ctx context.Context) bool {
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

// put adds a message; false when there is no room, and then the queue is of no use any more.
func (q *queue) put(m wire.Message) bool {
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

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// finish puts the answer behind everything queued. The first one is it.
func (q *queue) finish(m wire.Message, held *buffer) {
	q.mu.Lock()
	first := q.answer == nil
	if first {
		q.answer, q.held = &m, held
	}
	q.mu.Unlock()
	if !first && held != nil {
		held.release()
	}
	q.wake()
}

// take empties the queue. With errSlowCaller some of what it held is lost.
func (q *queue) take() (items []wire.Message, answer *wire.Message, held *buffer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost {
		return nil, nil, nil, errSlowCaller
	}
	items, q.items, q.bytes = q.items, nil, 0
	select {
	case q.room <- struct{}{}:
	default:
	}
	return items, q.answer, q.held, nil
}
