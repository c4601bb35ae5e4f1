package conn

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/payload"
)

// Request is one request to a backend, in the backend's own names.
type Request struct {
	Method string
	// Params is the request's params. A progress token in its _meta is the caller's; it
	// is replaced on the way out and restored in what the Sink gets.
	Params json.RawMessage
	// Header holds Mcp-Param-* headers to pass on. Other headers are not.
	Header http.Header
	// For is the client that the call is made for; nil for the proxy itself.
	For *Caller
	// Idempotent requests are sent again after a lost connection.
	Idempotent bool

	modern bool // sent in the form of 2026-07-28 before the backend is known to speak it
}

// Response is the result of a call. It must be closed.
type Response = payload.Response

// ErrTooLarge is wrapped by the error of Response.Bytes for a result over the limit.
var ErrTooLarge = payload.ErrTooLarge

// Caller is the client that a call is made for.
type Caller struct {
	// Session is the id of its session; "" for a stateless client.
	Session string
	// Principal is who is asking. Connections that call back are never shared between principals.
	Principal string
	// User is the same principal as credentials see it; nil where no backend needs that.
	User *credentials.User
	// Header is what of the client's request is passed on to backends over HTTP.
	Header http.Header
	// Capabilities are the client's, as it declared them.
	Capabilities json.RawMessage
	// Info is the client's clientInfo.
	Info json.RawMessage
	// LogLevel is the level of log messages the client wants; "" when it asked for none.
	LogLevel string
	// Sink receives what the backend sends while a call runs.
	Sink Sink
	// Listening is whether the client has a stream open for what belongs to no call.
	Listening bool
	// OutOfCall receives what a backend sends on a connection of this session's own while
	// none of its calls runs; nil when there is no place for that.
	OutOfCall Sink
}

// Sink receives what a backend sends while a call runs, in order, and always before
// Call returns. Calls of one Sink method never overlap within one call, except that
// Request runs on a goroutine of its own.
type Sink interface {
	// Notify takes a notification. While it waits for a slow client, so does the
	// backend, where it can without holding up others.
	Notify(method string, params json.RawMessage)
	// Request asks the client (elicitation/create, sampling/createMessage, roots/list)
	// and waits for the answer. A *wire.Error goes to the backend as it is.
	Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// An Offerer is a Sink that can also take a notification without waiting, which may then
// be lost when the client is slow.
type Offerer interface {
	Offer(method string, params json.RawMessage)
}

// A Poller is a Sink that wants to know when the backend ends the stream of an answer
// and will give the answer to who comes back after retry (SEP-1699).
type Poller interface {
	Polled(retry time.Duration)
}
