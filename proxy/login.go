package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// Calls that need a login of their principal.
//
// At a backend with tokenStore each principal has to log in for itself. A call that needs such a login asks for it by
// URL elicitation: a client with a session by a request, while the call waits; a stateless client by an input_required
// result, whose next request waits for the login. Then the call is made again. It asks once for a login, and once for
// one with more scopes. A client that cannot be asked, and a script, gets an error with the address of the page.
// Package login has the question and the answers.

// takeLogin removes the answer to the question for a login from the params, which become those of the original request.
// It returns nil if the request has no such answer.
func (x *exchange) takeLogin() (*loginAnswer, error) {
	state := x.Get(memberState)
	if !asks(state) || !x.client.Modern() || x.script != nil {
		return nil, nil
	}
	a := read(state, x.Get(responses))
	if a == nil {
		return nil, runs.ErrState
	}
	x.params = jsonscan.Delete(x.params, func(key string) bool { return key == "requestState" || key == "inputResponses" })
	x.Set(memberState, nil)
	x.Set(responses, nil)
	for name, was := range map[string]struct {
		at    member
		value json.RawMessage
	}{"requestState": {memberState, a.State}, "inputResponses": {responses, a.Responses}} {
		if was.value != nil {
			x.params = jsonscan.Set(x.params, name, was.value)
			x.Set(was.at, was.value)
		}
	}
	return a, nil
}

// loggedIn makes a call as bridge does; again after a login of the client's principal, if it needs one; and again after
// a login with more scopes. answered is the client's answer to the question of its previous request; nil for none.
func (p *Proxy) loggedIn(ctx context.Context, x *exchange, e *catalog.Entry, req *backends.Request, answered *loginAnswer) (*backends.Response, error) {
	base := outwardOf(ctx).Base
	var asked *credentials.PendingLogin // the last login that the client was asked for
	if answered != nil {
		asked = p.backends.PendingLogin(answered.ID, outwardOf(ctx).User)
		again, err := answered.Await(ctx, asked)
		switch {
		case err != nil:
			return nil, err
		case again:
			return x.askLater(asked)
		}
	}
	for {
		resp, err := p.bridge(ctx, x, e, req)
		need := credentials.NeededLogin(err)
		if need == nil || base == "" {
			return resp, err
		}
		begun, err := p.backends.BeginLogin(need, base)
		switch {
		case err != nil:
			return nil, refused(need.Backend, err)
		case !x.canOpen(), asked != nil && (asked.ForScopes() || len(need.Scopes) == 0):
			return nil, refused(need.Backend, fmt.Errorf("%s has to log in at this backend: open %s in a browser, and call again", need.User.Subject, begun.URL()))
		case x.client.Modern():
			return x.askLater(begun)
		}
		if err := x.askNow(ctx, begun); err != nil {
			return nil, err
		}
		asked = begun
	}
}

// canOpen reports whether the client can be asked to open a page for this request.
func (x *exchange) canOpen() bool {
	if x.script != nil || jsonscan.GetPath(x.client.Capabilities, "elicitation", "url") == nil {
		return false
	}
	switch x.method {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
		return true
	}
	return false
}

// askNow asks a client with a session for a login, and waits for the login.
func (x *exchange) askNow(ctx context.Context, l *credentials.PendingLogin) error {
	answer, err := x.Request(ctx, wire.Elicit, question(l))
	if err == nil {
		err = wait(ctx, l, jsonscan.GetString(answer, "action"))
	}
	if err != nil {
		return err
	}
	x.out.Send(wire.Notification(wire.ElicitComplete, new(jsonscan.Object).Text("elicitationId", l.ID()).JSON()))
	return nil
}

// askLater is the input_required result that asks a stateless client for a login.
func (x *exchange) askLater(l *credentials.PendingLogin) (*backends.Response, error) {
	state, err := requestState(l, x.Get(memberState), x.Get(responses))
	if err != nil {
		return nil, err
	}
	x.outcome = observe.Suspended
	requests := new(jsonscan.Object).Raw(key, runs.InputRequest(wire.Elicit, question(l))).JSON()
	return &backends.Response{Result: runs.InputRequired(requests, state)}, nil
}

// serveLogin serves the pages for logins at backends.
func (p *Proxy) serveLogin(w http.ResponseWriter, r *http.Request) {
	if !p.outward.Load().PerPrincipal() {
		http.NotFound(w, r)
		return
	}
	p.backends.ServeLogin(w, r)
}
