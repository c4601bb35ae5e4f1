// Package outcome says how something ended that was done through the endpoint: a request, a
// call, a run, an effect of a run. Metrics, logs, spans and the audit all use these words, and
// this package alone decides between them.
package outcome

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// An Outcome is how something ended.
type Outcome uint8

const (
	NotYet    Outcome = iota
	OK                // as asked
	ToolError         // the tool answered that it failed (isError)
	Error             // no result: an error of the protocol, of a backend or of a script
	Timeout           // no answer in time
	Cancelled         // the caller gave up
	Denied            // whoever asked may not
	Limit             // a limit ended it, or there was no room for it
	Suspended         // it ended with a question; the next request goes on
	Count             // how many there are
)

var names = [Count]string{"", "ok", "tool_error", "error", "timeout", "cancelled", "denied", "limit", "suspended"}

func (o Outcome) String() string { return names[o] }

// Words lists the outcomes for the help texts of metrics.
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

// OfRun is the outcome of a run of a script. A script that returns an error as its
// result has answered; one that fails has not.
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

// ofRefusal tells those who may not come in from those of whom that cannot be found out.
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

// OfResult is the outcome of a call that has a result. modern: the caller's revision
// has results that ask for input.
func OfResult(result []byte, modern bool) Outcome {
	switch {
	case isToolError(result):
		return ToolError
	case modern && jsonscan.Contains(result, "input_required", "q") && jsonscan.GetString(result, "resultType") == "input_required":
		return Suspended
	}
	return OK
}

// isToolError reports whether a result says of itself that it is an error. Where isError is
// the last member, which is where servers write it, its end tells: a literal in front of the
// last bracket is a member of the object itself, and a key with a comma or a bracket before
// its quotes begins there.
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

// Note takes the value of isError or of resultType from a result that streams by.
func (o *Outcome) Note(value []byte) {
	switch string(value) {
	case "true":
		*o = ToolError
	case `"input_required"`:
		*o = Suspended
	}
}

// Watch is the edit of a result that streams to a script: it changes nothing.
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
