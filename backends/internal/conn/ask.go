package conn

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// replyTimeout bounds the sending of an answer, a notification or a cancellation.
const replyTimeout = 10 * time.Second

// ask puts the backend's request to the caller's client on a goroutine of its own, and
// sends the answer back. c.mu is held. The call's clock stands still meanwhile.
func (c *call) ask(m wire.Message, by via) {
	sink := c.sink()
	switch {
	case c.ended || sink == nil:
		c.conn.refuse(m, wire.InternalError, "the call that %s belongs to is over", m.Method)
		return
	case !wire.CanAsk(c.caller.Capabilities, m.Method):
		c.conn.refuseUnrouted(m)
		return
	}
	ctx, cancel := c.questionContext(by)
	if most := c.conn.maxAsking(); !c.conn.asking.Add(m.ID, cancel, most) {
		cancel()
		c.conn.refuse(m, wire.InternalError, "%d requests to clients are unanswered", most)
		return
	}
	c.clock.Pause()
	c.conn.d.o.Spawn(func() { c.answer(ctx, cancel, sink, m) })
}

// maxAsking bounds the requests of one connection that its client has not answered, or that
// the clients have not that share it.
func (c *Conn) maxAsking() int {
	if c.private {
		return 100
	}
	return 10_000
}

// errAnswered is the cause that a call's context ends with when the call has its answer.
var errAnswered = errors.New("the call has its answer")

// questionContext is how long a question may be open. One that came on the call's own stream
// ends with the call. On a stream that calls share the question may belong to none of them: a
// backend that asks for the roots as soon as it is initialized asks while the first call
// runs. It outlives a call that ends well, and ends with one that is given up.
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

func (c *call) answer(ctx context.Context, cancel context.CancelFunc, sink Sink, m wire.Message) {
	defer cancel()
	result, err := sink.Request(ctx, m.Method, m.Params)
	withdrawn := !c.conn.asking.Answered(m.ID)
	c.clock.Resume()
	switch {
	case withdrawn:
	case err != nil:
		c.conn.send(wire.Failure(m.ID, err))
	default:
		c.conn.send(wire.Result(m.ID, result))
	}
}

// refuseUnrouted answers a request that can be put to no client. A connection that clients
// share has no roots of its own, which is an answer; nobody can be asked anything else there.
func (c *Conn) refuseUnrouted(m wire.Message) {
	switch {
	case m.Method == wire.RootsList && !c.OnDemand && wire.CanAsk(c.declared, m.Method):
		c.reply(wire.Result(m.ID, json.RawMessage(`{"roots":[]}`)))
	default:
		c.refuse(m, wire.MethodNotFound, "the client does not support %s", wire.MethodOf(m.Method).Capability)
	}
}

func (c *Conn) refuse(m wire.Message, code int, format string, args ...any) {
	c.reply(wire.Failure(m.ID, wire.Errorf(code, format, args...)))
}

// reply sends a frame without holding up the reader that calls it.
func (c *Conn) reply(frame []byte) {
	c.d.o.Spawn(func() { c.send(frame) })
}

// send sends a frame that nothing is expected for; a loss shows elsewhere.
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

// Forward passes a client's notification on. The backend may ask something because of it,
// for which it needs the stream that may still be on its way.
func (c *Conn) Forward(method string, params json.RawMessage) {
	if h, ok := c.transport.(*httpTransport); ok && !c.Modern {
		h.awaitStream(c.ctx)
	}
	c.notify(method, params)
}

const (
	// firstQuestions is how long a new connection's questions may hold up its first call.
	firstQuestions = time.Second
	// digestTime is how long a backend has for what it was answered before its first call.
	digestTime = 50 * time.Millisecond
)

// AwaitFirstQuestions lets a backend that asks its client as soon as it is initialized (for
// its roots, say) have the answers before the first call: without a proxy there is always a
// moment between the two. A ping tells when the backend has read that it is initialized, so
// that one without questions holds nobody up.
func (c *Conn) AwaitFirstQuestions(ctx context.Context, askable bool) {
	if !askable || c.Modern {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstQuestions)
	defer cancel()
	c.Request(ctx, wire.Ping, nil)
	asked, err := c.asking.Settled(ctx)
	if asked && err == nil {
		pace.Sleep(ctx, digestTime)
		c.Request(ctx, wire.Ping, nil)
	}
}
