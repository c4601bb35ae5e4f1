package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// This part of the package has the question and the answer when a call needs a login of its principal.
//
// The requestState of such a result is neither secret nor trusted: it has the id of the login, which is valid only for
// its principal, and what the client sent.

const (
	// key is the key of the question in inputRequests.
	key = "login"
	// prefix is the beginning of a requestState that belongs to a login.
	prefix = "vmcp.login."
	// atMost is how long a request of a stateless client waits for a login before the client is asked again: less than
	// the timeout of clients.
	atMost = 45 * time.Second
)

// An loginAnswer is the answer of a stateless client to the question for a login.
type loginAnswer struct {
	ID        string          `json:"id"`
	State     json.RawMessage `json:"state,omitempty"`     // requestState of the original request
	Responses json.RawMessage `json:"responses,omitempty"` // inputResponses of the original request

	action string // accept, decline or cancel
}

// asks reports whether a requestState, as JSON, belongs to a question for a login.
func asks(state json.RawMessage) bool {
	return len(state) >= len(prefix)+2 && string(state[1:len(prefix)+1]) == prefix
}

// read reads the answer in a request with such a state; nil if the state is not valid.
func read(state, responses json.RawMessage) *loginAnswer {
	a := &loginAnswer{}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(jsonscan.Text(state), prefix))
	if err != nil || json.Unmarshal(text, a) != nil {
		return nil
	}
	a.action = jsonscan.Text(jsonscan.GetPath(responses, key, "action"))
	return a
}

// requestState is the requestState of a result that asks for l, in response to a request that itself had a state and
// responses.
func requestState(l *credentials.PendingLogin, state, responses json.RawMessage) (string, error) {
	text, err := json.Marshal(loginAnswer{ID: l.ID(), State: state, Responses: responses})
	if err != nil {
		return "", err
	}
	return prefix + base64.RawURLEncoding.EncodeToString(text), nil
}

// question is the params of the elicitation request for a login.
func question(l *credentials.PendingLogin) json.RawMessage {
	return new(jsonscan.Object).Text("mode", "url").Text("elicitationId", l.ID()).Text("url", l.URL()).
		Text("message", fmt.Sprintf("The call needs you to log in at %s. Open the page to log in.", l.Backend())).JSON()
}

// refused is the error of a call whose login failed.
func refused(backend string, err error) error {
	return &backends.Error{Backend: backend, Kind: backends.Denied, Err: &credentials.Error{Refused: true, Err: err}}
}

var errDeclined = errors.New("the login that the call needs was declined")

// Await waits for the login that the client was asked for by its last request; l is nil for one that ended long ago.
// again: the client has to be asked again.
func (a *loginAnswer) Await(ctx context.Context, l *credentials.PendingLogin) (again bool, err error) {
	if l == nil {
		return false, nil // the call itself shows whether a login is needed
	}
	late, cancel := context.WithTimeoutCause(ctx, atMost, errLate)
	defer cancel()
	if err = wait(late, l, a.action); err == errLate {
		return true, nil
	}
	return false, err
}

var errLate = errors.New("the login has not finished yet")

// wait waits for a login after the client has answered the question for it with an action.
func wait(ctx context.Context, l *credentials.PendingLogin, action string) error {
	if action != "accept" {
		return refused(l.Backend(), errDeclined)
	}
	select {
	case <-l.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.Err(); err != nil {
		return refused(l.Backend(), err)
	}
	return nil
}
