package types

import (
	"slices"
)

// bound is a method of a value.
type bound struct {
	On     *Atom
	Method *method
}

// method is a method of a kind of values.
type method struct {
	Min, Max int  // arguments; Max -1: any number
	Pure     bool // it changes nothing
	Gives    func(on *Atom, args []Argument) Type
	// Change returns the value after the call; nil: unchanged.
	Change func(on *Atom, args []Argument) *Atom
	Kinds  []Kind // of the arguments; nil: any
}

func methodGives(k ...Kind) func(*Atom, []Argument) Type {
	return func(*Atom, []Argument) Type { return Kinds(k...) }
}

func noValue(*Atom, []Argument) Type {
	return Of(&Atom{Kind: None, Role: Output})
}

func listOfText(*Atom, []Argument) Type {
	return listOf(Kinds(Text))
}

var methods map[Kind]map[string]*method

func init() {
	text := []Kind{Text}
	textMethods := map[string]*method{
		"format": {0, -1, true, methodGives(Text), nil, nil},
		"join":   {1, 1, true, methodGives(Text), nil, nil},
		"split":  {0, 2, true, listOfText, nil, nil}, "rsplit": {0, 2, true, listOfText, nil, nil}, "splitlines": {0, 1, true, listOfText, nil, nil},
		"replace": {2, 3, true, methodGives(Text), nil, nil},
		"count":   {1, 3, true, methodGives(Int), nil, nil}, "elem_ords": {0, 0, true, methodGives(Iterable), nil, nil},
		"startswith": {1, 3, true, methodGives(boolKind), nil, []Kind{Text, tuple, Int, None}},
		"endswith":   {1, 3, true, methodGives(boolKind), nil, []Kind{Text, tuple, Int, None}},
		"partition":  {1, 1, true, threeTexts, nil, text}, "rpartition": {1, 1, true, threeTexts, nil, text},
		"removeprefix": {1, 1, true, methodGives(Text), nil, text}, "removesuffix": {1, 1, true, methodGives(Text), nil, text},
		"elems": {0, 0, true, iterText, nil, nil}, "codepoints": {0, 0, true, iterText, nil, nil}, "codepoint_ords": {0, 0, true, methodGives(Iterable), nil, nil},
	}
	for _, name := range []string{"find", "rfind", "index", "rindex"} {
		textMethods[name] = &method{1, 3, true, methodGives(Int), nil, nil}
	}
	for _, name := range []string{"lower", "upper", "title", "capitalize"} {
		textMethods[name] = &method{0, 0, true, methodGives(Text), nil, nil}
	}
	for _, name := range []string{"strip", "lstrip", "rstrip"} {
		textMethods[name] = &method{0, 1, true, methodGives(Text), nil, append(text, None)}
	}
	for _, name := range []string{"isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper"} {
		textMethods[name] = &method{0, 0, true, methodGives(boolKind), nil, nil}
	}
	methods = map[Kind]map[string]*method{
		Text: textMethods,
		List: {
			"append": {1, 1, false, noValue, appended, nil}, "extend": {1, 1, false, noValue, extended, nil},
			"insert": {2, 2, false, noValue, inserted, nil}, "clear": {0, 0, false, noValue, listLoosened, nil},
			"remove": {1, 1, false, noValue, listLoosened, nil}, "index": {1, 3, true, methodGives(Int), nil, nil},
			"pop": {0, 1, false, elementMethod, listLoosened, nil},
		},
		Dict: {
			"get": {1, 2, true, dictGet, nil, nil}, "keys": {0, 0, true, dictKeys, nil, nil}, "values": {0, 0, true, dictValues, nil, nil},
			"items": {0, 0, true, dictItems, nil, nil}, "update": {0, -1, false, noValue, dictUpdated, nil},
			"setdefault": {1, 2, false, dictSetDefault, dictDefaulted, nil}, "pop": {1, 2, false, dictPop, dictLoosened, nil},
			"popitem": {0, 0, false, methodGives(tuple), dictLoosened, nil}, "clear": {0, 0, false, noValue, dictLoosened, nil},
		},
		Set: {
			"add": {1, 1, false, noValue, nil, nil}, "remove": {1, 1, false, noValue, nil, nil}, "discard": {1, 1, false, noValue, nil, nil},
			"pop": {0, 0, false, elementMethod, nil, nil}, "clear": {0, 0, false, noValue, nil, nil}, "update": {0, -1, false, noValue, nil, nil},
			"union": {0, -1, true, methodGives(Set), nil, nil}, "intersection": {0, -1, true, methodGives(Set), nil, nil},
			"difference": {0, -1, true, methodGives(Set), nil, nil}, "symmetric_difference": {1, 1, true, methodGives(Set), nil, nil},
			"issubset": {1, 1, true, methodGives(boolKind), nil, nil}, "issuperset": {1, 1, true, methodGives(boolKind), nil, nil},
		},
		Bytes: {"elems": {0, 0, true, methodGives(Iterable), nil, nil}},
	}
}

func threeTexts(*Atom, []Argument) Type {
	t := Kinds(Text)
	return tupleOf(t, t, t)
}

func iterText(*Atom, []Argument) Type {
	return iterableOf(Kinds(Text))
}

func elementMethod(on *Atom, _ []Argument) Type {
	if on.Elem.IsNever() {
		return Any
	}
	return on.Elem
}

// methodOf returns a method of a kind of values, or nil.
func methodOf(k Kind, name string) *method { return methods[k][name] }

// MethodNames returns the methods of a kind of values, sorted.
func MethodNames(k Kind) (names []string) {
	for n := range methods[k] {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// habit returns a hint for a method of other languages, or "".
func habit(k Kind, name string) string {
	length := "did you mean len(...)?"
	switch {
	case slices.Contains([]string{"size", "length", "len", "count"}, name):
		return length
	case k == List && slices.Contains([]string{"push", "add", "push_back"}, name):
		return "did you mean append?"
	case k == List && name == "sort":
		return "sorted(list) returns a sorted list"
	case k == List && name == "reverse":
		return "reversed(list) returns a reversed list"
	case k == List && name == "join":
		return `write ", ".join(list)`
	case (k == List || k == Dict) && name == "copy":
		return map[Kind]string{List: "list(x) returns a copy", Dict: "dict(x) returns a copy"}[k]
	case k == List && name == "contains", k == Dict && (name == "has_key" || name == "contains" || name == "has"), k == Text && (name == "contains" || name == "includes"):
		return "write x in y"
	case k == Text && name == "trim", k == Text && name == "trimmed":
		return "did you mean strip?"
	case k == Text && slices.Contains([]string{"toLowerCase", "to_lower", "lowercase"}, name):
		return "did you mean lower?"
	case k == Text && slices.Contains([]string{"toUpperCase", "to_upper", "uppercase"}, name):
		return "did you mean upper?"
	case k == Text && (name == "isnumeric" || name == "isdecimal"):
		return "did you mean isdigit?"
	case k == Text && (name == "ljust" || name == "rjust" || name == "zfill" || name == "center"):
		return `printf("%-10s", x) has widths`
	case k == Set && name == "isdisjoint":
		return "write not (a & b)"
	case k == List && name == "map", k == List && name == "filter":
		return "write [... for x in list]"
	}
	return ""
}

func appended(a *Atom, args []Argument) *Atom { return grownList(a, args, 0) }
func inserted(a *Atom, args []Argument) *Atom { return grownList(a, args, 1) }

func grownList(a *Atom, args []Argument, i int) *Atom {
	if i >= len(args) {
		return a
	}
	return &Atom{Kind: List, Elem: Join(a.Elem, args[i].Type)}
}

func extended(a *Atom, args []Argument) *Atom {
	if len(args) == 0 {
		return a
	}
	return &Atom{Kind: List, Elem: Join(a.Elem, elementOf(args[0].Type))}
}

func dictGet(on *Atom, args []Argument) Type {
	fallback := Of(&Atom{Kind: None, Role: Output})
	if len(args) > 1 {
		fallback = args[1].Type
	}
	name, ok := args[0].Type.Text()
	if !ok {
		if on.Role == ownRole || len(on.Fields) > 0 {
			return Any
		}
		return Join(on.Elem, Of(&Atom{Kind: None, Role: ownRole}))
	}
	f, has := on.Field(name)
	switch {
	case has && f.Presence == required:
		return f.Type
	case has && f.Presence == Optional:
		return Join(f.Type, fallback)
	case has:
		return Any
	}
	return Any
}

func dictKeys(on *Atom, _ []Argument) Type {
	return listOf(keysOf(on))
}

func dictValues(on *Atom, _ []Argument) Type {
	return listOf(valuesOf(on))
}

func valuesOf(on *Atom) Type {
	if on.Open && len(on.Fields) > 0 {
		return Any
	}
	t := Never
	if on.Open {
		t = on.Elem
	}
	for _, f := range on.Fields {
		t = Join(t, f.Type)
	}
	return t
}

func dictItems(on *Atom, _ []Argument) Type {
	return listOf(tupleOf(keysOf(on), valuesOf(on)))
}

func dictUpdated(a *Atom, args []Argument) *Atom {
	out := a
	for _, arg := range args {
		if arg.Name != "" {
			out = out.With(Field{Name: arg.Name, Type: arg.Type, Value: arg.Expr})
			continue
		}
		other := arg.Type.Only()
		if other == nil || other.Kind != Dict || arg.Spread {
			return &Atom{Kind: Dict, Open: true, Elem: Any}
		}
		t := merged(out, other)
		if out = t.Only(); out == nil {
			return &Atom{Kind: Dict, Open: true, Elem: Any}
		}
	}
	return out
}

func dictSetDefault(on *Atom, args []Argument) Type {
	if _, ok := args[0].Type.Text(); ok || len(args) < 2 || !on.PlainMap() {
		return Any
	}
	return Join(on.Elem, args[1].Type)
}

func dictDefaulted(a *Atom, args []Argument) *Atom {
	name, ok := args[0].Type.Text()
	if !ok && a.PlainMap() && len(args) > 1 {
		return &Atom{Kind: Dict, Role: ownRole, Open: true, Elem: Join(a.Elem, args[1].Type)}
	}
	if !ok {
		return &Atom{Kind: Dict, Open: true, Elem: Any}
	}
	return a.With(Field{Name: name, Type: Any})
}

func dictPop(on *Atom, args []Argument) Type { return Any }

// dictLoosened returns a dict that may have lost some keys.
func dictLoosened(a *Atom, _ []Argument) *Atom {
	return &Atom{Kind: Dict, Open: true, Elem: Any}
}

// listLoosened returns a list that may have lost some elements.
func listLoosened(a *Atom, _ []Argument) *Atom {
	return &Atom{Kind: List, Elem: a.Elem}
}

// member returns the type of a member of a time or a duration; ok is false when it has none of the name.
func member(k Kind, name string) (t Type, ok bool) {
	if k == timeKind {
		return timeMember(name)
	}
	return durationMember(name)
}

// timeMember returns the type of a member of a time.
func timeMember(name string) (Type, bool) {
	switch name {
	case "year", "month", "day", "hour", "minute", "second", "nanosecond", "unix", "unix_nano", "weekday":
		return Any, true
	case "format":
		return Of(&Atom{Kind: funcKind, Name: "format", Fn: &Builtin{Name: "format", Params: []Param{{Name: "layout", Type: "text", Optional: true}}, Returns: "text"}}), true
	}
	return Any, false
}

func durationMember(name string) (Type, bool) {
	switch name {
	case "hours", "minutes", "seconds":
		return Kinds(floatKind), true
	case "milliseconds", "microseconds", "nanoseconds":
		return Kinds(Int), true
	}
	return Any, false
}
