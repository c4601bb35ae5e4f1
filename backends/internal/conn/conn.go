package conn

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// transport carries the frames of one connection.
type transport interface {
	// roundTrip sends the call's request and returns its response, after it has
	// delivered all messages received before.
	roundTrip(c *call) (*Response, error)
	// send sends a notification or a response.
	send(ctx context.Context, frame []byte) error
	// cancel notifies the backend that a call that was sent is cancelled.
	cancel(c *call)
	// close ends the transport and waits for its goroutines.
	close()
}

// Conn is one connection to a backend, or one session over Streamable HTTP.
type Conn struct {
	d           *Dialer
	transport   transport
	ctx         context.Context // ends with the connection
	stop        context.CancelCauseFunc
	Modern      bool
	LegacyToo   bool                  // it is modern, and supports a revision with sessions as well
	Peer        Peer                  // the backend's serverInfo, capabilities and instructions
	declared    json.RawMessage       // the client capabilities declared at initialize
	multiplexed bool                  // all calls share one stream of frames (stdio, HTTP+SSE)
	OnDemand    bool                  // of a private session: opened by a call
	private     bool                  // used by one client alone: all messages on it are that client's
	Session     string                // the client session that it belongs to; "" for none
	legacy      bool                  // the handshake is that of a legacy revision
	counted     bool                  // counted by its Slot, not in Counts
	reserved    Slot                  // released by Close; nil for none
	credential  credentials.Source    // of its HTTP requests; nil: none
	http        *httpclient.Transport // of a principal's connection; nil: the Dialer's
	asking      *Table                // the backend's requests to clients
	asked       Tally                 // of asking, on a private connection
	replies     replies               // to the backend's requests, and cancellations
	turn        chan struct{}         // cap 1: held by the call that may receive requests and log messages; nil without turns

	mu            sync.Mutex
	calls         map[int64]*call
	leaving       chan struct{} // closed when the last call of a lost connection has ended
	latest        *call         // the latest call with a sink
	turnOf        *Caller       // the caller that holds turn
	idleCall      *call         // receives the client's messages while none of its calls runs
	keepsIdleCall bool          // idleCall outlives calls: the client has an out-of-call sink
	streams       streams

	listening sync.WaitGroup // the listen streams

	levelMu sync.Mutex // held during logging/setLevel
	level   string     // guarded by levelMu: the last level that was set
}

func (d *Dialer) newConn(p Purpose) *Conn {
	c := &Conn{d: d, declared: p.Capabilities, calls: map[int64]*call{}, asking: NewQuestions()}
	if who := p.Caller; who != nil {
		c.OnDemand, c.Session = true, who.Session
		c.private = who.Session != "" || who.Principal != "" || d.transport == TransportStdio
	}
	c.replies.send, c.replies.most = c.send, maxSending
	if d.transport == TransportStdio {
		c.replies.most = 1
	}
	c.authenticate(p.Credential)
	c.ctx, c.stop = context.WithCancelCause(d.ctx)
	c.legacy, c.counted = p.Legacy, p.Counted
	if p.Turns {
		c.turn = make(chan struct{}, 1)
	}
	if !c.counted {
		d.stats.Connections.Add(1)
	}
	return c
}

// SetSlot makes Close release s.
func (c *Conn) SetSlot(s Slot) { c.reserved = s }

// Usable reports whether the connection is neither lost nor closed.
func (c *Conn) Usable() bool { return c.ctx.Err() == nil }

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Lost is closed when the connection can no longer be used.
func (c *Conn) Lost() <-chan struct{} { return c.ctx.Done() }

// Fail marks the connection as unusable because of err.
func (c *Conn) Fail(err error) { c.stop(Bare(err)) }

// Cause returns why the connection was lost; nil while it is usable.
func (c *Conn) Cause() error { return context.Cause(c.ctx) }

// Close ends the connection and its running calls, and waits for its goroutines.
func (c *Conn) Close() {
	c.stop(ErrClosed)
	c.mu.Lock()
	for _, k := range c.calls {
		k.clock.Cancel(closedBecause(c.Cause()))
	}
	c.mu.Unlock()
	if c.transport != nil {
		c.transport.close()
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	if c.reserved != nil {
		c.reserved.Release()
	}
	if !c.counted {
		c.d.stats.Connections.Add(-1)
	}
}

// Abandon closes a lost connection once its running calls have ended: over Streamable HTTP
// their own responses may still arrive.
func (c *Conn) Abandon() {
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
		case <-c.d.ctx.Done():
		}
	}
	c.Close()
}

// Do makes one call on this connection. The errors are those of Backend.Call.
func (c *Conn) Do(ctx context.Context, r *Request) (*Response, error) {
	return c.DoWithin(ctx, r, c.d.o.Timeout())
}

// DoWithin is Do with another timeout; 0 is none, and the call is then not counted in Counts.Running.
func (c *Conn) DoWithin(ctx context.Context, r *Request, limit time.Duration) (*Response, error) {
	k := c.begin(ctx, r, limit)
	resp, err := c.transport.roundTrip(k)
	if err == nil && resp.Body != nil {
		return resp, nil // the call ends with its body
	}
	if err != nil && k.ctx.Err() != nil && c.ctx.Err() == nil {
		c.transport.cancel(k)
	}
	switch { // a backend may end its response to a cancelled call in any form
	case KindOf(err) != Protocol:
	case ctx.Err() != nil:
		err = c.d.stopped(ctx, true)
	case k.ctx.Err() != nil:
		err = c.d.stopped(k.ctx, true)
	}
	k.Finish()
	return resp, err
}

// begin prepares a call and registers it.
func (c *Conn) begin(ctx context.Context, r *Request, limit time.Duration) *call {
	k := &call{conn: c, id: c.d.nextID.Add(1), method: r.Method, params: r.Params, header: r.Header, caller: r.For, modern: c.Modern || r.modern}
	k.ctx, k.clock = Start(ctx, limit, ErrDeadline)
	k.encode()
	if c.multiplexed {
		k.queue = NewQueue()
	}
	if limit > 0 {
		c.d.stats.Running.Add(1)
	}
	c.mu.Lock()
	c.calls[k.id] = k
	if k.sink() != nil && (c.turnOf == nil || c.turnOf == k.caller) {
		c.latest = k
	}
	c.mu.Unlock()
	if c.closing() {
		k.clock.Cancel(ErrClosed)
	}
	return k
}

// closing reports whether Close was called: calls of a lost connection may still
// succeed, those of a closed one cannot.
func (c *Conn) closing() bool { return c.ctx.Err() != nil && c.Cause() == ErrClosed }

// forget unregisters a call.
func (c *Conn) forget(k *call) {
	if k.clock.Limit() > 0 && c.d.stats.Running.Add(-1) == 0 {
		c.d.o.Idle()
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

// concluded records that k has its response: later messages belong to other calls.
func (c *Conn) concluded(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passOver(k)
}

// passOver marks k as over and replaces it as latest. mu is held.
func (c *Conn) passOver(k *call) {
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
func (c *Conn) lookup(id json.RawMessage) *call {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[n]
}

// owner returns the call that a message belongs to that was received outside of any
// call's stream, or nil when that is not certain.
func (c *Conn) owner(m wire.Message) *call {
	if m.Method == wire.Progress {
		return c.lookup(jsonscan.Get(m.Params, "progressToken"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.private && c.latest == nil:
		return c.idleCall
	case c.private:
		return c.latest
	case c.turnOf != nil && c.latest != nil && c.latest.caller == c.turnOf:
		return c.latest
	case c.OnDemand:
		return c.only()
	}
	return nil
}

// only returns the single running call with a sink, or nil when there are several. mu is
// held.
func (c *Conn) only() (k *call) {
	for _, other := range c.calls {
		if other.over || other.sink() == nil {
			continue
		}
		if k != nil {
			return nil
		}
		k = other
	}
	return k
}

// setIdleCall lets the backend send requests to the client before its first call is sent: some
// send roots/list as soon as they are initialized. They go to the sink of that call, which is
// waiting for the connection.
func (c *Conn) setIdleCall(of *Caller) { c.idleCall = c.newIdleCall(of) }

// newIdleCall returns a call without a request, which carries the backend's requests to a client.
func (c *Conn) newIdleCall(of *Caller) *call {
	k := &call{conn: c, caller: of}
	k.ctx, k.clock = Start(c.ctx, 0, ErrDeadline)
	return k
}

// SetOutOfCall makes the client's out-of-call sink receive the backend's messages while no call runs,
// until the connection ends. Without such a sink nothing changes.
func (c *Conn) SetOutOfCall(of *Caller) {
	if of.OutOfCall == nil {
		return
	}
	out := *of
	out.Sink = of.OutOfCall
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleCall, c.keepsIdleCall = c.newIdleCall(&out), true
}

// EndIdleCall ends the call of setIdleCall, unless there is an out-of-call sink.
func (c *Conn) EndIdleCall() {
	c.mu.Lock()
	k := c.idleCall
	if c.keepsIdleCall {
		k = nil
	} else {
		c.idleCall = nil
	}
	c.mu.Unlock()
	if k != nil {
		k.Finish()
	}
}

// receive routes a notification or request. of is the call on whose stream it was
// received; nil for a stream of the connection. The message is copied: its frame can be reused.
func (c *Conn) receive(of *call, m wire.Message) {
	m = m.Clone()
	if m.Method == wire.Acknowledged && !c.acknowledged(of) || c.receiveOwn(m) {
		return
	}
	if m.Method == wire.LogMessage {
		c.d.o.Logged(m.Params)
	}
	by := c.viaOf(of)
	if of == nil || m.Method == wire.Progress {
		of = c.owner(m)
	}
	switch {
	case of != nil:
		of.deliver(m, by)
	case m.IsRequest():
		c.reply(c.unrouted(m))
	default:
		c.d.o.Notified(c, m.Method, m.Params)
	}
}

// viaOf returns the kind of stream that of, or nil for none, stands for in receive.
func (c *Conn) viaOf(of *call) via {
	switch {
	case of != nil:
		return onCall
	case c.private:
		return onClientStream
	}
	return onSharedStream
}

// receiveOwn handles messages that concern no client; false for others.
func (c *Conn) receiveOwn(m wire.Message) bool {
	switch m.Method {
	case wire.Ping:
		if m.IsRequest() {
			c.reply(wire.Result(m.ID, json.RawMessage("{}")))
		}
	case wire.ToolsChanged, wire.PromptsChanged, wire.ResChanged, wire.ResUpdated, wire.Acknowledged:
		c.d.o.Notified(c, m.Method, m.Params)
	case wire.Cancelled:
		c.asking.Withdraw(jsonscan.Get(m.Params, "requestId"))
	default:
		if m.IsRequest() && !wire.AsksClient(m.Method) {
			c.reply(refuse(m, wire.MethodNotFound, "method %q not found", m.Method))
			return true
		}
		return false
	}
	return true
}

// Request makes one call for the proxy itself and returns a copy of its result.
func (c *Conn) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.requestWithin(ctx, method, params, c.d.o.Timeout())
}

func (c *Conn) requestWithin(ctx context.Context, method string, params json.RawMessage, limit time.Duration) (json.RawMessage, error) {
	resp, err := c.DoWithin(ctx, &Request{Method: method, Params: params}, limit)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	b, err := resp.Bytes(c.d.o.MaxMessage)
	if err != nil {
		return nil, err
	}
	return append(json.RawMessage(nil), b...), nil
}
