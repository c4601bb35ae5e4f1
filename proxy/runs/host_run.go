package runs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/migrate/legacy"

	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// Execute executes the part to its end or until it is suspended.
func (h *Host) Execute(ctx context.Context) {
	growStack()
	ctx, done := h.part.Context(ctx)
	if end := h.part.Run().Expires; !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, &script.LimitError{Limit: "lifetime", Value: h.settings.Limits.Lifetime.String()})
		defer cancel()
	}
	o := h.runPart(ctx)
	done() // before End, which would trigger it
	if o.State == durable.Doubt {
		h.Metrics.Doubts(h.tool.Name, len(o.Doubts))
	}
	h.part.End(o)
}

// stackOfRun is about the size of the stack that a run needs, in bytes.
const stackOfRun = 12 << 10

// growStack grows the stack of a goroutine to the size that a run needs while it has little on it. Otherwise it would
// grow in steps, each of which copies the stack: a tenth of the cost of a short run.
//
//go:noinline
func growStack() {
	var room [stackOfRun]byte
	keep(&room)
}

//go:noinline
func keep(*[stackOfRun]byte) {}

// runPart executes one part of a run: from the end of its journal to its end, or to what it waits for.
func (h *Host) runPart(ctx context.Context) Outcome {
	ctx = h.Recording.Begin(ctx, h.part.ID)
	ctx = h.History.Begin(ctx, HistoryRun{ID: h.part.ID, Tool: h.tool.Name, Args: h.part.Run().Args})
	res, err := h.execute(ctx, h.part.Run().Args)
	h.Recording.End(ctx, RecordingRun{
		ID: h.part.ID, Tool: h.tool.Name, Program: h.tool.Program, Args: h.part.Run().Args, Result: res, Err: err, Schemas: h.schemas,
		Skip: ctx.Err() != nil || observe.IsBusy(err) || errors.Is(err, script.ErrOtherRun),
	})
	o := h.outcomeOf(ctx, res, err)
	if o.How == observe.NotYet { // a limit of the journal was exceeded
		o.How = observe.OfRun(ctx, res, err)
	}
	h.traced = status.TraceOf(ctx, h.tool.Name, res)
	if observe.IsBusy(err) {
		h.History.Drop(ctx)
	} else {
		h.History.End(ctx, End{State: o.State, Error: o.Error, Result: o.Result})
	}
	return o
}

// schemas are those of a tool that the run can call, or of the run's own tool.
func (h *Host) schemas(tool string) (input, output json.RawMessage) {
	e := h.catalog.Find(catalog.AnyTool(tool))
	if e == nil {
		return nil, nil
	}
	return jsonscan.Get(e.Definition, "inputSchema"), jsonscan.Get(e.Definition, "outputSchema")
}

// outcomeOf converts the end of a part to its outcome for the run.
func (h *Host) outcomeOf(ctx context.Context, res *script.Result, err error) Outcome {
	var suspended *script.Suspended
	var noRoom *script.Busy
	switch {
	case err == nil && res.IsError:
		return Outcome{State: durable.Failed, Result: builtins.CallResult(res)}
	case err == nil:
		return Outcome{State: durable.Done, Result: builtins.CallResult(res)}
	case errors.As(err, &suspended):
		return h.suspended(suspended)
	case errors.As(err, &noRoom):
		h.Metrics.Refused(h.tool.Name)
		return Outcome{State: durable.Running, Err: busy("%s was not resumed: %s", h.tool.Name, noRoom.Why)}
	case observe.IsBusy(err):
		h.Metrics.Refused(h.tool.Name)
		return Outcome{State: durable.Running, Err: err}
	}
	if o, ofStore := h.part.Failed(err); ofStore {
		return o
	}
	if h.part.CutOff() {
		return Outcome{State: h.halted(), Err: context.Canceled}
	}
	text := h.Secrets.Text(explain(err))
	return Outcome{State: durable.Failed, Error: text, Result: builtins.ErrorResult(text)}
}

// suspended is the outcome of a run that has suspended itself.
func (h *Host) suspended(s *script.Suspended) Outcome {
	o := Outcome{Questions: s.Questions, Doubts: s.Doubts, Wake: s.Wake}
	switch {
	case len(s.Doubts) > 0:
		o.State = durable.Doubt
	case s.Paused:
		o.State = h.halted()
	case len(s.Questions) > 0:
		o.State = durable.Waiting
	default:
		o.State = durable.Sleeping
	}
	return o
}

// halted is the state of a run that was stopped: by the shutdown of this process, after which it is resumed
// automatically, or since its client has disconnected.
func (h *Host) halted() durable.State {
	if h.Stopping() {
		return durable.Running
	}
	return durable.Paused
}

// execute runs the tool's program, and validates arguments and output with the tool's schemas. A violation is a
// *builtins.ToolError.
func (h *Host) execute(ctx context.Context, raw json.RawMessage) (*script.Result, error) {
	if h.top() { // a nested run is part of the one that calls it
		began := time.Now()
		leave, err := h.Admission.Enter(ctx, h.x.Client().Principal, h.tool.Name, len(raw))
		h.Metrics.Waited(time.Since(began))
		if err != nil {
			return nil, err
		}
		defer leave()
		if h.part.Kept() {
			h.part.becomeDurable()
		}
	}
	args, err := h.arguments(raw)
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
	}
	ctx, end := h.runSpan(ctx)
	began := time.Now()
	var stats script.Stats
	h.Metrics.Begin()
	defer h.Metrics.End()
	limits := h.tool.Limits
	if h.within > 0 {
		limits.Time = script.Duration(h.within)
	}
	options := script.RunOptions{
		Args: args, Host: h, Repeat: h.repeat, FailInDoubt: h.settings.OnDoubt == "fail" || h.part.Ephemeral(), Limits: limits, Places: status.Whole(ctx) != nil,
		Pool: h.Admission.Pool, Trace: h.observer(ctx), Stats: &stats, Print: func(pos, text string) { h.printed(ctx, pos, text) }, Isolation: h.isolation(),
		Adapt: h.adapt,
	}
	options.Whole = h.tool.Whole()
	if h.top() {
		options.Whole = h.settings.Whole
		options.Journal, options.ID, options.Pause = h.part.Journal(), h.part.ID, h.part.Paused()
		options.Hold = h.x.Hold
		if h.Outlived() {
			options.Drain = h.part.Drained()
		}
	}
	res, err := h.tool.Program.Run(ctx, options)
	if err == nil {
		if err = h.tool.CheckOutput(res); err != nil {
			err = &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
		}
	}
	o := observe.OfRun(ctx, res, err)
	end(o, err)
	stats.Duration = time.Since(began)
	h.done(stats, o, err)
	h.logRun(ctx, stats, o, err)
	return res, err
}

// top reports whether a client called the tool, rather than a script.
func (h *Host) top() bool { return len(h.chain) == 1 }

// arguments are the validated arguments. A resumed run has those with which it began.
func (h *Host) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if h.top() && h.part.Kept() {
		return raw, nil
	}
	args, err := h.tool.Arguments(raw)
	if err == nil && h.top() {
		h.part.SetArgs(args)
	}
	return args, err
}

// runSpan begins the span of a part of a run. That of a later part is linked to the first.
func (h *Host) runSpan(ctx context.Context) (context.Context, observe.End) {
	about := attribute.String("vmcp.tool", h.tool.Name)
	if !h.top() || !h.Spans.Made() {
		return h.Spans.Begin(ctx, "run "+h.tool.Name, about)
	}
	return h.Spans.Linked(ctx, h.settings.Trace, "run "+h.tool.Name, about, attribute.String("vmcp.run", h.part.ID))
}

// isolation is where the run is executed in worker processes; nil: in this process.
func (h *Host) isolation() script.Isolation {
	if h.tool.Isolated || h.IsolateAll {
		return h.Isolation
	}
	return nil
}

// explain is an error with its backtrace in the script. The error of a migrated workflow has the form of the legacy
// engine.
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

// logRun logs the end of a run.
func (h *Host) logRun(ctx context.Context, stats script.Stats, o observe.Outcome, err error) {
	about := make([]slog.Attr, 0, 9)
	about = append(about, slog.String("tool", h.tool.Name), slog.String("outcome", o.String()), slog.Duration("duration", stats.Duration),
		slog.Uint64("steps", stats.Steps), slog.Int64("memory", stats.Memory), slog.Int("calls", stats.Calls), slog.Int("replayed", stats.Replayed))
	if h.part != nil && h.part.Kept() {
		about = append(about, slog.String("run", h.part.ID))
	}
	level := slog.LevelInfo
	if err != nil && o != observe.Suspended {
		level, about = slog.LevelWarn, append(about, slog.Any("err", err))
	}
	h.Log.LogAttrs(ctx, level, "run", about...)
}

// printed logs what a script prints.
func (h *Host) printed(ctx context.Context, pos, text string) {
	h.Log.InfoContext(ctx, text, "tool", h.tool.Name, "pos", pos, "run", h.part.ID)
}
