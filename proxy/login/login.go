// Package login is what a client is asked, and answers, when a call needs a login of its principal.
//
// The state of a result that asks for a login is no secret and nothing that is trusted: the id of the login, which
// counts only together with its principal, and what the client itself sent beside it.
package login

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

const (
	// Key is the key of the question in a result.
	Key = "login"
	// prefix is what the states begin with that belong to a login.
	prefix = "vmcp.login."
	// atMost is how long a request of a stateless client waits for a login until it is asked
	// again: less than what clients wait for an answer.
	atMost = 45 * time.Second
)

// An Answer is what a stateless client answers to the question for a login.
type Answer struct {
	ID        string          `json:"id"`
	State     json.RawMessage `json:"state,omitempty"`     // requestState of the request that was asked back
	Responses json.RawMessage `json:"responses,omitempty"` // inputResponses of that request

	action string // accept, decline or cancel
}

// Asks reports whether a state, as it stands in a request, is of a question for a login.
func Asks(state json.RawMessage) bool {
	return len(state) >= len(prefix)+2 && string(state[1:len(prefix)+1]) == prefix
}

// Read reads the answer that comes with a state that asks for a login; nil if the state is none of ours.
func Read(state, responses json.RawMessage) *Answer {
	a := &Answer{}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(jsonscan.Text(state), prefix))
	if err != nil || json.Unmarshal(text, a) != nil {
		return nil
	}
	a.action = jsonscan.Text(jsonscan.GetPath(responses, Key, "action"))
	return a
}

// RequestState is the state of a result that asks for l, of a request that came with a state and responses itself.
func RequestState(l *credentials.PendingLogin, state, responses json.RawMessage) (string, error) {
	text, err := json.Marshal(Answer{ID: l.ID(), State: state, Responses: responses})
	if err != nil {
		return "", err
	}
	return prefix + base64.RawURLEncoding.EncodeToString(text), nil
}

// Question is the params of the request that asks for a login.
func Question(l *credentials.PendingLogin) json.RawMessage {
	return new(jsonscan.Object).Text("mode", "url").Text("elicitationId", l.ID()).Text("url", l.URL()).
		Text("message", fmt.Sprintf("The call needs a login of yours at %s. Open the page to log in.", l.Backend())).JSON()
}

// Refused is the error of a call whose login did not come about.
func Refused(backend string, err error) error {
	return &backends.Error{Backend: backend, Kind: backends.Denied, Err: &credentials.Error{Refused: true, Err: err}}
}

var errDeclined = errors.New("the login that the call needs was declined")

// Await waits for the login that a client was asked for in its last request; nil is one that is over for long. again:
// the client has to be asked once more.
func (a *Answer) Await(ctx context.Context, l *credentials.PendingLogin) (again bool, err error) {
	if l == nil {
		return false, nil // what the call needs now is found out by making it
	}
	late, cancel := context.WithTimeoutCause(ctx, atMost, errLate)
	defer cancel()
	if err = Wait(late, l, a.action); err == errLate {
		return true, nil
	}
	return false, err
}

var errLate = errors.New("the login takes long")

// Wait waits for a login, when the client has answered to the question for it with an action.
func Wait(ctx context.Context, l *credentials.PendingLogin, action string) error {
	if action != "accept" {
		return Refused(l.Backend(), errDeclined)
	}
	select {
	case <-l.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.Err(); err != nil {
		return Refused(l.Backend(), err)
	}
	return nil
}
