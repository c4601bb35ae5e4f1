// Package scripttest runs scripts in tests: its [Host] replaces backends and users.
//
//	h := &scripttest.Host{Tools: map[string]scripttest.Tool{
//		"ci_build": scripttest.Returns(`{"id": 7}`),
//	}}
//	res, err := scripttest.Run(t, h, `def run(params): return call_tool("ci_build")["id"]`, `{}`)
package scripttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Tool is a tool as a function of its arguments, which returns a CallToolResult. Returns, Says and Fails make common
// ones.
type Tool func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)

// Host is a host in memory. Its fields are set before the first run.
type Host struct {
	// Tools are the tools by name; calls of other tools fail with not_found.
	Tools map[string]Tool
	// Answer answers questions; nil: the client cannot be asked.
	Answer func(ctx context.Context, q script.Question) (json.RawMessage, error)

	// Who is the caller of the scripts; anonymous without a subject.
	Who builtins.Caller

	mu      sync.Mutex
	calls   []Call
	notices []builtins.Notice
}

// Call is one call that reached a tool.
type Call struct {
	Tool string
	Args string
}

var _ builtins.Host = (*Host)(nil)

// CallTool calls one of h.Tools.
func (h *Host) CallTool(ctx context.Context, name string, args json.RawMessage, _ builtins.CallOptions) (json.RawMessage, error) {
	tool, ok := h.Tools[name]
	if !ok {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: fmt.Sprintf("no tool %q", name)}
	}
	h.mu.Lock()
	h.calls = append(h.calls, Call{Tool: name, Args: string(args)})
	h.mu.Unlock()
	raw, err := tool(ctx, args)
	script.NoteRead(ctx, int64(len(raw)))
	return raw, err
}

// Caller returns h.Who.
func (h *Host) Caller(context.Context) (builtins.Caller, error) { return h.Who, nil }

// Elicit calls h.Answer.
func (h *Host) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	if h.Answer == nil {
		return nil, builtins.ErrNoElicitation
	}
	return h.Answer(ctx, q)
}

// Notify records n.
func (h *Host) Notify(_ context.Context, n builtins.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, n)
}

// Calls returns the calls so far, in order.
func (h *Host) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Notices returns the log messages and progress reports so far.
func (h *Host) Notices() []builtins.Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notices)
}

// Returns makes a tool that always returns the same structured content.
func Returns(content string) Tool {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) { return Structured(content), nil }
}

// Says makes a tool that always returns the same text.
func Says(text string) Tool {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) { return textResult(text, false), nil }
}

// Fails makes a tool that always returns a result with isError.
func Fails(text string) Tool {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) { return textResult(text, true), nil }
}

// Down makes a tool that cannot be reached.
func Down(text string) Tool {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: text}
	}
}

// Echo is a tool that returns its arguments.
func Echo(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	return Structured(string(args)), nil
}

// Hangs is a tool that never answers.
func Hangs(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Structured returns a result with structured content.
func Structured(content string) json.RawMessage {
	return json.RawMessage(`{"content":[],"structuredContent":` + content + `}`)
}

func textResult(text string, isError bool) json.RawMessage {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	raw, err := json.Marshal(struct {
		Content []block `json:"content"`
		IsError bool    `json:"isError"`
	}{[]block{{"text", text}}, isError})
	if err != nil {
		panic(err) // texts are always JSON
	}
	return raw
}

// Accept returns a Host.Answer that accepts every question with the same content.
func Accept(content string) func(context.Context, script.Question) (json.RawMessage, error) {
	return func(context.Context, script.Question) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept","content":` + content + `}`), nil
	}
}

// Later is a Host.Answer for a client that can only be asked between requests.
func Later(_ context.Context, q script.Question) (json.RawMessage, error) {
	return nil, &script.Suspended{Questions: []script.Question{q}}
}

// Compile compiles a script with all builtins.
func Compile(t testing.TB, src string) *script.Program {
	t.Helper()
	p, err := script.Compile(script.File{Name: "test.star", Source: []byte(src)}, script.Options{Builtins: builtins.All(), Inspect: check.NewScan(builtins.Table()).File})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Run compiles a script and runs it once.
func Run(t testing.TB, h *Host, src, args string) (*script.Result, error) {
	t.Helper()
	return Compile(t, src).Run(t.Context(), script.RunOptions{Args: json.RawMessage(args), Host: h})
}
