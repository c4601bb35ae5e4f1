package conn

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends/internal/deadline"
	"github.com/vmcp-dev/vmcp/backends/internal/encode"
	"github.com/vmcp-dev/vmcp/backends/internal/queue"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// call is one request that is running on a connection.
type call struct {
	conn   *Conn
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
	queue  *queue.Queue // of a multiplexed connection; nil when the call reads its own stream

	over bool // guarded by conn.mu: it has its answer

	renewed atomic.Bool // a listen request that was ended to be made again

	mu        sync.Mutex // orders deliveries; guards ended
	ended     bool
	lingering bool // its answered stream is being drained, which ends the context
}

// encode writes the request as it is sent.
func (c *call) encode() {
	r := encode.Request{ID: c.id, Method: c.method, Params: c.params, Modern: c.modern, Info: c.conn.d.o.Info, Principal: c.principal()}
	if of := c.caller; of != nil {
		r.Capabilities, r.LogLevel = of.Capabilities, of.LogLevel
		if len(of.Info) > 0 {
			r.Info = of.Info
		}
	}
	c.frame, c.token = r.Frame()
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
	case c.conn.private && !c.queue.Await(c.ctx): // nobody else waits
	case !c.queue.Put(m):
		c.conn.d.stats.Dropped.Add(1)
		c.clock.Cancel(queue.ErrFull)
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

// Finish ends the deliveries and frees what the call held.
func (c *call) Finish() {
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
