package observe

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package classifies how a request, a call, a run or an effect of a run ended. Metrics, logs, spans and the
// audit all use these words, and only this package decides between them.

// An Outcome is how something ended.
type Outcome uint8

const (
	NotYet    Outcome = iota
	OK                // as requested
	ToolError         // the tool answered that it failed (isError)
	Error             // no result: an error of the protocol, of a backend or of a script
	Timeout           // no response in time
	Cancelled         // the caller cancelled
	Denied            // the principal is not allowed to
	Limit             // a limit ended it, or there was no room for it
	Suspended         // it ended with a question; the next request resumes it
	Count             // number of outcomes
)

var names = [Count]string{"", "ok", "tool_error", "error", "timeout", "cancelled", "denied", "limit", "suspended"}

func (o Outcome) String() string { return names[o] }

// Words lists the outcomes, for the help of metrics.
func Words() string { return strings.Join(names[OK:], ", ") }

// Of is the outcome of what ended with err.
func Of(err error) Outcome {
	if err == nil {
		return OK
	}
	return ofError(err)
}

func ofError(err error) Outcome {
	var (
		suspended *script.Suspended
		limit     *script.LimitError
		busy      *script.Busy
		cancelled *script.Cancelled
		tool      *builtins.ToolError
		backend   *backends.Error
		refusal   *auth.Refusal
		rpc       *wire.Error
	)
	switch {
	case errors.As(err, &suspended):
		return Suspended
	case errors.As(err, &limit), errors.As(err, &busy):
		return Limit
	case errors.As(err, &cancelled):
		return Cancelled
	case errors.As(err, &tool):
		return ofKind(tool.Kind)
	case errors.As(err, &backend):
		return ofBackend(backend.Kind)
	case errors.As(err, &refusal):
		return ofRefusal(refusal)
	case errors.As(err, &rpc):
		return ofCode(rpc.Code)
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Error
}

// In is the outcome of what was done in ctx. What broke off because the caller left was
// cancelled, however it says so.
func In(ctx context.Context, err error) Outcome {
	if err != nil && ctx.Err() == context.Canceled {
		return Cancelled
	}
	return Of(err)
}

// OfRun is the outcome of a run of a script: ToolError for a script that returned an error as its result, an error's
// outcome for one that failed.
func OfRun(ctx context.Context, res *script.Result, err error) Outcome {
	if err == nil && res.IsError {
		return ToolError
	}
	return In(ctx, err)
}

func ofKind(kind string) Outcome {
	switch kind {
	case builtins.Tool:
		return ToolError
	case builtins.Timeout:
		return Timeout
	}
	return Error
}

func ofBackend(kind backends.Kind) Outcome {
	switch kind {
	case backends.Timeout:
		return Timeout
	case backends.Cancelled:
		return Cancelled
	}
	return Error
}

// ofRefusal distinguishes refused credentials from those that could not be verified.
func ofRefusal(r *auth.Refusal) Outcome {
	if r.Status >= http.StatusInternalServerError {
		return Error
	}
	return Denied
}

func ofCode(code int) Outcome {
	switch code {
	case wire.RequestCancelled:
		return Cancelled
	case wire.Busy, wire.TooMany:
		return Limit
	case wire.Denied:
		return Denied
	}
	return Error
}

// OfResult is the outcome of a call with a result. modern: the caller's revision has input_required results.
func OfResult(result []byte, modern bool) Outcome {
	switch {
	case isToolError(result):
		return ToolError
	case modern && jsonscan.Contains(result, "input_required", "q") && jsonscan.GetString(result, "resultType") == "input_required":
		return Suspended
	}
	return OK
}

// isToolError reports whether a result has isError: true. If isError is the last member, where servers write it, the
// end of the text shows that: a literal before the last brace is a member of the object itself, and a key with a comma
// or a brace before its quotes begins there.
func isToolError(result []byte) bool {
	end := bytes.TrimRight(bytes.TrimSuffix(bytes.TrimRight(result, " \t\r\n"), []byte("}")), " \t\r\n")
	for _, value := range [...]string{"true", "false"} {
		rest, ok := bytes.CutSuffix(end, []byte(`"isError":`+value))
		if n := len(rest); ok && n > 0 && (rest[n-1] == ',' || rest[n-1] == '{') {
			return value == "true"
		}
	}
	return jsonscan.Contains(result, `"isError"`, "E") && string(jsonscan.Get(result, "isError")) == "true"
}

// Note is called with the value of isError or resultType of a streamed result.
func (o *Outcome) Note(value []byte) {
	switch string(value) {
	case "true":
		*o = ToolError
	case `"input_required"`:
		*o = Suspended
	}
}

// Watch is an edit for a streamed result to a script; it records the outcome and changes nothing.
func Watch(o *Outcome) jsonscan.Edit {
	return jsonscan.Edit{
		Decide: func(key string) jsonscan.Decision {
			if key == "isError" {
				return jsonscan.Change
			}
			return jsonscan.Keep
		},
		Change: func(_ string, value []byte) []byte {
			o.Note(value)
			return value
		},
	}
}
