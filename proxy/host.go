package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// maxCallDepth bounds scripted tools that call scripted tools.
const maxCallDepth = 8

// A host is the world of one run: the catalog it began with and the client it runs for.
type host struct {
	p       *Proxy
	x       *exchange
	catalog *catalog
	tool    *scriptedTool
	chain   []string        // the scripted tools that led here, this one last
	journal script.Journal  // nil when the run cannot be resumed
	parked  *parkedCall     // what keeps the journal between two requests
	answers json.RawMessage // what this request brings, by the keys of the questions
}

// CallTool calls any tool of the catalog, by exposed name or as backend.tool.
func (h *host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	e := h.catalog.anyTool(name)
	if e == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: h.unknown(name)}
	}
	x := h.inner(name, args)
	ctx, end := h.p.span(ctx, "call_tool "+e.name, attribute.String("vmcp.tool", e.name), attribute.String("vmcp.key", o.Key))
	resp, err := h.serve(belowStep(ctx, o.Key), x, e, o)
	end(err)
	if err != nil {
		return nil, toolError(err)
	}
	defer resp.Close()
	result, err := resp.Bytes(h.tool.limits.Or(script.DefaultLimits()).Result)
	if err == nil && e.script == nil && !o.Unchecked {
		err = e.contract().checkOutput(result)
	}
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
	}
	return slices.Clone(result), nil
}

// inner is the exchange of a call that a script makes for its client.
func (h *host) inner(name string, args json.RawMessage) *exchange {
	params := wire.Set(nil, "name", wire.Quote(name))
	if len(args) > 0 {
		params = wire.Set(params, "arguments", args)
	}
	return &exchange{p: h.p, client: h.x.client, method: wire.ToolsCall, params: params, live: h.x.live, out: h.x.out}
}

func (h *host) serve(ctx context.Context, x *exchange, e *entry, o builtins.CallOptions) (*backends.Response, error) {
	if e.script != nil {
		return h.nested(ctx, x, e)
	}
	if !o.Unchecked {
		if err := e.contract().checkInput(orEmpty(wire.Get(x.params, "arguments"))); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
		}
	}
	req := &backends.Request{Method: x.method, Params: wire.Set(x.params, "name", wire.Quote(e.own)), For: x.caller()}
	if e.headers != nil {
		req.Header = forwardedHeaders(e.headers, wire.Get(x.params, "arguments"), nil)
	}
	ctx, end := h.p.span(ctx, "backend "+e.backend.Name(), attribute.String("vmcp.backend", e.backend.Name()), attribute.String("vmcp.name", e.own))
	req.Params = h.p.withTrace(ctx, req.Params)
	resp, err := h.p.rounds(ctx, x, e.backend, req)
	end(err)
	return resp, err
}

// nested runs a scripted tool that a script calls.
func (h *host) nested(ctx context.Context, x *exchange, e *entry) (*backends.Response, error) {
	chain := append(slices.Clone(h.chain), e.name)
	if slices.Contains(h.chain, e.name) {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: "scripted tools call each other in a circle: " + strings.Join(chain, " -> ")}
	}
	if len(chain) > maxCallDepth {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf("scripted tools call each other more than %d deep: %s", maxCallDepth, strings.Join(chain, " -> "))}
	}
	inner := &host{p: h.p, x: x, catalog: h.catalog, tool: e.script, chain: chain}
	res, err := inner.execute(ctx, wire.Get(x.params, "arguments"))
	_, contract := err.(*builtins.ToolError)
	switch {
	case contract || err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: explain(err)}
	}
	return answer(inner.toolResult(res))
}

// InputSchema returns the input schema of a tool that clients see.
func (h *host) InputSchema(name string) (json.RawMessage, bool) {
	e := h.catalog.anyTool(name)
	if e == nil || e.hidden {
		return nil, false
	}
	return wire.Get(e.def, "inputSchema"), true
}

// unknown says that there is no such tool, and which one may be meant.
func (h *host) unknown(name string) string {
	msg := fmt.Sprintf("no tool %q", name)
	best := spell.Nearest(name, slices.Collect(maps.Keys(h.catalog.toolByName)))
	if best != "" {
		msg += fmt.Sprintf("; did you mean %q?", best)
	}
	return msg
}

// toolError classifies a failed call for a script.
func toolError(err error) error {
	var known *builtins.ToolError
	var rpc *wire.Error
	var be *backends.Error
	var suspended *script.Suspended
	switch {
	case errors.As(err, &suspended), errors.As(err, &known):
		return err
	case errors.As(err, &be):
		return &builtins.ToolError{Kind: kindForScripts(be.Kind), Msg: be.Error()}
	case errors.As(err, &rpc) && rpc.Code == wire.InvalidParams:
		return &builtins.ToolError{Kind: builtins.InvalidInput, Msg: rpc.Message}
	case errors.As(err, &rpc):
		return &builtins.ToolError{Kind: builtins.Tool, Msg: rpc.Message}
	}
	return err
}

func kindForScripts(k backends.Kind) string {
	switch k {
	case backends.Timeout:
		return builtins.Timeout
	case backends.Protocol, backends.TooLarge:
		return builtins.InvalidOutput
	}
	return builtins.Unavailable
}

// Elicit asks the client's user: now, or by stopping the run until a later request
// brings the answer.
func (h *host) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	if !h.x.client.can(wire.Elicit) {
		return nil, builtins.ErrNoElicitation
	}
	if h.journal != nil {
		if a := wire.Get(h.answers, q.Key); a != nil {
			return h.answered(slices.Clone(a), nil)
		}
		return nil, &script.Suspended{Questions: []script.Question{q}}
	}
	return h.answered(h.x.Request(ctx, q.Method, q.Params))
}

// answered counts what the user did.
func (h *host) answered(a json.RawMessage, err error) (json.RawMessage, error) {
	action := "error"
	if err == nil {
		action = wire.GetString(a, "action")
	}
	if err == nil && action != "accept" && action != "decline" && action != "cancel" {
		action = "invalid"
	}
	h.p.metrics.scripts.answers.WithLabelValues(h.tool.name, action).Inc()
	return a, err
}

// Notify writes a script's message to the log and to the client, and its progress to a
// client that asked for it.
func (h *host) Notify(ctx context.Context, n builtins.Notice) {
	if n.Kind == "progress" {
		h.progress(n)
		return
	}
	h.p.log.Log(ctx, slogLevel(n.Level), n.Message, "tool", h.tool.name, "pos", n.Pos)
	data := json.RawMessage(wire.Quote(n.Message))
	if len(n.Fields) > 0 {
		data = wire.Set(n.Fields, "message", data)
	}
	params := wire.Set(nil, "level", wire.Quote(n.Level))
	params = wire.Set(params, "logger", wire.Quote(h.tool.name))
	h.x.Notify(wire.LogMessage, wire.Set(params, "data", data))
}

func (h *host) progress(n builtins.Notice) {
	if h.x.token == nil {
		return
	}
	params := wire.Set(nil, "progressToken", h.x.token)
	params = wire.Set(params, "progress", number(n.Done))
	if n.Total > 0 {
		params = wire.Set(params, "total", number(n.Total))
	}
	if n.Message != "" {
		params = wire.Set(params, "message", wire.Quote(n.Message))
	}
	h.x.Notify(wire.Progress, params)
}

func number(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

func slogLevel(level string) slog.Level {
	switch s := severity(level); {
	case s <= severity("debug"):
		return slog.LevelDebug
	case s <= severity("notice"):
		return slog.LevelInfo
	case s == severity("warning"):
		return slog.LevelWarn
	}
	return slog.LevelError
}
