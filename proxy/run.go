package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// callScript runs a scripted tool for a client.
func (p *Proxy) callScript(ctx context.Context, x *exchange, e *entry) (*backends.Response, error) {
	h := &host{p: p, x: x, catalog: p.catalog.Load(), tool: e.script, chain: []string{e.name}}
	run := func(ctx context.Context) (*backends.Response, error) {
		return h.run(ctx, orEmpty(wire.Get(x.params, "arguments")))
	}
	if !x.client.modern() || !x.client.callsBack() {
		return run(ctx)
	}
	return p.live(ctx, x, run)
}

// run executes the tool's program and makes a tool result of what it returned.
func (h *host) run(ctx context.Context, args json.RawMessage) (*backends.Response, error) {
	began := time.Now()
	res, err := h.tool.program.Run(ctx, script.RunOptions{Args: args, Host: h, Limits: h.tool.limits})
	h.logRun(res, err, time.Since(began))
	if err != nil {
		return h.failed(ctx, err)
	}
	return answer(h.x.typed(toolResult(res)))
}

// failed is a run that did not end well: an answer of the tool with the place in the
// script, unless the caller gave up.
func (h *host) failed(ctx context.Context, err error) (*backends.Response, error) {
	if ctx.Err() != nil {
		return nil, relayError(context.Canceled)
	}
	text := err.Error()
	var se *script.Error
	if errors.As(err, &se) && se.Backtrace != "" {
		text += "\n" + se.Backtrace
	}
	content := wire.Set(json.RawMessage(`{"type":"text"}`), "text", wire.Quote(text))
	result := append(append([]byte(`{"content":[`), content...), `],"isError":true}`...)
	return answer(h.x.typed(result))
}

// toolResult is a run's result as a CallToolResult: its JSON as structured content and
// as text.
func toolResult(res *script.Result) json.RawMessage {
	content := res.Content
	if content == nil {
		text := wire.Set(json.RawMessage(`{"type":"text"}`), "text", wire.Quote(string(res.Structured)))
		content = append(append([]byte{'['}, text...), ']')
	}
	out := append([]byte(`{"content":`), content...)
	if len(res.Structured) > 0 && res.Structured[0] == '{' {
		out = append(append(out, `,"structuredContent":`...), res.Structured...)
	}
	if res.IsError {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}

// typed adds what the client's revision wants in every result.
func (x *exchange) typed(result json.RawMessage) json.RawMessage {
	return x.p.edit(x).apply(result)
}

func (h *host) logRun(res *script.Result, err error, took time.Duration) {
	log := h.p.log.With("tool", h.tool.name, "duration", took)
	if res != nil {
		log.Info("run", "steps", res.Stats.Steps, "memory", res.Stats.Memory, "calls", res.Stats.Calls)
		return
	}
	log.Warn("run failed", "err", err)
}
