package proxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/observe"
)

// The door.
//
// Every request of the endpoint passes one of two functions, exactly once:
//
//   - call: what calls something that a backend or a script offers: a client's tools/call, prompts/get, resources/read and
//     so on, and every call that a script makes (call_tool and its kin), also of hidden tools.
//   - admit: everything else: initialize, lists, subscriptions/listen, the GET and DELETE of a session, and notifications of
//     clients. wire.Method.Call says which methods are calls.
//
// Both do the same in the same order: they decide whether it may be done; it is done, within a span; it is counted and
// logged with its outcome. A rule about who may do what, a quota or an audit belongs in call and admit, after the
// entry was found and before anything is done, and nowhere else.
//
// What is refused before is no request of a client: invalid frames, requests that the edge refuses for their Origin,
// credential, session or headers. The responses of clients to our requests belong to the call that asked.

// A request is what the door knows of a request.
type request struct {
	method    string // of MCP; "GET" and "DELETE" for a session's stream and its end
	principal string // key of the principal; "" is anonymous
	revision  string
	meta      json.RawMessage // with the trace context of the client; nil if there is none
	client    *edge.Client
}

// requestOf describes a request of a client.
func requestOf(c *edge.Client, method string, params json.RawMessage) request {
	return request{method: method, principal: c.Principal, revision: c.Revision, meta: jsonscan.Get(params, "_meta"), client: c}
}

// admit is the door for what is no call. It returns the error of serve.
func (p *Proxy) admit(ctx context.Context, r request, serve func(context.Context) error) (err error) {
	m := p.metrics.Of(r.method)
	m.Enter()
	began := time.Now()
	spanned, end := p.spans.Request(ctx, r.method, r.revision, r.meta)
	defer func() {
		o := observe.In(ctx, err)
		took := time.Since(began)
		end(o, err)
		m.Done(o, took)
		if lost := p.auditAdmit(ctx, r, o, took, err); err == nil {
			err = lost
		}
		if p.log.Enabled(ctx, slog.LevelDebug) {
			p.log.LogAttrs(spanned, slog.LevelDebug, "request", logged(o, took, err, slog.String("method", r.method), slog.String("principal", r.principal))...)
		}
	}()
	return serve(spanned)
}

// A callable says how to find what a request calls, and what to do with it.
type callable struct {
	find func(*Proxy, context.Context, *exchange) (*catalog.Entry, error)
	run  func(*Proxy, context.Context, *exchange, *catalog.Entry) (*backends.Response, error)
}

// call is the door for calls, of clients and of scripts. A call with a streamed result ends with the last byte of the
// result.
func (p *Proxy) call(ctx context.Context, x *exchange, c callable) (*backends.Response, error) {
	v := visit{p: p, x: x, counts: p.metrics.Of(x.method), began: time.Now()}
	ctx, v.end = p.callSpan(ctx, x)
	if x.script == nil {
		v.counts.Enter()
	}
	v.note(ctx)
	var resp *backends.Response
	err := x.invalid
	if err == nil {
		v.entry, err = c.find(p, ctx, x)
		err = v.decide(err)
	}
	if err == nil {
		err = v.limit()
	}
	if err == nil {
		err = v.begun(ctx)
	}
	if err == nil {
		resp, err = c.run(p, ctx, x, v.entry)
	}
	if err == nil && resp.Body != nil {
		v.leaveAtEnd(ctx, resp)
		return resp, nil
	}
	if err == nil && x.outcome == observe.NotYet {
		x.outcome = observe.OfResult(resp.Result, x.client.Modern())
	}
	var result []byte
	if err == nil {
		result = resp.Result
	}
	if lost := v.leave(ctx, err, result); lost != nil && err == nil {
		resp.Close()
		return nil, lost
	}
	return resp, err
}

// A visit is one call at the door.
type visit struct {
	p      *Proxy
	x      *exchange
	entry  *catalog.Entry // nil if there is none of that name
	counts *observe.Method
	began  time.Time
	end    func(observe.Outcome, error) // ends the span
	head   []byte                       // beginning of a streamed result, if the audit records it
}

// limit counts a client's call of a tool for its quotas, or refuses it. A request that resumes a suspended call or a
// run is not counted again.
func (v *visit) limit() error {
	x, e := v.x, v.entry
	if !v.p.quota.On() || x.method != wire.ToolsCall || x.script != nil || x.returns() {
		return nil
	}
	origin := "scripts." + e.Name
	if e.Backend != nil {
		origin = e.Origin()
	}
	over := v.p.quota.Take(x.client.Principal, e.Name, origin)
	if over == nil {
		return nil
	}
	x.decision = decision{overdue, over.Limit}
	v.p.metrics.Overdue(over.Limit, over.Tool)
	seconds := max(1, int64(math.Ceil(over.RetryAfter.Seconds())))
	err := wire.Errorf(wire.TooMany, "too many calls: %s allows %d in %s; try again in %d s", over.Limit, over.Calls, over.Period, seconds)
	err.Data = new(jsonscan.Object).Raw(wire.DataRetryAfter, strconv.AppendInt(nil, seconds, 10)).JSON()
	return &edge.Refusal{Err: err, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {strconv.FormatInt(seconds, 10)}}}
}

func (v visit) leaveAtEnd(ctx context.Context, resp *backends.Response) {
	v.head = v.headOf(resp)
	resp.OnClose(func() { v.leave(ctx, ctx.Err(), nil) })
}

// leave counts and logs a call that has ended. The error says that its audit event is not on disk although it has to
// be.
func (v visit) leave(ctx context.Context, err error, result []byte) error {
	o, took := v.x.outcome, time.Since(v.began)
	switch {
	case v.x.decision.verdict == denied:
		o = observe.Denied
	case err != nil || o == observe.NotYet:
		o = observe.In(ctx, err)
	}
	v.end(o, err)
	if o == observe.OK && result != nil && v.x.method == wire.ToolsCall {
		v.p.shapes.Note(v.entry.Name, result)
	}
	if v.x.script == nil {
		v.counts.Done(o, took)
		v.counts.CalledByClient(o)
	} else {
		v.counts.CalledByScript(o)
	}
	if v.x.method == wire.ToolsCall {
		v.p.metrics.Calls.Called(observe.ToolOf(v.entry), o, took)
	}
	if v.p.log.Enabled(ctx, slog.LevelDebug) {
		v.log(ctx, o, took, err)
	}
	return v.written(ctx, o, took, err, result)
}

func (v visit) log(ctx context.Context, o observe.Outcome, took time.Duration, err error) {
	about := []slog.Attr{slog.String("method", v.x.method), slog.String("by", v.x.by())}
	switch {
	case v.x.script != nil:
		about = append(about, slog.String("script", v.x.script.Host.Tool()))
	case v.x.client.Principal != "":
		about = append(about, slog.String("principal", v.x.client.Principal))
	}
	if e := v.entry; e != nil && e.Backend != nil {
		about = append(about, slog.String("backend", e.Backend.Name()))
	}
	about = append(about, slog.String("name", display.ClipText(v.name(), maxLine)))
	v.p.log.LogAttrs(ctx, slog.LevelDebug, "call", logged(o, took, err, about...)...)
}

// name is the name of the entry, or else the requested one.
func (v visit) name() string {
	if v.entry != nil {
		return v.entry.Name
	}
	return jsonscan.GetString(v.x.params, wire.MethodOf(v.x.method).Member)
}

// maxLine bounds a name in a log line and in a span, in characters.
const maxLine = 200

// logged are the attributes of the log line about a request that has ended.
func logged(o observe.Outcome, took time.Duration, err error, about ...slog.Attr) []slog.Attr {
	about = append(about, slog.String("outcome", o.String()), slog.Duration("duration", took))
	if err != nil {
		about = append(about, slog.Any("err", err))
	}
	return about
}

// by is "script" or "client", the caller of an exchange.
func (x *exchange) by() string {
	if x.script != nil {
		return "script"
	}
	return "client"
}

// callSpan begins the span of a call.
func (p *Proxy) callSpan(ctx context.Context, x *exchange) (context.Context, observe.End) {
	switch {
	case x.script == nil:
		return p.spans.Request(ctx, x.method, x.client.Revision, x.Get(meta))
	case !p.spans.Made():
		return p.spans.Begin(ctx, "")
	}
	name := display.ClipText(jsonscan.Text(x.Get(memberName)), maxLine)
	return p.spans.Begin(ctx, "call_tool "+name, attribute.String("vmcp.tool", name), attribute.String("vmcp.key", x.script.Options.Key))
}
