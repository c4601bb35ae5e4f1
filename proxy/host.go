package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/members"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/trace"
	"github.com/vmcp-dev/vmcp/script"
)

// maxCallDepth bounds scripted tools that call scripted tools.
const maxCallDepth = 8

// A host is the world of one run: the catalog it began with and the client it runs for.
type host struct {
	p       *Proxy
	x       *exchange
	catalog *catalog.Catalog
	tool    *catalog.ScriptedTool
	chain   []string // the scripted tools that led here, this one last

	part     *runs.Part // what is executed of the run that it is part of
	settings runs.Settings
	refused  map[string]error // questions that the client has answered with an error, by key
	traced   json.RawMessage  // what a client sees that asked for a trace
}

// CallTool calls any tool of the catalog, by exposed name or as backend.tool.
// Errors come without the secrets of the configuration.
func (h *host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	result, err := h.call(ctx, name, args, o)
	if whole := trace.Whole(ctx); whole != nil && err == nil {
		whole.Answered(o.Key, result)
	}
	var failed *builtins.ToolError
	if errors.As(err, &failed) {
		err = &builtins.ToolError{Kind: failed.Kind, Msg: h.p.secrets.Text(failed.Msg)}
	}
	return result, err
}

func (h *host) call(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	x := h.inner(name, args, o)
	x.who = h.p.whoIn(ctx, x)
	resp, err := h.p.call(ctx, x, callOfScript)
	if err != nil {
		return nil, outcome.ForScript(err)
	}
	defer resp.Close()
	result, err := h.read(ctx, resp)
	script.NoteRead(ctx, int64(len(result)))
	if e := x.called; err == nil && e.Script == nil && !o.Unchecked {
		err = e.CheckOutput(result)
	}
	if be := new(backends.Error); errors.As(err, &be) {
		return nil, outcome.ForScript(err)
	}
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
	}
	return result, nil
}

// callOfScript is how a script calls a tool.
var callOfScript = callable{
	find: func(_ *Proxy, ctx context.Context, x *exchange) (*catalog.Entry, error) {
		e, err := x.script.find(ctx, x, jsonscan.Text(x.Get(members.Name)))
		x.called = e
		return e, err
	},
	run: func(_ *Proxy, ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
		return x.script.callTool(ctx, x, e)
	},
}

// read takes the bytes of a result, once there is room for them.
func (h *host) read(ctx context.Context, resp *backends.Response) (json.RawMessage, error) {
	most := int64(h.tool.Limits.Result)
	if resp.Body == nil {
		result, err := resp.Bytes(most)
		return slices.Clone(result), err
	}
	want := most
	if resp.AtMost > 0 {
		want = min(most, resp.AtMost)
	}
	room, err := script.Room(ctx, want)
	if err != nil {
		return nil, err
	}
	if room < want {
		most = room
	}
	return resp.Bytes(most)
}

// find finds a tool in the catalog that the run began with, or in a newer one when the
// backend that has it was not up then.
func (h *host) find(ctx context.Context, x *exchange, name string) (*catalog.Entry, error) {
	r := catalog.AnyTool(name)
	if e := h.catalog.Find(r); e != nil {
		if now := h.p.catalogOf(h.x.client); now != h.catalog && now.Withholds(catalog.AnyTool(e.Origin())) { // it has changed since
			return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: x.view(now).UnknownTool(name)}
		}
		return e, nil
	}
	if e := h.awaited(ctx, r); e != nil {
		return e, nil
	}
	if be, _ := h.catalog.MayHave(r); be == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: x.view(h.catalog).UnknownTool(name)}
	}
	e, err := h.p.await(ctx, r, (*catalog.Catalog).Find, "")
	switch {
	case err != nil:
		return nil, outcome.ForScript(err)
	case e == nil:
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: x.view(h.catalog).UnknownTool(name)}
	}
	return e, nil
}

// awaited finds a tool for a run that goes on. Directly behind a start its backend may still be connecting: until all
// have been tried once, a tool that is not there may yet come. It waits as long as the call may take at most.
func (h *host) awaited(ctx context.Context, r catalog.Ref) *catalog.Entry {
	if !h.part.Resumed() {
		return nil
	}
	for {
		c := h.p.catalogOf(h.x.client)
		if e := c.Find(r); e != nil {
			return e
		}
		if !c.Starting() {
			return nil
		}
		select {
		case <-c.Replaced():
		case <-ctx.Done():
			return nil
		}
	}
}

// repeat says whether a call may be made again that may have been made: one of a tool that says that it only reads, or
// does the same however often it is called. What a scripted tool does is in the journal of the run that calls it.
func (h *host) repeat(e script.Effect) script.Repeat {
	if e.Kind != "call" {
		return script.Once
	}
	r := catalog.AnyTool(e.Name)
	entry := h.catalog.Find(r)
	if entry == nil {
		ctx, cancel := context.WithTimeout(context.Background(), h.tool.Limits.CallTimeout.Std())
		defer cancel()
		entry = h.awaited(ctx, r)
	}
	if entry == nil {
		return script.Once
	}
	return entry.Repeat()
}

// inner is the exchange of a call that a script makes for its client.
func (h *host) inner(name string, args json.RawMessage, o builtins.CallOptions) *exchange {
	made := new(jsonscan.Object).Text("name", name).Raw("arguments", args)
	if o.IdempotencyKey != "" {
		made.Raw("_meta", new(jsonscan.Object).Text(runs.MetaKey, o.IdempotencyKey).JSON())
	}
	params := made.JSON()
	x := newExchange(h.p, edge.Request{Client: h.x.client, Method: wire.ToolsCall, Params: params, Out: h.x.out})
	x.live, x.traceAll, x.script, x.options = h.x.live, h.x.traceAll, h, o
	return x
}

// callTool runs or relays what a script calls.
func (h *host) callTool(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Script != nil {
		return h.nested(ctx, x, e)
	}
	if !x.options.Unchecked {
		if err := e.CheckInput(wire.OrEmpty(x.Get(members.Arguments))); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
		}
	}
	return h.p.relay(ctx, x, e)
}

// nested runs a scripted tool that a script calls.
func (h *host) nested(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	chain := append(slices.Clone(h.chain), e.Name)
	if slices.Contains(h.chain, e.Name) {
		msg := "scripted tools call each other in a circle: " + strings.Join(chain, " -> ")
		if hidden := h.catalog.ShadowedBy(e); hidden != nil {
			msg += fmt.Sprintf("; the backend's tool of that name is %q", hidden.Origin())
		}
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: msg}
	}
	if len(chain) > maxCallDepth {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf("scripted tools call each other more than %d deep: %s", maxCallDepth, strings.Join(chain, " -> "))}
	}
	inner := &host{p: h.p, x: x, catalog: h.catalog, tool: e.Script, chain: chain, part: h.part, settings: h.settings, refused: h.refused}
	res, err := inner.execute(ctx, x.Get(members.Arguments))
	_, contract := err.(*builtins.ToolError)
	var suspended *script.Suspended
	var journal *script.JournalError
	switch {
	case contract || err != nil && ctx.Err() != nil, errors.As(err, &suspended), errors.As(err, &journal): // the whole run's
		return nil, err
	case err != nil:
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: script.Clip(explain(err))}
	}
	return answer(builtins.CallResult(res))
}

// InputSchema returns the input schema of a tool that clients see.
func (h *host) InputSchema(name string) (json.RawMessage, bool) {
	e := h.catalog.Find(catalog.AnyTool(name))
	if e == nil || e.Hidden {
		return nil, false
	}
	return jsonscan.Get(e.Definition, "inputSchema"), true
}

// Caller is who makes the request that the run is part of.
func (h *host) Caller(ctx context.Context) (builtins.Caller, error) {
	who := h.x.principalIn(ctx)
	if who == nil {
		return builtins.Caller{}, nil
	}
	return builtins.Caller{Subject: who.Subject, Issuer: who.Issuer, Groups: who.Groups, Scopes: who.Scopes, Client: who.Client}, nil
}

// Elicit returns the answer that has come to a question, or stops the run until there is one. Where
// nobody is there, somebody may answer later; a client that is there and cannot be asked is the answer.
func (h *host) Elicit(_ context.Context, q script.Question) (json.RawMessage, error) {
	if err := h.refused[q.Key]; err != nil {
		return h.answered(nil, err)
	}
	if a := h.part.Answer(q.Key); a != nil {
		return h.answered(slices.Clone(a), nil)
	}
	if !h.part.Alone() && !h.x.client.Can(wire.Elicit) {
		return nil, builtins.ErrNoElicitation
	}
	return nil, &script.Suspended{Questions: []script.Question{q}, Wake: q.Deadline}
}

// answered counts what the user did.
func (h *host) answered(a json.RawMessage, err error) (json.RawMessage, error) {
	action := "error"
	if err == nil {
		action = jsonscan.GetString(a, "action")
	}
	if err == nil && action != "accept" && action != "decline" && action != "cancel" {
		action = "invalid"
	}
	h.p.metrics.Runs.Answered(h.tool.Name, action)
	return a, err
}

// Notify writes a script's message to the log and to the client, and its progress to a
// client that asked for it.
func (h *host) Notify(ctx context.Context, n builtins.Notice) {
	if n.Kind == "progress" {
		h.progress(n)
		return
	}
	h.p.log.Log(ctx, slogLevel(n.Level), n.Message, "tool", h.tool.Name, "pos", n.Pos)
	data := json.RawMessage(jsonscan.Quote(n.Message))
	if len(n.Fields) > 0 {
		data = jsonscan.Set(n.Fields, "message", data)
	}
	h.x.Notify(wire.LogMessage, new(jsonscan.Object).Text("level", n.Level).Text("logger", h.tool.Name).Raw("data", data).JSON())
}

func (h *host) progress(n builtins.Notice) {
	if h.x.Token == nil {
		return
	}
	params := new(jsonscan.Object).Raw("progressToken", h.x.Token).Raw("progress", number(n.Done))
	if n.Total > 0 {
		params.Raw("total", number(n.Total))
	}
	if n.Message != "" {
		params.Text("message", n.Message)
	}
	h.x.Notify(wire.Progress, params.JSON())
}

func number(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

func slogLevel(level string) slog.Level {
	switch s := wire.Severity(level); {
	case s <= wire.Severity("debug"):
		return slog.LevelDebug
	case s <= wire.Severity("notice"):
		return slog.LevelInfo
	case s == wire.Severity("warning"):
		return slog.LevelWarn
	}
	return slog.LevelError
}
