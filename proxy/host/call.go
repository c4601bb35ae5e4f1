package host

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
	"github.com/vmcp-dev/vmcp/proxy/history"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/trace"
	"github.com/vmcp-dev/vmcp/script"
)

// maxCallDepth bounds scripted tools that call scripted tools.
const maxCallDepth = 8

// A Call is one that a script makes of a tool.
type Call struct {
	Host    *Host
	Options builtins.CallOptions

	called *catalog.Entry // set by Find
	asked  repeats        // what the backend has asked in it
}

// IdempotencyKey is the one that the script gives the call; "" for a call of no script.
func (c *Call) IdempotencyKey() string {
	if c == nil {
		return ""
	}
	return c.Options.IdempotencyKey
}

// params are those of the call, as a client would send it.
func (c *Call) params(name string, args json.RawMessage) json.RawMessage {
	made := new(jsonscan.Object).Text("name", name).Raw("arguments", args)
	if key := c.Options.IdempotencyKey; key != "" {
		made.Raw("_meta", new(jsonscan.Object).Text(runs.MetaKey, key).JSON())
	}
	return made.JSON()
}

// CallTool calls any tool of the catalog, by exposed name or as backend.tool.
// Errors come without the secrets of the configuration.
func (h *Host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	history.At(ctx, o.Key, "call", name)
	result, err := h.call(ctx, name, args, o)
	if whole := trace.Whole(ctx); whole != nil && err == nil {
		whole.Answered(o.Key, result)
	}
	var failed *builtins.ToolError
	if errors.As(err, &failed) {
		err = &builtins.ToolError{Kind: failed.Kind, Msg: h.Secrets.Text(failed.Msg)}
	}
	return result, err
}

func (h *Host) call(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	c := &Call{Host: h, Options: o}
	resp, err := h.x.Call(ctx, c, c.params(name, args))
	if err != nil {
		return nil, outcome.ForScript(err)
	}
	defer resp.Close()
	result, err := h.read(ctx, resp)
	script.NoteRead(ctx, int64(len(result)))
	if e := c.called; err == nil && e.Script == nil && !o.Unchecked {
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

// read takes the bytes of a result, once there is room for them.
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

// Find finds the tool that is called, for who asks: view says what that sees of a catalog.
func (c *Call) Find(ctx context.Context, view func(*catalog.Catalog) *catalog.View, name string) (*catalog.Entry, error) {
	e, err := c.Host.find(ctx, view, name)
	c.called = e
	return e, err
}

// find finds a tool in the catalog that the run began with, or in a newer one when the
// backend that has it was not up then.
func (h *Host) find(ctx context.Context, view func(*catalog.Catalog) *catalog.View, name string) (*catalog.Entry, error) {
	r := catalog.AnyTool(name)
	if e := h.catalog.Find(r); e != nil {
		if now := h.x.Catalog(); now != h.catalog && now.Withholds(catalog.AnyTool(e.Origin())) { // it has changed since
			return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(now).UnknownTool(name)}
		}
		return e, nil
	}
	if e := h.awaited(ctx, r); e != nil {
		return e, nil
	}
	if be, _ := h.catalog.MayHave(r); be == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(h.catalog).UnknownTool(name)}
	}
	e, err := h.Await(ctx, r)
	switch {
	case err != nil:
		return nil, outcome.ForScript(err)
	case e == nil:
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: view(h.catalog).UnknownTool(name)}
	}
	return e, nil
}

// awaited finds a tool for a run that goes on. Directly behind a start its backend may still be connecting: until all
// have been tried once, a tool that is not there may yet come. It waits as long as the call may take at most.
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

// repeat says whether a call may be made again that may have been made: one of a tool that says that it only reads, or
// does the same however often it is called. What a scripted tool does is in the journal of the run that calls it.
func (h *Host) repeat(e script.Effect) script.Repeat {
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

// Nested runs a scripted tool that a script calls, for the request x.
func (c *Call) Nested(ctx context.Context, x Request, e *catalog.Entry, args json.RawMessage) (*backends.Response, error) {
	h := c.Host
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
	inner := &Host{Shared: h.Shared, x: x, catalog: h.catalog, tool: e.Script, chain: chain, part: h.part, settings: h.settings, refused: h.refused}
	res, err := inner.execute(ctx, args)
	_, contract := err.(*builtins.ToolError)
	var suspended *script.Suspended
	var journal *script.JournalError
	switch {
	case contract || err != nil && ctx.Err() != nil, errors.As(err, &suspended), errors.As(err, &journal): // the whole run's
		return nil, err
	case err != nil:
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: script.Clip(explain(err))}
	}
	return &backends.Response{Result: builtins.CallResult(res)}, nil
}
