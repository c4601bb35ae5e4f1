package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Host is the world that builtins reach. A server implements it over its catalog and
// its clients; scripttest has one for tests of scripts.
type Host interface {
	// CallTool calls a tool and returns its CallToolResult as it came. A tool that
	// could not be called is a *ToolError; a result with isError is no error here. Any other error says that it is not
	// known whether the tool was called.
	CallTool(ctx context.Context, name string, args json.RawMessage, o CallOptions) (json.RawMessage, error)
	// Elicit asks the user and returns the ElicitResult. A *script.Suspended says that
	// the question can only be asked between two requests; ErrNoElicitation that it
	// cannot be asked at all.
	Elicit(ctx context.Context, q script.Question) (json.RawMessage, error)
	// Notify passes on a log message or a progress report. It does not wait.
	Notify(ctx context.Context, n Notice)
}

// CallOptions accompany one call of a tool.
type CallOptions struct {
	// Timeout bounds the call; the context ends with it too.
	Timeout time.Duration
	// Key is the position of the call in the run.
	Key string
	// IdempotencyKey is the same for every attempt of this call, and for no other call: RUN/KEY. "" where the run
	// has no identity. A host sends it along, as _meta["dev.vmcp/idempotencyKey"].
	IdempotencyKey string
	// Unchecked calls go out and come back whether they fit the tool's schemas or not:
	// so did those of the engine that a migrated workflow was written for.
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
	// Pos is the place in the script.
	Pos string
}

// ErrNoElicitation is returned by a Host whose client cannot be asked anything.
var ErrNoElicitation = errors.New("the client cannot be asked: it does not support elicitation")

// What can go wrong with a call, as the field kind of try_call_tool shows it.
const (
	InvalidInput  = "invalid_input"  // the arguments do not fit the tool's schema; the tool was not called
	InvalidOutput = "invalid_output" // the result does not fit the tool's schema, or cannot be read
	Tool          = "tool"           // the tool answered with isError
	Timeout       = "timeout"        // no answer in time
	Unavailable   = "unavailable"    // the backend could not be reached: the tool was surely not called
	Unknown       = script.Unknown   // the call was sent and no answer came: whether it happened is not known
	Denied        = "denied"         // the caller may not call the tool
	NotFound      = "not_found"      // there is no such tool
)

// ToolError says why a call of a tool failed.
type ToolError struct {
	Kind string
	Msg  string
}

func (e *ToolError) Error() string { return e.Msg }

// answer reports whether the failure is the tool's answer, which stays the same when
// the run is resumed, and not an accident on the way to it.
func (e *ToolError) answer() bool { return e.Kind != Unavailable && e.Kind != Timeout }

// IdempotencyKey is the key that every attempt of a call goes with; "" without a run.
func IdempotencyKey(run, key string) string {
	if run == "" {
		return ""
	}
	return run + "/" + key
}

// hostOf returns the host of the run that t belongs to.
func hostOf(t *starlark.Thread) (Host, error) {
	h, ok := script.RunOf(t).Host().(Host)
	if !ok {
		return nil, errors.New("not available here: the script runs without a host")
	}
	return h, nil
}
