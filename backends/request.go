package backends

import (
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

type (
	// Request is one request to a backend, with the backend's names of tools, prompts and resources.
	Request = conn.Request
	// Response is the result of a call. It must be closed.
	Response = conn.Response
	// Caller is the client that a call is made for.
	Caller = conn.Caller
	// Error is the failure of a call without a response.
	Error = conn.Error
	// Kind classifies an Error, above all by whether the call may have been executed.
	Kind = conn.Kind
)

// ErrTooLarge is wrapped by the error of Response.Bytes for a result over the limit.
var ErrTooLarge = conn.ErrTooLarge

// Kinds of an Error.
const (
	// Unavailable: the call was certainly not executed. It may be retried.
	Unavailable = conn.Unavailable
	// Timeout: no response within the deadline. It may have been executed.
	Timeout = conn.Timeout
	// Interrupted: the connection broke after the call was sent. It may have been executed.
	Interrupted = conn.Interrupted
	// Protocol: the backend's response is not valid MCP.
	Protocol = conn.Protocol
	// Cancelled: the caller cancelled the call.
	Cancelled = conn.Cancelled
	// TooLarge: the request or the response exceeds a limit.
	TooLarge = conn.TooLarge
	// Denied: the credential for the call was refused, or a login is needed. It was not
	// executed.
	Denied = conn.Denied
)

// Transports of a backend.
const (
	transportStdio = conn.TransportStdio
	TransportHTTP  = conn.TransportHTTP
	TransportSSE   = conn.TransportSSE
)

// Installs reports whether a command, such as npx, may have to download the server that it starts, which may take
// minutes.
func Installs(command string) bool { return conn.Installs(command) }
