package backends

import (
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/payload"
)

type (
	// Request is one request to a backend, in the backend's own names.
	Request = conn.Request
	// Response is the result of a call. It must be closed.
	Response = payload.Response
	// Caller is the client that a call is made for.
	Caller = conn.Caller
	// Sink receives what a backend sends while a call runs.
	Sink = conn.Sink
	// An Offerer is a Sink that can also take a notification without waiting.
	Offerer = conn.Offerer
	// A Poller is a Sink that wants to know when the answer has to be fetched.
	Poller = conn.Poller
	// Error is a call that got no answer.
	Error = conn.Error
	// Kind says what became of a call that has no answer.
	Kind = conn.Kind
)

// ErrTooLarge is wrapped by the error of Response.Bytes for a result over the limit.
var ErrTooLarge = payload.ErrTooLarge

// Kinds of an Error.
const (
	// Unavailable: the call surely was not executed. It may be made again.
	Unavailable = conn.Unavailable
	// Timeout: no answer within the deadline. It may have been executed.
	Timeout = conn.Timeout
	// Interrupted: the connection broke after the call was sent. It may have been executed.
	Interrupted = conn.Interrupted
	// Protocol: the backend answered something that is no MCP answer.
	Protocol = conn.Protocol
	// Cancelled: the caller gave up.
	Cancelled = conn.Cancelled
	// TooLarge: the request or the answer exceeds a limit.
	TooLarge = conn.TooLarge
	// Denied: there is no credential for the call, because somebody decided so. It was not
	// executed.
	Denied = conn.Denied
)

// Transports of a backend.
const (
	TransportStdio = conn.TransportStdio
	TransportHTTP  = conn.TransportHTTP
	TransportSSE   = conn.TransportSSE
)
