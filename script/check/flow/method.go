package flow

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
	"go.starlark.net/syntax"
)

// bound is a method of a value.
type bound struct {
	on     *types.Atom
	method *method
}

// method is one of a kind.
type method struct {
	min, max int // arguments; max -1: any number
	pure     bool
	gives    func(e *engine, on *types.Atom, args []argument) types.Type
	// change is what the call makes of the value; nil: nothing.
	change func(e *engine, on *types.Atom, args []argument) *types.Atom
	kinds  []types.Kind // of the arguments; nil: any
}

func methodGives(k ...types.Kind) func(*engine, *types.Atom, []argument) types.Type {
	return func(*engine, *types.Atom, []argument) types.Type { return types.Kinds(k...) }
}

func noValue(*engine, *types.Atom, []argument) types.Type {
	return types.Of(&types.Atom{Kind: types.None, Role: types.Output})
}

func listOfText(*engine, *types.Atom, []argument) types.Type {
	return types.ListOf(types.Kinds(types.Text))
}

var methods map[types.Kind]map[string]*method

func init() {
	text := []types.Kind{types.Text}
	textMethods := map[string]*method{
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
		textMethods[name] = &method{1, 3, true, methodGives(types.Int), nil, nil}
	}
	for _, name := range []string{"lower", "upper", "title", "capitalize"} {
		textMethods[name] = &method{0, 0, true, methodGives(types.Text), nil, nil}
	}
	for _, name := range []string{"strip", "lstrip", "rstrip"} {
		textMethods[name] = &method{0, 1, true, methodGives(types.Text), nil, append(text, types.None)}
	}
	for _, name := range []string{"isalnum", "isalpha", "isdigit", "islower", "isspace", "istitle", "isupper"} {
		textMethods[name] = &method{0, 0, true, methodGives(types.Bool), nil, nil}
	}
	methods = map[types.Kind]map[string]*method{
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
			"isdisjoint": {1, 1, true, methodGives(types.Bool), nil, nil},
		},
		types.Bytes: {"elems": {0, 0, true, methodGives(types.Iterable), nil, nil}},
	}
}

func threeTexts(*engine, *types.Atom, []argument) types.Type {
	t := types.Kinds(types.Text)
	return types.TupleOf(t, t, t)
}

func iterText(*engine, *types.Atom, []argument) types.Type {
	return types.IterableOf(types.Kinds(types.Text))
}

func elementMethod(_ *engine, on *types.Atom, _ []argument) types.Type {
	if on.Elem.IsNever() {
		return types.Any
	}
	return on.Elem
}

func methodOf(k types.Kind, name string) *method { return methods[k][name] }

func methodNames(k types.Kind) (names []string) {
	for n := range methods[k] {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// habit is what Starlark has for a method of other languages.
func habit(k types.Kind, name string) string {
	length := "did you mean len(...)?"
	switch {
	case slices.Contains([]string{"size", "length", "len", "count"}, name):
		return length
	case k == types.List && slices.Contains([]string{"push", "add", "push_back"}, name):
		return "did you mean append?"
	case k == types.List && name == "sort":
		return "sorted(list) makes a sorted one"
	case k == types.List && name == "reverse":
		return "reversed(list) makes a reversed one"
	case k == types.List && name == "join":
		return `write ", ".join(list)`
	case (k == types.List || k == types.Dict) && name == "copy":
		return map[types.Kind]string{types.List: "list(x) makes a copy", types.Dict: "dict(x) makes a copy"}[k]
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
	case k == types.List && name == "map", k == types.List && name == "filter":
		return "write [... for x in list]"
	}
	return ""
}

// callMethod is a call of a method.
func (e *engine) callMethod(x *syntax.CallExpr, b *bound, args []argument) types.Type {
	m := b.method
	dot, _ := tree.Unparen(x.Fn).(*syntax.DotExpr)
	spread := slices.ContainsFunc(args, func(a argument) bool { return a.spread })
	name := "this"
	if dot != nil {
		name = dot.Name.Name
	}
	positional := byPosition(args)
	if !spread && (len(positional) < m.min || m.max >= 0 && len(positional) > m.max) {
		want := finding.Plural(m.min, "argument")
		if m.max != m.min {
			want = "at most " + finding.Plural(m.max, "argument")
			if len(positional) < m.min {
				want = "at least " + finding.Plural(m.min, "argument")
			}
		}
		e.tell("call-arity", x, "%s wants %s, has %d", name, want, len(positional))
		return types.Any
	}
	if dot != nil && !spread {
		e.methodArguments(x, dot, b, positional, args)
	}
	out := m.gives(e, b.on, args)
	if m.change != nil && dot != nil {
		e.env.Change(dot.X, func(t types.Type) types.Type {
			return t.Replace(b.on.Kind, func(a *types.Atom) *types.Atom { return m.change(e, a, args) })
		})
	}
	return out
}

// methodArguments tells of arguments of the wrong kind.
func (e *engine) methodArguments(x *syntax.CallExpr, dot *syntax.DotExpr, b *bound, positional, args []argument) {
	name := dot.Name.Name
	if b.method.kinds != nil {
		for _, a := range positional {
			if a.typ.Every(func(t *types.Atom) bool { return types.IsJSON(t) && !slices.Contains(b.method.kinds, t.Kind) }) {
				e.tell("builtin-value", a.expr, "%s wants %s, this is %s", name, "a text", finding.Article(a.typ))
			} else if !slices.Contains(b.method.kinds, types.None) {
				e.noneFor(a.expr, a.typ, func(t *types.Atom) bool { return slices.Contains(b.method.kinds, t.Kind) })
			}
		}
	}
	switch {
	case b.on.Kind == types.Text && name == "join":
		e.joins(positional[0])
	case b.on.Kind == types.Text && name == "format":
		e.formatCall(x, dot, b, positional, args)
	case b.on.Kind == types.Text && (name == "split" || name == "replace" || name == "find") && len(positional) > 0:
		if positional[0].typ.Is(types.Int, types.Float, types.List, types.Dict, types.Bool) {
			e.tell("builtin-value", positional[0].expr, "%s wants a text, this is %s", name, finding.Article(positional[0].typ))
		} else if name == "replace" && positional[1].typ.Is(types.Int, types.Float, types.List, types.Dict, types.Bool, types.None) {
			e.tell("builtin-value", positional[1].expr, "%s wants a text, this is %s", name, finding.Article(positional[1].typ))
		}
	case b.on.Kind == types.List && name == "extend" && positional[0].typ.Is(types.Int, types.Text, types.None, types.Float, types.Bool):
		e.tell("index", positional[0].expr, "%s is not iterable", finding.Article(positional[0].typ))
	case b.on.Kind == types.Dict && name == "get":
		e.gotten(positional[0], len(positional) > 1, b.on)
	}
}

// joins tells of elements that are no texts.
func (e *engine) joins(a argument) {
	if a.typ.Is(types.Text) {
		e.tell("builtin-value", a.expr, "join wants a list of texts, this is a text")
		return
	}
	elem := operation.ElementOf(a.typ)
	wrong := func(t *types.Atom) bool { return t.Kind != types.Text && t.Kind != types.Opaque }
	if !elem.IsNever() && elem.Every(wrong) {
		e.say(finding.Problem{Code: "builtin-value", Node: a.expr, Message: "join wants texts, these are " + elem.Widen().String(), Hint: "write [str(x) for x in ...]"})
		return
	}
	if elem.Some(types.UnexpectedNone) && elem.Has(types.Text) && len(elem.Widen().Atoms()) == 2 {
		e.warn("maybe-none", a.expr, "an element of %s may be None here", finding.Describe(a.expr))
	}
}

// gotten tells of a key that a dict with declared fields does not have.
func (e *engine) gotten(key argument, fallback bool, on *types.Atom) {
	name, ok := key.typ.Text()
	if !ok || !on.Declared() || e.isWild(name) {
		return
	}
	if _, has := on.Field(name); has {
		return
	}
	if _, near := finding.Meant(name, on.Names()); fallback && !spell.Slip(name, near) {
		return // it may be there for some
	}
	e.noField(key.expr, on, name)
}

func appended(_ *engine, a *types.Atom, args []argument) *types.Atom { return grownList(a, args, 0) }
func inserted(_ *engine, a *types.Atom, args []argument) *types.Atom { return grownList(a, args, 1) }

func grownList(a *types.Atom, args []argument, i int) *types.Atom {
	if i >= len(args) {
		return a
	}
	return &types.Atom{Kind: types.List, Elem: types.Join(a.Elem, args[i].typ)}
}

func extended(_ *engine, a *types.Atom, args []argument) *types.Atom {
	if len(args) == 0 {
		return a
	}
	return &types.Atom{Kind: types.List, Elem: types.Join(a.Elem, operation.ElementOf(args[0].typ))}
}

func dictGet(e *engine, on *types.Atom, args []argument) types.Type {
	fallback := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	if len(args) > 1 {
		fallback = args[1].typ
	}
	name, ok := args[0].typ.Text()
	if !ok {
		if on.Role == types.Made || len(on.Fields) > 0 {
			return types.Any
		}
		return types.Join(on.Elem, types.Of(&types.Atom{Kind: types.None, Role: types.Made}))
	}
	f, has := on.Field(name)
	switch {
	case e.isWild(name):
		return types.Any
	case has && f.Presence == types.Required:
		return f.Type
	case has && f.Presence == types.Optional:
		return types.Join(f.Type, fallback)
	case has:
		return types.Any
	case on.Declared() && len(args) > 1:
		return types.Any
	}
	return types.Any
}

func dictKeys(_ *engine, on *types.Atom, _ []argument) types.Type {
	return types.ListOf(operation.KeysOf(on))
}

func dictValues(_ *engine, on *types.Atom, _ []argument) types.Type {
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

func dictItems(_ *engine, on *types.Atom, _ []argument) types.Type {
	return types.ListOf(types.TupleOf(operation.KeysOf(on), valuesOf(on)))
}

func dictUpdated(_ *engine, a *types.Atom, args []argument) *types.Atom {
	out := a
	for _, arg := range args {
		if arg.name != "" {
			out = out.With(types.Field{Name: arg.name, Type: arg.typ, Value: arg.expr})
			continue
		}
		other := arg.typ.Only()
		if other == nil || other.Kind != types.Dict || arg.spread {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
		t := operation.Merged(out, other)
		if out = t.Only(); out == nil {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
	}
	return out
}

func dictSetDefault(_ *engine, on *types.Atom, args []argument) types.Type {
	if _, ok := args[0].typ.Text(); ok || len(args) < 2 || !on.PlainMap() {
		return types.Any
	}
	return types.Join(on.Elem, args[1].typ)
}

func dictDefaulted(_ *engine, a *types.Atom, args []argument) *types.Atom {
	name, ok := args[0].typ.Text()
	if !ok && a.PlainMap() && len(args) > 1 {
		return &types.Atom{Kind: types.Dict, Role: types.Made, Open: true, Elem: types.Join(a.Elem, args[1].typ)}
	}
	if !ok {
		return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
	}
	return a.With(types.Field{Name: name, Type: types.Any})
}

func dictPop(_ *engine, on *types.Atom, args []argument) types.Type { return types.Any }

// dictLoosened is a dict that may have lost some keys.
func dictLoosened(_ *engine, a *types.Atom, _ []argument) *types.Atom {
	return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
}

// listLoosened is a list that may have lost some elements.
func listLoosened(_ *engine, a *types.Atom, _ []argument) *types.Atom {
	return &types.Atom{Kind: types.List, Elem: a.Elem}
}

// formatCall tells of "{}".format(...) with too few values, or names that are not given.
func (e *engine) formatCall(x *syntax.CallExpr, dot *syntax.DotExpr, b *bound, positional, args []argument) {
	s, ok := b.on.Lit.(string)
	if !ok {
		return
	}
	next, numbered := 0, false
	for i := 0; i < len(s); i++ {
		if s[i] == '}' {
			if i+1 < len(s) && s[i+1] == '}' {
				i++
				continue
			}
			e.tell("format", dot.X, "the format has a } without its {; write }} for one")
			return
		}
		if s[i] != '{' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '{' {
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			e.tell("format", dot.X, "the format has a { without its }; write {{ for one")
			return
		}
		field := s[i+1 : i+end]
		i += end
		if strings.ContainsAny(field, ":.[") {
			e.say(finding.Problem{Code: "format", Node: dot.X, Message: "{" + field + "} is no field of a format: Starlark has no widths and precisions", Hint: `printf("%.2f", x) has`})
			return
		}
		field, _, _ = strings.Cut(field, "!")
		if field == "" {
			next++
		} else if !isDigits(field) {
			if _, has := named(args, field); !has {
				e.tell("format", x, "the format has {%s}, which is not given", field)
				return
			}
		} else {
			numbered = true
		}
	}
	if !numbered && next > len(positional) {
		e.tell("format", x, "the format wants %s, has %d", finding.Plural(next, "value"), len(positional))
	}
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
