package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

// This part of the package validates and stores the answers of operators to the questions that runs wait for.
//
//	err := answers.Give(ctx, store, id, answers.Answer{Key: "1", Action: "accept", Content: content})

// Answer is the answer to a question, with the fields of an ElicitResult of MCP.
type Answer struct {
	Key    string // of the question; "" is the one that is open
	Action string // accept, decline or cancel
	// Content is a JSON object, only for accept; nil is {}.
	Content json.RawMessage
}

// Invalid is an answer that does not fit its question.
type Invalid struct {
	Field  string // of the answer: action, content or key; "" is the question itself
	Reason string
}

func (e *Invalid) Error() string { return e.Field + e.Reason }

// invalid returns the error of a field. The reason is appended to the field's name.
func invalid(field, format string, args ...any) error {
	return &Invalid{field, fmt.Sprintf(format, args...)}
}

// Check returns an *Invalid for an answer that no question accepts, else nil.
func (a Answer) Check() error {
	_, err := a.result()
	return err
}

// Give validates an answer against its question and stores it, which makes the run due. The error is an *Invalid, or one
// of the store: ErrUnknown, ErrEnded, ErrNoQuestion, ErrAnswered for any but the first answer, ErrLate.
func Give(ctx context.Context, s Store, id string, a Answer) error {
	result, err := a.result()
	if err != nil {
		return err
	}
	q, err := open(ctx, s, id, a.Key)
	if err != nil {
		return err
	}
	if err := a.fits(q); err != nil {
		return err
	}
	return s.Answer(ctx, id, q.Key, result)
}

// result returns the answer as the ElicitResult that a client would send.
func (a *Answer) result() (json.RawMessage, error) {
	var object map[string]json.RawMessage
	switch {
	case a.Action != "accept" && a.Action != "decline" && a.Action != "cancel":
		return nil, invalid("action", ": want accept, decline or cancel, have %q", a.Action)
	case a.Action != "accept" && a.Content != nil:
		return nil, invalid("content", ": belongs to action accept")
	case a.Content != nil && (json.Unmarshal(a.Content, &object) != nil || object == nil):
		return nil, invalid("content", ": want a JSON object such as {\"ship\": true}")
	case a.Action == "accept" && a.Content == nil:
		a.Content = json.RawMessage("{}")
	}
	return json.Marshal(struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content,omitempty"`
	}{a.Action, a.Content})
}

// open finds the question with a key, or the one open question where key is "".
func open(ctx context.Context, s Store, id, key string) (Question, error) {
	r, _, err := s.Get(ctx, id)
	if err != nil {
		return Question{}, err
	}
	if r.State.Final() {
		return Question{}, ErrEnded
	}
	var found []Question
	for _, q := range r.Questions {
		if q.Key == key || key == "" && q.Answer == nil {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 0:
		if key == "" {
			return Question{}, ErrNoQuestion
		}
		return Question{}, fmt.Errorf("%w %s", ErrNoQuestion, key)
	case 1:
		return found[0], nil
	}
	keys := make([]string, len(found))
	for i, q := range found {
		keys[i] = q.Key
	}
	return Question{}, invalid("key", ": %d questions are open: name one of them, %s", len(found), strings.Join(keys, ", "))
}

// fits checks an answer against the schema of its question.
func (a *Answer) fits(q Question) error {
	if q.Method != "elicitation/create" {
		return invalid("", "the question %s asks for %s, which only the client that began the run can answer", q.Key, q.Method)
	}
	var params struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if a.Action != "accept" || json.Unmarshal(q.Params, &params) != nil || params.Schema == nil {
		return nil // no content is asked for
	}
	form, err := schema.Compile(params.Schema)
	if err != nil {
		return invalid("", "the question %s: its schema: %v", q.Key, err)
	}
	if err := form.Validate(a.Content); err != nil {
		return invalid("content", " does not fit the question %s: %v", q.Key, err)
	}
	return nil
}
