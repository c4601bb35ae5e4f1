package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/internal/regex"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// The kinds of failed questions.
const (
	Unanswerable  = "unanswerable"   // the client cannot be asked
	invalidAnswer = "invalid_answer" // no answer fitted the schema
)

// maxAsks is how often a question is asked until an answer fits.
const maxAsks = 3

// Bounds on a question, in bytes. Clients show it to a person.
const (
	maxMessage = 64 << 10
	maxForm    = 32 << 10
)

// question holds the arguments of elicit(...).
type question struct {
	message     string
	schema      json.RawMessage
	check       *schema.Schema // nil: take any content
	timeout     time.Duration
	unavailable string
}

// elicit implements elicit(message, schema={}, validate=True, timeout=None, when_unavailable="error").
func elicit(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q, err := newQuestion(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	v, err := q.ask(t)
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	return v, nil
}

func newQuestion(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (*question, error) {
	q := &question{unavailable: "error"}
	var form, timeout starlark.Value
	validate := true
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "message", &q.message, "schema?", &form,
		"validate?", &validate, "timeout?", &timeout, "when_unavailable?", &q.unavailable); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"error", "decline", "cancel"}, q.unavailable) {
		return nil, fmt.Errorf(`elicit: when_unavailable: want "error", "decline" or "cancel", have %q`, q.unavailable)
	}
	if len(q.message) > maxMessage {
		return nil, fmt.Errorf("elicit: the message has %d bytes, the limit is %s", len(q.message), script.Bytes(maxMessage))
	}
	var err error
	limit := script.RunOf(t).Limits().ElicitTimeout.Std()
	if q.timeout, err = Duration(timeout, limit); err != nil {
		return nil, fmt.Errorf("elicit: timeout: %w", err)
	}
	if q.timeout == 0 {
		return nil, errors.New("elicit: timeout: want more than 0")
	}
	q.timeout = min(q.timeout, limit)
	if q.schema, err = formSchema(t, form); err != nil {
		return nil, fmt.Errorf("elicit: schema: %w", err)
	}
	if validate {
		if q.check, err = schema.Compile(q.schema); err != nil {
			return nil, fmt.Errorf("elicit: %w", err)
		}
	}
	return q, nil
}

// formSchema returns the schema of a question as the protocol requires it.
func formSchema(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	raw, err := jsonObject(t, v)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxForm {
		return nil, fmt.Errorf("has %d bytes, the limit is %s", len(raw), script.Bytes(maxForm))
	}
	if err := script.Work(t, int64(len(raw))+regex.Cost(string(raw))); err != nil { // it is compiled
		return nil, err
	}
	return check.FormSchema(raw)
}

// ask asks until the answer fits, maxAsks times at most.
func (q *question) ask(t *starlark.Thread) (starlark.Value, error) {
	message := q.message
	var why error
	for range maxAsks {
		raw, err := q.askOnce(t, message)
		if err != nil {
			return q.noAnswer(err)
		}
		a, err := readAnswer(raw)
		if err != nil {
			return nil, err
		}
		if a.Action != "accept" {
			return answerOf(t, a)
		}
		if a.Content, why = q.fit(a.Content); why == nil {
			return answerOf(t, a)
		}
		message = fmt.Sprintf("%s\n\nThe last answer did not fit: %v", q.message, why)
	}
	return nil, &script.Failure{Kind: invalidAnswer, Message: fmt.Sprintf("none of %d answers fitted the schema: %v", maxAsks, why)}
}

// answer is an ElicitResult.
type answer struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
}

func readAnswer(raw json.RawMessage) (answer, error) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("the answer cannot be read: %v", err)
	}
	if !slices.Contains([]string{"accept", "decline", "cancel"}, a.Action) {
		return a, fmt.Errorf("the answer has the unknown action %q", a.Action)
	}
	return a, nil
}

// fit checks the content of an answer and fills in defaults.
func (q *question) fit(content json.RawMessage) (json.RawMessage, error) {
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if q.check == nil {
		return content, nil
	}
	filled, err := q.check.Defaults(content)
	if err != nil {
		return content, err
	}
	return filled, q.check.Validate(filled)
}

// askOnce asks through Run.Do.
func (q *question) askOnce(t *starlark.Thread, message string) (json.RawMessage, error) {
	host, err := hostOf(t)
	if err != nil {
		return nil, err
	}
	params, err := json.Marshal(elicitParams{Message: message, RequestedSchema: q.schema})
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	asked := script.Question{Key: run.Key(t), Method: "elicitation/create", Params: params}
	e := script.Effect{Kind: "elicit", Args: params, Repeatable: true, Lasts: q.timeout}
	return run.Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		asked.Deadline = script.Until(ctx)
		raw, err := host.Elicit(ctx, asked)
		switch {
		case errors.Is(err, ErrNoElicitation):
			return nil, &script.Failure{Kind: Unanswerable, Message: ErrNoElicitation.Error()}
		case err != nil && context.Cause(ctx) == script.ErrOver:
			return nil, &script.Failure{Kind: Timeout, Message: fmt.Sprintf("no answer within %s", q.timeout)}
		}
		return raw, err
	})
}

type elicitParams struct {
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
}

// noAnswer returns the value of elicit when the client cannot be asked, or the error.
func (q *question) noAnswer(err error) (starlark.Value, error) {
	var failure *script.Failure
	if errors.As(err, &failure) && failure.Kind == Unanswerable && q.unavailable != "error" {
		return answerStruct(q.unavailable, starlark.None), nil
	}
	return nil, err
}

func answerOf(t *starlark.Thread, a answer) (starlark.Value, error) {
	if a.Action != "accept" {
		return answerStruct(a.Action, starlark.None), nil
	}
	content, err := decode(t, a.Content)
	if err != nil {
		return nil, err
	}
	return answerStruct(a.Action, content), nil
}

func answerStruct(action string, content starlark.Value) starlark.Value {
	return starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
		"action": starlark.String(action), "content": content,
	})
}
