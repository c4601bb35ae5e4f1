package edge

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A Client is the sender of a request: a session, or one stateless request with what its _meta declares.
type Client struct {
	Session      *Session // nil for a stateless client
	Principal    string
	Profile      string // through which it sees the catalog; "" is none
	Revision     string
	Capabilities json.RawMessage
	Info         json.RawMessage
	logLevel     string
}

// Modern reports whether the client is stateless.
func (c *Client) Modern() bool { return c.Session == nil }

// OnStdio reports whether the client has a session on standard input and output.
func (c *Client) OnStdio() bool { return c.Session != nil && c.Session.out != nil }

// Can reports whether the client declared the capability for a server-initiated request.
func (c *Client) Can(method string) bool { return wire.CanAsk(c.Capabilities, method) }

// CallsBack reports whether the client declared the capability for any server-initiated request.
func (c *Client) CallsBack() bool { return wire.CanAskAny(c.Capabilities) }

// Level is the lowest log level that the client wants; "" if it has set none.
func (c *Client) Level() string {
	if c.Session != nil {
		return c.Session.Level()
	}
	return c.logLevel
}

// Wants reports whether the client wants a log message of a level. A stateless client gets only what it asked for; a
// session that never set a level gets all messages.
func (c *Client) Wants(level string) bool {
	asked := c.Level()
	if asked == "" {
		return c.Session != nil
	}
	return wire.Severity(level) >= wire.Severity(asked)
}

// A FrameWriter writes frames to a client ahead of the response to a request.
type FrameWriter interface {
	// Send blocks until there is room for the notification.
	Send(frame []byte)
	// Offer never blocks: for a slow client older notifications are dropped.
	Offer(frame []byte)
	// Request is Send for a request to the client, which is not dropped while its response is waited for, until ctx ends.
	Request(ctx context.Context, frame []byte)
}

// A Request is one request or notification of a client.
type Request struct {
	Client *Client
	Method string          // of MCP; "GET" and "DELETE" for a session's stream and its end
	Params json.RawMessage // nil if there are none
	ID     json.RawMessage // nil for a notification
	Header http.Header     // of HTTP; nil on stdio, and for clients with a session
	Body   *Buffer         // the buffer that Params is a part of; nil if it is not reused
	Out    FrameWriter     // for frames ahead of the response
}

// SendAway ends the connection of out, if the client's revision has polling: the client is to reconnect after retry for
// the response (SEP-1699).
func SendAway(out FrameWriter, retry time.Duration) {
	if h, ok := out.(*httpReply); ok && h.polling {
		if s := h.upgrade(); s != nil && s == h.stream {
			s.SendAway(retry)
		}
	}
}

// Prime begins the response of out as an event stream with an event from which the client can resume it, if the client's
// revision has polling (SEP-1699). From then on the response has status 200, and the loss of its connection is not the end
// of the request.
func Prime(out FrameWriter) {
	if h, ok := out.(*httpReply); ok && h.polling {
		h.upgrade()
	}
}

// SeesDetails reports whether the client of out may see what operators see: a client on stdio, and one to which /readyz
// shows details.
func SeesDetails(out FrameWriter) bool {
	switch o := out.(type) {
	case *lineWriter:
		return true
	case *httpReply:
		return o.server.showsDetails(o.r)
	}
	return false
}
