package builtins

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
)

var jsonModule = &starlarkstruct.Module{Name: "json", Members: starlark.StringDict{
	"encode": script.NewBuiltin("json.encode", jsonEncode),
	"decode": script.NewBuiltin("json.decode", jsonDecode),
	"indent": script.NewBuiltin("json.indent", jsonIndent),
}}

// jsonEncode implements json.encode(x).
func jsonEncode(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "x", &x); err != nil {
		return nil, err
	}
	data, err := script.EncodeIn(t, x, script.RunOf(t).Limits().Depth)
	if err != nil {
		return nil, fmt.Errorf("json.encode: %w", err)
	}
	return starlark.String(data), nil
}

// jsonDecode implements json.decode(text, default=...).
func jsonDecode(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var fallback starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "text", &text, "default?", &fallback); err != nil {
		return nil, err
	}
	if err := script.Charge(t, int64(len(text))); err != nil {
		return nil, err
	}
	v, err := script.DecodeIn(t, []byte(text), script.RunOf(t).Limits().Depth)
	switch {
	case err == nil:
		return v, nil
	case fallback != nil && !script.Final(err):
		return fallback, nil
	}
	return nil, fmt.Errorf("json.decode: %w", err)
}

// jsonIndent implements json.indent(text, indent="  ").
func jsonIndent(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	indent := "  "
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "text", &text, "indent?", &indent); err != nil {
		return nil, err
	}
	size := indented(text, int64(len(indent)))
	if err := script.Charge(t, 2*size+int64(len(text))); err != nil {
		return nil, err
	}
	if err := script.Work(t, size/64); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(size))
	if err := stdjson.Indent(&b, []byte(text), "", indent); err != nil {
		return nil, fmt.Errorf("json.indent: %w", err)
	}
	return starlark.String(b.String()), nil
}

// indented returns an upper bound for the size of text with a line for each element, indented by its depth.
func indented(text string, indent int64) int64 {
	size, depth := int64(len(text)), int64(0)
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			depth++
			size += 1 + depth*indent
		case '}', ']':
			depth--
			size += 1 + max(depth, 0)*indent
		case ',', ':':
			size += 1 + max(depth, 0)*indent
		}
		if size > 1<<40 {
			break
		}
	}
	return size
}
