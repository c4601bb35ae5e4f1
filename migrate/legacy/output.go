package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// outputFunctions convert rendered texts to the types of properties of an output.
var outputFunctions = map[string]function{
	"as_string": property(func(_ *starlark.Thread, _, s string) (starlark.Value, error) { return starlark.String(s), nil }),
	"as_integer": property(func(_ *starlark.Thread, name, s string) (starlark.Value, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, notCoerced(name, s, "integer", err)
		}
		return starlark.MakeInt64(n), nil
	}),
	"as_number": property(func(_ *starlark.Thread, name, s string) (starlark.Value, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, notCoerced(name, s, "number", err)
		}
		return starlark.Float(f), nil
	}),
	"as_boolean": property(func(_ *starlark.Thread, name, s string) (starlark.Value, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return nil, notCoerced(name, s, "boolean", err)
		}
		return starlark.Bool(b), nil
	}),
	"as_object": property(func(t *starlark.Thread, name, s string) (starlark.Value, error) {
		var m map[string]any
		if err := parseJSON(t, s, &m); err != nil {
			return nil, fmt.Errorf("failed to deserialize JSON for object property %q: %v", name, err)
		}
		return fromGo(t, m)
	}),
	"as_array": property(func(t *starlark.Thread, name, s string) (starlark.Value, error) {
		var list []any
		if err := parseJSON(t, s, &list); err != nil {
			return nil, fmt.Errorf("failed to deserialize JSON array for property %q: %v", name, err)
		}
		return fromGo(t, list)
	}),
}

func notCoerced(name, s, kind string, err error) error {
	return fmt.Errorf("failed to coerce value for property %q: cannot coerce %q to %s: %v", name, s, kind, err)
}

// property is as_x(text, name, default=None): the text as a value of a type. The text may
// be a function, so that the default is used after an error in it, too.
func property(read func(t *starlark.Thread, name, text string) (starlark.Value, error)) function {
	return func(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var text, fallback starlark.Value
		var path string
		if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "text", &text, "name", &path, "default?", &fallback); err != nil {
			return nil, err
		}
		fallback = orNone(fallback)
		s, err := rendered(t, text)
		switch {
		case err != nil && (fallback == starlark.None || script.Final(err)):
			return nil, err
		case err != nil, s == "<no value>" && fallback != starlark.None:
			return fallback, nil
		}
		names := splitPath(path)
		v, err := read(t, names[len(names)-1], s)
		if err != nil && fallback != starlark.None && !script.Final(err) {
			return fallback, nil
		}
		if err != nil && !script.Final(err) {
			return nil, outputError("output construction failed: " + outputPath(names) + err.Error())
		}
		return v, err
	}
}

// splitPath splits the path of a nested property, see place.
func splitPath(path string) (names []string) {
	for rest := path; ; rest = strings.TrimPrefix(rest, ".") {
		var name string
		name, rest = cutSegment(rest)
		names = append(names, name)
		if !strings.HasPrefix(rest, ".") {
			return names
		}
	}
}

// rendered returns a text, or the text that a function returns.
func rendered(t *starlark.Thread, v starlark.Value) (string, error) {
	if f, ok := v.(starlark.Callable); ok {
		var err error
		if v, err = script.RunOf(t).Call(t, f, nil, nil); err != nil {
			var failed *Error
			if errors.As(err, &failed) {
				return "", failed
			}
			return "", err
		}
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return "", fmt.Errorf("want a string, have %s", v.Type())
	}
	return s, nil
}

// answer is answer(value): the result of the workflow, with the text content of the legacy
// engine.
func (w *engine) answer(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(fn.Name(), args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	value, err := toGo(t, v)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	data, err := goJSON(t, value)
	if err != nil {
		return nil, err
	}
	block := starlark.NewDict(2)
	_ = block.SetKey(starlark.String("type"), starlark.String("text"))
	_ = block.SetKey(starlark.String("text"), starlark.String(data))
	ret := &script.Returned{Content: starlark.NewList([]starlark.Value{block})}
	if isNil(value) {
		return ret, nil
	}
	ret.Structured, err = exactNumbers(t, json.RawMessage(data))
	return ret, err
}

// exactNumbers decodes JSON, so that whole floats are integers again.
func exactNumbers(t *starlark.Thread, data json.RawMessage) (starlark.Value, error) {
	return script.DecodeIn(t, data, script.RunOf(t).Limits().Depth)
}
