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
	"github.com/vmcp-dev/vmcp/proxy/login"
	"github.com/vmcp-dev/vmcp/proxy/members"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/outward"
	"github.com/vmcp-dev/vmcp/proxy/parked"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// Calls that need a login of their principal.
//
// A backend may be one at which each principal logs in for itself. A call that needs such a login
// asks for it by URL elicitation: a client with a session in a request, while the call waits; a
// stateless one by a result that asks for input, whose next request waits for the login. The call
// is then made once more. It asks once for a login, and once for one with more scopes. Whoever cannot be asked so, scripts
// among them, gets an error with the address of the page. Package login has the question and the answers.

// takeLogin takes the answer to the question for a login off the params, which are those of the
// request then that was asked back. It is nil where the request brings none.
func (x *exchange) takeLogin() (*login.Answer, error) {
	state := x.Get(members.State)
	if !login.Asks(state) || !x.client.Modern() || x.script != nil {
		return nil, nil
	}
	a := login.Read(state, x.Get(members.Responses))
	if a == nil {
		return nil, runs.ErrState
	}
	x.params = jsonscan.Delete(x.params, func(key string) bool { return key == "requestState" || key == "inputResponses" })
	x.Set(members.State, nil)
	x.Set(members.Responses, nil)
	for name, was := range map[string]struct {
		at    members.Member
		value json.RawMessage
	}{"requestState": {members.State, a.State}, "inputResponses": {members.Responses, a.Responses}} {
		if was.value != nil {
			x.params = jsonscan.Set(x.params, name, was.value)
			x.Set(was.at, was.value)
		}
	}
	return a, nil
}

// loggedIn makes a call as bridge does, and once more after a login of the client's principal, if
// it needs one, and once more after one with more scopes. answered is what the client says to the question for one that was asked before;
// nil for none.
func (p *Proxy) loggedIn(ctx context.Context, x *exchange, e *catalog.Entry, req *backends.Request, answered *login.Answer) (*backends.Response, error) {
	base := outward.Of(ctx).Base
	var asked *credentials.PendingLogin // what the client was asked for last
	if answered != nil {
		asked = p.backends.PendingLogin(answered.ID, outward.Of(ctx).User)
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
			return nil, login.Refused(need.Backend, err)
		case !x.canOpen(), asked != nil && (asked.ForScopes() || len(need.Scopes) == 0):
			return nil, login.Refused(need.Backend, fmt.Errorf("%s needs a login of its own: open %s in a browser, and call again", need.User.Subject, begun.URL()))
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

// askNow asks a client with a session for a login and waits for it.
func (x *exchange) askNow(ctx context.Context, l *credentials.PendingLogin) error {
	answer, err := x.Request(ctx, wire.Elicit, login.Question(l))
	if err == nil {
		err = login.Wait(ctx, l, jsonscan.GetString(answer, "action"))
	}
	if err != nil {
		return err
	}
	x.out.Send(wire.Notification(wire.ElicitComplete, new(jsonscan.Object).Text("elicitationId", l.ID()).JSON()))
	return nil
}

// askLater is the result that asks a stateless client for a login.
func (x *exchange) askLater(l *credentials.PendingLogin) (*backends.Response, error) {
	state, err := login.RequestState(l, x.Get(members.State), x.Get(members.Responses))
	if err != nil {
		return nil, err
	}
	x.outcome = outcome.Suspended
	requests := new(jsonscan.Object).Raw(login.Key, parked.InputRequest(wire.Elicit, login.Question(l))).JSON()
	return &backends.Response{Result: parked.InputRequired(requests, state)}, nil
}

// serveLogin serves the pages of logins, where principals log in for themselves.
func (p *Proxy) serveLogin(w http.ResponseWriter, r *http.Request) {
	if !p.outward.Load().PerPrincipal() {
		http.NotFound(w, r)
		return
	}
	p.backends.ServeLogin(w, r)
}
