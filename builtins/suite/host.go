package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"
)

// host is the host of one run: of the test, or of a tool.
type host struct {
	a     *attempt
	run   *running
	chain []string // the tools that called this one, outermost first
}

var _ builtins.Host = (*host)(nil)

// maxDepth bounds tools that call tools, as in the server.
const maxDepth = 8

// compute runs a program as one of the test's runs. ctx is that of the attempt, or of the effect that started it.
func (a *attempt) compute(ctx context.Context, self *running, p *script.Program, o script.RunOptions, chain ...string) (*script.Result, error) {
	ctx, self.cancel = context.WithCancelCause(ctx)
	defer self.cancel(nil)
	h := &host{a: a, run: self, chain: chain}
	o.Host, o.Around, o.Clock, o.Repeat, o.Adapt = h, h.around, a.scheduler, h.repeat, h.adapt
	o.Idle = func(flying int) { a.noteIdle(self, flying) }
	if a.plain == nil {
		o.Print = a.suite.Print
	}
	o.Limits = o.Limits.Or(script.DefaultLimits())
	o.Limits.Time = forEver // the scheduler ends the run, by the clock of the test
	return p.Run(ctx, o)
}

// repeat says whether a call may be repeated, as in the server.
func (h *host) repeat(e script.Effect) script.Repeat {
	switch tool := h.a.suite.Tools.Find(e.Name); {
	case e.Kind != "call" || tool == nil:
		return script.Once
	case tool.Script != nil:
		return script.ReadOnly
	default:
		return tool.Repeat
	}
}

// adapt converts the arguments of a call, as in the server.
func (h *host) adapt(_ context.Context, e script.Effect) (json.RawMessage, string) {
	if tool := h.a.suite.Tools.Find(e.Name); tool != nil {
		return builtins.Convert(tool.Input, e.Args)
	}
	return nil, ""
}

const forEver = script.Duration(1 << 62)

// around is RunOptions.Around: it holds every effect of a run until the scheduler releases it.
func (h *host) around(ctx context.Context, at script.Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	a := h.a
	e := &effect{Attempt: at, id: h.run.id + at.Key, of: h.run, ctx: ctx, release: make(chan struct{})}
	ctx = context.WithValue(ctx, effectKey{}, e)
	switch {
	case at.Instant:
		raw, err := perform(ctx)
		if at.Kind == "now" {
			a.mu.Lock()
			a.nows[e.id] = string(raw)
			a.mu.Unlock()
		}
		return raw, err
	case strings.HasPrefix(at.Key, interlude):
		return nil, errors.New("a fake answers immediately: it cannot call tools, ask or wait")
	}
	defer a.busy(h.run)
	if at.Kind == runKind {
		return perform(ctx)
	}
	a.mu.Lock()
	a.see(e)
	e.stop = a.variant.stop == e.id && !a.variant.hit
	a.mu.Unlock()
	return perform(ctx)
}

// interlude begins the keys of effects in fakes; runKind is the kind of testing.run.
const (
	interlude = "interlude."
	runKind   = "testing.run"
)

// CallTool calls a fake, or runs a script.
func (h *host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	e := effectOf(ctx)
	e.called, e.timeout, e.tool = name, o.Timeout, h.a.suite.Tools.Find(name)
	h.a.mu.Lock()
	e.fake = h.a.fakeOf(name, e.tool)
	h.a.mu.Unlock()
	if e.fake == nil && e.tool != nil && e.tool.Script != nil && !e.stop {
		return h.nested(e, args)
	}
	if err := h.a.await(e); err != nil {
		return nil, err
	}
	script.NoteRead(ctx, int64(len(e.raw)))
	return e.raw, nil
}

// nested runs a scripted tool that a script calls.
func (h *host) nested(e *effect, raw json.RawMessage) (json.RawMessage, error) {
	chain := append(slices.Clone(h.chain), e.tool.Name)
	refuse := func(format string, args ...any) error {
		return &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf(format, args...)}
	}
	if slices.Contains(h.chain, e.tool.Name) {
		return nil, refuse("scripted tools call each other in a cycle: %s", strings.Join(chain, " -> "))
	}
	if len(chain) > maxDepth {
		return nil, refuse("scripted tools call each other more than %d deep: %s", maxDepth, strings.Join(chain, " -> "))
	}
	args, err := e.tool.Script.Arguments(raw)
	if err != nil {
		return nil, refuse("%s", err)
	}
	h.a.mu.Lock()
	h.a.noteCall(called{e.id, e.tool.Name, raw})
	h.a.mu.Unlock()
	limits, timeout := e.tool.Limits, false
	if all := limits.Or(script.DefaultLimits()); e.timeout > 0 && e.timeout < all.Time.Std() {
		limits.Time, timeout = script.Duration(e.timeout), true
	}
	self := h.a.begin(h.run, h.run.id, limits)
	defer h.a.end(self)
	res, err := h.a.compute(e.ctx, self, e.tool.Script.Code(), script.RunOptions{Args: args, Limits: limits}, chain...)
	var limit *script.LimitError
	switch {
	case err != nil && e.ctx.Err() != nil:
		return nil, err
	case timeout && errors.As(err, &limit) && limit.Limit == "time":
		return nil, &builtins.ToolError{Kind: builtins.Timeout, Msg: fmt.Sprintf("no answer within %s", e.timeout)}
	case err != nil && isSuspended(err):
		return nil, err
	case err != nil:
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: script.Clip(err.Error())}
	}
	if err := e.tool.Script.CheckOutput(res); err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
	}
	return builtins.CallResult(res), nil
}

func isSuspended(err error) bool {
	var s *script.Suspended
	return errors.As(err, &s)
}

// Elicit returns one of the answers of the test.
func (h *host) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	e := effectOf(ctx)
	e.question = &q
	if err := h.a.await(e); err != nil {
		return nil, err
	}
	return e.raw, nil
}

// Notify records what is logged.
func (h *host) Notify(ctx context.Context, n builtins.Notice) {
	if e := effectOf(ctx); n.Kind == "log" && e != nil {
		h.a.mu.Lock()
		h.a.logs = append(h.a.logs, said{e.id, n.Message})
		h.a.mu.Unlock()
	}
}

// unfaked returns the problem of a call without a fake.
func (a *attempt) unfaked(e *effect) *Problem {
	var names []string
	for _, f := range a.fakes {
		names = append(names, f.name)
	}
	msg := fmt.Sprintf("%s calls %s, which has no fake", e.Pos, e.called)
	if near := display.Nearest(e.called, names); near != "" {
		msg += fmt.Sprintf("; did you mean the fake of %s?", near)
	} else if e.tool == nil && a.suite.Locked {
		msg += ", and is not a tool"
	} else {
		msg += fmt.Sprintf("; testing.tool(%q, returns = ...)", e.called)
	}
	p := problemAt(codeUnfaked, a.file.place(a.placeOf(e)), msg)
	return &p
}

// placeOf returns where in the test the run of an effect was started.
func (a *attempt) placeOf(e *effect) syntax.Position {
	for _, r := range a.runs {
		if strings.HasPrefix(e.id, r.id) {
			return r.at
		}
	}
	return e.Pos
}
