package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A client is who a request comes from: a legacy session, or one stateless request with
// what its _meta says.
type client struct {
	session      *session // nil for a stateless client
	principal    string
	revision     string
	capabilities json.RawMessage
	info         json.RawMessage
	logLevel     string
}

func (c *client) modern() bool { return c.session == nil }

// can reports whether the client declared what a server-initiated request needs.
func (c *client) can(method string) bool {
	switch method {
	case wire.Elicit:
		return wire.Get(c.capabilities, "elicitation") != nil
	case wire.CreateMessage:
		return wire.Get(c.capabilities, "sampling") != nil
	case wire.RootsList:
		return wire.Get(c.capabilities, "roots") != nil
	}
	return false
}

// callsBack reports whether any server-initiated request can reach the client.
func (c *client) callsBack() bool {
	return c.can(wire.Elicit) || c.can(wire.CreateMessage) || c.can(wire.RootsList)
}

// An outlet is where frames for a client go before the result of a request.
type outlet interface {
	send(frame []byte)
}

// An exchange is one request of a client while it is served. To the backend it is the
// Sink of the call.
type exchange struct {
	p      *Proxy
	client *client
	method string
	params json.RawMessage // the client's, with the reserved _meta keys taken off
	header http.Header     // nil on stdio
	token  json.RawMessage // the client's progress token
	body   *buffer         // what params is a part of; nil when nobody reuses it
	live   *liveCall       // set while a stateless client's call may be parked
	out    outlet
}

func newExchange(p *Proxy, c *client, method string, params json.RawMessage, out outlet) *exchange {
	x := &exchange{p: p, client: c, method: method, params: params, out: out}
	if meta := wire.Get(params, "_meta"); meta != nil {
		x.token = wire.Get(meta, "progressToken")
		if cleaned := withoutReserved(meta); len(cleaned) != len(meta) {
			x.params = wire.Set(params, "_meta", cleaned)
		}
	}
	return x
}

// withoutReserved takes the keys that belong to the protocol off a _meta object: no peer
// may speak for another.
func withoutReserved(meta json.RawMessage) json.RawMessage {
	return wire.Delete(meta, func(k string) bool {
		return len(k) > len(wire.MetaPrefix) && k[:len(wire.MetaPrefix)] == wire.MetaPrefix
	})
}

// caller describes the client to a backend.
func (x *exchange) caller() *backends.Caller {
	c := &backends.Caller{
		Principal:    x.client.principal,
		Capabilities: x.client.capabilities,
		Info:         x.client.info,
		LogLevel:     x.client.level(),
		Sink:         x,
	}
	if s := x.client.session; s != nil {
		c.Session, c.Between = s.id, s.between
	}
	return c
}

func (c *client) level() string {
	if c.session != nil {
		return c.session.level()
	}
	return c.logLevel
}

// Notify passes a backend's notification on to the client that caused it.
func (x *exchange) Notify(method string, params json.RawMessage) {
	if method == wire.LogMessage && !x.client.wants(wire.GetString(params, "level")) {
		return
	}
	x.out.send(wire.Notification(method, cleanMeta(params)))
}

// cleanMeta takes the reserved keys off the _meta of what a backend sends on its own.
func cleanMeta(params json.RawMessage) json.RawMessage {
	if !contains(params, wire.MetaPrefix, "x") {
		return params
	}
	meta := withoutReserved(wire.Get(params, "_meta"))
	if len(meta) > len("{}") {
		return wire.Set(params, "_meta", meta)
	}
	return wire.Delete(params, func(key string) bool { return key == "_meta" })
}

// wants reports whether a log message of this level is for the client. A stateless
// client gets none it did not ask for; a session that never set a level gets all.
func (c *client) wants(level string) bool {
	asked := c.level()
	if asked == "" {
		return c.session != nil
	}
	return severity(level) >= severity(asked)
}

// severity orders the log levels of RFC 5424 as MCP names them.
func severity(level string) int {
	for i, l := range [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		if l == level {
			return i
		}
	}
	return -1
}

// Polled passes on that the backend will answer to who comes back (SEP-1699).
func (x *exchange) Polled(retry time.Duration) {
	if h, ok := x.out.(*httpReply); ok && h.polling {
		if s := h.upgrade(); s != nil && s == h.stream {
			s.sendAway(retry)
		}
	}
}

// Request asks the client and waits for its answer.
func (x *exchange) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !x.client.can(method) {
		return nil, wire.Errorf(wire.MethodNotFound, "the client did not declare the capability for %s", method)
	}
	if x.live != nil {
		return x.live.ask(ctx, method, params)
	}
	if x.client.session == nil {
		return nil, wire.Errorf(wire.MethodNotFound, "%s cannot be asked inside this request", method)
	}
	return x.client.session.ask(ctx, x.out, method, params)
}
