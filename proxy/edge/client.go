package edge

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
)

// A Client is who a request comes from: a legacy session, or one stateless request with
// what its _meta says.
type Client struct {
	Session      *Session // nil for a stateless client
	Principal    string
	Profile      string // what it sees the catalog through; "" is none
	Revision     string
	Capabilities json.RawMessage
	Info         json.RawMessage
	logLevel     string
}

// Modern reports whether the client is stateless.
func (c *Client) Modern() bool { return c.Session == nil }

// Can reports whether the client declared what a server-initiated request needs.
func (c *Client) Can(method string) bool { return wire.CanAsk(c.Capabilities, method) }

// CallsBack reports whether any server-initiated request can reach the client.
func (c *Client) CallsBack() bool { return wire.CanAskAny(c.Capabilities) }

// Level is the least log level that the client wants; "" when it has set none.
func (c *Client) Level() string {
	if c.Session != nil {
		return c.Session.Level()
	}
	return c.logLevel
}

// Wants reports whether a log message of this level is for the client. A stateless
// client gets none it did not ask for; a session that never set a level gets all.
func (c *Client) Wants(level string) bool {
	asked := c.Level()
	if asked == "" {
		return c.Session != nil
	}
	return wire.Severity(level) >= wire.Severity(asked)
}

// A FrameWriter is where frames for a client go before the result of a request.
type FrameWriter interface {
	// Send waits until there is room for the notification.
	Send(frame []byte)
	// Offer never waits: a client that is slow loses older notifications.
	Offer(frame []byte)
	// Request is Send for a request to the client, which is never lost.
	Request(frame []byte)
}

// A Request is one request or notification of a client, as it came in.
type Request struct {
	Client *Client
	Method string          // of MCP; "GET" and "DELETE" of a session's stream and of a session
	Params json.RawMessage // nil where there are none
	ID     json.RawMessage // nil of what has no response
	Header http.Header     // of HTTP; nil on stdio, and for clients with a session
	Body   *body.Buffer    // what Params is a part of; nil where nobody reuses it
	Out    FrameWriter     // where frames go ahead of the response
}

// SendAway ends the connection that out writes to where the client's revision has polling:
// the client is asked to come back for the answer after retry (SEP-1699).
func SendAway(out FrameWriter, retry time.Duration) {
	if h, ok := out.(*httpReply); ok && h.polling {
		if s := h.upgrade(); s != nil && s == h.stream {
			s.sendAway(retry)
		}
	}
}

// SeesDetails reports whether the client that out writes to may see what operators see: who
// started this program, and whoever sees the details of /readyz.
func SeesDetails(out FrameWriter) bool {
	switch o := out.(type) {
	case *lineWriter:
		return true
	case *httpReply:
		return o.server.showsDetails(o.r)
	}
	return false
}
