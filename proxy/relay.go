package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/observe"
)

// relay sends a request to the backend of e and returns its result, adapted to the revision of a client; a script gets
// it unchanged. Errors are those of package backends.
func (p *Proxy) relay(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	answered, err := x.takeLogin()
	if err != nil {
		return nil, err
	}
	params := x.params
	if member := wire.MethodOf(x.method).Member; member != "" && (e.Original != e.Name || x.script != nil) {
		params = jsonscan.Set(params, member, jsonscan.Quote(e.Original))
	}
	req := &backends.Request{
		Method:     x.method,
		Params:     params,
		For:        x.callerIn(ctx),
		Idempotent: x.method != wire.ToolsCall,
		Header:     e.ForwardedHeaders(x.Get(arguments), x.header),
	}
	if key := x.script.IdempotencyKey(); key != "" && e.IdempotencyHeader != "" {
		if req.For.Header = req.For.Header.Clone(); req.For.Header == nil { // it may belong to the request
			req.For.Header = http.Header{}
		}
		req.For.Header.Set(e.IdempotencyHeader, key)
	}
	ctx, end := p.spans.Backend(ctx, e.Backend.Name(), e.Original)
	req.Params = p.spans.Inject(ctx, req.Params)
	began := time.Now()
	resp, err := p.loggedIn(ctx, x, e, req, answered)
	p.metrics.Calls.Requested(e.Backend.Name(), x.method, time.Since(began))
	end(observe.In(ctx, err), err)
	switch {
	case err != nil:
		return nil, err
	case x.script == nil:
		return p.adaptResult(ctx, x, e, resp)
	case resp.Body != nil:
		resp.Edit(observe.Watch(&x.outcome))
	}
	return resp, nil
}

// bridge makes the call in the way that the revisions of client and backend require.
func (p *Proxy) bridge(ctx context.Context, x *exchange, e *catalog.Entry, req *backends.Request) (*backends.Response, error) {
	modernBackend := wire.IsModern(e.Backend.Offer().Revision)
	switch {
	case x.script != nil:
		return x.script.CallMultiRound(ctx, e.Backend, req)
	case !x.client.Modern() && modernBackend:
		return p.callMultiRound(ctx, x, e.Backend, req)
	case x.client.Modern() && !modernBackend && x.client.CallsBack():
		return p.servePending(ctx, x, func(ctx context.Context) (*backends.Response, error) {
			return e.Backend.Call(ctx, req)
		})
	case x.client.Modern() && !modernBackend && x.Get(memberState) != nil:
		return nil, runs.ErrState
	}
	return e.Backend.Call(ctx, req)
}

// servePending serves a request of a stateless client by a call that can be suspended: a new one, or the one that its
// requestState names.
func (p *Proxy) servePending(ctx context.Context, x *exchange, call func(context.Context) (*backends.Response, error)) (*backends.Response, error) {
	state := x.Get(memberState)
	if state == nil {
		l := x.pendingCall(ctx)
		l.Start(ctx, call)
		return x.await(ctx, l)
	}
	l, ok := p.suspended.Resume(state, x.binding())
	if !ok {
		return nil, runs.ErrState
	}
	x.audit.run = l.Run
	l.Resume(ctx, x.out, x.Get(responses))
	return x.await(ctx, l)
}

// pendingCall makes a call that may outlive its request. For a stateless client it carries the questions.
func (x *exchange) pendingCall(ctx context.Context) *runs.SuspendedCall {
	l := x.p.suspended.Call(ctx, x.body, x.out, x.audit.run)
	if x.client.Modern() && x.client.CallsBack() {
		x.pending = l
	}
	x.out = l
	return l
}

// await returns the response of a call, or an input_required result with its questions.
func (x *exchange) await(ctx context.Context, l *runs.SuspendedCall) (*backends.Response, error) {
	resp, waits, err := l.Wait(ctx, runs.Terms{Principal: x.client.Principal, Binding: x.binding, For: x.p.suspendedFor()})
	if waits {
		x.outcome = observe.Suspended
	}
	return resp, err
}

// binding is what a sealed state is bound to: principal, profile, method and arguments.
func (x *exchange) binding() []byte {
	method := x.method
	if x.client.Profile != "" {
		method += " " + x.client.Profile
	}
	return runs.Binding(x.client.Principal, method, jsonscan.Compact(x.Get(memberName)), jsonscan.Compact(x.Get(uri)), jsonscan.Compact(x.Get(arguments)))
}

// returns reports whether a request has the requestState of a suspended call or run.
func (x *exchange) returns() bool {
	state := x.Get(memberState)
	return state != nil && x.p.suspended.Has(state, x.binding())
}

// callMultiRound calls a stateless backend for a client with a session: the questions in input_required results are
// sent to the client as requests.
func (p *Proxy) callMultiRound(ctx context.Context, x *exchange, be *backends.Backend, req *backends.Request) (*backends.Response, error) {
	for range runs.MaxRounds {
		resp, err := be.Call(ctx, req)
		if err != nil {
			return nil, err
		}
		asked, err := runs.AskedFor(resp, edge.MaxFrame)
		if err == nil && asked == nil {
			return resp, nil
		}
		var next json.RawMessage
		if err == nil {
			next, err = x.answerAll(ctx, asked)
		}
		if err == nil {
			state := append(json.RawMessage(nil), jsonscan.Get(asked, "requestState")...)
			req = runs.Answering(req, next, state)
		}
		resp.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, wire.Errorf(wire.InternalError, "backend %s required input %d times for one call, which is the limit", be.Name(), runs.MaxRounds)
}

// answerAll asks the client all questions of an input_required result, and returns the answers as inputResponses.
func (x *exchange) answerAll(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	type asked struct {
		key    string
		answer json.RawMessage
	}
	var all []*asked
	g, ctx := errgroup.WithContext(ctx)
	jsonscan.Each(jsonscan.Get(result, "inputRequests"), func(key, request []byte) bool {
		a := &asked{key: string(key)}
		all = append(all, a)
		g.Go(func() (err error) {
			a.answer, err = x.Request(ctx, jsonscan.GetString(request, "method"), jsonscan.Get(request, "params"))
			return err
		})
		return true
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var answers jsonscan.Object
	for _, a := range all {
		answers.Raw(a.key, a.answer)
	}
	return answers.JSON(), nil
}

// adaptResult adapts a backend's result to the client's revision. If nothing has to change, the bytes are the same.
func (p *Proxy) adaptResult(ctx context.Context, x *exchange, e *catalog.Entry, resp *backends.Response) (*backends.Response, error) {
	if x.method == wire.ResourcesRead && e.Original != e.Name {
		if err := p.catalogOf(x.client).ExposeContents(e.Backend.Name(), resp); err != nil {
			resp.Close()
			return nil, err
		}
	}
	if resp.Result == nil {
		p.edit(x).Stream(resp, x.outcome.Note)
		return resp, nil
	}
	if x.task != nil { // the result is about a task of a known tool
		e = x.task
	}
	if err := p.tasks.Note(ctx, x.client, e, resp.Result); err != nil {
		p.log.Warn("a task could not be stored: only this replica can find it", "backend", e.Backend.Name(), "tool", e.Name, "err", err)
	}
	resp.Result = p.edit(x).Apply(resp.Result)
	return resp, nil
}

// edit returns the changes to a result of x for its client.
func (p *Proxy) edit(x *exchange) runs.Result {
	return runs.Result{Modern: x.client.Modern(), Cacheable: x.method == wire.ResourcesRead, ServerInfo: p.catalog.Load().ServerInfo}
}
