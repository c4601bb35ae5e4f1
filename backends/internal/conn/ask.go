package conn

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// replyTimeout bounds the sending of a response, a notification or a cancellation.
const replyTimeout = 10 * time.Second

// ask forwards the backend's request to the caller's client and sends the response back,
// on a new goroutine. The call's timeout is suspended meanwhile. If the client cannot be asked, it returns the response.
func (c *call) ask(m wire.Message, by via) (refusal []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sink := c.sink()
	switch {
	case c.ended || sink == nil:
		return refuse(m, wire.InternalError, "the call that %s belongs to has ended", m.Method)
	case !wire.CanAsk(c.caller.Capabilities, m.Method):
		return c.conn.unrouted(m)
	}
	ctx, cancel := c.questionContext(by)
	q, err := c.conn.asking.Add(c.tally(), &m, cancel)
	if err != nil {
		cancel()
		return refuse(m, wire.InternalError, "%s: %v", m.Method, err)
	}
	c.clock.Pause()
	if !c.conn.d.o.Spawn(func() { c.answer(ctx, q, sink, m) }) {
		c.clock.Resume()
		cancel()
		q.Done()
	}
	return nil
}

// tally counts the backend's requests with those that they share a bound with.
func (c *call) tally() *Tally {
	if c.conn.private {
		return &c.conn.asked
	}
	return &c.asked
}

// errAnswered is the cause of a call's context after its response.
var errAnswered = errors.New("the call has its response")

// questionContext returns the context of a backend's request. A request received on the call's
// own stream ends with the call. One received on a shared stream of a client session may belong
// to no call, such as a roots/list right after initialize while the first call runs: it survives
// a call that succeeds, and ends with one that is cancelled.
func (c *call) questionContext(by via) (context.Context, context.CancelFunc) {
	if by == onCall || !c.conn.private || c.conn.Session == "" {
		return context.WithCancel(c.ctx)
	}
	ctx, cancel := context.WithCancel(c.conn.ctx)
	stop := context.AfterFunc(c.ctx, func() {
		if context.Cause(c.ctx) != errAnswered {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// answer asks the client, and sends the response unless the backend has cancelled its request.
func (c *call) answer(ctx context.Context, q *Question, sink Sink, m wire.Message) {
	defer q.Done()
	defer q.cancel()
	result, err := sink.Request(ctx, m.Method, m.Params)
	withdrawn := !q.Answered()
	c.clock.Resume()
	switch {
	case withdrawn:
	case err != nil:
		c.conn.reply(wire.Failure(m.ID, err))
	default:
		c.conn.reply(wire.Result(m.ID, result))
	}
}

// unrouted is the response to a request that belongs to no client. On a shared connection
// roots/list gets an empty list; all other requests are refused.
func (c *Conn) unrouted(m wire.Message) []byte {
	if m.Method == wire.RootsList && !c.OnDemand && wire.CanAsk(c.declared, m.Method) {
		return wire.Result(m.ID, json.RawMessage(`{"roots":[]}`))
	}
	return refuse(m, wire.MethodNotFound, "the client does not support %s", wire.MethodOf(m.Method).Capability)
}

// refuse is a response with an error.
func refuse(m wire.Message, code int, format string, args ...any) []byte {
	return wire.Failure(m.ID, wire.Errorf(code, format, args...))
}

// send sends a notification or response. Its errors are logged only, because a lost connection is detected
// elsewhere.
func (c *Conn) send(frame []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
	defer cancel()
	if err := c.transport.send(ctx, frame); err != nil {
		c.d.o.Log.Debug("message not sent", "err", err)
	}
}

// notify sends a notification of the proxy.
func (c *Conn) notify(method string, params json.RawMessage) {
	c.send(wire.Notification(method, params))
}

// Forward sends a client's notification. It first waits for the session's stream, because the
// backend may react with a request on it.
func (c *Conn) Forward(method string, params json.RawMessage) {
	c.AwaitStream(c.ctx)
	c.notify(method, params)
}

// AwaitStream waits until the GET stream of a session is open, at most streamTime.
func (c *Conn) AwaitStream(ctx context.Context) {
	if h, ok := c.transport.(*httpTransport); ok && !c.Modern {
		h.awaitStream(ctx)
	}
}

const (
	// firstQuestions bounds how long the backend's first requests delay the first call.
	firstQuestions = time.Second
	// digestTime is how long a backend has to process the responses before its first call.
	digestTime = 50 * time.Millisecond
)

// AwaitFirstQuestions waits until the requests that a backend sends as soon as it is
// initialized (roots/list, for example) are answered: without a proxy there is always a delay
// between initialization and the first call. The response to a ping shows that the backend has
// read the initialized notification, so that a backend without such requests delays nothing.
func (c *Conn) AwaitFirstQuestions(ctx context.Context, askable bool) {
	if !askable || c.Modern {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstQuestions)
	defer cancel()
	c.Request(ctx, wire.Ping, nil)
	asked, err := c.asking.Settled(ctx)
	if asked && err == nil {
		endpoint.Sleep(ctx, digestTime)
		c.Request(ctx, wire.Ping, nil)
	}
}
