package builtins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// callTool implements call_tool(name, args={}, timeout=None).
func callTool(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	c, err := newCall(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	v, err := c.do(t, false)
	if err != nil {
		return nil, c.explain(err)
	}
	return v, nil
}

// tryCallTool implements try_call_tool(name, args={}, timeout=None).
func tryCallTool(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	c, err := newCall(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	v, err := c.do(t, true)
	var failure *script.Failure
	switch {
	case err == nil:
		return outcome(true, v, starlark.None, starlark.None), nil
	case errors.As(err, &failure):
		if err := script.Charge(t, int64(len(failure.Message))); err != nil {
			return nil, err
		}
		return outcome(false, starlark.None, starlark.String(failure.Message), starlark.String(failure.Kind)), nil
	}
	return nil, c.explain(err)
}

// outcome returns the value of try_call_tool.
func outcome(ok bool, output, message, kind starlark.Value) starlark.Value {
	return starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
		"ok": starlark.Bool(ok), "output": output, "error": message, "kind": kind,
	})
}

// maxName bounds the names of tools, in bytes.
const maxName = 1000

// call is one call of a tool.
type call struct {
	function string
	tool     string
	args     json.RawMessage
	timeout  time.Duration
	then     func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) // processes the result; may be nil
}

func newCall(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (*call, error) {
	c := &call{function: fn.Name()}
	var arguments starlark.Value
	var timeout starlark.Value = starlark.None
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "name", &c.tool, "args?", &arguments, "timeout?", &timeout); err != nil {
		return nil, err
	}
	if len(c.tool) > maxName {
		return nil, fmt.Errorf("%s: the name of the tool has %d bytes, the limit is %d", c.function, len(c.tool), maxName)
	}
	var err error
	if c.args, err = jsonObject(t, arguments); err != nil {
		return nil, fmt.Errorf("%s(%q): args: %w", c.function, c.tool, err)
	}
	limit := script.RunOf(t).Limits().CallTimeout.Std()
	if c.timeout, err = Duration(timeout, limit); err != nil {
		return nil, fmt.Errorf("%s(%q): timeout: %w", c.function, c.tool, err)
	}
	if c.timeout == 0 {
		return nil, fmt.Errorf("%s(%q): timeout: want more than 0", c.function, c.tool)
	}
	c.timeout = min(c.timeout, limit)
	return c, nil
}

// do makes the call through Run.Do. With caught, every failure is recorded as an answer.
func (c *call) do(t *starlark.Thread, caught bool) (starlark.Value, error) {
	host, err := hostOf(t)
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	e := script.Effect{Kind: "call", Name: c.tool, Args: c.args, Tells: caught, Adaptable: true}
	caught = caught || run.Caught(t)
	key := run.Key(t)
	raw, err := run.Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		raw, err := c.ask(ctx, host, CallOptions{Timeout: c.timeout, Key: key, IdempotencyKey: IdempotencyKey(run.ID(), key)}, int64(run.Limits().Result))
		if err == nil && c.then != nil {
			raw, err = c.then(ctx, raw)
		}
		return raw, c.answer(ctx, err, caught)
	})
	if err != nil {
		return nil, err
	}
	return toolOutput(t, raw)
}

// ask calls the tool; a result with isError becomes a *ToolError.
func (c *call) ask(ctx context.Context, host Host, o CallOptions, most int64) (json.RawMessage, error) {
	o.Untimed = ctx
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout-script.Since(ctx), errCallTimeout)
	defer cancel()
	raw, err := host.CallTool(ctx, c.tool, script.Arguments(ctx, c.args), o)
	var known *ToolError
	var suspended *script.Suspended
	switch {
	case errors.As(err, &suspended):
		return nil, err
	case err != nil && context.Cause(ctx) == errCallTimeout && !saysMore(err):
		return nil, &ToolError{Kind: Timeout, Msg: fmt.Sprintf("no answer within %s", c.timeout)}
	case err != nil && errors.As(err, &known):
		return nil, known
	case err != nil:
		return nil, err
	case int64(len(raw)) > most:
		return nil, &ToolError{Kind: InvalidOutput, Msg: fmt.Sprintf("limit reached: result (%s): it has %s", script.Bytes(most), script.Bytes(int64(len(raw))))}
	}
	return raw, toolSaidNo(raw)
}

var errCallTimeout = errors.New("call timeout")

// saysMore reports whether the error of a call whose time is over tells how it ended. Others follow from its end: the call was
// cancelled, or the backend has broken off its response.
func saysMore(err error) bool {
	var known *ToolError
	return errors.As(err, &known) && known.Kind != Unknown && known.Kind != InvalidOutput && known.Kind != Timeout
}

// answer returns the error of a failed call for Run.Do: a *script.Failure is recorded as an answer, others are not.
func (c *call) answer(ctx context.Context, err error, caught bool) error {
	var known *ToolError
	var failure *script.Failure
	switch {
	case err == nil, script.Final(err), ctx.Err() != nil, script.IsNotDone(err), errors.As(err, &failure):
		return err
	case !errors.As(err, &known), known.Kind == Unknown:
		return &script.UnknownOutcome{Err: err}
	case known.Kind == Timeout:
		return &script.UnknownOutcome{Err: known, Harmless: &script.Failure{Kind: Timeout, Message: known.Msg}}
	case caught || known.answer():
		return &script.Failure{Kind: known.Kind, Message: known.Msg}
	case known.Kind == Unavailable:
		return script.NotDone(known)
	}
	return known
}

// explain adds the call to its error.
func (c *call) explain(err error) error {
	return fmt.Errorf("%s(%q): %w", c.function, c.tool, err)
}

// toolResult is a result of tools/call, split into the parts that scripts see.
type toolResult struct {
	isError    bool
	content    json.RawMessage
	structured json.RawMessage // also nil for null
}

func readResult(raw json.RawMessage) (r toolResult, err error) {
	err = jsonscan.SkimObject(raw, func(key, value []byte) {
		switch string(key) {
		case "isError":
			r.isError = string(value) == "true"
		case "content":
			r.content = value
		case "structuredContent":
			if r.structured = value; string(value) == "null" {
				r.structured = nil
			}
		}
	})
	if err != nil {
		return r, notAResult(err)
	}
	return r, nil
}

func notAResult(err error) error {
	return &ToolError{Kind: InvalidOutput, Msg: fmt.Sprintf("the result is not a tool result: %v", err)}
}

// toolSaidNo returns the text of a result with isError as an error.
func toolSaidNo(raw json.RawMessage) error {
	r, err := readResult(raw)
	if err != nil || !r.isError {
		return err
	}
	text := textOf(r.content)
	if text == "" {
		text = "the tool reported a failure without text"
	}
	return &ToolError{Kind: Tool, Msg: text}
}

// maxBlocks is how many content blocks of a failure are searched for its text.
const maxBlocks = 4096

// textOf joins the text blocks of content, up to the bound on the text of a failure. Only text blocks are decoded, and
// only the first maxBlocks blocks are searched.
func textOf(content json.RawMessage) string {
	var b strings.Builder
	first, left := true, maxBlocks
	jsonscan.Elements(content, func(block []byte) bool {
		if left--; left < 0 {
			return false
		}
		if jsonscan.GetString(block, "type") != "text" {
			return true
		}
		if !first {
			b.WriteByte('\n')
		}
		first = false
		b.WriteString(jsonscan.GetString(block, "text"))
		return b.Len() <= 2*script.MaxMessage
	})
	return script.Clip(b.String())
}

// toolOutput returns the value of a result in a script: its structured content, or else its text and all of its
// content.
func toolOutput(t *starlark.Thread, raw json.RawMessage) (starlark.Value, error) {
	r, err := readResult(raw)
	if err != nil {
		return nil, &script.Failure{Kind: InvalidOutput, Message: err.Error()}
	}
	if r.structured != nil {
		return decode(t, r.structured)
	}
	if r.content == nil {
		r.content = json.RawMessage("[]")
	}
	content, err := decode(t, r.content)
	if err != nil {
		return nil, err
	}
	text := contentTexts(content)
	if err := script.RunOf(t).Charge(int64(len(text))); err != nil {
		return nil, err
	}
	d := starlark.NewDict(2)
	_ = d.SetKey(starlark.String("text"), starlark.String(text))
	_ = d.SetKey(starlark.String("content"), content)
	return d, nil
}

// contentTexts joins the text blocks of a decoded content array; "" for other values.
func contentTexts(content starlark.Value) string {
	list, ok := content.(*starlark.List)
	if !ok {
		return ""
	}
	var texts []string
	for i := range list.Len() {
		block, _ := list.Index(i).(*starlark.Dict)
		if stringOf(block, "type") == "text" {
			texts = append(texts, stringOf(block, "text"))
		}
	}
	return strings.Join(texts, "\n")
}

// stringOf returns the string under a key of d, or "".
func stringOf(d *starlark.Dict, key string) string {
	if d == nil {
		return ""
	}
	v, _, _ := d.Get(starlark.String(key))
	s, _ := v.(starlark.String)
	return string(s)
}

// decode decodes JSON that came from a tool or a client.
func decode(t *starlark.Thread, raw json.RawMessage) (starlark.Value, error) {
	v, err := script.DecodeIn(t, raw, script.RunOf(t).Limits().Depth)
	if err != nil && !script.Final(err) {
		return nil, &script.Failure{Kind: InvalidOutput, Message: fmt.Sprintf("the result cannot be read: %v", err)}
	}
	return v, err
}
