package builtins

import (
	"encoding/json"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// result implements result(content=[...], structured=None, is_error=False).
func result(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	r := &script.Returned{}
	var content, structured starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "content?", &content, "structured?", &structured, "is_error?", &r.IsError); err != nil {
		return nil, err
	}
	if content != nil && content != starlark.None {
		list, err := blocks(t, content)
		if err != nil {
			return nil, err
		}
		r.Content = list
	}
	if structured != starlark.None {
		r.Structured = structured
	}
	return r, nil
}

// blocks makes a list of content blocks: a string becomes a text block.
func blocks(t *starlark.Thread, v starlark.Value) (starlark.Value, error) {
	if _, ok := v.(starlark.String); ok {
		v = starlark.NewList([]starlark.Value{v})
	}
	seq, ok := v.(starlark.Sequence)
	if _, isDict := v.(*starlark.Dict); !ok || isDict {
		return nil, fmt.Errorf("result: content: want a list of content blocks, have %s", v.Type())
	}
	if err := script.Charge(t, int64(seq.Len())*blockBytes); err != nil {
		return nil, err
	}
	list := make([]starlark.Value, 0, seq.Len())
	iter := seq.Iterate()
	defer iter.Done()
	var x starlark.Value
	for i := 0; iter.Next(&x); i++ {
		b, err := block(x)
		if err != nil {
			return nil, fmt.Errorf("result: content[%d]: %w", i, err)
		}
		list = append(list, b)
	}
	return starlark.NewList(list), nil
}

// blockBytes is what the dict of a text block is charged.
const blockBytes = 640

func block(v starlark.Value) (starlark.Value, error) {
	switch v := v.(type) {
	case starlark.String:
		d := starlark.NewDict(2)
		_ = d.SetKey(starlark.String("type"), starlark.String("text"))
		_ = d.SetKey(starlark.String("text"), v)
		return d, nil
	case *starlark.Dict:
		if kind, ok, _ := v.Get(starlark.String("type")); ok && kind.Type() == "string" {
			return v, nil
		}
		return nil, fmt.Errorf(`want a "type", such as "text" or "image"`)
	}
	return nil, fmt.Errorf("want a dict or a string, have %s", v.Type())
}

// CallResult returns the result of a run as a CallToolResult: its JSON as structured content, and as text.
func CallResult(res *script.Result) json.RawMessage {
	content := res.Content
	if content == nil {
		content = TextContent(string(res.Structured))
	}
	out := new(jsonscan.Object).Raw("content", content)
	if len(res.Structured) > 0 {
		out.Raw("structuredContent", res.Structured)
	}
	if res.IsError {
		out.Bool("isError", true)
	}
	return out.JSON()
}

// ErrorResult returns a CallToolResult with isError and this text.
func ErrorResult(text string) json.RawMessage {
	return new(jsonscan.Object).Raw("content", TextContent(text)).Bool("isError", true).JSON()
}

// TextContent returns a text as the content of a result.
func TextContent(text string) json.RawMessage {
	return jsonscan.Array(new(jsonscan.Object).Text("type", "text").Text("text", text).JSON())
}
