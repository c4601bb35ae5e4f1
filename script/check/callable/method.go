package callable

import (
	"slices"

	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// Bound is a method of a value.
type Bound struct {
	On     *types.Atom
	Method *Method
}

// Method is a method of a kind of values.
type Method struct {
	Min, Max int  // arguments; Max -1: any number
	Pure     bool // it changes nothing
	Gives    func(on *types.Atom, args []Argument) types.Type
	// Change returns the value after the call; nil: unchanged.
	Change func(on *types.Atom, args []Argument) *types.Atom
	Kinds  []types.Kind // of the arguments; nil: any
}

func methodGives(k ...types.Kind) func(*types.Atom, []Argument) types.Type {
	return func(*types.Atom, []Argument) types.Type { return types.Kinds(k...) }
}

func noValue(*types.Atom, []Argument) types.Type {
	return types.Of(&types.Atom{Kind: types.None, Role: types.Output})
}

func listOfText(*types.Atom, []Argument) types.Type {
	return types.ListOf(types.Kinds(types.Text))
}

var methods map[types.Kind]map[string]*Method

func init() {
	text := []types.Kind{types.Text}
	textMethods := map[string]*Method{
		"format": {0, -1, true, methodGives(types.Text), nil, nil},
		"join":   {1, 1, true, methodGives(types.Text), nil, nil},
		"split":  {0, 2, true, listOfText, nil, nil}, "rsplit": {0, 2, true, listOfText, nil, nil}, "splitlines": {0, 1, true, listOfText, nil, nil},
		"replace": {2, 3, true, methodGives(types.Text), nil, nil},
		"count":   {1, 3, true, methodGives(types.Int), nil, nil}, "elem_ords": {0, 0, true, methodGives(types.Iterable), nil, nil},
		"startswith": {1, 3, true, methodGives(types.Bool), nil, []types.Kind{types.Text, types.Tuple, types.Int, types.None}},
		"endswith":   {1, 3, true, methodGives(types.Bool), nil, []types.Kind{types.Text, types.Tuple, types.Int, types.None}},
		"partition":  {1, 1, true, threeTexts, nil, text}, "rpartition": {1, 1, true, threeTexts, nil, text},
		"removeprefix": {1, 1, true, methodGives(types.Text), nil, text}, "removesuffix": {1, 1, true, methodGives(types.Text), nil, text},
		"elems": {0, 0, true, iterText, nil, nil}, "codepoints": {0, 0, true, iterText, nil, nil}, "codepoint_ords": {0, 0, true, methodGives(types.Iterable), nil, nil},
	}
	for _, name := range []string{"find", "rfind", "index", "rindex"} {
		textMethods[name] = &Method{1, 3, true, methodGives(types.Int), nil, nil}
	}
	for _, name := range []string{"lower", "upper", "title", "capitalize"} {
		textMethods[name] = &Method{0, 0, true, methodGives(types.Text), nil, nil}
	}
	for _, name := range []string{"strip", "lstrip", "rstrip"} {
		textMethods[name] = &Method{0, 1, true, methodGives(types.Text), nil, append(text, types.None)}
	}
	for _, name := range []string{"isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper"} {
		textMethods[name] = &Method{0, 0, true, methodGives(types.Bool), nil, nil}
	}
	methods = map[types.Kind]map[string]*Method{
		types.Text: textMethods,
		types.List: {
			"append": {1, 1, false, noValue, appended, nil}, "extend": {1, 1, false, noValue, extended, nil},
			"insert": {2, 2, false, noValue, inserted, nil}, "clear": {0, 0, false, noValue, listLoosened, nil},
			"remove": {1, 1, false, noValue, listLoosened, nil}, "index": {1, 3, true, methodGives(types.Int), nil, nil},
			"pop": {0, 1, false, elementMethod, listLoosened, nil},
		},
		types.Dict: {
			"get": {1, 2, true, dictGet, nil, nil}, "keys": {0, 0, true, dictKeys, nil, nil}, "values": {0, 0, true, dictValues, nil, nil},
			"items": {0, 0, true, dictItems, nil, nil}, "update": {0, -1, false, noValue, dictUpdated, nil},
			"setdefault": {1, 2, false, dictSetDefault, dictDefaulted, nil}, "pop": {1, 2, false, dictPop, dictLoosened, nil},
			"popitem": {0, 0, false, methodGives(types.Tuple), dictLoosened, nil}, "clear": {0, 0, false, noValue, dictLoosened, nil},
		},
		types.Set: {
			"add": {1, 1, false, noValue, nil, nil}, "remove": {1, 1, false, noValue, nil, nil}, "discard": {1, 1, false, noValue, nil, nil},
			"pop": {0, 0, false, elementMethod, nil, nil}, "clear": {0, 0, false, noValue, nil, nil}, "update": {0, -1, false, noValue, nil, nil},
			"union": {0, -1, true, methodGives(types.Set), nil, nil}, "intersection": {0, -1, true, methodGives(types.Set), nil, nil},
			"difference": {0, -1, true, methodGives(types.Set), nil, nil}, "symmetric_difference": {1, 1, true, methodGives(types.Set), nil, nil},
			"issubset": {1, 1, true, methodGives(types.Bool), nil, nil}, "issuperset": {1, 1, true, methodGives(types.Bool), nil, nil},
		},
		types.Bytes: {"elems": {0, 0, true, methodGives(types.Iterable), nil, nil}},
	}
}

func threeTexts(*types.Atom, []Argument) types.Type {
	t := types.Kinds(types.Text)
	return types.TupleOf(t, t, t)
}

func iterText(*types.Atom, []Argument) types.Type {
	return types.IterableOf(types.Kinds(types.Text))
}

func elementMethod(on *types.Atom, _ []Argument) types.Type {
	if on.Elem.IsNever() {
		return types.Any
	}
	return on.Elem
}

// MethodOf returns a method of a kind of values, or nil.
func MethodOf(k types.Kind, name string) *Method { return methods[k][name] }

// MethodNames returns the methods of a kind of values, sorted.
func MethodNames(k types.Kind) (names []string) {
	for n := range methods[k] {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Habit returns a hint for a method of other languages, or "".
func Habit(k types.Kind, name string) string {
	length := "did you mean len(...)?"
	switch {
	case slices.Contains([]string{"size", "length", "len", "count"}, name):
		return length
	case k == types.List && slices.Contains([]string{"push", "add", "push_back"}, name):
		return "did you mean append?"
	case k == types.List && name == "sort":
		return "sorted(list) returns a sorted list"
	case k == types.List && name == "reverse":
		return "reversed(list) returns a reversed list"
	case k == types.List && name == "join":
		return `write ", ".join(list)`
	case (k == types.List || k == types.Dict) && name == "copy":
		return map[types.Kind]string{types.List: "list(x) returns a copy", types.Dict: "dict(x) returns a copy"}[k]
	case k == types.List && name == "contains", k == types.Dict && (name == "has_key" || name == "contains" || name == "has"), k == types.Text && (name == "contains" || name == "includes"):
		return "write x in y"
	case k == types.Text && name == "trim", k == types.Text && name == "trimmed":
		return "did you mean strip?"
	case k == types.Text && slices.Contains([]string{"toLowerCase", "to_lower", "lowercase"}, name):
		return "did you mean lower?"
	case k == types.Text && slices.Contains([]string{"toUpperCase", "to_upper", "uppercase"}, name):
		return "did you mean upper?"
	case k == types.Text && (name == "isnumeric" || name == "isdecimal"):
		return "did you mean isdigit?"
	case k == types.Text && (name == "ljust" || name == "rjust" || name == "zfill" || name == "center"):
		return `printf("%-10s", x) has widths`
	case k == types.Set && name == "isdisjoint":
		return "write not (a & b)"
	case k == types.List && name == "map", k == types.List && name == "filter":
		return "write [... for x in list]"
	}
	return ""
}

func appended(a *types.Atom, args []Argument) *types.Atom { return grownList(a, args, 0) }
func inserted(a *types.Atom, args []Argument) *types.Atom { return grownList(a, args, 1) }

func grownList(a *types.Atom, args []Argument, i int) *types.Atom {
	if i >= len(args) {
		return a
	}
	return &types.Atom{Kind: types.List, Elem: types.Join(a.Elem, args[i].Type)}
}

func extended(a *types.Atom, args []Argument) *types.Atom {
	if len(args) == 0 {
		return a
	}
	return &types.Atom{Kind: types.List, Elem: types.Join(a.Elem, operation.ElementOf(args[0].Type))}
}

func dictGet(on *types.Atom, args []Argument) types.Type {
	fallback := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	if len(args) > 1 {
		fallback = args[1].Type
	}
	name, ok := args[0].Type.Text()
	if !ok {
		if on.Role == types.Made || len(on.Fields) > 0 {
			return types.Any
		}
		return types.Join(on.Elem, types.Of(&types.Atom{Kind: types.None, Role: types.Made}))
	}
	f, has := on.Field(name)
	switch {
	case has && f.Presence == types.Required:
		return f.Type
	case has && f.Presence == types.Optional:
		return types.Join(f.Type, fallback)
	case has:
		return types.Any
	}
	return types.Any
}

func dictKeys(on *types.Atom, _ []Argument) types.Type {
	return types.ListOf(operation.KeysOf(on))
}

func dictValues(on *types.Atom, _ []Argument) types.Type {
	return types.ListOf(valuesOf(on))
}

func valuesOf(on *types.Atom) types.Type {
	if on.Open && len(on.Fields) > 0 {
		return types.Any
	}
	t := types.Never
	if on.Open {
		t = on.Elem
	}
	for _, f := range on.Fields {
		t = types.Join(t, f.Type)
	}
	return t
}

func dictItems(on *types.Atom, _ []Argument) types.Type {
	return types.ListOf(types.TupleOf(operation.KeysOf(on), valuesOf(on)))
}

func dictUpdated(a *types.Atom, args []Argument) *types.Atom {
	out := a
	for _, arg := range args {
		if arg.Name != "" {
			out = out.With(types.Field{Name: arg.Name, Type: arg.Type, Value: arg.Expr})
			continue
		}
		other := arg.Type.Only()
		if other == nil || other.Kind != types.Dict || arg.Spread {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
		t := operation.Merged(out, other)
		if out = t.Only(); out == nil {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
	}
	return out
}

func dictSetDefault(on *types.Atom, args []Argument) types.Type {
	if _, ok := args[0].Type.Text(); ok || len(args) < 2 || !on.PlainMap() {
		return types.Any
	}
	return types.Join(on.Elem, args[1].Type)
}

func dictDefaulted(a *types.Atom, args []Argument) *types.Atom {
	name, ok := args[0].Type.Text()
	if !ok && a.PlainMap() && len(args) > 1 {
		return &types.Atom{Kind: types.Dict, Role: types.Made, Open: true, Elem: types.Join(a.Elem, args[1].Type)}
	}
	if !ok {
		return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
	}
	return a.With(types.Field{Name: name, Type: types.Any})
}

func dictPop(on *types.Atom, args []Argument) types.Type { return types.Any }

// dictLoosened returns a dict that may have lost some keys.
func dictLoosened(a *types.Atom, _ []Argument) *types.Atom {
	return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
}

// listLoosened returns a list that may have lost some elements.
func listLoosened(a *types.Atom, _ []Argument) *types.Atom {
	return &types.Atom{Kind: types.List, Elem: a.Elem}
}

// Member returns the type of a member of a time or a duration; ok is false when it has none of the name.
func Member(k types.Kind, name string) (t types.Type, ok bool) {
	if k == types.Time {
		return timeMember(name)
	}
	return durationMember(name)
}

// timeMember returns the type of a member of a time.
func timeMember(name string) (types.Type, bool) {
	switch name {
	case "year", "month", "day", "hour", "minute", "second", "nanosecond", "unix", "unix_nano", "weekday":
		return types.Any, true
	case "format":
		return types.Of(&types.Atom{Kind: types.Func, Name: "format", Fn: &Builtin{Name: "format", Params: []Param{{Name: "layout", Type: "text", Optional: true}}, Returns: "text"}}), true
	}
	return types.Any, false
}

func durationMember(name string) (types.Type, bool) {
	switch name {
	case "hours", "minutes", "seconds":
		return types.Kinds(types.Float), true
	case "milliseconds", "microseconds", "nanoseconds":
		return types.Kinds(types.Int), true
	}
	return types.Any, false
}
