package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// Calls that need a login of their principal.
//
// A backend may be one at which each principal logs in for itself. A call that needs such a login
// asks for it by URL elicitation: a client with a session in a request, while the call waits; a
// stateless one by a result that asks for input, whose next request waits for the login. The call
// is then made once more. It asks once for a login, and once for one with more scopes. Whoever cannot be asked so, scripts
// among them, gets an error with the address of the page.
//
// The state of such a result is no secret and nothing that is trusted: the id of the login, which
// counts only together with its principal, and what the client itself sent beside it.

const (
	// loginState is what the states begin with that belong to a login.
	loginState = "vmcp.login."
	// loginKey is the key of the question in a result.
	loginKey = "login"
	// loginWait is how long a request of a stateless client waits for a login until it is asked
	// again: less than what clients wait for an answer.
	loginWait = 45 * time.Second
)

// A loginAnswer is what a stateless client answers to the question for a login.
type loginAnswer struct {
	ID        string          `json:"id"`
	State     json.RawMessage `json:"state,omitempty"`     // requestState of the request that was asked back
	Responses json.RawMessage `json:"responses,omitempty"` // inputResponses of that request

	action string // accept, decline or cancel
}

// takeLogin takes the answer to the question for a login off the params, which are those of the
// request then that was asked back. It is nil where the request brings none.
func (x *exchange) takeLogin() (*loginAnswer, error) {
	state := x.get(memberState)
	if len(state) < len(loginState)+2 || string(state[1:len(loginState)+1]) != loginState || !x.client.Modern() || x.script != nil {
		return nil, nil
	}
	a := &loginAnswer{}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(jsonscan.Text(state), loginState))
	if err != nil || json.Unmarshal(text, a) != nil {
		return nil, runs.ErrState
	}
	a.action = jsonscan.Text(jsonscan.GetPath(x.get(memberResponses), loginKey, "action"))
	x.params = jsonscan.Delete(x.params, func(key string) bool { return key == "requestState" || key == "inputResponses" })
	x.members[memberState], x.members[memberResponses] = nil, nil
	for name, was := range map[string]struct {
		at    member
		value json.RawMessage
	}{"requestState": {memberState, a.State}, "inputResponses": {memberResponses, a.Responses}} {
		if was.value != nil {
			x.params, x.members[was.at] = jsonscan.Set(x.params, name, was.value), was.value
		}
	}
	return a, nil
}

// loggedIn makes a call as bridge does, and once more after a login of the client's principal, if
// it needs one, and once more after one with more scopes. answered is what the client says to the question for one that was asked before;
// nil for none.
func (p *Proxy) loggedIn(ctx context.Context, x *exchange, e *catalog.Entry, req *backends.Request, answered *loginAnswer) (*backends.Response, error) {
	var asked *credentials.PendingLogin // what the client was asked for last
	if answered != nil {
		asked = p.backends.PendingLogin(answered.ID, userOf(ctx))
		again, err := awaitAnswered(ctx, asked, answered)
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
		if need == nil || baseOf(ctx) == "" {
			return resp, err
		}
		login, err := p.backends.BeginLogin(need, baseOf(ctx))
		switch {
		case err != nil:
			return nil, notLoggedIn(need.Backend, err)
		case !x.canOpen(), asked != nil && (asked.ForScopes() || len(need.Scopes) == 0):
			return nil, notLoggedIn(need.Backend, fmt.Errorf("%s needs a login of its own: open %s in a browser, and call again", need.User.Subject, login.URL()))
		case x.client.Modern():
			return x.askLater(login)
		}
		if err := x.askNow(ctx, login); err != nil {
			return nil, err
		}
		asked = login
	}
}

func notLoggedIn(backend string, err error) error {
	return &backends.Error{Backend: backend, Kind: backends.Denied, Err: &credentials.Error{Refused: true, Err: err}}
}

var errDeclined = errors.New("the login that the call needs was declined")

// awaitAnswered waits for a login that a client was asked for. again: the client has to be asked
// once more.
func awaitAnswered(ctx context.Context, login *credentials.PendingLogin, a *loginAnswer) (again bool, err error) {
	switch {
	case login == nil:
		return false, nil // over for long: what the call needs now is found out by making it
	case a.action != "accept":
		return false, notLoggedIn(login.Backend(), errDeclined)
	}
	late := time.NewTimer(loginWait)
	defer late.Stop()
	select {
	case <-login.Done():
	case <-late.C:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if err := login.Err(); err != nil {
		return false, notLoggedIn(login.Backend(), err)
	}
	return false, nil
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

// loginQuestion is the request that asks for a login.
func loginQuestion(l *credentials.PendingLogin) json.RawMessage {
	return new(jsonscan.Object).Text("mode", "url").Text("elicitationId", l.ID()).Text("url", l.URL()).
		Text("message", fmt.Sprintf("The call needs a login of yours at %s. Open the page to log in.", l.Backend())).JSON()
}

// askNow asks a client with a session for a login and waits for it.
func (x *exchange) askNow(ctx context.Context, login *credentials.PendingLogin) error {
	answer, err := x.Request(ctx, wire.Elicit, loginQuestion(login))
	if err != nil {
		return err
	}
	if jsonscan.GetString(answer, "action") != "accept" {
		return notLoggedIn(login.Backend(), errDeclined)
	}
	select {
	case <-login.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := login.Err(); err != nil {
		return notLoggedIn(login.Backend(), err)
	}
	x.out.Send(wire.Notification(wire.ElicitComplete, new(jsonscan.Object).Text("elicitationId", login.ID()).JSON()))
	return nil
}

// askLater is the result that asks a stateless client for a login.
func (x *exchange) askLater(login *credentials.PendingLogin) (*backends.Response, error) {
	state, err := json.Marshal(loginAnswer{ID: login.ID(), State: x.get(memberState), Responses: x.get(memberResponses)})
	if err != nil {
		return nil, err
	}
	x.outcome = outcome.Suspended
	requests := new(jsonscan.Object).Raw(loginKey, inputRequest(wire.Elicit, loginQuestion(login))).JSON()
	return &backends.Response{Result: inputRequired(requests, loginState+base64.RawURLEncoding.EncodeToString(state))}, nil
}

// userOf is who a request comes from, as far as backends need to know; nil for nobody.
func userOf(ctx context.Context) *credentials.User {
	if o, ok := ctx.Value(outwardKey{}).(*outward); ok {
		return o.user
	}
	return nil
}

// baseOf is where the browser of who asks reaches the endpoint; "" when it does not.
func baseOf(ctx context.Context) string {
	if o, ok := ctx.Value(outwardKey{}).(*outward); ok {
		return o.base
	}
	return ""
}

// serveLogin serves the pages of logins, where principals log in for themselves.
func (p *Proxy) serveLogin(w http.ResponseWriter, r *http.Request) {
	if rules := p.outward.Load(); rules == nil || !rules.tokens {
		http.NotFound(w, r)
		return
	}
	p.backends.ServeLogin(w, r)
}
