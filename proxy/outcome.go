package proxy

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

// An outcome is how something ended that was done through the endpoint: a request, a call, a
// run, an effect of a run. Metrics, logs and spans all use these words, and this file alone
// decides between them.
type outcome uint8

const (
	notYet           outcome = iota
	outcomeOK                // as asked
	outcomeToolError         // the tool answered that it failed (isError)
	outcomeError             // no result: an error of the protocol, of a backend or of a script
	outcomeTimeout           // no answer in time
	outcomeCancelled         // the caller gave up
	outcomeDenied            // whoever asked may not
	outcomeLimit             // a limit ended it, or there was no room for it
	outcomeSuspended         // it ended with a question; the next request goes on
	outcomes
)

var outcomeNames = [outcomes]string{"", "ok", "tool_error", "error", "timeout", "cancelled", "denied", "limit", "suspended"}

func (o outcome) String() string { return outcomeNames[o] }

// outcomeWords lists the outcomes for the help texts of metrics.
func outcomeWords() string { return strings.Join(outcomeNames[outcomeOK:], ", ") }

// outcomeOf is the outcome of what ended with err.
func outcomeOf(err error) outcome {
	if err == nil {
		return outcomeOK
	}
	return outcomeOfError(err)
}

func outcomeOfError(err error) outcome {
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
		return outcomeSuspended
	case errors.As(err, &limit), errors.As(err, &busy):
		return outcomeLimit
	case errors.As(err, &cancelled):
		return outcomeCancelled
	case errors.As(err, &tool):
		return outcomeOfKind(tool.Kind)
	case errors.As(err, &backend):
		return outcomeOfBackend(backend.Kind)
	case errors.As(err, &refusal):
		return outcomeOfRefusal(refusal)
	case errors.As(err, &rpc):
		return outcomeOfCode(rpc.Code)
	case errors.Is(err, context.Canceled):
		return outcomeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	}
	return outcomeError
}

// outcomeIn is the outcome of what was done in ctx. What broke off because the caller left was
// cancelled, however it says so.
func outcomeIn(ctx context.Context, err error) outcome {
	if err != nil && ctx.Err() == context.Canceled {
		return outcomeCancelled
	}
	return outcomeOf(err)
}

// outcomeOfRun is the outcome of a run of a script. A script that returns an error as its
// result has answered; one that fails has not.
func outcomeOfRun(ctx context.Context, res *script.Result, err error) outcome {
	if err == nil && res.IsError {
		return outcomeToolError
	}
	return outcomeIn(ctx, err)
}

func outcomeOfKind(kind string) outcome {
	switch kind {
	case builtins.Tool:
		return outcomeToolError
	case builtins.Timeout:
		return outcomeTimeout
	}
	return outcomeError
}

func outcomeOfBackend(kind backends.Kind) outcome {
	switch kind {
	case backends.Timeout:
		return outcomeTimeout
	case backends.Cancelled:
		return outcomeCancelled
	}
	return outcomeError
}

// outcomeOfRefusal tells those who may not come in from those of whom that cannot be found out.
func outcomeOfRefusal(r *auth.Refusal) outcome {
	if r.Status >= http.StatusInternalServerError {
		return outcomeError
	}
	return outcomeDenied
}

func outcomeOfCode(code int) outcome {
	switch code {
	case wire.RequestCancelled:
		return outcomeCancelled
	case wire.Busy:
		return outcomeLimit
	}
	return outcomeError
}

// outcomeOfResult is the outcome of a call that has a result. modern: the caller's revision
// has results that ask for input.
func outcomeOfResult(result []byte, modern bool) outcome {
	switch {
	case isToolError(result):
		return outcomeToolError
	case modern && jsonscan.Contains(result, "input_required", "q") && jsonscan.GetString(result, "resultType") == "input_required":
		return outcomeSuspended
	}
	return outcomeOK
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

// note takes the value of isError or of resultType from a result that streams by.
func (o *outcome) note(value []byte) {
	switch string(value) {
	case "true":
		*o = outcomeToolError
	case `"input_required"`:
		*o = outcomeSuspended
	}
}

// outcomeOnly is the edit of a result that streams to a script: it changes nothing.
func outcomeOnly(o *outcome) jsonscan.Edit {
	return jsonscan.Edit{
		Decide: func(key string) jsonscan.Decision {
			if key == "isError" {
				return jsonscan.Change
			}
			return jsonscan.Keep
		},
		Change: func(_ string, value []byte) []byte {
			o.note(value)
			return value
		},
	}
}
