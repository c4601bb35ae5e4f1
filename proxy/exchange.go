package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/script"
)

// An exchange is one request of a client while it is served. For the backend it is the Sink of the call.
type exchange struct {
	p       *Proxy
	client  *edge.Client
	method  string
	id      json.RawMessage
	params  json.RawMessage     // the client's, without the reserved _meta keys
	header  http.Header         // nil on stdio
	body    *edge.Buffer        // the buffer that params is a part of; nil if it is not reused
	pending *runs.SuspendedCall // set if the call of a stateless client can be suspended
	out     edge.FrameWriter

	members       // of the params as received
	invalid error // why the request is refused, found while params were read

	script   *runs.HostCall  // the call of a script; nil for a client's own request
	parent   *exchange       // the request that the script serves; nil for a client's own request
	outcome  observe.Outcome // set if the bytes of the result do not show it
	who      *Who            // the requester for policies; nil without policies
	unseen   *catalog.Entry  // the entry that was named and is invisible to the requester
	task     *catalog.Entry  // the tool of the task that the request is about
	decision decision        // by policies and quotas
	audit    passage         // the audit's state of the request

	run      *clientRun // the run that the request leads to; nil: there is no client, or no run
	traceAll bool       // its trace may show hidden tools
}

// clientRun is what a run of a scripted tool needs of the request of its client.
type clientRun struct {
	hold      func() time.Duration // how long the run may sleep in memory
	reporting sync.Mutex           // held while progress is reported
	done      float64              // what was reported last; guarded by reporting
}

func newExchange(p *Proxy, r edge.Request) *exchange {
	x := &exchange{p: p, client: r.Client, method: r.Method, params: r.Params, id: r.ID, header: r.Header, body: r.Body, out: r.Out}
	x.params, x.invalid = x.members.Read(r.Params)
	x.traceAll = x.Trace != "" && edge.SeesDetails(x.out)
	return x
}

// caller describes the client to a backend.
func (x *exchange) caller() *backends.Caller {
	c := &backends.Caller{
		Principal:    x.client.Principal,
		Capabilities: x.client.Capabilities,
		Info:         x.client.Info,
		LogLevel:     x.client.Level(),
		Sink:         x,
	}
	if s := x.client.Session; s != nil {
		c.Session, c.OutOfCall, c.Listening = s.ID, peerOf(s).outOfCall, s.Listening()
	}
	return c
}

// callerIn describes the client to a backend, including its credentials in ctx.
func (x *exchange) callerIn(ctx context.Context) *backends.Caller {
	c, out := x.caller(), outwardOf(ctx)
	c.User, c.Header = out.User, out.Header
	return c
}

// Notify passes a backend's notification on to the client that caused it; it blocks until it is written.
func (x *exchange) Notify(method string, params json.RawMessage) {
	if x.wanted(method, params) {
		x.out.Send(wire.Notification(method, x.clean(params)))
	}
}

// Offer is Notify without blocking, for notifications that would delay other calls.
func (x *exchange) Offer(method string, params json.RawMessage) {
	if x.wanted(method, params) {
		x.out.Offer(wire.Notification(method, x.clean(params)))
	}
}

// clean removes reserved keys and secrets from a notification: a log message or a progress text may quote the request
// that the backend got.
func (x *exchange) clean(params json.RawMessage) json.RawMessage {
	return x.p.secrets.JSON(runs.CleanMeta(params))
}

func (x *exchange) wanted(method string, params json.RawMessage) bool {
	return method != wire.LogMessage || x.client.Wants(jsonscan.GetString(params, "level"))
}

// Polled tells the client to reconnect, since the backend has told us to (SEP-1699).
func (x *exchange) Polled(retry time.Duration) { edge.SendAway(x.out, retry) }

// Left reports whether the client's session has ended: a run that it has begun may continue.
func (x *exchange) Left() bool { return x.client.Session != nil && x.client.Session.Over() }

// Request sends a request to the client and waits for the response. For a call of a script, the run does not count as
// computing meanwhile.
func (x *exchange) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if x.script != nil {
		defer script.Resting(ctx)()
		return x.script.Ask(ctx, method, params)
	}
	return x.asker()(ctx, method, params)
}

// asker returns a function that asks the client over the current request: a later part of a run may belong to another
// one.
func (x *exchange) asker() func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	pending, out := x.pending, x.out
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		defer script.Resting(ctx)()
		switch {
		case !x.client.Can(method):
			return nil, runs.CannotBeAsked(method)
		case pending != nil:
			return pending.Ask(ctx, method, params)
		case x.client.Session == nil:
			return nil, wire.Errorf(wire.MethodNotFound, "%s cannot be sent during this request: the client has no session and the call cannot be suspended", method)
		}
		return x.client.Session.Ask(ctx, out, method, params)
	}
}
