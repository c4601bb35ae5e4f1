package legacy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Numbers in migrated workflows: a float is a JSON number of the client or of a tool, an
// int is an integer of Go, from the YAML file or a counter of the engine.

// noOutput is the output of a step that has none: a nil map. It has no fields, but
// unlike None it is not nil in templates.
type noOutput struct{}

func (noOutput) String() string        { return "NOTHING" }
func (noOutput) Type() string          { return "nothing" }
func (noOutput) Freeze()               {}
func (noOutput) Truth() starlark.Bool  { return false }
func (noOutput) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: nothing") }
func (noOutput) AttrNames() []string   { return []string{"get"} }

// Attr returns the method get, which scripts use on outputs.
func (noOutput) Attr(name string) (starlark.Value, error) {
	if name != "get" {
		return nil, nil
	}
	return starlark.NewBuiltin("get", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, nil
	}), nil
}

// null is an element of a list or map that is null: a field of it is an error, unlike one of a
// missing element.
type null struct{}

func (null) String() string        { return "null" }
func (null) Type() string          { return "null" }
func (null) Freeze()               {}
func (null) Truth() starlark.Bool  { return false }
func (null) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: null") }

// octet is an element of a text in templates: a uint8, which is of another type than other numbers.
type octet uint8

func (o octet) String() string        { return fmt.Sprint(uint8(o)) }
func (o octet) Type() string          { return "octet" }
func (o octet) Freeze()               {}
func (o octet) Truth() starlark.Bool  { return o != 0 }
func (o octet) Hash() (uint32, error) { return uint32(o), nil }

// element returns v as an element.
func element(v starlark.Value) starlark.Value {
	if v == starlark.None {
		return null{}
	}
	return v
}

// toGo converts a value into the one of Go that the template engine would have had.
func toGo(t *starlark.Thread, v starlark.Value) (any, error) { return toGoAt(t, v, 0) }

const valueDepth = 1000

// Memory, in bytes, that is charged for converting a value to Go: for the converted value, and the text that
// is encoded from it, which is at most a few times as long.
const (
	nodeCost = 100
	byteCost = 4
)

func toGoAt(t *starlark.Thread, v starlark.Value, depth int) (any, error) {
	if depth > valueDepth {
		return nil, fmt.Errorf("value nested more than %d deep", valueDepth)
	}
	cost := int64(nodeCost)
	if s, ok := v.(starlark.String); ok {
		cost += byteCost * int64(len(s))
	}
	if err := script.Charge(t, cost); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case starlark.NoneType, null:
		return nil, nil
	case noOutput:
		return map[string]any(nil), nil
	case octet:
		return uint8(v), nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.String:
		return string(v), nil
	case starlark.Float:
		return float64(v), nil
	case starlark.Int:
		return goInt(v), nil
	case *starlark.Dict:
		return goMap(t, v, depth)
	case starlark.Iterable:
		return goList(t, v, depth)
	}
	return nil, fmt.Errorf("want a value of JSON, have %s", v.Type())
}

func goInt(i starlark.Int) any {
	if n, ok := i.Int64(); ok {
		return int(n)
	}
	if n, ok := i.Uint64(); ok {
		return n
	}
	f, _ := starlark.AsFloat(i)
	return f
}

func goMap(t *starlark.Thread, d *starlark.Dict, depth int) (any, error) {
	m := make(map[string]any, d.Len())
	for k, v := range d.Entries() {
		key, ok := starlark.AsString(k)
		if !ok {
			return nil, fmt.Errorf("want strings as keys, have %s", k.Type())
		}
		err := script.Charge(t, byteCost*int64(len(key)))
		if err != nil {
			return nil, err
		}
		if m[key], err = toGoAt(t, v, depth+1); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func goList(t *starlark.Thread, list starlark.Iterable, depth int) (any, error) {
	out := []any{}
	for v := range starlark.Elements(list) {
		e, err := toGoAt(t, v, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// fromGo converts a value of Go; every number becomes a float, as in JSON.
func fromGo(t *starlark.Thread, v any) (starlark.Value, error) {
	if err := script.Charge(t, 64); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(v), nil
	case string:
		return starlark.String(v), nil
	case float64:
		return starlark.Float(v), nil
	case int:
		return starlark.Float(v), nil
	case uint64:
		return starlark.Float(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case map[string]any:
		return starlarkDict(t, v)
	case []any:
		return starlarkList(t, v)
	}
	return nil, fmt.Errorf("a value of type %T is not one of JSON", v)
}

func starlarkDict(t *starlark.Thread, m map[string]any) (starlark.Value, error) {
	if m == nil {
		return starlark.None, nil
	}
	d := starlark.NewDict(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e, err := fromGo(t, m[k])
		if err != nil {
			return nil, err
		}
		if err := d.SetKey(starlark.String(k), e); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func starlarkList(t *starlark.Thread, list []any) (starlark.Value, error) {
	if list == nil {
		return starlark.None, nil
	}
	out := make([]starlark.Value, len(list))
	for i, v := range list {
		e, err := fromGo(t, v)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return starlark.NewList(out), nil
}

// floats converts the ints in a value to floats, in place.
func floats(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case starlark.Int:
		f, _ := starlark.AsFloat(v)
		return starlark.Float(f)
	case *starlark.List:
		for i := range v.Len() {
			_ = v.SetIndex(i, floats(v.Index(i))) // it was just decoded: neither frozen nor iterated over
		}
	case *starlark.Dict:
		for _, kv := range v.Items() {
			_ = v.SetKey(kv[0], floats(kv[1]))
		}
	}
	return v
}

// goJSON encodes as Go does: sorted keys, whole numbers without a fraction, <, > and & escaped.
func goJSON(t *starlark.Thread, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return data, charge(t, len(data))
}

// charge reserves the memory of a new text of n bytes, and the steps of writing it.
func charge(t *starlark.Thread, n int) error {
	if err := script.Charge(t, int64(n)); err != nil {
		return err
	}
	return script.Work(t, int64(n)/64)
}

// parseJSON decodes the text of fromJson or of an output into the value that into points to.
func parseJSON(t *starlark.Thread, text string, into any) error {
	if err := charge(t, 8*len(text)); err != nil {
		return err
	}
	if depth := jsonDepth([]byte(text)); depth > valueDepth {
		return fmt.Errorf("JSON nested more than %d deep", valueDepth)
	}
	return json.Unmarshal([]byte(text), into)
}

// jsonDepth returns how deep brackets nest in a JSON text.
func jsonDepth(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// isObject reports whether raw is a JSON object.
func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }
