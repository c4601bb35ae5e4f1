package editor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// Tools is an endpoint with tools: *client.Endpoint.
type Tools interface {
	Tools(ctx context.Context) ([]*mcp.Tool, error)
	Call(ctx context.Context, c client.Call) (*client.Result, error)
}

// tool is a tool that scripts can call.
type tool struct {
	*mcp.Tool
	input, output       json.RawMessage
	takes, gives        *schema.Schema // nil: anything
	destructive, agreed bool
}

// host gives the scripts of a session the tools of an endpoint, and asks the person.
type host struct {
	o     *REPLOptions
	tools map[string]*tool
	mu    sync.Mutex // one call at a time: the endpoint keeps one result, and the person answers one question
}

var _ builtins.Host = (*host)(nil)

// newHost lists the tools of the endpoint.
func newHost(ctx context.Context, o *REPLOptions) (*host, error) {
	h := &host{o: o, tools: map[string]*tool{}}
	if o.Tools == nil {
		return h, nil
	}
	list, err := o.Tools.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		h.tools[t.Name] = newTool(t)
	}
	return h, nil
}

func newTool(t *mcp.Tool) *tool {
	out := &tool{Tool: t, input: schemaJSON(t.InputSchema), output: schemaJSON(t.OutputSchema)}
	out.takes, out.gives = compiled(out.input), compiled(out.output)
	a := t.Annotations
	readOnly := a != nil && a.ReadOnlyHint
	harmless := a != nil && a.DestructiveHint != nil && !*a.DestructiveHint
	out.destructive = !readOnly && !harmless // the default of destructiveHint is true in MCP
	return out
}

func schemaJSON(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "null" {
		return nil
	}
	return raw
}

func compiled(raw json.RawMessage) *schema.Schema {
	if raw == nil {
		return nil
	}
	s, err := schema.CompileForeign(raw)
	if err != nil {
		return nil
	}
	return s
}

// adapt converts the arguments of a call, as in the server.
func (h *host) adapt(_ context.Context, e script.Effect) (json.RawMessage, string) {
	if t := h.tool(e.Name); t != nil {
		return builtins.Convert(t.takes, e.Args)
	}
	return nil, ""
}

// CallTool calls a tool of the endpoint; it asks the person first if the tool may be
// destructive.
func (h *host) CallTool(ctx context.Context, name string, args json.RawMessage, _ builtins.CallOptions) (json.RawMessage, error) {
	t := h.tool(name)
	if t == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: h.unknown(name)}
	}
	if t.takes != nil {
		if err := t.takes.Validate(args); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf("the arguments do not fit the input schema of %s: %v", name, err)}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := h.agree(ctx, t, args); err != nil {
		return nil, err
	}
	result, err := h.o.Tools.Call(ctx, client.Call{Name: t.Name, Arguments: args, Progress: true})
	if err != nil {
		return nil, callError(err)
	}
	script.NoteRead(ctx, int64(len(result.Raw)))
	if t.gives != nil && !result.IsError {
		if err := t.gives.Validate(structured(result.Raw)); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: fmt.Sprintf("the result of %s does not fit its output schema: %v", name, err)}
		}
	}
	return result.Raw, nil
}

// structured is the structured content of a result; JSON null when there is none.
func structured(raw json.RawMessage) json.RawMessage {
	var r struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(raw, &r) != nil || r.StructuredContent == nil {
		return json.RawMessage("null")
	}
	return r.StructuredContent
}

func (h *host) unknown(name string) string {
	msg := fmt.Sprintf("no tool %q", name)
	known := h.names()
	if strings.Contains(name, ".") {
		known = slices.AppendSeq(known, maps.Keys(h.o.Origins))
	}
	if near := display.Nearest(name, known); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}

// tool finds a tool by its name for clients or as backend.tool; nil: there is none.
func (h *host) tool(name string) *tool {
	if t := h.tools[name]; t != nil {
		return t
	}
	return h.tools[h.o.Origins[name]]
}

// Origins returns the names of tools for clients, by backend.tool.
func Origins(d status.Details) map[string]string {
	all := map[string]string{}
	for _, t := range d.Tools {
		if t.Backend != "" {
			all[t.Backend+"."+cmp.Or(t.Original, t.Name)] = t.Name
		}
	}
	return all
}

// names are the names of the tools, sorted.
func (h *host) names() []string { return slices.Sorted(maps.Keys(h.tools)) }

// agree asks the person whether a tool that may be destructive is to be called.
func (h *host) agree(ctx context.Context, t *tool, args json.RawMessage) error {
	if !t.destructive || t.agreed || h.o.Fakes || h.o.Yes {
		return nil
	}
	denied := func(why string) error {
		return &builtins.ToolError{Kind: builtins.Denied, Msg: fmt.Sprintf("%s may overwrite or destroy something, and %s", t.Name, why)}
	}
	if h.o.ask == nil {
		return denied("nobody is here to be asked; --yes allows such calls")
	}
	for {
		line, err := h.o.ask(ctx, fmt.Sprintf("%s may overwrite or destroy something: %s\ncall it? yes, no, always: ", t.Name, args))
		if err != nil {
			return denied("nobody agreed")
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		case "a", "always":
			t.agreed = true
			return nil
		case "n", "no", "":
			return denied("you said no")
		}
	}
}

// callError gives an error of a call the kind of failure that scripts see.
func callError(err error) error {
	var refused *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams:
		return &builtins.ToolError{Kind: builtins.InvalidInput, Msg: refused.Message}
	case errors.As(err, &refused):
		return &builtins.ToolError{Kind: builtins.Unavailable, Msg: refused.Message}
	}
	return &builtins.ToolError{Kind: builtins.Unavailable, Msg: err.Error()}
}

// Elicit asks the person a question of a script.
func (h *host) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.o.Asker == nil || h.o.ask == nil {
		return nil, builtins.ErrNoElicitation
	}
	return h.o.Asker.Ask(ctx, q.Params)
}

// Notify prints a log message or progress of a script.
func (h *host) Notify(_ context.Context, n builtins.Notice) {
	switch {
	case n.Kind == "log":
		h.o.Tell(n.Level + ": " + n.Message)
	case n.Total > 0:
		h.o.Tell(fmt.Sprintf("%g of %g %s", n.Done, n.Total, n.Message))
	default:
		h.o.Tell(fmt.Sprintf("%g %s", n.Done, n.Message))
	}
}
