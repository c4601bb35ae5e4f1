package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/journal"
)

// callScript runs a scripted tool for a client.
//
// A client with a session is asked while the run waits. A stateless one is asked
// between two requests: the run stops with its questions, its journal waits under the
// request state, and the next request runs the program again over that journal, which
// answers everything that was done before. What a backend asks in the middle of a call
// cannot be stopped so; there the run itself waits in memory, like any other live call.
func (p *Proxy) callScript(ctx context.Context, x *exchange, e *entry) (*backends.Response, error) {
	h := &host{p: p, x: x, catalog: p.catalog.Load(), tool: e.script, chain: []string{e.name}}
	state := wire.Get(x.params, "requestState")
	if !x.client.modern() || !x.client.callsBack() {
		if state != nil {
			return nil, errState
		}
		return h.run(ctx, wire.Get(x.params, "arguments"))
	}
	h.parked = &parkedCall{journal: journal.New()}
	if state != nil {
		c, err := p.parked.take(x, state)
		if err != nil {
			return nil, err
		}
		if c.live != nil {
			return c.live.follow(ctx, x)
		}
		h.parked, h.answers = c, wire.Get(x.params, "inputResponses")
	}
	h.journal = h.parked.journal
	return p.startLive(ctx, x, func(ctx context.Context) (*backends.Response, error) {
		return h.run(ctx, wire.Get(x.params, "arguments"))
	}).wait(ctx, x)
}

// run makes a tool result of what the program returned.
func (h *host) run(ctx context.Context, raw json.RawMessage) (*backends.Response, error) {
	ctx = h.startTrace(ctx)
	res, err := h.execute(ctx, raw)
	var suspended *script.Suspended
	switch {
	case errors.As(err, &suspended):
		return h.suspend(suspended)
	case errors.Is(err, script.ErrOtherRun):
		return nil, errState
	case err != nil:
		return h.failed(ctx, err)
	}
	return answer(h.x.typed(h.showTrace(ctx, h.toolResult(res), res)))
}

// execute runs the tool's program under its contract: arguments and output fit their
// schemas. The contract's own errors are *builtins.ToolError.
func (h *host) execute(ctx context.Context, raw json.RawMessage) (*script.Result, error) {
	args, err := h.tool.arguments(raw)
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
	}
	release, err := h.p.admission.enter(ctx, h)
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: err.Error()}
	}
	defer release()
	ctx, end := h.p.span(ctx, "run "+h.tool.name, attribute.String("vmcp.tool", h.tool.name))
	began := time.Now()
	var stats script.Stats
	h.p.metrics.scripts.running.Inc()
	defer h.p.metrics.scripts.running.Dec()
	res, err := h.tool.program.Run(ctx, script.RunOptions{
		Args: args, Host: h, Journal: h.journal, Limits: h.tool.limits,
		Trace: h.observer(ctx), Stats: &stats, Print: h.printed,
	})
	if err == nil {
		if err = h.tool.checkOutput(res); err != nil {
			err = &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
		}
	}
	end(err)
	stats.Duration = time.Since(began)
	h.done(stats, err)
	h.logRun(stats, err)
	return res, err
}

// suspend ends the request with the run's questions.
func (h *host) suspend(s *script.Suspended) (*backends.Response, error) {
	state, err := h.p.parked.put(h.x, h.parked)
	if err != nil {
		return nil, err
	}
	requests := json.RawMessage("{}")
	for _, q := range s.Questions {
		requests = wire.Set(requests, q.Key, inputRequest(q.Method, q.Params))
	}
	return answer(inputRequired(requests, state))
}

// failed is a run that did not end well: an answer of the tool with the place in the
// script, unless the caller gave up.
func (h *host) failed(ctx context.Context, err error) (*backends.Response, error) {
	if ctx.Err() != nil {
		return nil, relayError(context.Canceled)
	}
	content := wire.Set(json.RawMessage(`{"type":"text"}`), "text", wire.Quote(explain(err)))
	result := append(append([]byte(`{"content":[`), content...), `],"isError":true}`...)
	return answer(h.x.typed(h.showTrace(ctx, result, nil)))
}

// explain is an error with the way through the script that led to it. A migrated
// workflow fails in the words of the engine that it was written for.
func explain(err error) string {
	var workflow *builtins.WorkflowError
	if errors.As(err, &workflow) {
		return workflow.Error()
	}
	var se *script.Error
	if errors.As(err, &se) && se.Backtrace != "" {
		return err.Error() + "\n" + se.Backtrace
	}
	return err.Error()
}

// toolResult is a run's result as a CallToolResult: its JSON as structured content,
// which had to be an object before 2026-07-28, and as text.
func (h *host) toolResult(res *script.Result) json.RawMessage {
	content := res.Content
	if content == nil {
		text := wire.Set(json.RawMessage(`{"type":"text"}`), "text", wire.Quote(string(res.Structured)))
		content = append(append([]byte{'['}, text...), ']')
	}
	out := append([]byte(`{"content":`), content...)
	if len(res.Structured) > 0 && (res.Structured[0] == '{' || h.x.client.modern()) {
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

// logRun writes the one line of a run.
func (h *host) logRun(stats script.Stats, err error) {
	about := make([]slog.Attr, 0, 8)
	about = append(about, slog.String("tool", h.tool.name), slog.String("outcome", h.outcome(err)), slog.Duration("duration", stats.Duration),
		slog.Uint64("steps", stats.Steps), slog.Int64("memory", stats.Memory), slog.Int("calls", stats.Calls), slog.Int("replayed", stats.Replayed))
	level := slog.LevelInfo
	var suspended *script.Suspended
	if err != nil && !errors.As(err, &suspended) {
		level, about = slog.LevelWarn, append(about, slog.Any("err", err))
	}
	h.p.log.LogAttrs(context.Background(), level, "run", about...)
}

// printed is where print() of a script goes.
func (h *host) printed(pos, text string) {
	h.p.log.Info(text, "tool", h.tool.name, "pos", pos)
}
