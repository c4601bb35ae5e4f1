package legacy

import (
	"fmt"
	"sort"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// valueFunctions are the functions that select parts of values.
var valueFunctions = map[string]function{
	"field": field,
	"index": pure("index", true, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		v, err := templateIndex(args[0], args[1:])
		if err != nil {
			return nil, refuse("error calling index: %v", err)
		}
		return fromTemplate(t, v)
	}),
	"slice": pure("slice", true, func(t *starlark.Thread, args []any) (starlark.Value, error) {
		v, err := templateSlice(args[0], args[1:])
		if err != nil {
			return nil, refuse("error calling slice: %v", err)
		}
		return fromTemplate(t, v)
	}),
	"length": length,
	"items":  items,
	"pairs":  pairs,
}

// field is field(v, *names, at, value=False): v.a.b in a template. The fields of a
// missing value are missing; a field of anything but a map is an error. With
// value, v is the value of a variable or of parentheses, whose type the error names.
func field(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var at string
	var value bool
	if err := starlark.UnpackArgs(fn.Name(), nil, kwargs, "at?", &at, "value?", &value); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("field: want a value and names")
	}
	v := args[0]
	for i, arg := range args[1:] {
		name, _ := starlark.AsString(arg)
		switch on := v.(type) {
		case noOutput, starlark.NoneType:
			return starlark.None, nil
		case null:
			return nil, templateError(at, "nil pointer evaluating interface {}."+name)
		case *starlark.Dict:
			found, ok, err := on.Get(arg)
			if err != nil || !ok {
				return starlark.None, err
			}
			v = found
			if i < len(args)-2 {
				v = element(found)
			}
		default:
			return nil, templateError(at, fmt.Sprintf("can't evaluate field %s in type %s", name, typeName(v, value && i == 0)))
		}
	}
	return v, nil
}

// typeName is the Go type in errors: of the value itself, or of the field or element that has it.
func typeName(v starlark.Value, itself bool) string {
	if !itself {
		return "interface {}"
	}
	switch v.(type) {
	case starlark.String:
		return "string"
	case starlark.Bool:
		return "bool"
	case starlark.Int:
		return "int"
	case octet:
		return "uint8"
	case starlark.Float:
		return "float64"
	}
	return "[]interface {}"
}

// fromTemplate converts the result of a template function; integers stay integers.
func fromTemplate(t *starlark.Thread, v any) (starlark.Value, error) {
	switch v := v.(type) {
	case int:
		return starlark.MakeInt(v), nil
	case map[string]any:
		if v == nil {
			return noOutput{}, nil
		}
	}
	return fromGoKept(t, v)
}

// fromGoKept is fromGo that does not convert integers to floats.
func fromGoKept(t *starlark.Thread, v any) (starlark.Value, error) {
	if err := script.Charge(t, 64); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case int:
		return starlark.MakeInt(v), nil
	case uint64:
		return starlark.MakeUint64(v), nil
	case uint8:
		return octet(v), nil
	case []any:
		out := make([]starlark.Value, len(v))
		for i, e := range v {
			var err error
			if out[i], err = fromGoKept(t, e); err != nil {
				return nil, err
			}
		}
		return starlark.NewList(out), nil
	case map[string]any:
		return keptDict(t, v)
	}
	return fromGo(t, v)
}

func keptDict(t *starlark.Thread, m map[string]any) (starlark.Value, error) {
	d := starlark.NewDict(len(m))
	for _, k := range sortedKeys(m) {
		e, err := fromGoKept(t, m[k])
		if err != nil {
			return nil, err
		}
		if err := d.SetKey(starlark.String(k), e); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func sortedKeys(m map[string]any) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	sort.Strings(list)
	return list
}

func templateIndex(v any, indexes []any) (any, error) {
	if v == nil {
		return nil, fmt.Errorf("index of untyped nil")
	}
	for _, i := range indexes {
		switch on := v.(type) {
		case nil:
			return nil, fmt.Errorf("index of nil pointer")
		case map[string]any:
			key, ok := i.(string)
			switch {
			case ok:
				v = on[key]
			case i == nil:
				return nil, fmt.Errorf("value is nil; should be of type string")
			default:
				return nil, fmt.Errorf("value has type %T; should be string", i)
			}
		case []any:
			n, err := indexNumber(i, len(on))
			if err == nil && n == len(on) {
				err = fmt.Errorf("reflect: slice index out of range")
			}
			if err != nil {
				return nil, err
			}
			v = on[n]
		case string:
			n, err := indexNumber(i, len(on))
			if err == nil && n == len(on) {
				err = fmt.Errorf("reflect: string index out of range")
			}
			if err != nil {
				return nil, err
			}
			v = on[n]
		default:
			return nil, fmt.Errorf("can't index item of type %T", v)
		}
	}
	return v, nil
}

// indexNumber converts an index, for a value of n elements.
func indexNumber(i any, n int) (int, error) {
	switch i := i.(type) {
	case uint8:
		return indexNumber(int(i), n)
	case int:
		if i < 0 || i > n {
			return 0, fmt.Errorf("index out of range: %d", i)
		}
		return i, nil
	case nil:
		return 0, fmt.Errorf("cannot index slice/array with nil")
	default:
		return 0, fmt.Errorf("cannot index slice/array with type %T", i)
	}
}

func templateSlice(v any, indexes []any) (any, error) {
	if v == nil {
		return nil, fmt.Errorf("slice of untyped nil")
	}
	if len(indexes) > 3 {
		return nil, fmt.Errorf("too many slice indexes: %d", len(indexes))
	}
	text, isText := v.(string)
	list, isList := v.([]any)
	size := len(list)
	switch {
	case isText && len(indexes) == 3:
		return nil, fmt.Errorf("cannot 3-index slice a string")
	case isText:
		size = len(text)
	case !isList:
		return nil, fmt.Errorf("can't slice item of type %T", v)
	}
	bounds := [3]int{0, size}
	for i, index := range indexes {
		n, err := indexNumber(index, size)
		if err != nil {
			return nil, err
		}
		bounds[i] = n
	}
	switch {
	case bounds[0] > bounds[1]:
		return nil, fmt.Errorf("invalid slice index: %d > %d", bounds[0], bounds[1])
	case len(indexes) == 3 && bounds[1] > bounds[2]:
		return nil, fmt.Errorf("invalid slice index: %d > %d", bounds[1], bounds[2])
	case isText:
		return text[bounds[0]:bounds[1]], nil
	}
	return list[bounds[0]:bounds[1]], nil
}

// length is length(v, key=None, at): len of a value, or of the value at a key of a map.
func length(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	at, err := placeArgument("length", kwargs)
	if err != nil {
		return nil, err
	}
	var v, key starlark.Value
	if err := starlark.UnpackPositionalArgs("length", args, nil, 1, &v, &key); err != nil {
		return nil, err
	}
	if key != nil {
		if v, err = entryOf(v, key); err != nil {
			return nil, err
		}
	}
	if _, isNull := v.(null); isNull {
		return nil, templateError(at, "error calling len: len of nil pointer")
	}
	value, err := toGo(t, orNone(v))
	if err != nil {
		return nil, err
	}
	n, err := templateLength(value)
	if err != nil {
		return nil, templateError(at, "error calling len: "+err.Error())
	}
	return starlark.MakeInt(n), nil
}

// entryOf is the value at a key of a map: None without the key, null for a null.
func entryOf(v, key starlark.Value) (starlark.Value, error) {
	m, ok := v.(*starlark.Dict)
	if !ok {
		return starlark.None, nil
	}
	found, ok, err := m.Get(key)
	if err != nil || !ok {
		return starlark.None, err
	}
	return element(found), nil
}

func templateLength(v any) (int, error) {
	switch v := v.(type) {
	case nil:
		return 0, fmt.Errorf("reflect: call of reflect.Value.Type on zero Value")
	case string:
		return len(v), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	}
	return 0, fmt.Errorf("len of type %T", v)
}

// items is items(v, at): the list that a range with one variable iterates over.
func items(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return ranged(t, "items", args, kwargs, func(_, v starlark.Value) starlark.Value { return v })
}

// pairs is pairs(v, at): the list that a range with a key or index iterates over.
func pairs(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return ranged(t, "pairs", args, kwargs, func(k, v starlark.Value) starlark.Value { return starlark.Tuple{k, v} })
}

func ranged(t *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple, item func(k, v starlark.Value) starlark.Value) (starlark.Value, error) {
	at, err := placeArgument(name, kwargs)
	if err != nil {
		return nil, err
	}
	var over starlark.Value
	if err := starlark.UnpackPositionalArgs(name, args, nil, 1, &over); err != nil {
		return nil, err
	}
	var out []starlark.Value
	switch over := over.(type) {
	case starlark.NoneType, noOutput, null:
	case *starlark.Dict:
		for _, k := range sortedDictKeys(over) {
			v, _, _ := over.Get(k)
			out = append(out, item(k, element(v)))
		}
	case *starlark.List:
		for i := range over.Len() {
			out = append(out, item(starlark.MakeInt(i), element(over.Index(i))))
		}
	case octet:
		return countTo(t, starlark.MakeInt(int(over)), name, at)
	case starlark.Int:
		return countTo(t, over, name, at)
	default:
		v, err := toGo(t, over)
		if err != nil {
			return nil, err
		}
		return nil, templateError(at, fmt.Sprintf("range can't iterate over %v", v))
	}
	return starlark.NewList(out), script.Charge(t, int64(len(out))*64)
}

// countTo is a range over an integer.
func countTo(t *starlark.Thread, n starlark.Int, name, at string) (starlark.Value, error) {
	count, ok := n.Int64()
	if name == "pairs" {
		return nil, templateError(at, fmt.Sprintf("can't use %v to iterate over more than one variable", n))
	}
	const most = 1 << 24
	if !ok || count > most {
		return nil, fmt.Errorf("items: a range of %v is too long", n)
	}
	if err := script.Charge(t, max(count, 0)*32); err != nil {
		return nil, err
	}
	var out []starlark.Value
	for i := range max(count, 0) {
		out = append(out, starlark.MakeInt64(i))
	}
	return starlark.NewList(out), nil
}

func sortedDictKeys(d *starlark.Dict) []starlark.Value {
	list := d.Keys()
	sort.Slice(list, func(i, j int) bool {
		a, _ := starlark.AsString(list[i])
		b, _ := starlark.AsString(list[j])
		return a < b
	})
	return list
}
