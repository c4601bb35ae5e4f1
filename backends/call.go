package backends

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

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
	clock  *clock
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

// deliver hands one message of the backend to the caller: at once, or through the queue
// that the calling goroutine drains, so that a slow caller never holds up a reader that
// others depend on.
func (c *call) deliver(m wire.Message) {
	if c.queue != nil {
		if !c.queue.put(m) {
			c.conn.b.stats.dropped.Add(1)
		}
		return
	}
	c.handle(m)
}

// handle passes a notification or request on, unless the call is over.
func (c *call) handle(m wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.IsRequest():
		c.ask(m)
	case c.ended || c.sink() == nil:
	case m.Method == wire.Progress:
		c.progress(m)
	case m.Method == wire.LogMessage && c.caller.Session == "" && c.caller.LogLevel == "":
		// A stateless client gets log messages only when it asks for them.
	default:
		c.sink().Notify(m.Method, m.Params)
	}
}

func (c *call) progress(m wire.Message) {
	if c.token == nil {
		return
	}
	c.clock.extend()
	c.sink().Notify(m.Method, wire.Set(m.Params, "progressToken", c.token))
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
	c.clock.stop()
	if !c.lingering {
		c.clock.cancel(context.Canceled)
	}
}

// queue holds what a connection's reader has for one call, in order, the answer last.
type queue struct {
	signal chan struct{} // cap 1

	mu     sync.Mutex
	items  []wire.Message
	bytes  int
	answer *wire.Message
	held   *buffer // of the answer's frame
}

// maxQueued bounds what waits for one slow caller.
const maxQueued = 4 << 20

func newQueue() *queue { return &queue{signal: make(chan struct{}, 1)} }

// put adds a message; false when it was dropped, which happens to notifications only.
func (q *queue) put(m wire.Message) bool {
	q.mu.Lock()
	room := q.bytes <= maxQueued || m.IsRequest()
	if room {
		q.items = append(q.items, m)
		q.bytes += len(m.Params) + 64
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

// finish puts the answer behind everything queued.
func (q *queue) finish(m wire.Message, held *buffer) {
	q.mu.Lock()
	q.answer, q.held = &m, held
	q.mu.Unlock()
	q.wake()
}

// take empties the queue.
func (q *queue) take() (items []wire.Message, answer *wire.Message, held *buffer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items, q.bytes = q.items, nil, 0
	return items, q.answer, q.held
}
