package isolate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
)

// Errors of hosts and of migrated workflows, by their kind.
const (
	kindTool          = "tool"
	kindNoElicitation = "no elicitation"
	kindWorkflow      = "workflow"
	kindDeadline      = "deadline"
	kindCanceled      = "canceled"
)

type toolError struct {
	Kind []byte `json:"kind"`
	Msg  []byte `json:"msg"`
}

// encodeHost encodes the first error in the tree of err that has a kind; "" when none has.
func encodeHost(err error) (kind string, data []byte) {
	var tool *builtins.ToolError
	var workflow *legacy.Error
	switch {
	case errors.As(err, &workflow):
		return kindWorkflow, []byte(workflow.Error())
	case errors.As(err, &tool):
		data, fault := json.Marshal(toolError{[]byte(tool.Kind), []byte(tool.Msg)})
		if fault != nil {
			panic(fault) // texts
		}
		return kindTool, data
	case errors.Is(err, builtins.ErrNoElicitation):
		return kindNoElicitation, nil
	case errors.Is(err, context.DeadlineExceeded):
		return kindDeadline, nil
	case errors.Is(err, context.Canceled):
		return kindCanceled, nil
	}
	return "", nil
}

// decodeHost decodes the error; nil for an unknown kind.
func decodeHost(kind string, data []byte) error {
	switch kind {
	case kindTool:
		var e toolError
		if json.Unmarshal(data, &e) != nil {
			return nil
		}
		return &builtins.ToolError{Kind: string(e.Kind), Msg: string(e.Msg)}
	case kindWorkflow:
		return legacy.ErrorOf(string(data))
	case kindNoElicitation:
		return builtins.ErrNoElicitation
	case kindDeadline:
		return context.DeadlineExceeded
	case kindCanceled:
		return context.Canceled
	}
	return nil
}
