package backends

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// link carries the frames of one connection.
type link interface {
	// roundTrip sends the call's request and returns its answer, having delivered
	// everything that came before it.
	roundTrip(c *call) (*Response, error)
	// send passes on a notification or an answer.
	send(ctx context.Context, frame []byte) error
	// cancel tells the backend that the caller gave up on a call that was sent.
	cancel(c *call)
	// close ends the link and waits for its goroutines.
	close()
}

// conn is one connection to a backend, or one session with it.
type conn struct {
	b           *Backend
	link        link
	ctx         context.Context // ends with the connection
	stop        context.CancelCauseFunc
	modern      bool
	legacyToo   bool // it is modern, and speaks a revision with sessions as well
	hello       hello
	declared    json.RawMessage // the client capabilities declared at initialize
	multiplexed bool            // all calls share one stream of frames
	private     bool            // exclusive to one client: everything on it is that client's
	session     string          // whose it is, when it is a session's
	turn        chan struct{}   // held by the one call that may call back or log, when such calls take turns

	mu       sync.Mutex
	calls    map[int64]*call
	leaving  chan struct{}                 // closed when the last call of a lost connection has ended
	latest   *call                         // the newest call with a sink
	turnOf   *Caller                       // who holds turn
	opener   *call                         // stands for the client that c is for while none of its calls runs
	resident bool                          // opener stays: the client has a Between
	asking   map[string]context.CancelFunc // the backend's requests that a client is answering

	levelMu sync.Mutex // held while the level is being set
	level   string     // guarded by levelMu: what logging/setLevel was last sent
}

// hello is what a backend says of itself.
type hello struct {
	Revision     string
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage
	Instructions string
}

func (b *Backend) newConn(private bool) *conn {
	c := &conn{b: b, private: private, calls: map[int64]*call{}, asking: map[string]context.CancelFunc{}}
	c.ctx, c.stop = context.WithCancelCause(b.ctx)
	b.stats.connections.Add(1)
	return c
}

// lost is closed when the connection can no longer be used.
func (c *conn) lost() <-chan struct{} { return c.ctx.Done() }

// fail marks the connection as unusable because of err.
func (c *conn) fail(err error) { c.stop(bare(err)) }

// cause is why the connection was lost; nil while it is usable.
func (c *conn) cause() error { return context.Cause(c.ctx) }

// close ends the connection and waits for what it started.
func (c *conn) close() {
	c.stop(errClosed)
	c.mu.Lock()
	for _, k := range c.calls {
		k.clock.cancel(errClosed)
	}
	c.mu.Unlock()
	if c.link != nil {
		c.link.close()
	}
	c.b.stats.connections.Add(-1)
}

// abandon closes a connection that was lost once its running calls have ended: each of
// them finds out by itself what became of it.
func (c *conn) abandon() {
	left := make(chan struct{})
	c.mu.Lock()
	busy := len(c.calls) > 0 && !c.multiplexed
	if busy {
		c.leaving = left
	}
	c.mu.Unlock()
	if busy {
		select {
		case <-left:
		case <-c.b.ctx.Done():
		}
	}
	c.close()
}

// do makes one call on this connection.
func (c *conn) do(ctx context.Context, r *Request) (*Response, error) {
	return c.doWithin(ctx, r, c.b.timeout)
}

func (c *conn) doWithin(ctx context.Context, r *Request, limit time.Duration) (*Response, error) {
	k := c.begin(ctx, r, limit)
	resp, err := c.link.roundTrip(k)
	if err == nil && resp.Body != nil {
		return resp, nil // the call ends with its body
	}
	if err != nil && k.ctx.Err() != nil && c.ctx.Err() == nil {
		c.link.cancel(k)
	}
	k.finish()
	return resp, err
}

// begin prepares a call and registers it.
func (c *conn) begin(ctx context.Context, r *Request, limit time.Duration) *call {
	k := &call{conn: c, id: c.b.nextID.Add(1), method: r.Method, params: r.Params, header: r.Header, caller: r.For, modern: c.modern || r.modern}
	k.ctx, k.clock = startClock(ctx, limit)
	k.frame = k.encode()
	if c.multiplexed {
		k.queue = newQueue()
	}
	if limit > 0 {
		c.b.stats.running.Add(1)
	}
	c.mu.Lock()
	c.calls[k.id] = k
	if k.sink() != nil && (c.turnOf == nil || c.turnOf == k.caller) {
		c.latest = k
	}
	c.mu.Unlock()
	if c.closing() {
		k.clock.cancel(errClosed)
	}
	return k
}

// closing reports whether close was called: calls of a lost connection may still end
// well, those of a closed one are over.
func (c *conn) closing() bool { return c.ctx.Err() != nil && c.cause() == errClosed }

// forget unregisters a call.
func (c *conn) forget(k *call) {
	if k.clock.limit > 0 && c.b.stats.running.Add(-1) == 0 {
		c.b.idle()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.id)
	if c.leaving != nil && len(c.calls) == 0 {
		close(c.leaving)
		c.leaving = nil
	}
	c.passOver(k)
}

// concluded notes that k has its answer: what comes behind it belongs to another call.
func (c *conn) concluded(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passOver(k)
}

// passOver makes another call the newest one when it is k. mu is held.
func (c *conn) passOver(k *call) {
	k.over = true
	if c.latest != k {
		return
	}
	c.latest = nil
	for _, other := range c.calls {
		if !other.over && other.sink() != nil && (c.turnOf == nil || c.turnOf == other.caller) && (c.latest == nil || other.id > c.latest.id) {
			c.latest = other
		}
	}
}

// lookup finds a running call by the id in a frame.
func (c *conn) lookup(id json.RawMessage) *call {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[n]
}

// owner finds the call that a message belongs to when it came outside of any call's
// stream, or nil when that is not certain.
func (c *conn) owner(m wire.Message) *call {
	if m.Method == wire.Progress {
		return c.lookup(wire.Get(m.Params, "progressToken"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.private && c.latest == nil:
		return c.opener
	case c.private:
		return c.latest
	case c.turnOf != nil && c.latest != nil && c.latest.caller == c.turnOf:
		return c.latest
	}
	return nil
}

// guest lets the backend ask the client that a connection is opened for before its
// first call is sent: some ask for the roots as soon as they are greeted. A client with
// a place for what comes between calls can be asked as long as the connection lives.
func (c *conn) guest(of *Caller) {
	if of.Between != nil {
		between := *of
		between.Sink = of.Between
		of, c.resident = &between, true
	}
	k := &call{conn: c, caller: of}
	k.ctx, k.clock = startClock(c.ctx, 0)
	c.opener = k
}

// dismiss ends what guest began.
func (c *conn) dismiss() {
	c.mu.Lock()
	k := c.opener
	if c.resident {
		k = nil
	} else {
		c.opener = nil
	}
	c.mu.Unlock()
	if k != nil {
		k.finish()
	}
}

// receive takes a notification or request. of is the call on whose stream it came; nil
// when it came on a stream of the whole connection.
func (c *conn) receive(of *call, m wire.Message) {
	if c.receiveOwn(m) {
		return
	}
	if of == nil || m.Method == wire.Progress {
		of = c.owner(m)
	}
	switch {
	case of != nil:
		of.deliver(m)
	case m.IsRequest() && !declares(c.declared, capabilityFor(m.Method)):
		c.refuse(m, wire.MethodNotFound, "%s was not declared", capabilityFor(m.Method))
	case m.IsRequest():
		c.refuse(m, wire.InternalError, "no call is running that %s could belong to", m.Method)
	default:
		c.b.notified(c.session, m.Method, m.Params)
	}
}

// receiveOwn handles what concerns the connection and no client.
func (c *conn) receiveOwn(m wire.Message) bool {
	switch m.Method {
	case wire.Ping:
		if m.IsRequest() {
			c.reply(wire.Result(m.ID, json.RawMessage("{}")))
		}
	case wire.ToolsChanged:
		c.b.announced(toolsList)
	case wire.PromptsChanged:
		c.b.announced(promptsList)
	case wire.ResChanged:
		c.b.announced(resourcesList)
	case wire.ResUpdated:
		c.b.updated(c.session, m.Params)
	case wire.Cancelled:
		c.withdraw(wire.Get(m.Params, "requestId"))
	case wire.Acknowledged:
		c.b.setListening(true)
		c.b.changed(allLists) // what changed before this stream, nobody has said
	default:
		if m.IsRequest() && !asksClient(m.Method) {
			c.refuse(m, wire.MethodNotFound, "method %q not found", m.Method)
			return true
		}
		return false
	}
	return true
}

// request makes one call of the proxy itself and returns a copy of its result.
func (c *conn) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	resp, err := c.do(ctx, &Request{Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	b, err := resp.Bytes(c.b.maxMessage)
	if err != nil {
		return nil, err
	}
	return append(json.RawMessage(nil), b...), nil
}
