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
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/proxy/admission"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/trace"
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
func (p *Proxy) callScript(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	h := &host{p: p, x: x, catalog: p.catalogOf(x.client), tool: e.Script, chain: []string{e.Name}}
	state := x.get(memberState)
	if !x.client.Modern() || !x.client.CallsBack() {
		if state != nil {
			return nil, errState
		}
		return h.run(ctx, x.get(memberArguments))
	}
	h.parked = &parkedCall{journal: journal.New(), lines: x.audit.run}
	h.parked.forgotten = h.forgotten(h.parked)
	if state != nil {
		c, err := p.parked.take(x, state)
		if err != nil {
			return nil, err
		}
		if c.live != nil {
			return c.live.follow(ctx, x)
		}
		h.parked, h.answers, x.audit.run = c, x.get(memberResponses), c.lines
	}
	h.journal = h.parked.journal
	return p.startLive(ctx, x, func(ctx context.Context) (*backends.Response, error) {
		return h.run(ctx, x.get(memberArguments))
	}).wait(ctx, x)
}

// run makes a tool result of what the program returned.
func (h *host) run(ctx context.Context, raw json.RawMessage) (*backends.Response, error) {
	if h.x.trace != "" && h.x.who.SeesTraces() {
		ctx = trace.Start(ctx)
		h.x.traceAll = h.x.traceAll || h.x.who != nil // an admin
	}
	ctx = h.record(ctx)
	res, err := h.execute(ctx, raw)
	h.recordEnd(ctx, raw, res, err)
	h.x.ended(outcome.OfRun(ctx, res, err))
	var suspended *script.Suspended
	var noRoom *script.Busy
	switch {
	case errors.As(err, &suspended):
		return h.suspend(suspended)
	case errors.As(err, &noRoom):
		h.p.metrics.Runs.Refused(h.tool.Name)
		return nil, admission.Busy("%s was not gone on with: %s", h.tool.Name, noRoom.Why)
	case isBusy(err):
		h.p.metrics.Runs.Refused(h.tool.Name)
		return nil, err
	case errors.Is(err, script.ErrOtherRun):
		return nil, edited(h.tool.Name)
	case err != nil:
		return h.failed(ctx, err)
	}
	return answer(h.x.typed(h.showTrace(ctx, h.toolResult(res), res)))
}

func isBusy(err error) bool {
	var rpc *wire.Error
	return errors.As(err, &rpc) && rpc.Code == wire.Busy
}

// execute runs the tool's program under its contract: arguments and output fit their
// schemas. The contract's own errors are *builtins.ToolError.
func (h *host) execute(ctx context.Context, raw json.RawMessage) (*script.Result, error) {
	if len(h.chain) == 1 { // one that another one calls is part of that one
		leave, err := h.p.admission.Enter(ctx, h.x.client.Principal, h.tool.Name, len(raw))
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	args, err := h.tool.Arguments(raw)
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
	}
	ctx, end := h.p.span(ctx, "run "+h.tool.Name, attribute.String("vmcp.tool", h.tool.Name))
	began := time.Now()
	var stats script.Stats
	h.p.metrics.Runs.Begin()
	defer h.p.metrics.Runs.End()
	res, err := h.tool.Program.Run(ctx, script.RunOptions{
		Args: args, Host: h, Journal: h.journal, Repeat: h.repeat, FailInDoubt: true, Limits: h.tool.Limits, Places: trace.Whole(ctx) != nil,
		Pool: h.p.admission.Pool, Trace: h.observer(ctx), Stats: &stats, Print: h.printed, Isolation: h.isolation(),
	})
	if err == nil {
		if err = h.tool.CheckOutput(res); err != nil {
			err = &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
		}
	}
	o := outcome.OfRun(ctx, res, err)
	end(o, err)
	stats.Duration = time.Since(began)
	h.done(stats, o, err)
	h.logRun(stats, o, err)
	return res, err
}

// isolation is where the run is computed apart from this process; nil: nowhere.
func (h *host) isolation() script.Isolation {
	if h.tool.Isolated || h.p.options.IsolateScripts {
		return h.p.options.Workers
	}
	return nil
}

// suspend ends the request with the run's questions.
func (h *host) suspend(s *script.Suspended) (*backends.Response, error) {
	state, err := h.p.parked.put(h.x, h.parked)
	if err != nil {
		return nil, err
	}
	var requests jsonscan.Object
	for _, q := range s.Questions {
		requests.Raw(q.Key, inputRequest(q.Method, q.Params))
	}
	return answer(inputRequired(requests.JSON(), state))
}

// failed is a run that did not end well: an answer of the tool with the place in the
// script, unless the caller gave up.
func (h *host) failed(ctx context.Context, err error) (*backends.Response, error) {
	if ctx.Err() != nil {
		return nil, edge.ErrCancelled
	}
	result := new(jsonscan.Object).Raw("content", textContent(h.p.secrets.Text(explain(err)))).Bool("isError", true).JSON()
	return answer(h.x.typed(h.showTrace(ctx, result, nil)))
}

// explain is an error with the way through the script that led to it. A migrated
// workflow fails in the words of the engine that it was written for.
func explain(err error) string {
	var workflow *legacy.Error
	if errors.As(err, &workflow) {
		return workflow.Error()
	}
	var se *script.Error
	if errors.As(err, &se) && se.Backtrace != "" {
		return err.Error() + "\n" + se.Backtrace
	}
	return err.Error()
}

// toolResult is a run's result as a CallToolResult: its JSON as structured content, and as text.
// For clients before 2026-07-28 structured content has to be an object; a script that has called
// this one gets any value, whoever its client is.
func (h *host) toolResult(res *script.Result) json.RawMessage {
	content := res.Content
	if content == nil {
		content = textContent(string(res.Structured))
	}
	out := new(jsonscan.Object).Raw("content", content)
	if len(res.Structured) > 0 && (res.Structured[0] == '{' || h.x.client.Modern() || len(h.chain) > 1) {
		out.Raw("structuredContent", res.Structured)
	}
	if res.IsError {
		out.Bool("isError", true)
	}
	return out.JSON()
}

// showTrace adds what the call did to its result, if the client asked for it. res is nil when
// the run failed.
func (h *host) showTrace(ctx context.Context, result json.RawMessage, res *script.Result) json.RawMessage {
	shown := trace.Of(ctx, h.tool.Name, res)
	if shown == nil {
		return result
	}
	return jsonscan.Set(result, "_meta", new(jsonscan.Object).Raw(h.x.trace, shown).JSON())
}

// textContent is a text as the content of a result.
func textContent(text string) json.RawMessage {
	return jsonscan.Array(new(jsonscan.Object).Text("type", "text").Text("text", text).JSON())
}

// typed adds what the client's revision wants in every result.
func (x *exchange) typed(result json.RawMessage) json.RawMessage {
	return x.p.edit(x).Apply(result)
}

// logRun writes the one line of a run.
func (h *host) logRun(stats script.Stats, o outcome.Outcome, err error) {
	about := make([]slog.Attr, 0, 8)
	about = append(about, slog.String("tool", h.tool.Name), slog.String("outcome", o.String()), slog.Duration("duration", stats.Duration),
		slog.Uint64("steps", stats.Steps), slog.Int64("memory", stats.Memory), slog.Int("calls", stats.Calls), slog.Int("replayed", stats.Replayed))
	level := slog.LevelInfo
	if err != nil && o != outcome.Suspended {
		level, about = slog.LevelWarn, append(about, slog.Any("err", err))
	}
	h.p.log.LogAttrs(context.Background(), level, "run", about...)
}

// printed is where print() of a script goes.
func (h *host) printed(pos, text string) {
	h.p.log.Info(text, "tool", h.tool.Name, "pos", pos)
}
