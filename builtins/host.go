package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Host connects the builtins to backends and clients. A server implements it over its catalog and its sessions;
// package scripttest has one for tests of scripts.
type Host interface {
	// CallTool calls a tool and returns its CallToolResult unchanged. The error is a *ToolError if the tool could not
	// be called; a result with isError is not an error here. With any other error it is not known whether the tool was
	// called.
	CallTool(ctx context.Context, name string, args json.RawMessage, o CallOptions) (json.RawMessage, error)
	// Elicit asks the user and returns the ElicitResult. The error is a *script.Suspended if the question can only be
	// asked between two requests, and ErrNoElicitation if it cannot be asked at all.
	Elicit(ctx context.Context, q script.Question) (json.RawMessage, error)
	// Notify sends a log message or a progress report. It does not wait.
	Notify(ctx context.Context, n Notice)
}

// CallOptions are the options of one call of a tool.
type CallOptions struct {
	// Timeout bounds the call; the context ends with it, too. Of a scripted tool it bounds the time in which its run is awake, as
	// limits.time does: its context is Untimed.
	Timeout time.Duration
	Untimed context.Context
	// Key is the position of the call in the run.
	Key string
	// IdempotencyKey is the same for every attempt of this call, and unique to it: RUN/KEY. "" if the run has no ID. A
	// host sends it as _meta["dev.vmcp/idempotencyKey"].
	IdempotencyKey string
	// Unchecked calls are made whether or not arguments and result fit the tool's schemas, as in the legacy engine of
	// migrated workflows.
	Unchecked bool
}

// Notice is a log message or a progress report of a script.
type Notice struct {
	Kind  string // "log" or "progress"
	Level string // of a log message: an MCP logging level
	// Message is the text of either.
	Message string
	// Fields are the additional fields of a log message, a JSON object or nil.
	Fields json.RawMessage
	// Done and Total are the progress; Total is 0 when it is not known.
	Done, Total float64
	// Pos is the position in the script.
	Pos string
}

// ErrNoElicitation is returned by a Host whose client cannot be asked anything.
var ErrNoElicitation = errors.New("the client cannot be asked: it does not support elicitation")

// The kinds of failed calls, as the field kind of try_call_tool shows them.
const (
	InvalidInput  = "invalid_input"  // the arguments do not fit the tool's schema; the tool was not called
	InvalidOutput = "invalid_output" // the result does not fit the tool's schema, or cannot be read
	Tool          = "tool"           // the tool answered with isError
	Timeout       = "timeout"        // no answer in time
	Unavailable   = "unavailable"    // the backend could not be reached: the tool was certainly not called
	Unknown       = script.Unknown   // the call was sent and no answer was received: whether it happened is not known
	Denied        = "denied"         // the caller may not call the tool
	NotFound      = "not_found"      // there is no such tool
)

// ToolError is the reason why a call of a tool failed.
type ToolError struct {
	Kind string
	Msg  string
}

func (e *ToolError) Error() string { return e.Msg }

// answer reports whether the failure is an answer, which a resumed run gets again, and not a failure of the
// connection.
func (e *ToolError) answer() bool { return e.Kind != Unavailable && e.Kind != Timeout }

// IdempotencyKey returns the key that is sent with every attempt of a call; "" if the run has no ID.
func IdempotencyKey(run, key string) string {
	if run == "" {
		return ""
	}
	return run + "/" + key
}

// hostOf returns the host of the run of t.
func hostOf(t *starlark.Thread) (Host, error) {
	h, ok := script.RunOf(t).Host().(Host)
	if !ok {
		return nil, errors.New("not available here: the script runs without a host")
	}
	return h, nil
}
