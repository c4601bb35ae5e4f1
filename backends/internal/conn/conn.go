package conn

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/deadline"
	"github.com/vmcp-dev/vmcp/backends/internal/listing"
	"github.com/vmcp-dev/vmcp/backends/internal/questions"
	"github.com/vmcp-dev/vmcp/backends/internal/queue"
	"github.com/vmcp-dev/vmcp/internal/httpclient"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// transport carries the frames of one connection.
type transport interface {
	// roundTrip sends the call's request and returns its answer, having delivered
	// everything that came before it.
	roundTrip(c *call) (*Response, error)
	// send passes on a notification or an answer.
	send(ctx context.Context, frame []byte) error
	// cancel notifies the backend that the caller gave up on a call that was sent.
	cancel(c *call)
	// close ends the transport and waits for its goroutines.
	close()
}

// Conn is one connection to a backend, or one session with it.
type Conn struct {
	d           *Dialer
	transport   transport
	ctx         context.Context // ends with the connection
	stop        context.CancelCauseFunc
	Modern      bool
	LegacyToo   bool                  // it is modern, and speaks a revision with sessions as well
	Peer        listing.Peer          // what the backend says of itself
	declared    json.RawMessage       // the client capabilities declared at initialize
	multiplexed bool                  // all calls share one stream of frames
	OnDemand    bool                  // it is a private session's, opened when that needs it
	private     bool                  // exclusive to one client: everything on it is that client's
	Session     string                // whose it is, when it is a session's
	legacy      bool                  // no modern revision is wanted
	counted     bool                  // it is counted elsewhere, not in Counts
	reserved    Slot                  // what it counts as while it is open; nil for one that is not counted
	credential  credentials.Source    // with which its HTTP requests are made; nil: none
	http        *httpclient.Transport // of a principal's connection; nil: the backend's
	asking      *questions.Table      // the backend's requests that a client is answering
	turn        chan struct{}         // held by the one call that may call back or log; nil where there are no turns

	mu            sync.Mutex
	calls         map[int64]*call
	leaving       chan struct{} // closed when the last call of a lost connection has ended
	latest        *call         // the newest call with a sink
	turnOf        *Caller       // who holds turn
	idleCall      *call         // stands for the client that c is for while none of its calls runs
	keepsIdleCall bool          // idleCall stays: the client has an out-of-call sink

	levelMu sync.Mutex // held while the level is being set
	level   string     // guarded by levelMu: what logging/setLevel was last sent
}

func (d *Dialer) newConn(p Purpose) *Conn {
	c := &Conn{d: d, declared: p.Capabilities, calls: map[int64]*call{}, asking: questions.New()}
	if who := p.Caller; who != nil {
		c.OnDemand, c.Session = true, who.Session
		c.private = who.Session != "" || who.Principal != "" || d.transport == TransportStdio
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

// Hold has the connection count as s while it is open.
func (c *Conn) Hold(s Slot) { c.reserved = s }

// Usable reports whether the connection is not lost and not closed.
func (c *Conn) Usable() bool { return c.ctx.Err() == nil }

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Lost is closed when the connection can no longer be used.
func (c *Conn) Lost() <-chan struct{} { return c.ctx.Done() }

// Fail marks the connection as unusable because of err.
func (c *Conn) Fail(err error) { c.stop(Bare(err)) }

// Cause is why the connection was lost; nil while it is usable.
func (c *Conn) Cause() error { return context.Cause(c.ctx) }

// Close ends the connection and waits for what it started.
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

// Abandon closes a connection that was lost once its running calls have ended: each of
// them finds out by itself what became of it.
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

// Do makes one call on this connection.
func (c *Conn) Do(ctx context.Context, r *Request) (*Response, error) {
	return c.DoWithin(ctx, r, c.d.o.Timeout())
}

// DoWithin is Do with another limit for a call that makes no progress; 0 is none, and the call is no
// running one to Counts.
func (c *Conn) DoWithin(ctx context.Context, r *Request, limit time.Duration) (*Response, error) {
	k := c.begin(ctx, r, limit)
	resp, err := c.transport.roundTrip(k)
	if err == nil && resp.Body != nil {
		return resp, nil // the call ends with its body
	}
	if err != nil && k.ctx.Err() != nil && c.ctx.Err() == nil {
		c.transport.cancel(k)
	}
	k.Finish()
	return resp, err
}

// begin prepares a call and registers it.
func (c *Conn) begin(ctx context.Context, r *Request, limit time.Duration) *call {
	k := &call{conn: c, id: c.d.nextID.Add(1), method: r.Method, params: r.Params, header: r.Header, caller: r.For, modern: c.Modern || r.modern}
	k.ctx, k.clock = deadline.Start(ctx, limit, ErrDeadline)
	k.encode()
	if c.multiplexed {
		k.queue = queue.New()
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

// closing reports whether close was called: calls of a lost connection may still end
// well, those of a closed one are over.
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

// concluded notes that k has its answer: what comes behind it belongs to another call.
func (c *Conn) concluded(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passOver(k)
}

// passOver makes another call the newest one when it is k. mu is held.
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

// owner finds the call that a message belongs to when it came outside of any call's
// stream, or nil when that is not certain.
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

// only is the one running call with a sink, or nil when there are several: callers that
// nothing tells apart share the connection. mu is held.
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

// setIdleCall lets the backend ask the client that a connection is opened for before its
// first call is sent: some ask for the roots as soon as they are initialized. That call is
// waiting, so its stream is where the client is sure to be reached.
func (c *Conn) setIdleCall(of *Caller) { c.idleCall = c.newIdleCall(of) }

// newIdleCall is a call that is none: questions to of can be asked in it.
func (c *Conn) newIdleCall(of *Caller) *call {
	k := &call{conn: c, caller: of}
	k.ctx, k.clock = deadline.Start(c.ctx, 0, ErrDeadline)
	return k
}

// SetOutOfCall has questions that come while no call runs asked in another place from now on, for
// as long as the connection lives; of a client without such a place they end with its call.
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

// EndIdleCall ends what setIdleCall began.
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

// receive takes a notification or request. of is the call on whose stream it came; nil
// when it came on a stream of the whole connection.
func (c *Conn) receive(of *call, m wire.Message) {
	if c.receiveOwn(m) {
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
		c.refuseUnrouted(m)
	default:
		c.d.o.Notified(c, m.Method, m.Params)
	}
}

// viaOf is the kind of stream that belongs to the call of, or to none.
func (c *Conn) viaOf(of *call) via {
	switch {
	case of != nil:
		return onCall
	case c.private:
		return onClientStream
	}
	return onSharedStream
}

// receiveOwn handles what concerns the connection and no client.
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
			c.refuse(m, wire.MethodNotFound, "method %q not found", m.Method)
			return true
		}
		return false
	}
	return true
}

// Request makes one call of the proxy itself and returns a copy of its result.
func (c *Conn) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	resp, err := c.Do(ctx, &Request{Method: method, Params: params})
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
