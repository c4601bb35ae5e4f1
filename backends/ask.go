package backends

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// replyTimeout bounds the sending of an answer, a notification or a cancellation.
const replyTimeout = 10 * time.Second

// asksClient reports whether method is one that a backend may ask a client.
func asksClient(method string) bool { return capabilityFor(method) != "" }

// capabilityFor is the client capability that a backend's request needs.
func capabilityFor(method string) string {
	switch method {
	case wire.Elicit:
		return "elicitation"
	case wire.CreateMessage:
		return "sampling"
	case wire.RootsList:
		return "roots"
	}
	return ""
}

// callbacks reports whether a client with these capabilities can be asked anything.
func callbacks(capabilities json.RawMessage) bool {
	for _, name := range [...]string{"elicitation", "sampling", "roots"} {
		if declares(capabilities, name) {
			return true
		}
	}
	return false
}

func declares(capabilities json.RawMessage, name string) bool {
	v := wire.Get(capabilities, name)
	return v != nil && string(v) != "null"
}

// ask puts the backend's request to the caller's client on a goroutine of its own, and
// sends the answer back. c.mu is held. The call's clock stands still meanwhile.
func (c *call) ask(m wire.Message) {
	sink := c.sink()
	switch {
	case c.ended || sink == nil:
		c.conn.refuse(m, wire.InternalError, "the call that %s belongs to is over", m.Method)
		return
	case !declares(c.caller.Capabilities, capabilityFor(m.Method)):
		c.conn.refuse(m, wire.MethodNotFound, "the client has not declared %s", capabilityFor(m.Method))
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.conn.mu.Lock()
	c.conn.asking[string(m.ID)] = cancel
	c.conn.mu.Unlock()
	c.clock.pause()
	c.conn.b.spawn(func() { c.answer(ctx, cancel, sink, m) })
}

func (c *call) answer(ctx context.Context, cancel context.CancelFunc, sink Sink, m wire.Message) {
	defer cancel()
	result, err := sink.Request(ctx, m.Method, m.Params)
	withdrawn := !c.conn.answered(m.ID)
	c.clock.resume()
	switch {
	case withdrawn:
	case err != nil:
		c.conn.send(wire.Failure(m.ID, err))
	default:
		c.conn.send(wire.Result(m.ID, result))
	}
}

// answered takes a request of the backend off the list; false when the backend has
// withdrawn it.
func (c *conn) answered(id json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.asking[string(id)]
	delete(c.asking, string(id))
	return open
}

// withdraw cancels a request that the backend no longer wants answered.
func (c *conn) withdraw(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.asking[string(id)]; cancel != nil {
		cancel()
		delete(c.asking, string(id))
	}
}

func (c *conn) refuse(m wire.Message, code int, format string, args ...any) {
	c.reply(wire.Failure(m.ID, wire.Errorf(code, format, args...)))
}

// reply sends a frame without holding up the reader that calls it.
func (c *conn) reply(frame []byte) {
	c.b.spawn(func() { c.send(frame) })
}

// send sends a frame that nothing is expected for; a loss shows elsewhere.
func (c *conn) send(frame []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
	defer cancel()
	if err := c.link.send(ctx, frame); err != nil {
		c.b.log.Debug("message not sent", "err", err)
	}
}

// notify sends a notification of the proxy.
func (c *conn) notify(method string, params json.RawMessage) {
	c.send(wire.Notification(method, params))
}

// tell passes a client's notification on. The backend may ask something because of it,
// for which it needs the stream that may still be on its way.
func (c *conn) tell(method string, params json.RawMessage) {
	if h, ok := c.link.(*httpLink); ok && !c.modern {
		h.awaitStream(c.ctx)
	}
	c.notify(method, params)
}

// cancelFrame is the notification that a caller gave up on k.
func cancelFrame(k *call) []byte {
	params := strconv.AppendInt([]byte(`{"requestId":`), k.id, 10)
	return wire.Notification(wire.Cancelled, append(params, `,"reason":"the caller gave up"}`...))
}
