package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Schemas is a Host that knows the tools as its clients see them. Migrated workflows
// need it: they convert arguments by the schema of the tool that they call.
type Schemas interface {
	// InputSchema returns the inputSchema of a tool that clients see; false for others,
	// hidden ones too.
	InputSchema(tool string) (json.RawMessage, bool)
}

// legacyCall is a call of a tool by a step.
type legacyCall struct {
	tool, step string
	args       json.RawMessage
	timeout    time.Duration
}

// call is call(tool, args=None, step=None, timeout="5m", record=False): calls a tool as
// a step did. The arguments are converted by the tool's schema; the output is the
// structured content, or else what its content has. With record it is the whole
// record of the step. Without step it is an iteration of for_each.
func (w *legacy) call(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	c := &legacyCall{}
	var arguments, timeout starlark.Value
	var whole bool
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "tool", &c.tool, "args?", &arguments, "step?", &c.step, "timeout?", &timeout, "record?", &whole)
	if err != nil {
		return nil, err
	}
	if c.timeout, err = duration(timeout, legacyStepTimeout); err != nil {
		return nil, fmt.Errorf("call: timeout: %w", err)
	}
	if c.args, err = c.arguments(t, arguments); err != nil {
		return nil, err
	}
	raw, err := c.do(t, w)
	if err != nil {
		return nil, err
	}
	output, content, err := legacyOutput(t, raw)
	if err != nil {
		return nil, c.fail(err)
	}
	if c.step != "" {
		w.finished(output)
	}
	if whole {
		return record("completed", output, content, starlark.None), nil
	}
	return output, nil
}

// arguments converts the arguments and writes them as JSON; none stay none.
func (c *legacyCall) arguments(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	if v == nil || v == starlark.None {
		return nil, nil
	}
	args, err := toGo(t, v)
	if err != nil {
		return nil, fmt.Errorf("call(%q): args: %w", c.tool, err)
	}
	if known, ok := script.RunOf(t).Host().(Schemas); ok {
		if schema, ok := known.InputSchema(c.tool); ok {
			args = coerce(args, schema)
		}
	}
	data, err := goJSON(t, args)
	if err != nil {
		return nil, c.fail(err)
	}
	return data, nil
}

// do makes the call through the door.
func (c *legacyCall) do(t *starlark.Thread, w *legacy) (json.RawMessage, error) {
	host, err := hostOf(t)
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	caught, key := run.Caught(t), run.Key(t)
	e := script.Effect{Kind: "call", Name: c.tool, Args: c.args}
	raw, err := run.Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		if c.step != "" && t.Local(deadlineKey) == nil && !time.Now().Before(w.deadline) {
			return nil, &script.Failure{Kind: kindWorkflowOver, Message: "workflow timed out"}
		}
		raw, err := c.ask(ctx, t, w, host, key, run.Limits().Result)
		return raw, (&call{}).answer(ctx, err, caught)
	})
	if err != nil && !script.Final(err) {
		err = c.fail(err)
	}
	return raw, err
}

// ask calls the tool and looks whether it said no.
func (c *legacyCall) ask(ctx context.Context, t *starlark.Thread, w *legacy, host Host, key string, most int64) (json.RawMessage, error) {
	inner, cancel := w.stepContext(ctx, t, c.timeout)
	defer cancel()
	raw, err := host.CallTool(inner, c.tool, c.args, CallOptions{Unchecked: true, Timeout: c.timeout, Key: key})
	if err != nil {
		if late := w.lateness(ctx, inner); late != nil {
			return nil, late
		}
		return nil, err
	}
	if int64(len(raw)) > most {
		return nil, &ToolError{Kind: InvalidOutput, Msg: fmt.Sprintf("the result has %s, the limit is %s", script.Bytes(int64(len(raw))), script.Bytes(most))}
	}
	return raw, legacySaidNo(raw)
}

// fail words the error of a call as the legacy engine did.
func (c *legacyCall) fail(err error) error {
	kind := failureKindOf(err)
	var known *script.Failure
	if errors.As(err, &known) && known.Kind == NotFound {
		if c.step == "" {
			return stepError(kind, "failed to route tool: tool not found: %s", c.tool)
		}
		return stepError(kind, "failed to route tool %s in step %s: tool not found: %s", c.tool, c.step, c.tool)
	}
	prefix := ""
	if c.step != "" {
		prefix = fmt.Sprintf("tool call failed: tool %s in step %s: ", c.tool, c.step)
	}
	e := stepError(kind, "%s%v", prefix, err)
	e.tool = prefix
	return e
}

// legacyResult is a CallToolResult as steps read it.
type legacyResult struct {
	toolResult
	blocks []legacyBlock
}

func readLegacy(raw json.RawMessage) (r legacyResult, err error) {
	if r.toolResult, err = readResult(raw); err != nil || r.content == nil {
		return r, err
	}
	if err := json.Unmarshal(r.content, &r.blocks); err != nil {
		return r, notAResult(err)
	}
	return r, nil
}

type legacyBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	Resource struct {
		Text string `json:"text"`
		Blob string `json:"blob"`
	} `json:"resource"`
}

// legacySaidNo returns the failure of a result with isError: its first text, or what the
// structured content says.
func legacySaidNo(raw json.RawMessage) error {
	r, err := readResult(raw)
	if err != nil || !r.isError {
		return err
	}
	res, err := readLegacy(raw)
	if err != nil {
		return err
	}
	return &ToolError{Kind: Tool, Msg: "tool execution failed: " + res.reason()}
}

func (r *legacyResult) reason() string {
	for _, b := range r.blocks {
		if b.Type == "text" && b.Text != "" {
			return b.Text
		}
	}
	var fields map[string]any
	_ = json.Unmarshal(r.structured, &fields) // what is no object has no fields
	for _, name := range []string{"error", "message", "text"} {
		if s, ok := fields[name].(string); ok && s != "" {
			return s
		}
	}
	return "tool execution error"
}

// legacyOutput returns what a step sees of a result: the output and its content.
func legacyOutput(t *starlark.Thread, raw json.RawMessage) (output, content starlark.Value, err error) {
	res, err := readLegacy(raw)
	if err != nil {
		return nil, nil, err
	}
	if err := charge(t, len(raw)); err != nil {
		return nil, nil, err
	}
	content = contentMap(res.blocks)
	if !isObject(res.structured) {
		return content, content, nil
	}
	v, err := decode(t, res.structured)
	if err != nil {
		return nil, nil, err
	}
	return floats(v), content, nil
}

// contentMap names the blocks of a content array: text, text_1, image_0, resource, ...
func contentMap(blocks []legacyBlock) *starlark.Dict {
	d := starlark.NewDict(len(blocks))
	counts := map[string]int{}
	for _, b := range blocks {
		var value string
		switch b.Type {
		case "text":
			value = b.Text
		case "image":
			value = b.Data
		case "resource":
			if value = b.Resource.Text; value == "" {
				value = b.Resource.Blob
			}
		default:
			continue
		}
		name := b.Type
		if n := counts[b.Type]; n > 0 || b.Type == "image" {
			name += "_" + strconv.Itoa(n)
		}
		counts[b.Type]++
		_ = d.SetKey(starlark.String(name), starlark.String(value))
	}
	return d
}

// coerce makes numbers and booleans of texts where the schema wants them.
func coerce(v any, schema json.RawMessage) any {
	var s any
	if json.Unmarshal(schema, &s) != nil {
		return v
	}
	return coerceValue(v, s)
}

func coerceValue(v, schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return v
	}
	kind, _ := s["type"].(string)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, e := range v {
			if p, known := properties[name]; known && kind == "object" {
				v[name] = coerceValue(e, p)
			}
		}
	case []any:
		for i, e := range v {
			if kind == "array" {
				v[i] = coerceValue(e, s["items"])
			}
		}
	case string:
		return coerceText(v, kind)
	}
	return v
}

func coerceText(s, kind string) any {
	switch kind {
	case "integer":
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
	case "number":
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	case "boolean":
		if b, err := strconv.ParseBool(s); err == nil {
			return b
		}
	}
	return s
}
