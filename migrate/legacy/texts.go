package legacy

import (
	"errors"
	"fmt"
	"strconv"
	"text/template"

	"go.starlark.net/starlark"

	limits "github.com/vmcp-dev/vmcp/internal/format"
)

// pure returns a function that gets its arguments as values of Go.
// With refuses, it has an argument at, the place that its error names.
func pure(name string, refuses bool, f func(t *starlark.Thread, args []any) (starlark.Value, error)) function {
	return func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		at, err := placeArgument(name, kwargs)
		if err != nil {
			return nil, err
		}
		values := make([]any, len(args))
		for i, a := range args {
			if values[i], err = toGo(t, a); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		v, err := f(t, values)
		var refused refusal
		if refuses && errors.As(err, &refused) {
			return nil, templateError(at, string(refused))
		}
		return v, err
	}
}

// placeArgument reads at, the only argument with a name that these functions have.
func placeArgument(name string, kwargs []starlark.Tuple) (at string, err error) {
	err = starlark.UnpackArgs(name, nil, kwargs, "at?", &at)
	return at, err
}

// refusal is the error of a template function about arguments that it does not accept.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// textOf returns a new text as a value, and charges its memory.
func textOf(t *starlark.Thread, s string) (starlark.Value, error) {
	return starlark.String(s), charge(t, len(s))
}

// textFunctions are the functions that convert values to texts, or texts to values.
var textFunctions = map[string]function{
	"text": text,
	"printf": pure("printf", false, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		format, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("printf: want a string as the format, have %T", args[0])
		}
		if err := limits.Check(format, args[1:]); err != nil {
			return nil, fmt.Errorf("printf: %w", err)
		}
		return textOf(t, fmt.Sprintf(format, args[1:]...))
	}),
	"sprint":      printing(fmt.Sprint),
	"sprintln":    printing(fmt.Sprintln),
	"html_escape": printing(template.HTMLEscaper),
	"js_escape":   printing(template.JSEscaper),
	"url_query":   printing(template.URLQueryEscaper),
	"quote": printing(func(args ...any) string {
		s, _ := args[0].(string)
		return strconv.Quote(s)
	}),
	"to_json": pure("to_json", true, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		data, err := goJSON(t, args[0])
		if err != nil {
			return nil, err
		}
		return starlark.String(data), nil
	}),
	"from_json": pure("from_json", true, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		s, _ := args[0].(string)
		var v any
		if err := parseJSON(t, s, &v); err != nil {
			return nil, refuse("error calling fromJson: failed to unmarshal JSON: %v", err)
		}
		return fromGo(t, v)
	}),
	"string": textArgument,
	"call_value": pure("call_value", true, func(_ *starlark.Thread, args []any) (starlark.Value, error) {
		if args[0] == nil {
			return nil, refuse("error calling call: call of nil")
		}
		return nil, refuse("error calling call: non-function %v of type %T", args[1], args[0])
	}),
	"template_error": pure("template_error", true, func(_ *starlark.Thread, args []any) (starlark.Value, error) {
		return nil, refuse("%v", args[0])
	}),
	"broken_template": brokenTemplate,
}

// text is text(v): the text that a template prints for v.
func text(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(fn.Name(), args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	if s, ok := v.(starlark.String); ok {
		return s, nil
	}
	goValue, err := toGo(t, v)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	if goValue == nil {
		return starlark.String("<no value>"), nil
	}
	return textOf(t, fmt.Sprint(goValue))
}

// printing returns a function that formats its arguments.
func printing(f func(...any) string) function {
	return pure("print", false, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		return textOf(t, f(args...))
	})
}

// textArgument is string(v, key=None, at): v, or the value at a key of a map, as the argument of a function
// that accepts only a text.
func textArgument(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	at, err := placeArgument("string", kwargs)
	if err != nil {
		return nil, err
	}
	var v, key starlark.Value
	if err := starlark.UnpackPositionalArgs("string", args, nil, 1, &v, &key); err != nil {
		return nil, err
	}
	if key != nil {
		if v, err = entryOf(v, key); err != nil {
			return nil, err
		}
	}
	switch v.(type) {
	case starlark.String:
		return v, nil
	case starlark.NoneType:
		return nil, templateError(at, "invalid value; expected string")
	case null:
		return nil, templateError(at, "wrong type for value; expected string; got interface {}")
	}
	have, err := toGo(t, v)
	if err != nil {
		return nil, fmt.Errorf("string: %w", err)
	}
	return nil, templateError(at, fmt.Sprintf("wrong type for value; expected string; got %T", have))
}

// brokenTemplate is broken_template(error, at): fails for a text that is no template, where the
// legacy engine parsed it only when it rendered it.
func brokenTemplate(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var msg, at string
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "error", &msg, "at", &at); err != nil {
		return nil, err
	}
	p, _ := parsePlace(at + ":")
	return nil, p.fail("failed to parse template: " + msg)
}
