package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// maxRounds is how often a backend may ask before it has to answer, when the proxy
// carries the questions to a client that cannot.
const maxRounds = 10

// relay passes a request on to the backend of e and its result back.
func (p *Proxy) relay(ctx context.Context, x *exchange, e *entry) (*backends.Response, error) {
	params := x.params
	if member := nameMember(x.method); member != "" && e.own != e.name {
		params = wire.Set(params, member, wire.Quote(e.own))
	}
	req := &backends.Request{
		Method:     x.method,
		Params:     params,
		For:        x.caller(),
		Idempotent: x.method != wire.ToolsCall,
	}
	if e.headers != nil || x.header != nil {
		req.Header = forwardedHeaders(e.headers, wire.Get(params, "arguments"), x.header)
	}
	ctx, end := p.span(ctx, "backend "+e.backend.Name(), attribute.String("vmcp.backend", e.backend.Name()), attribute.String("vmcp.name", e.own))
	req.Params = p.withTrace(ctx, req.Params)
	resp, err := p.bridge(ctx, x, e, req)
	end(err)
	if err != nil {
		return nil, relayError(err)
	}
	return p.finish(x, e, resp)
}

// bridge makes the call in the way the two revisions need.
func (p *Proxy) bridge(ctx context.Context, x *exchange, e *entry, req *backends.Request) (*backends.Response, error) {
	modernBackend := wire.IsModern(e.backend.Offer().Revision)
	switch {
	case !x.client.modern() && modernBackend:
		return p.rounds(ctx, x, e.backend, req)
	case x.client.modern() && !modernBackend && x.client.callsBack():
		return p.live(ctx, x, func(ctx context.Context) (*backends.Response, error) {
			return e.backend.Call(ctx, req)
		})
	case x.client.modern() && !modernBackend && wire.Get(x.params, "requestState") != nil:
		return nil, errState
	}
	return e.backend.Call(ctx, req)
}

// live serves a request of a stateless client by a call that can be parked: a new one,
// or the one its requestState names.
func (p *Proxy) live(ctx context.Context, x *exchange, call func(context.Context) (*backends.Response, error)) (*backends.Response, error) {
	state := wire.Get(x.params, "requestState")
	if state == nil {
		return p.startLive(ctx, x, call).wait(ctx, x)
	}
	c, err := p.parked.take(x, state)
	switch {
	case err != nil:
		return nil, err
	case c.live == nil:
		return nil, errState
	}
	return c.live.follow(ctx, x)
}

// rounds calls a stateless backend for a client with a session: what the backend asks
// for in its results, the client is asked in requests.
func (p *Proxy) rounds(ctx context.Context, x *exchange, be *backends.Backend, req *backends.Request) (*backends.Response, error) {
	for range maxRounds {
		resp, err := be.Call(ctx, req)
		if err != nil {
			return nil, err
		}
		asked, err := askedFor(resp)
		if err == nil && asked == nil {
			return resp, nil
		}
		var next json.RawMessage
		if err == nil {
			next, err = x.answerAll(ctx, asked)
		}
		if err == nil {
			state := append(json.RawMessage(nil), wire.Get(asked, "requestState")...)
			req = nextRound(req, next, state)
		}
		resp.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, wire.Errorf(wire.InternalError, "backend %s asked for input %d times without an end", be.Name(), maxRounds)
}

// askedFor returns a result that asks for input, or nil. One that streams is held when
// its beginning looks like it: questions may be as large as the pictures in them.
func askedFor(resp *backends.Response) (result json.RawMessage, err error) {
	result = resp.Result
	if head := resp.Head(); contains(head, "input_required", "q") || contains(head, `"inputRequests"`, "R") {
		if err := resp.Hold(maxFrame); err != nil {
			return nil, err
		}
		result = resp.Result
	}
	if contains(result, "input_required", "q") && wire.GetString(result, "resultType") == "input_required" {
		return result, nil
	}
	return nil, nil
}

// answerAll asks the client everything one round of a backend wants to know.
func (x *exchange) answerAll(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	type asked struct {
		key    string
		answer json.RawMessage
	}
	var all []*asked
	g, ctx := errgroup.WithContext(ctx)
	wire.Each(wire.Get(result, "inputRequests"), func(key, request []byte) bool {
		a := &asked{key: string(key)}
		all = append(all, a)
		g.Go(func() (err error) {
			a.answer, err = x.Request(ctx, wire.GetString(request, "method"), wire.Get(request, "params"))
			return err
		})
		return true
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	answers := json.RawMessage("{}")
	for _, a := range all {
		answers = wire.Set(answers, a.key, a.answer)
	}
	return answers, nil
}

func nextRound(req *backends.Request, answers, state json.RawMessage) *backends.Request {
	next := *req
	next.Params = wire.Set(next.Params, "inputResponses", answers)
	if len(state) > 0 {
		next.Params = wire.Set(next.Params, "requestState", state)
	}
	return &next
}

// finish makes a backend's result fit the client's revision. Where nothing has to
// change, the bytes stay as they are.
func (p *Proxy) finish(x *exchange, e *entry, resp *backends.Response) (*backends.Response, error) {
	if resp.Result == nil {
		p.edit(x).stream(resp)
		return resp, nil
	}
	p.noteTask(x, e, resp.Result)
	resp.Result = p.edit(x).apply(resp.Result)
	return resp, nil
}

// relayError is a backend's failure as the client sees it.
func relayError(err error) error {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc
	}
	var be *backends.Error
	if errors.As(err, &be) {
		e := wire.Errorf(wire.InternalError, "%v", be)
		e.Data = wire.Set(wire.Set(nil, "backend", wire.Quote(be.Backend)), "kind", wire.Quote(be.Kind.String()))
		return e
	}
	if errors.Is(err, context.Canceled) {
		return wire.Errorf(wire.RequestCancelled, "request cancelled")
	}
	return err
}
