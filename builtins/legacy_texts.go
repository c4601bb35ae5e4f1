package builtins

import (
	"errors"
	"fmt"
	"strconv"
	"text/template"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// pure is a function over the values of Go: it gets the arguments and returns a value.
// With refuses, it takes an argument at, the place that its error names.
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

// refusal is what a template function says of arguments that it does not take.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// textOf makes a value of a text that was just written.
func textOf(t *starlark.Thread, s string) (starlark.Value, error) {
	return starlark.String(s), charge(t, len(s))
}

// legacyTexts are the functions that make texts of values, or values of texts.
var legacyTexts = map[string]function{
	"text": legacyText,
	"printf": pure("printf", false, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		format, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("printf: want a text as the format, have %T", args[0])
		}
		if err := checkFormat(format, args[1:]); err != nil {
			return nil, err
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
			return nil, refuse("error calling fromJson: %v", err)
		}
		return fromGo(t, v)
	}),
	"string": pure("string", true, func(_ *starlark.Thread, args []any) (starlark.Value, error) {
		switch v := args[0].(type) {
		case string:
			return starlark.String(v), nil
		case nil:
			return nil, refuse("invalid value; expected string")
		default:
			return nil, refuse("wrong type for value; expected string; got %T", v)
		}
	}),
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

// legacyText is text(v): what a template prints for v.
func legacyText(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
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

// printing is a function that only writes its arguments.
func printing(f func(...any) string) function {
	return pure("print", false, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		return textOf(t, f(args...))
	})
}

// longestFormat is how long a text printf may write.
const longestFormat = 64 << 20

// checkFormat refuses a format that could make a huge text of small values: by widths, or
// by naming the same value again and again.
func checkFormat(format string, args []any) error {
	var all int64
	for _, a := range args {
		all += textSize(a)
	}
	const widest = 1_000_000 // the most that fmt pads to
	var width, longest, verbs int64
	for _, c := range format {
		switch {
		case c == '%':
			verbs++
			width = 0
		case c >= '0' && c <= '9':
			width = min(width*10+int64(c-'0'), widest)
		case c == '*':
			width = widest
		default:
			width = 0
		}
		longest = max(longest, width)
	}
	if verbs*(2*longest+10*all) > longestFormat {
		return fmt.Errorf("printf: format %s could make a text of more than %s", shorten(format, 40), script.Bytes(longestFormat))
	}
	return nil
}

// textSize is about how long a value is as a text.
func textSize(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case float64:
		return 400
	case []any:
		n := int64(2)
		for _, e := range v {
			n += textSize(e) + 1
		}
		return n
	case map[string]any:
		n := int64(2)
		for k, e := range v {
			n += int64(len(k)) + textSize(e) + 2
		}
		return n
	}
	return 24
}

// brokenTemplate is broken_template(error, at): a text that is no template, where the
// legacy engine noticed that only when it came there.
func brokenTemplate(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var msg, at string
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "error", &msg, "at", &at); err != nil {
		return nil, err
	}
	p, _ := parsePlace(at + ":")
	return nil, p.fail("failed to parse template: " + msg)
}
