package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/script"
)

func TestOutcomeOfErrors(t *testing.T) {
	backend := func(k backends.Kind) error { return &backends.Error{Backend: "b", Kind: k, Err: errors.New("x")} }
	tool := func(kind string) error { return &builtins.ToolError{Kind: kind, Msg: "x"} }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{errors.New("anything"), "error"},
		{wire.Errorf(wire.InvalidParams, "unknown tool"), "error"},
		{wire.Errorf(wire.Busy, "busy"), "limit"},
		{edge.ErrCancelled, "cancelled"},
		{context.Canceled, "cancelled"},
		{context.DeadlineExceeded, "timeout"},
		{backend(backends.Timeout), "timeout"},
		{backend(backends.Cancelled), "cancelled"},
		{backend(backends.Unavailable), "error"},
		{backend(backends.Interrupted), "error"},
		{backend(backends.Protocol), "error"},
		{tool(builtins.Tool), "tool_error"},
		{tool(builtins.Timeout), "timeout"},
		{tool(builtins.InvalidInput), "error"},
		{tool(builtins.NotFound), "error"},
		{&script.LimitError{Limit: "steps"}, "limit"},
		{&script.Busy{Why: "no memory"}, "limit"},
		{&script.Suspended{}, "suspended"},
		{&script.Cancelled{Cause: context.Canceled}, "cancelled"},
		{&auth.Refusal{Status: 401}, "denied"},
		{&auth.Refusal{Status: 503}, "error"},
	} {
		if got := observe.Of(tt.err).String(); got != tt.want {
			t.Errorf("Of(%T %v) = %s, want %s", tt.err, tt.err, got, tt.want)
		}
		if got := observe.Of(fmt.Errorf("around: %w", tt.err)).String(); tt.err != nil && got != tt.want {
			t.Errorf("Of(%T %v), wrapped, = %s, want %s", tt.err, tt.err, got, tt.want)
		}
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if got := observe.In(left, backend(backends.Interrupted)); got != observe.Cancelled {
		t.Errorf("what broke off because its caller left is %s, want cancelled", got)
	}
}

func TestOutcomeOfResults(t *testing.T) {
	for _, tt := range []struct {
		result string
		modern bool
		want   string
	}{
		{`{"content":[]}`, true, "ok"},
		{`{"content":[],"isError":false}`, true, "ok"},
		{`{"content":[],"isError":true}`, true, "tool_error"},
		{`{"content":[],"isError":true } ` + "\n", true, "tool_error"},
		{`{"isError":true}`, false, "tool_error"},
		{`{"isError":true,"content":[]}`, false, "tool_error"},
		{`{"isError" : true}`, false, "tool_error"},
		{`{"content":[{"type":"text","text":"\"isError\":true"}]}`, true, "ok"},
		{`{"structuredContent":{"isError":true}}`, true, "ok"},
		{`{"x\"isError":true}`, true, "ok"},
		{`{"isError":true,"isError":false}`, true, "ok"},
		{`{"resultType":"input_required","inputRequests":{}}`, true, "suspended"},
		{`{"resultType":"input_required","inputRequests":{}}`, false, "ok"},
		{`{"resultType":"complete","content":[{"type":"text","text":"input_required"}]}`, true, "ok"},
		{``, true, "ok"},
		{`true`, true, "ok"},
	} {
		if got := observe.OfResult([]byte(tt.result), tt.modern).String(); got != tt.want {
			t.Errorf("OfResult(%s, modern %v) = %s, want %s", tt.result, tt.modern, got, tt.want)
		}
	}
}

// TestOutcomesHaveNames: the names that the help of metrics lists.
func TestOutcomesHaveNames(t *testing.T) {
	if got, want := observe.Words(), "ok, tool_error, error, timeout, cancelled, denied, limit, suspended"; got != want || strings.Count(got, ",") != int(observe.Count)-2 {
		t.Errorf("Count are %s, want %s", got, want)
	}
}
