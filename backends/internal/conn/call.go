package conn

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// call is one running request of a connection.
type call struct {
	conn   *Conn
	id     int64
	method string
	params json.RawMessage
	header http.Header
	modern bool
	caller *Caller         // nil: the proxy itself
	token  json.RawMessage // the caller's progress token; nil for none
	frame  []byte          // the request as it is sent
	ctx    context.Context // ends with the deadline, the caller or the connection
	clock  *Clock
	queue  *Queue // of a multiplexed connection; nil when the call reads its own stream
	asked  Tally  // the backend's requests, on a connection that clients share

	over bool // guarded by conn.mu: it has its response

	acked func() // guarded by conn.mu: called when the backend acknowledges a listen request, then nil

	mu        sync.Mutex // orders deliveries; guards ended
	ended     bool
	lingering bool // its stream is being drained after the response, and the drain ends ctx
}

// encode sets the frame of the request.
func (c *call) encode() {
	r := EncodeRequest{ID: c.id, Method: c.method, Params: c.params, Modern: c.modern, Info: c.conn.d.o.Info, Principal: c.principal()}
	if of := c.caller; of != nil {
		r.Capabilities, r.LogLevel = of.Capabilities, of.LogLevel
		if len(of.Info) > 0 {
			r.Info = of.Info
		}
	}
	c.frame, c.token = r.Frame()
}

// sink returns the receiver of the call's messages; nil for none.
func (c *call) sink() Sink {
	if c.caller == nil {
		return nil
	}
	return c.caller.Sink
}

// via is the kind of stream that a message was received on.
type via int

const (
	onCall         via = iota // the call's own
	onClientStream            // one that the calls of one client share
	onSharedStream            // one that clients share
)

// deliver delivers one message of the backend to the caller. On the call's own stream and on a
// private connection a slow caller blocks the stream, and so the backend. A stream that clients
// share is never blocked: messages go to the call's queue, which the calling goroutine drains, and
// a call whose queue is full is cancelled with queue.ErrFull. Notifications of a GET stream that
// clients share may be dropped instead (offerer).
func (c *call) deliver(m wire.Message, by via) {
	switch {
	case c.queue == nil:
		c.handle(m, by)
	case c.conn.private && !c.queue.Await(c.ctx): // blocks this client alone
	case !c.queue.Put(m):
		c.conn.d.stats.Dropped.Add(1)
		c.clock.Cancel(ErrFull)
	}
}

// handle passes a notification or request to the sink, unless the call has ended.
func (c *call) handle(m wire.Message, by via) {
	if m.IsRequest() {
		if refusal := c.ask(m, by); refusal != nil {
			c.conn.reply(refusal)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
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

// notify passes a notification to the sink. The call's timeout is suspended while the sink blocks.
func (c *call) notify(method string, params json.RawMessage, shared bool) {
	if o, ok := c.sink().(offerer); ok && shared {
		o.Offer(method, params)
		return
	}
	c.clock.Interrupt()
	c.sink().Notify(method, params)
	c.clock.Continue()
}

// Finish ends the deliveries, unregisters the call and stops its clock.
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
