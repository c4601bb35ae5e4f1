package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/access"
	"github.com/vmcp-dev/vmcp/proxy/adapt"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
	"github.com/vmcp-dev/vmcp/proxy/host"
	"github.com/vmcp-dev/vmcp/proxy/members"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/outward"
	"github.com/vmcp-dev/vmcp/proxy/parked"
	"github.com/vmcp-dev/vmcp/script"
)

// An exchange is one request of a client while it is served. To the backend it is the
// Sink of the call.
type exchange struct {
	p      *Proxy
	client *edge.Client
	method string
	id     json.RawMessage
	params json.RawMessage // the client's, with the reserved _meta keys taken off
	header http.Header     // nil on stdio
	body   *body.Buffer    // what params is a part of; nil when nobody reuses it
	live   *parked.Call    // set while a stateless client's call may be parked
	out    edge.FrameWriter

	members.Members       // of the params as they came
	invalid         error // why the request is refused, found while they were read

	script   *host.Call      // the call of a script that this is; nil: the client's own request
	parent   *exchange       // of that script; nil: it is the client's own
	outcome  outcome.Outcome // set where the bytes of the result do not tell it
	who      *access.Who     // who asks, to the policies; nil: none decide
	unseen   *catalog.Entry  // what was asked for and is not there for them
	task     *catalog.Entry  // the tool that the task belongs to which is asked about
	decision decision        // of whether it may be done
	audit    passage         // what the audit knows of it

	traceAll bool // it may show hidden tools
}

func newExchange(p *Proxy, r edge.Request) *exchange {
	x := &exchange{p: p, client: r.Client, method: r.Method, params: r.Params, id: r.ID, header: r.Header, body: r.Body, out: r.Out}
	x.params, x.invalid = x.Members.Read(r.Params)
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

// callerIn describes the client to a backend, for a request of ctx.
func (x *exchange) callerIn(ctx context.Context) *backends.Caller {
	c, out := x.caller(), outward.Of(ctx)
	c.User, c.Header = out.User, out.Header
	return c
}

// Notify passes a backend's notification on to the client that caused it, and waits for it.
func (x *exchange) Notify(method string, params json.RawMessage) {
	if x.wanted(method, params) {
		x.out.Send(wire.Notification(method, x.clean(params)))
	}
}

// Offer is Notify for what others would wait behind.
func (x *exchange) Offer(method string, params json.RawMessage) {
	if x.wanted(method, params) {
		x.out.Offer(wire.Notification(method, x.clean(params)))
	}
}

// clean is what a backend says beside its results, without reserved keys and without secrets: a
// log message or the text of a progress may well be about the request that the backend got.
func (x *exchange) clean(params json.RawMessage) json.RawMessage {
	return x.p.secrets.JSON(adapt.CleanMeta(params))
}

func (x *exchange) wanted(method string, params json.RawMessage) bool {
	return method != wire.LogMessage || x.client.Wants(jsonscan.GetString(params, "level"))
}

// Polled passes on that the backend will answer to who comes back (SEP-1699).
func (x *exchange) Polled(retry time.Duration) { edge.SendAway(x.out, retry) }

// Request asks the client and waits for its answer. A script that has it asked is at rest meanwhile.
func (x *exchange) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if x.script != nil {
		defer script.Resting(ctx)()
		return x.script.Ask(ctx, method, params)
	}
	return x.asker()(ctx, method, params)
}

// asker asks the client in the way that the request has now: a later part of a run may be made for it
// by another one.
func (x *exchange) asker() func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	live, out := x.live, x.out
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		defer script.Resting(ctx)()
		switch {
		case !x.client.Can(method):
			return nil, adapt.CannotBeAsked(method)
		case live != nil:
			return live.Ask(ctx, method, params)
		case x.client.Session == nil:
			return nil, wire.Errorf(wire.MethodNotFound, "%s cannot be asked inside this request", method)
		}
		return x.client.Session.Ask(ctx, out, method, params)
	}
}
