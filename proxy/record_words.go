package proxy

import (
	"errors"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	"github.com/vmcp-dev/vmcp/proxy/observe"
)

// types are the event types by method.
var types = map[string]string{
	wire.ToolsCall: audit.ToolCall, wire.ResourcesRead: audit.ResourceRead, wire.PromptsGet: audit.PromptGet,
	wire.ToolsList: audit.ToolsList, wire.ResourcesList: audit.ResourcesList, wire.TemplatesList: audit.ResourcesList,
	wire.PromptsList: audit.PromptsList, wire.Initialize: audit.Initialize, wire.Complete: audit.Completion,
	wire.Ping: audit.Ping, wire.SetLevel: audit.Logging,
	wire.Initialized: audit.Notification, wire.Cancelled: audit.Notification, wire.Progress: audit.Notification, wire.RootsChanged: audit.Notification,
}

// memberType is the event type for a method.
func memberType(method string) string {
	if t := types[method]; t != "" {
		return t
	}
	if strings.HasPrefix(method, "notifications/") {
		return audit.Notification
	}
	return audit.Request
}

// kind is the type of the target of a call by that method.
func kind(method string) string {
	switch method {
	case wire.ToolsCall:
		return "tool"
	case wire.PromptsGet:
		return "prompt"
	case wire.ResourcesRead, wire.Subscribe, wire.Unsubscribe:
		return "resource"
	case wire.TasksGet, wire.TasksUpdate, wire.TasksCancel, wire.TasksResult:
		return "task"
	}
	return ""
}

// outcome is an outcome in the vocabulary of the audit.
func outcome(o observe.Outcome, err error) string {
	switch o {
	case observe.OK, observe.Suspended:
		return audit.Success
	case observe.ToolError:
		return audit.ApplicationError
	case observe.Denied:
		return audit.Denied
	}
	switch code(err) {
	case wire.InvalidParams, wire.InvalidRequest, wire.ParseError, wire.MethodNotFound, wire.ResourceNotFound, wire.UnsupportedVersion, wire.MissingCapability, wire.HeaderMismatch:
		return audit.Error
	case wire.Denied, wire.TooMany:
		return audit.Denied
	}
	return audit.Failure
}

// reason distinguishes outcomes for which the audit has the same word.
func reason(o observe.Outcome) string {
	switch o {
	case observe.Suspended, observe.Timeout, observe.Cancelled, observe.Limit:
		return o.String()
	}
	return ""
}

// code is the JSON-RPC code of an error, 0 for none.
func code(err error) int {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc.Code
	}
	return 0
}
