package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// Schemas is a Host that has the schemas of its tools. Migrated workflows
// need it: they convert arguments by the schema of the tool that they call.
type Schemas interface {
	// InputSchema returns the inputSchema of a tool that is listed for clients; false for others,
	// including hidden ones.
	InputSchema(tool string) (json.RawMessage, bool)
}

// stepCall is a call of a tool by a step.
type stepCall struct {
	tool, step string
	args       json.RawMessage
	timeout    time.Duration
	integers   bool // stay integers
}

// call is call(tool, args=None, step=None, timeout="5m", record=False, integers=False): calls
// a tool as a step did. The arguments are converted by the tool's schema; the output is the
// structured content, or else that of contentMap. With record it returns the whole
// record of the step. Without step it is an iteration of for_each.
func (w *engine) call(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	c := &stepCall{}
	var arguments, timeout starlark.Value
	var whole bool
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "tool", &c.tool, "args?", &arguments, "step?", &c.step, "timeout?", &timeout, "record?", &whole, "integers?", &c.integers)
	if err != nil {
		return nil, err
	}
	if c.timeout, err = duration(timeout, stepTimeout); err != nil {
		return nil, fmt.Errorf("call: timeout: %w", err)
	}
	if c.args, err = c.arguments(t, arguments); err != nil {
		return nil, err
	}
	raw, err := c.do(t, w)
	if err != nil {
		return nil, err
	}
	output, content, err := c.output(t, raw)
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

// arguments converts the arguments and encodes them as JSON. No arguments are sent as none to a tool whose
// schema is not known, and as {} to all others.
func (c *stepCall) arguments(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	none := v == nil || v == starlark.None
	args, err := toGo(t, orNone(v))
	if err != nil {
		return nil, fmt.Errorf("call(%q): args: %w", c.tool, err)
	}
	var schema json.RawMessage
	visible := false
	if known, ok := script.RunOf(t).Host().(Schemas); ok {
		schema, visible = known.InputSchema(c.tool)
	}
	switch {
	case none && visible:
		return json.RawMessage("{}"), nil
	case none:
		return nil, nil
	case visible:
		args = coerce(args, schema)
	}
	data, err := goJSON(t, args)
	if err != nil {
		return nil, c.fail(err)
	}
	return data, nil
}

// do makes the call as an effect of the run, or replays it.
func (c *stepCall) do(t *starlark.Thread, w *engine) (json.RawMessage, error) {
	host, err := hostOf(t)
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	caught, key := run.Caught(t), run.Key(t)
	e := script.Effect{Kind: "call", Name: c.tool, Args: c.args, Tells: true}
	raw, err := run.Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		if c.step != "" && t.Local(deadlineKey) == nil && !time.Now().Before(w.deadline) {
			return nil, &script.Failure{Kind: kindWorkflowOver, Message: "workflow timed out"}
		}
		o := builtins.CallOptions{Unchecked: true, Timeout: c.timeout, Key: key, IdempotencyKey: builtins.IdempotencyKey(run.ID(), key)}
		raw, err := c.ask(ctx, t, w, host, o, int64(run.Limits().Result))
		return raw, journaled(ctx, err, caught)
	})
	if err != nil && !script.Final(err) {
		err = c.fail(err)
	}
	return raw, err
}

// ask calls the tool, and returns an error for a result with isError.
func (c *stepCall) ask(ctx context.Context, t *starlark.Thread, w *engine, host builtins.Host, o builtins.CallOptions, most int64) (json.RawMessage, error) {
	inner, cancel := w.stepContext(ctx, t, c.timeout)
	defer cancel()
	raw, err := host.CallTool(inner, c.tool, c.args, o)
	if err != nil {
		if late := w.lateness(ctx, inner); late != nil {
			return nil, late
		}
		return nil, err
	}
	if int64(len(raw)) > most {
		return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: fmt.Sprintf("the result has %s, the limit is %s", script.Bytes(int64(len(raw))), script.Bytes(most))}
	}
	return raw, failureOf(raw)
}

// fail converts the error of a call into the legacy engine's.
func (c *stepCall) fail(err error) error {
	kind := failureKindOf(err)
	var known *script.Failure
	if errors.As(err, &known) && known.Kind == builtins.NotFound {
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

// callResult is a CallToolResult with the fields that steps use.
type callResult struct {
	IsError    bool            `json:"isError"`
	Blocks     []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// maxBlocks bounds the content blocks of a result: decoded, each takes up to fifty times the memory of its JSON.
const maxBlocks = 20_000

func readResult(raw json.RawMessage) (r callResult, err error) {
	if err := countBlocks(raw); err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: fmt.Sprintf("the result is not a tool result: %v", err)}
	}
	return r, nil
}

// countBlocks refuses a result with too many blocks before they are decoded.
func countBlocks(raw json.RawMessage) error {
	if len(raw) <= 2*maxBlocks {
		return nil
	}
	var r struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &r) != nil || len(r.Content) <= 2*maxBlocks {
		return nil // readResult reports invalid JSON
	}
	content := json.NewDecoder(bytes.NewReader(r.Content))
	if start, err := content.Token(); err != nil || start != json.Delim('[') {
		return nil
	}
	var skipped struct{}
	for n := 0; content.More(); n++ {
		if n == maxBlocks {
			return &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: fmt.Sprintf("the result has more than %d content blocks", maxBlocks)}
		}
		if content.Decode(&skipped) != nil {
			return nil
		}
	}
	return nil
}

type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	Resource struct {
		Text string `json:"text"`
		Blob string `json:"blob"`
	} `json:"resource"`
}

// failureOf returns the failure of a result with isError: its first text, or one from the
// structured content.
func failureOf(raw json.RawMessage) error {
	r, err := readResult(raw)
	if err != nil || !r.IsError {
		return err
	}
	return &builtins.ToolError{Kind: builtins.Tool, Msg: "tool execution failed: " + r.reason()}
}

func (r *callResult) reason() string {
	for _, b := range r.Blocks {
		if b.Type == "text" && b.Text != "" {
			return b.Text
		}
	}
	var fields map[string]any
	_ = json.Unmarshal(r.Structured, &fields) // a value that is no object has no fields
	for _, name := range []string{"error", "message", "text"} {
		if s, ok := fields[name].(string); ok && s != "" {
			return s
		}
	}
	return "tool execution error"
}

// output returns the output and the content that a step has of a result.
func (c *stepCall) output(t *starlark.Thread, raw json.RawMessage) (output, content starlark.Value, err error) {
	res, err := readResult(raw)
	if err != nil {
		return nil, nil, err
	}
	if err := charge(t, len(raw)); err != nil {
		return nil, nil, err
	}
	content = contentMap(res.Blocks)
	if !isObject(res.Structured) {
		return content, content, nil
	}
	v, err := decode(t, res.Structured)
	if err != nil {
		return nil, nil, err
	}
	if !c.integers {
		v = floats(v)
	}
	return v, content, nil
}

// contentMap names the blocks of a content array: text, text_1, image_0, resource, ...
func contentMap(blocks []block) *starlark.Dict {
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

// coerce converts texts to numbers and booleans where the schema has these types.
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
