package builtins

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/format"
	"github.com/vmcp-dev/vmcp/script"
)

// textValue implements text(value, default="").
func textValue(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v, fallback starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "value", &v, "default?", &fallback); err != nil {
		return nil, err
	}
	if v == starlark.None {
		if fallback != nil {
			return fallback, nil
		}
		return starlark.String(""), nil
	}
	s, err := plainText(t, v)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	return starlark.String(s), nil
}

// plainText returns a string unchanged, and any other value as JSON, whole numbers without a fraction.
func plainText(t *starlark.Thread, v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.NoneType:
		return "", nil
	case starlark.String:
		return string(v), nil
	case starlark.Float:
		if f := float64(v); f == math.Trunc(f) && math.Abs(f) < 1e21 {
			return fmt.Sprintf("%.0f", f), nil
		}
	}
	data, err := script.EncodeIn(t, v, script.RunOf(t).Limits().Depth)
	return string(data), err
}

// withoutNone implements without_none(dict): the entries that are not None.
func withoutNone(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var d *starlark.Dict
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "dict", &d); err != nil {
		return nil, err
	}
	if err := script.Charge(t, int64(d.Len())*entryBytes); err != nil {
		return nil, err
	}
	out := starlark.NewDict(d.Len())
	for k, v := range d.Entries() {
		if v == starlark.None {
			continue
		}
		if err := out.SetKey(k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// entryBytes is what an entry of a dict is charged.
const entryBytes = 128

// printf implements printf(format, *args), with the formats of Go.
func printf(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 || len(args) == 0 {
		return nil, errors.New("printf: want a format and values, without keyword arguments")
	}
	text, ok := starlark.AsString(args[0])
	if !ok {
		return nil, fmt.Errorf("printf: want a string as the format, have %s", args[0].Type())
	}
	shown, sizes := make([]any, len(args)-1), make([]any, len(args)-1)
	for i, v := range args[1:] {
		s, err := plainText(t, v)
		if err != nil {
			return nil, fmt.Errorf("printf: %w", err)
		}
		shown[i], sizes[i] = formatted{v, s}, s
		if n, isInt := v.(starlark.Int); isInt && strings.Contains(text, "*") {
			if width, ok := n.Int64(); ok {
				shown[i] = int(width)
			}
		}
		if _, isFloat := v.(starlark.Float); isFloat {
			sizes[i] = 1.0
		}
	}
	if err := format.Check(text, sizes); err != nil {
		return nil, fmt.Errorf("printf: %w", err)
	}
	return newText(t, fmt.Sprintf(text, shown...))
}

// newText returns a text that was just written as a value.
func newText(t *starlark.Thread, s string) (starlark.Value, error) {
	if err := script.Charge(t, int64(len(s))); err != nil {
		return nil, err
	}
	return starlark.String(s), script.Work(t, int64(len(s))/64)
}

// formatted is a value in a format: a number is accepted by the verbs of integers and of floats, any other value is
// formatted as its text.
type formatted struct {
	value starlark.Value
	text  string
}

// Format implements fmt.Formatter.
func (f formatted) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, fmt.FormatString(s, verb), f.suited(verb))
}

func (f formatted) suited(verb rune) any {
	switch v := f.value.(type) {
	case starlark.Bool:
		if verb == 't' {
			return bool(v)
		}
	case starlark.Int, starlark.Float:
		number, _ := starlark.AsFloat(f.value)
		switch {
		case strings.ContainsRune("eEfFgG", verb):
			return number
		case strings.ContainsRune("dboOcUxX", verb) && number == math.Trunc(number):
			if n, err := starlark.NumberToInt(v); err == nil {
				return n.BigInt()
			}
		case strings.ContainsRune("dboOcUxX", verb):
			return number
		}
	}
	return f.text
}

// escaping makes the builtin for a function that escapes a string.
func escaping(name string, escape func(string) string) function {
	return func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var s string
		if err := starlark.UnpackArgs(name, args, kwargs, "text", &s); err != nil {
			return nil, err
		}
		if err := script.Charge(t, 6*int64(len(s))); err != nil {
			return nil, err
		}
		return newText(t, escape(s))
	}
}

var (
	htmlEscape = escaping("html_escape", template.HTMLEscapeString)
	jsEscape   = escaping("js_escape", template.JSEscapeString)
	urlQuery   = escaping("url_query", func(s string) string { return template.URLQueryEscaper(s) })
)
