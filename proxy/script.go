package proxy

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// How runs use the proxy: the calls of a run go through the door like those of a client. The rest is in package runs.

// newHosts makes what the runs of the proxy share.
func (p *Proxy) newHosts() *runs.Shared {
	s := &runs.Shared{
		Log: p.log, Secrets: p.secrets, Spans: p.spans, Metrics: p.metrics.Runs, Recording: p.recording, History: p.history, Admission: p.admission,
		Outlived: p.outlived, Stopping: p.runs.Stopping, IsolateAll: p.options.IsolateScripts,
		Await: func(ctx context.Context, r catalog.Ref) (*catalog.Entry, error) {
			return p.await(ctx, r, (*catalog.Catalog).Find, "")
		},
	}
	if p.options.Workers != nil {
		s.Isolation = p.options.Workers
	}
	return s
}

// An exchange is the host.Request of a run that works for it.
var _ runs.HostRequest = (*exchange)(nil)

// Client is the client of the request.
func (x *exchange) Client() *edge.Client { return x.client }

// Catalog is the client's current catalog.
func (x *exchange) Catalog() *catalog.Catalog { return x.p.catalogOf(x.client) }

// PrincipalIn is the principal of the request of ctx.
func (x *exchange) PrincipalIn(ctx context.Context) *auth.Principal { return x.principalIn(ctx) }

// Hold is how long a run that works for the request may sleep in memory.
func (x *exchange) Hold() time.Duration {
	if x.run != nil {
		return x.run.hold()
	}
	return x.p.openTime()
}

// Progress reports progress to a client that has a progress token.
func (x *exchange) Progress(done, total float64, message string) {
	if x.Token == nil || x.run == nil {
		return
	}
	x.run.reporting.Lock()
	defer x.run.reporting.Unlock()
	x.run.done = max(done, x.run.done) // it may be behind what stillRunning has reported
	x.Notify(wire.Progress, x.progress(total, message))
}

// progressSteps is how many reports of stillRunning make progress of 1, which scripts report in one step: progress has to
// increase (2025-11-25, basic/utilities/progress).
const progressSteps = 1000

// stillRunning reports some progress, whatever the script has reported: clients may begin their timeout anew. It does not wait for a
// slow client.
func (x *exchange) stillRunning() {
	if !x.run.reporting.TryLock() {
		return
	}
	defer x.run.reporting.Unlock()
	x.run.done = (math.Round(x.run.done*progressSteps) + 1) / progressSteps
	x.Offer(wire.Progress, x.progress(0, "the run continues"))
}

// progress makes the params of a notification. x.run.reporting is held.
func (x *exchange) progress(total float64, message string) json.RawMessage {
	params := new(jsonscan.Object).Raw("progressToken", x.Token).Raw("progress", decimal(x.run.done))
	if total > 0 {
		params.Raw("total", decimal(total))
	}
	if message != "" {
		params.Text("message", message)
	}
	return params.JSON()
}

func decimal(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// SeesHidden reports whether a trace may show hidden tools.
func (x *exchange) SeesHidden() bool { return x.traceAll }

// Call makes a call of a script through the door.
func (x *exchange) Call(ctx context.Context, c *runs.HostCall, params json.RawMessage) (*backends.Response, error) {
	inner := newExchange(x.p, edge.Request{Client: x.client, Method: wire.ToolsCall, Params: params, Out: x.out})
	inner.pending, inner.traceAll, inner.script, inner.parent = x.pending, x.traceAll, c, x
	inner.who = x.p.whoIn(ctx, inner)
	return x.p.call(ctx, inner, callOfScript)
}

// callOfScript is the callable for calls of scripts.
var callOfScript = callable{
	find: func(_ *Proxy, ctx context.Context, x *exchange) (*catalog.Entry, error) {
		return x.script.Find(ctx, x.view, jsonscan.Text(x.Get(memberName)))
	},
	run: (*Proxy).calledByScript,
}

// calledByScript runs or relays a call of a script.
func (p *Proxy) calledByScript(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Script != nil {
		return x.script.Nested(ctx, x, e, x.Get(arguments))
	}
	if !x.script.Options.Unchecked {
		if err := e.CheckInput(wire.OrEmpty(x.Get(arguments))); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
		}
	}
	return p.relay(ctx, x, e)
}
