package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Limits of the legacy engine for questions.
const (
	askTimeout  = 10 * time.Minute
	askDepth    = 10
	schemaBytes = 100 << 10
	answerBytes = 1 << 20
)

// question is an elicitation step.
type question struct {
	step                string
	onDecline, onCancel string // "" without a handler
	timeout             time.Duration
	params              json.RawMessage
	skips               bool // the answer skips the remaining steps
}

// ask is ask(message, schema, step, timeout="5m", on_decline=None, on_cancel=None):
// asks the user and returns {"action": ..., "content": ...}. The answer is not validated
// against the schema. on_decline and on_cancel are "abort", "continue" or "skip_remaining".
func (w *engine) ask(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	q := &question{}
	var message string
	var schema, timeout starlark.Value
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "message", &message, "schema", &schema, "step", &q.step,
		"timeout?", &timeout, "on_decline?", &q.onDecline, "on_cancel?", &q.onCancel)
	if err != nil {
		return nil, err
	}
	if q.timeout, err = duration(timeout, stepTimeout); err != nil {
		return nil, fmt.Errorf("ask: timeout: %w", err)
	}
	q.timeout = min(q.timeout, askTimeout)
	if err := q.write(t, message, schema); err != nil {
		return nil, err
	}
	raw, err := q.do(t, w)
	if err != nil {
		return nil, err
	}
	output, err := q.output(t, raw)
	if err != nil {
		return nil, err
	}
	w.finished(output)
	if q.skips {
		w.ended = output
	}
	return output, nil
}

// write encodes the params of the request.
func (q *question) write(t *starlark.Thread, message string, schema starlark.Value) error {
	if message == "" {
		return q.fail("elicitation message is required")
	}
	s, err := toGo(t, schema)
	if err != nil {
		return fmt.Errorf("ask: schema: %w", err)
	}
	data, err := goJSON(t, s)
	if err != nil {
		return err
	}
	if len(data) > schemaBytes {
		return q.fail("schema too large: %d bytes (max %d)", len(data), schemaBytes)
	}
	if depth := jsonDepth(data); depth > askDepth {
		return q.fail("schema nesting too deep: %d levels (max %d)", depth, askDepth)
	}
	q.params, err = goJSON(t, map[string]any{"message": message, "requestedSchema": s})
	return err
}

func (q *question) fail(format string, args ...any) error {
	return stepError(stepFailed, "elicitation request failed for step %s: %s", q.step, fmt.Sprintf(format, args...))
}

const kindUnasked = "elicitation"

// do asks the question as an effect of the run, or replays it. The result after a timeout has the action "timeout".
func (q *question) do(t *starlark.Thread, w *engine) (json.RawMessage, error) {
	host, err := hostOf(t)
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	question := script.Question{Key: run.Key(t), Method: "elicitation/create", Params: q.params}
	e := script.Effect{Kind: "elicit", Args: q.params, Repeatable: true, Lasts: max(1, min(q.timeout, time.Until(w.deadline)))}
	raw, err := run.Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		if !time.Now().Before(w.deadline) {
			return nil, &script.Failure{Kind: kindWorkflowOver, Message: "workflow timed out"}
		}
		inner, cancel := w.stepContext(ctx, t, q.timeout)
		defer cancel()
		question.Deadline = script.Until(ctx)
		raw, err := host.Elicit(inner, question)
		switch {
		case err != nil && context.Cause(ctx) == script.ErrOver:
			return json.RawMessage(`{"action": "timeout"}`), nil
		case err == nil || script.Final(err) || ctx.Err() != nil:
			return raw, err
		case inner.Err() != nil || errors.Is(err, context.DeadlineExceeded):
			return json.RawMessage(`{"action": "timeout"}`), nil
		}
		return nil, &script.Failure{Kind: kindUnasked, Message: err.Error()}
	})
	var f *script.Failure
	if errors.As(err, &f) {
		if f.Kind == kindWorkflowOver {
			return nil, stepError(workflowOver, "%s", f.Message)
		}
		return nil, q.fail("elicitation request failed for step %s: %s", q.step, f.Message)
	}
	return raw, err
}

// output returns the output of the step for the user's answer.
func (q *question) output(t *starlark.Thread, raw json.RawMessage) (*starlark.Dict, error) {
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, q.fail("the answer is no elicitation result: %v", err)
	}
	out := starlark.NewDict(2)
	_ = out.SetKey(starlark.String("action"), starlark.String(answer.Action))
	switch answer.Action {
	case "accept":
		content, err := q.content(t, answer.Content)
		if err != nil {
			return nil, err
		}
		_ = out.SetKey(starlark.String("content"), content)
		return out, nil
	case "decline":
		return q.handled(out, q.onDecline, "declined by user")
	case "cancel":
		return q.handled(out, q.onCancel, "cancelled by user")
	case "timeout":
		if q.onCancel == "" {
			return nil, stepError(stepFailed, "elicitation request timed out: step %s", q.step)
		}
		return q.handled(out, q.onCancel, "cancelled by user")
	}
	return nil, stepError(stepFailed, "invalid elicitation response action %q for step %s", answer.Action, q.step)
}

// content reads what the user filled in.
func (q *question) content(t *starlark.Thread, raw json.RawMessage) (starlark.Value, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return noOutput{}, nil
	}
	if len(raw) > answerBytes {
		return nil, q.fail("invalid response content size for step %s: %d bytes (max %d)", q.step, len(raw), answerBytes)
	}
	if depth := jsonDepth(raw); depth > askDepth {
		return nil, q.fail("invalid response content depth for step %s: schema nesting too deep: %d levels (max %d)", q.step, depth, askDepth)
	}
	v, err := decode(t, raw)
	if err != nil {
		return nil, err
	}
	return floats(v), nil
}

// handled returns the result of the step, or its failure, for an answer other than "accept".
func (q *question) handled(out *starlark.Dict, handler, how string) (*starlark.Dict, error) {
	switch handler {
	case "continue":
		return out, nil
	case "skip_remaining":
		_ = out.SetKey(starlark.String("skipped"), starlark.True)
		q.skips = true
		return out, nil
	}
	return nil, stepError(stepFailed, "elicitation request was %s: step %s", how, q.step)
}
