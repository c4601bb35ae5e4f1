package conn

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
)

// Request is one request to a backend, with the backend's names of tools, prompts and resources.
type Request struct {
	Method string
	// Params is the request's params. A progress token in its _meta is the caller's; it is
	// replaced in the request and restored in the notifications to the Sink.
	Params json.RawMessage
	// Header has the Mcp-Param-* headers to forward; other headers are ignored.
	Header http.Header
	// For is the client that the call is made for; nil for the proxy itself.
	For *Caller
	// Idempotent requests are retried after a lost connection.
	Idempotent bool

	modern bool // sent in the form of 2026-07-28 before the revision is negotiated
}

// Caller is the client that a call is made for.
type Caller struct {
	// Session is the id of its session; "" for a stateless client.
	Session string
	// Principal is the key of the caller's principal. Connections on which clients receive requests are never
	// shared between principals.
	Principal string
	// User is the same principal for package credentials; nil where no backend needs it.
	User *credentials.User
	// Header has the headers of the client's request that are forwarded to backends over HTTP.
	Header http.Header
	// Capabilities are the client's, as it declared them.
	Capabilities json.RawMessage
	// Info is the client's clientInfo.
	Info json.RawMessage
	// LogLevel is the log level that the client has set; "" for none.
	LogLevel string
	// Sink receives the messages that the backend sends during the call.
	Sink Sink
	// Listening is whether the client has a GET stream open.
	Listening bool
	// OutOfCall receives the messages of a private session while none of its calls runs; nil
	// for none.
	OutOfCall Sink
}

// Sink receives the messages that a backend sends during a call, in order, and always
// before Call returns. Within one call, calls of Notify never overlap; each Request
// runs on its own goroutine.
type Sink interface {
	// Notify handles a notification. While it blocks, the backend's stream is
	// blocked, unless other clients share it.
	Notify(method string, params json.RawMessage)
	// Request sends a request to the client (elicitation/create, sampling/createMessage,
	// roots/list) and waits for the response. A *wire.Error is sent to the backend
	// unchanged.
	Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// An offerer is a Sink that can also accept a notification without blocking; it may drop it
// when the client is slow.
type offerer interface {
	Offer(method string, params json.RawMessage)
}

// A leaver is a Sink that reports whether its client session has ended. Calls of a kept run continue after
// that.
type leaver interface {
	Left() bool
}

// Left reports whether the client session has ended.
func (c *Caller) Left() bool {
	l, ok := c.Sink.(leaver)
	return ok && l.Left()
}

// A poller is a Sink that is notified when the backend ends a response stream that is
// resumed after retry (SEP-1699).
type poller interface {
	Polled(retry time.Duration)
}
