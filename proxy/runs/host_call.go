package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// maxCallDepth bounds the nesting of scripted tools that call scripted tools.
const maxCallDepth = 8

// A HostCall is a call of a tool by a script.
type HostCall struct {
	Host    *Host
	Options builtins.CallOptions

	called *catalog.Entry // set by Find
	asked  repeats        // requests that the backend has made during it
}

// IdempotencyKey is the idempotency key of the call; "" for a call that no script makes.
func (c *HostCall) IdempotencyKey() string {
	if c == nil {
		return ""
	}
	return c.Options.IdempotencyKey
}

// params are the params of the call, as a client would send them.
func (c *HostCall) params(name string, args json.RawMessage) json.RawMessage {
	made := new(jsonscan.Object).Text("name", name).Raw("arguments", args)
	if key := c.Options.IdempotencyKey; key != "" {
		made.Raw("_meta", new(jsonscan.Object).Text(MetaKey, key).JSON())
	}
	return made.JSON()
}

// CallTool calls a tool of the catalog, by exposed name or as backend.tool. Errors are returned without the secrets of
// the configuration.
func (h *Host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	atEffect(ctx, o.Key, "call", name)
	result, err := h.call(ctx, name, args, o)
	if whole := status.Whole(ctx); whole != nil && err == nil {
		whole.Answered(o.Key, result)
	}
	var failed *builtins.ToolError
	if errors.As(err, &failed) {
		err = &builtins.ToolError{Kind: failed.Kind, Msg: h.Secrets.Text(failed.Msg)}
	}
	return result, err
}

func (h *Host) call(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	c := &HostCall{Host: h, Options: o}
	resp, err := h.x.Call(ctx, c, c.params(name, args))
	if err != nil {
		return nil, observe.ForScript(err)
	}
	defer resp.Close()
	result, err := h.read(ctx, resp)
	script.NoteRead(ctx, int64(len(result)))
	if e := c.called; err == nil && e.Script == nil && !o.Unchecked {
		err = e.CheckOutput(result)
	}
	if be := new(backends.Error); errors.As(err, &be) {
		return nil, observe.ForScript(err)
	}
	if err != nil {
		return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
	}
	return result, nil
}

// read reads a result, once the run has reserved memory for it.
func (h *Host) read(ctx context.Context, resp *backends.Response) (json.RawMessage, error) {
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

// Find finds the tool to call; view returns what the requester sees of a catalog.
func (c *HostCall) Find(ctx context.Context, view func(*catalog.Catalog) *catalog.View, name string) (*catalog.Entry, error) {
	e, err := c.Host.find(ctx, view, name)
	if err == nil {
		err = script.Decide(ctx, e.Repeat)
	}
	if err != nil {
		return nil, err
	}
	c.called = e
	return e, nil
}

// find finds a tool in the catalog with which the run began; or in a newer one, if its backend was not available then,
// or has been removed from the configuration since.
func (h *Host) find(ctx context.Context, view func(*catalog.Catalog) *catalog.View, name string) (*catalog.Entry, error) {
	r, c := catalog.AnyTool(name), h.catalog
	if e := c.Find(r); e != nil {
		now := h.x.Catalog()
		switch {
		case now != c && now.Withholds(catalog.AnyTool(e.Origin())): // it was blocked since, as it has changed
			return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(now).UnknownTool(name)}
		case e.Backend == nil || !e.Backend.Gone():
			return e, nil
		}
		c = now
		if e := c.Find(r); e != nil {
			return e, nil
		}
	}
	if e := h.awaited(ctx, r); e != nil {
		return e, nil
	}
	if be, _ := c.MayHave(r); be == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(c).UnknownTool(name)}
	}
	e, err := h.Await(ctx, r)
	switch {
	case err != nil:
		return nil, observe.ForScript(err)
	case e == nil:
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(c).UnknownTool(name)}
	}
	return e, nil
}

// awaited finds a tool for a resumed run. After a start its backend may still be connecting: while any backend is on
// its first attempt, a missing tool may still appear. awaited waits no longer than the call may take.
func (h *Host) awaited(ctx context.Context, r catalog.Ref) *catalog.Entry {
	if !h.part.Resumed() {
		return nil
	}
	for {
		c := h.x.Catalog()
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

// repeat says whether a call that may have been executed may be repeated: one of a tool that is read-only or
// idempotent. The effects of a scripted tool are in the journal of the run that calls it.
func (h *Host) repeat(e script.Effect) script.Repeat {
	if e.Kind != "call" {
		return script.Once
	}
	r := catalog.AnyTool(e.Name)
	entry := h.catalog.Find(r)
	if entry == nil || entry.Backend != nil && entry.Backend.Gone() {
		entry = h.x.Catalog().Find(r)
	}
	if entry == nil {
		ctx, cancel := context.WithTimeout(context.Background(), h.tool.Limits.CallTimeout.Std())
		defer cancel()
		entry = h.awaited(ctx, r)
	}
	if entry == nil {
		return script.Undecided // the call itself waits for its backend, see Find
	}
	return entry.Repeat()
}

// adapt converts the arguments of a call by the input schema of the tool, before policies, journal and audit see them.
// Where the backend of the tool is starting it waits for it, as the call itself would.
func (h *Host) adapt(ctx context.Context, e script.Effect) (args json.RawMessage, note string) {
	r := catalog.AnyTool(e.Name)
	entry := h.catalog.Find(r)
	if entry == nil || entry.Backend != nil && entry.Backend.Gone() {
		ctx, cancel := context.WithTimeout(ctx, h.tool.Limits.CallTimeout.Std())
		defer cancel()
		if entry = h.awaited(ctx, r); entry == nil {
			entry, _ = h.Await(ctx, r) // the call returns the error
		}
	}
	if entry == nil {
		return nil, ""
	}
	return builtins.Convert(entry.Input(), e.Args)
}

// Nested runs a scripted tool that a script calls, for the request x.
func (c *HostCall) Nested(ctx context.Context, x HostRequest, e *catalog.Entry, args json.RawMessage) (*backends.Response, error) {
	h := c.Host
	chain := append(slices.Clone(h.chain), e.Name)
	if slices.Contains(h.chain, e.Name) {
		msg := "scripted tools call each other in a cycle: " + strings.Join(chain, " -> ")
		if hidden := h.catalog.ShadowedBy(e); hidden != nil {
			msg += fmt.Sprintf("; the backend's tool of that name is %q", hidden.Origin())
		}
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: msg}
	}
	if len(chain) > maxCallDepth {
		return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf("scripted tools call each other more than %d deep: %s", maxCallDepth, strings.Join(chain, " -> "))}
	}
	inner := &Host{Shared: h.Shared, x: x, catalog: h.catalog, tool: e.Script, chain: chain, part: h.part, settings: h.settings, refused: h.refused}
	if t := c.Options.Timeout; t < inner.tool.Limits.Or(script.DefaultLimits()).Time.Std() {
		inner.within = t
	}
	ctx, cancel := untimed(ctx, c.Options.Untimed)
	defer cancel()
	res, err := inner.execute(ctx, args)
	_, contract := err.(*builtins.ToolError)
	var suspended *script.Suspended
	var journal *script.JournalError
	var limit *script.LimitError
	switch {
	case inner.within > 0 && ctx.Err() == nil && errors.As(err, &limit) && limit.Limit == "time":
		return nil, &builtins.ToolError{Kind: builtins.Timeout, Msg: fmt.Sprintf("no answer within %s", inner.within)}
	case contract || err != nil && ctx.Err() != nil, errors.As(err, &suspended), errors.As(err, &journal): // these end the whole run
		return nil, err
	case err != nil:
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: script.Clip(explain(err))}
	}
	return &backends.Response{Result: builtins.CallResult(res)}, nil
}

// untimed is ctx as it would be without the timeout of the call: the time of a scripted tool is that in which it is awake, see
// script.Limits.Time, and not the one until it returns.
func untimed(ctx, call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(call, func() { cancel(context.Cause(call)) })
	return ctx, func() { stop(); cancel(nil) }
}
