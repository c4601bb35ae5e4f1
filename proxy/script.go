package proxy

import (
	"context"
	"encoding/json"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/host"
	"github.com/vmcp-dev/vmcp/proxy/members"
)

// What scripts do comes back here: the calls of a run go through the door like those of a client.
// Package host has the rest of a run's world.

// newHosts is what runs share.
func (p *Proxy) newHosts() *host.Shared {
	s := &host.Shared{
		Log: p.log, Secrets: p.secrets, Spans: p.spans, Metrics: p.metrics.Runs, Recording: p.recording, History: p.history, Admission: p.admission,
		Hold: p.hold, Outlived: p.outlived, Stopping: p.runs.Stopping, IsolateAll: p.options.IsolateScripts,
		Await: func(ctx context.Context, r catalog.Ref) (*catalog.Entry, error) {
			return p.await(ctx, r, (*catalog.Catalog).Find, "")
		},
	}
	if p.options.Workers != nil {
		s.Isolation = p.options.Workers
	}
	return s
}

// An exchange is the host.Request of the run that works for it.
var _ host.Request = (*exchange)(nil)

// Client is who made the request.
func (x *exchange) Client() *edge.Client { return x.client }

// Catalog is what the client can name now.
func (x *exchange) Catalog() *catalog.Catalog { return x.p.catalogOf(x.client) }

// PrincipalIn is who makes the request of ctx.
func (x *exchange) PrincipalIn(ctx context.Context) *auth.Principal { return x.principalIn(ctx) }

// ProgressToken is the one that the request came with.
func (x *exchange) ProgressToken() json.RawMessage { return x.Token }

// SeesHidden reports whether a trace may show hidden tools.
func (x *exchange) SeesHidden() bool { return x.traceAll }

// Call takes a call of a script that works for the request through the door.
func (x *exchange) Call(ctx context.Context, c *host.Call, params json.RawMessage) (*backends.Response, error) {
	inner := newExchange(x.p, edge.Request{Client: x.client, Method: wire.ToolsCall, Params: params, Out: x.out})
	inner.live, inner.traceAll, inner.script, inner.parent = x.live, x.traceAll, c, x
	inner.who = x.p.whoIn(ctx, inner)
	return x.p.call(ctx, inner, callOfScript)
}

// callOfScript is how a script calls a tool.
var callOfScript = callable{
	find: func(_ *Proxy, ctx context.Context, x *exchange) (*catalog.Entry, error) {
		return x.script.Find(ctx, x.view, jsonscan.Text(x.Get(members.Name)))
	},
	run: (*Proxy).calledByScript,
}

// calledByScript runs or relays what a script calls.
func (p *Proxy) calledByScript(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Script != nil {
		return x.script.Nested(ctx, x, e, x.Get(members.Arguments))
	}
	if !x.script.Options.Unchecked {
		if err := e.CheckInput(wire.OrEmpty(x.Get(members.Arguments))); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
		}
	}
	return p.relay(ctx, x, e)
}
