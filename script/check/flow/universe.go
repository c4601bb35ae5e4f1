package flow

import (
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/scope"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
	"go.starlark.net/syntax"
)

// native is a function of the language.
type native struct {
	name     string
	min, max int // arguments by position; max -1: any number
	keywords string
	gives    func(e *engine, args []argument) types.Type
	check    func(e *engine, x *syntax.CallExpr, args []argument)
	pure     bool // called for its result alone
}

func fixed(k ...types.Kind) func(*engine, []argument) types.Type {
	return func(*engine, []argument) types.Type { return types.Kinds(k...) }
}

func anything(*engine, []argument) types.Type { return types.Any }

// universe are the functions of the language.
var universe map[string]*native

func init() {
	universe = map[string]*native{
		"abs":       {min: 1, max: 1, gives: firstWiden, check: wants(isNumeric, "a number"), pure: true},
		"all":       {min: 1, max: 1, gives: fixed(types.Bool), check: wants(operation.Iterable, "a list"), pure: true},
		"any":       {min: 1, max: 1, gives: fixed(types.Bool), check: wants(operation.Iterable, "a list"), pure: true},
		"bool":      {min: 0, max: 1, gives: fixed(types.Bool), pure: true},
		"bytes":     {min: 1, max: 1, gives: fixed(types.Bytes)},
		"chr":       {min: 1, max: 1, gives: fixed(types.Text), check: wants(isInteger, "an integer"), pure: true},
		"dict":      {min: 0, max: 1, keywords: "*", gives: makeDict, pure: true},
		"dir":       {min: 1, max: 1, gives: func(*engine, []argument) types.Type { return types.ListOf(types.Kinds(types.Text)) }, pure: true},
		"enumerate": {min: 1, max: 2, keywords: "start", gives: enumerated, check: wants(operation.Iterable, "a list"), pure: true},
		"fail":      {min: 0, max: -1, keywords: "sep", gives: func(e *engine, _ []argument) types.Type { e.env.End(); return types.Never }},
		"float":     {min: 0, max: 1, gives: fixed(types.Float), check: wants(isConvertible, "a number or a text"), pure: true},
		"getattr":   {min: 2, max: 3, gives: anything, pure: true},
		"hasattr":   {min: 2, max: 2, gives: fixed(types.Bool), pure: true},
		"hash":      {min: 1, max: 1, gives: fixed(types.Int), pure: true},
		"int":       {min: 0, max: 2, keywords: "base", gives: fixed(types.Int), check: wants(isConvertible, "a number or a text"), pure: true},
		"len":       {min: 1, max: 1, gives: fixed(types.Int), check: wants(sized, "a text, list or dict"), pure: true},
		"list":      {min: 0, max: 1, gives: makeList, check: wants(operation.Iterable, "a list"), pure: true},
		"max":       {min: 1, max: -1, keywords: "key", gives: extreme, pure: true},
		"min":       {min: 1, max: -1, keywords: "key", gives: extreme, pure: true},
		"ord":       {min: 1, max: 1, gives: fixed(types.Int), pure: true},
		"print":     {min: 0, max: -1, keywords: "sep", gives: fixed(types.None)},
		"range":     {min: 1, max: 3, gives: fixed(types.Range), check: everyInteger, pure: true},
		"repr":      {min: 1, max: 1, gives: fixed(types.Text), pure: true},
		"reversed":  {min: 1, max: 1, gives: makeList, check: wants(operation.Iterable, "a list"), pure: true},
		"set":       {min: 0, max: 1, gives: makeSet, check: wants(operation.Iterable, "a list"), pure: true},
		"sorted":    {min: 1, max: 1, keywords: "key reverse", gives: sorted, check: wants(operation.Iterable, "a list"), pure: true},
		"str":       {min: 1, max: 1, gives: makeText, pure: true},
		"tuple":     {min: 0, max: 1, gives: func(*engine, []argument) types.Type { return types.Of(&types.Atom{Kind: types.Tuple, Elem: types.Any}) }, check: wants(operation.Iterable, "a list"), pure: true},
		"type":      {min: 1, max: 1, gives: fixed(types.Text), pure: true},
		"zip":       {min: 0, max: -1, gives: zipped, pure: true},
	}
	for name, n := range universe {
		n.name = name
	}
}

func isNumeric(a *types.Atom) bool { return operation.IsNumber(a.Kind) }
func isInteger(a *types.Atom) bool { return a.Kind == types.Int }
func isConvertible(a *types.Atom) bool {
	return operation.IsNumber(a.Kind) || a.Kind == types.Text || a.Kind == types.Bool
}
func sized(a *types.Atom) bool {
	return operation.Iterable(a) && a.Kind != types.Iterable || a.Kind == types.Text
}

// wants tells of a first argument of the wrong kind.
func wants(can func(*types.Atom) bool, word string) func(*engine, *syntax.CallExpr, []argument) {
	return func(e *engine, x *syntax.CallExpr, args []argument) {
		if len(args) == 0 || args[0].name != "" || args[0].spread {
			return
		}
		t := args[0].typ
		known := func(a *types.Atom) bool { return a.Kind != types.Opaque && a.Kind != types.Iterable }
		if t.Every(func(a *types.Atom) bool { return known(a) && !can(a) }) {
			name := finding.Describe(x.Fn)
			e.tell("builtin-value", args[0].expr, "%s wants %s, this is %s", name, word, finding.Article(t))
			return
		}
		e.noneFor(args[0].expr, t, can)
	}
}

func everyInteger(e *engine, x *syntax.CallExpr, args []argument) {
	for i := range args {
		wants(isInteger, "integers")(e, x, args[i:i+1])
	}
	if n, ok := args[0].typ.Int(); ok && len(args) == 1 && e.Steps > 0 && int64(n) >= e.Steps {
		e.warn("limit", args[0].expr, "a loop of %d rounds does not end within the %d steps that a run has", n, e.Steps)
	}
}

// callNative is a call of a function of the language.
func (e *engine) callNative(x *syntax.CallExpr, n *native, args []argument) types.Type {
	positional, spread := len(byPosition(args)), false
	for _, a := range args {
		spread = spread || a.spread
		if a.name != "" && n.keywords != "*" && !strings.Contains(" "+n.keywords+" ", " "+a.name+" ") {
			names := strings.Fields(n.keywords)
			hint, near := finding.Meant(a.name, names)
			e.say(finding.Problem{Code: "call-keyword", Node: keywordAt(x, a.name), Message: fmt.Sprintf("%s has no parameter %s", n.name, a.name), Hint: hint, Fix: near})
			return n.gives(e, nil)
		}
	}
	if !spread && (positional < n.min || n.max >= 0 && positional > n.max) {
		want := finding.Plural(n.min, "argument")
		if n.max != n.min {
			want = fmt.Sprintf("%d to %d arguments", n.min, n.max)
		}
		e.tell("call-arity", x, "%s wants %s, has %d", n.name, want, positional)
		return types.Any
	}
	if spread {
		args = nil
	} else if n.check != nil && len(args) > 0 {
		n.check(e, x, args)
	}
	if e.env.Dead {
		return types.Never
	}
	return n.gives(e, args)
}

// named is an argument by its name.
func named(args []argument, name string) (argument, bool) {
	for _, a := range args {
		if a.name == name {
			return a, true
		}
	}
	return argument{}, false
}

func firstWiden(_ *engine, args []argument) types.Type {
	if len(args) == 0 {
		return types.Any
	}
	return args[0].typ.Without(types.None).Widen()
}

func firstElement(args []argument) types.Type {
	if len(args) == 0 || args[0].name != "" {
		return types.Any
	}
	return operation.ElementOf(args[0].typ)
}

func makeList(_ *engine, args []argument) types.Type {
	if args != nil && len(args) == 0 {
		return types.ListOf(types.Never)
	}
	return types.ListOf(firstElement(args))
}

func makeSet(_ *engine, args []argument) types.Type {
	return types.Of(&types.Atom{Kind: types.Set, Elem: types.Any})
}

func makeText(_ *engine, args []argument) types.Type {
	if len(args) == 1 {
		if s, ok := args[0].typ.Text(); ok {
			return types.Literal(s)
		}
	}
	return types.Kinds(types.Text)
}

func makeDict(e *engine, args []argument) types.Type {
	if args == nil {
		return types.Kinds(types.Dict)
	}
	out := &types.Atom{Kind: types.Dict, Role: types.Made}
	for _, a := range args {
		switch {
		case a.name != "":
			out = out.With(types.Field{Name: a.name, Type: a.typ, Value: a.expr})
		case a.typ.Is(types.Dict) && a.typ.Only() != nil:
			t, _ := operation.Of(syntax.PIPE, out, a.typ.Only())
			if out = t.Only(); out == nil {
				return types.Kinds(types.Dict)
			}
		default:
			return types.Kinds(types.Dict)
		}
	}
	return types.Of(out)
}

func enumerated(_ *engine, args []argument) types.Type {
	return types.ListOf(types.TupleOf(types.Kinds(types.Int), firstElement(args)))
}

func zipped(_ *engine, args []argument) types.Type {
	if args == nil {
		return types.Kinds(types.List)
	}
	var elems []types.Type
	for _, a := range args {
		elems = append(elems, operation.ElementOf(a.typ))
	}
	return types.ListOf(types.TupleOf(elems...))
}

// keyed follows the function that sorted, min and max call with each element.
func keyed(e *engine, args []argument, elem types.Type) {
	key, ok := named(args, "key")
	if !ok || key.typ.Is(types.None) || elem.IsNever() {
		return
	}
	t := e.results(key.typ, key.expr, elem)
	e.sortable(key.expr, t)
}

func sorted(e *engine, args []argument) types.Type {
	elem := firstElement(args)
	if _, ok := named(args, "key"); ok {
		keyed(e, args, elem)
	} else if len(args) > 0 {
		e.sortable(args[0].expr, elem)
	}
	return types.ListOf(elem)
}

// sortable tells of values that cannot be compared with each other.
func (e *engine) sortable(at syntax.Expr, t types.Type) {
	if t.Is(types.Dict) || t.Is(types.Struct) {
		e.say(finding.Problem{Code: "operand", Node: at, Message: finding.Article(t) + " cannot be compared with another", Hint: "sorted(..., key = lambda x: ...)"})
	}
}

func extreme(e *engine, args []argument) types.Type {
	if args == nil {
		return types.Any
	}
	elem := types.Never
	positional := byPosition(args)
	if len(positional) == 1 {
		elem = operation.ElementOf(positional[0].typ)
		if positional[0].typ.Is(types.Int, types.Float, types.None, types.Bool) {
			e.tell("builtin-value", positional[0].expr, "this wants a list, or several values; it is %s", finding.Article(positional[0].typ))
			return types.Any
		}
	}
	for _, a := range positional[min(1, len(positional)):] {
		elem = types.Join(elem, a.typ)
	}
	if len(positional) > 1 {
		elem = types.Join(elem, positional[0].typ)
	}
	keyed(e, args, elem)
	if elem.IsNever() {
		return types.Any
	}
	return elem.Widen()
}

// statement is an expression whose value nobody uses.
func (e *engine) statement(s *syntax.ExprStmt) {
	e.eval(s.X)
	x := tree.Unparen(s.X)
	switch x := x.(type) {
	case *syntax.CallExpr:
		e.discardedCall(x)
		if id, ok := x.Fn.(*syntax.Ident); ok && scope.First(id) != nil {
			e.conds.Checked(x)
		}
	case *syntax.BinaryExpr:
		if x.Op == syntax.EQL {
			e.warn("discarded", x, "the result of == is not used; = assigns")
		} else if x.Op != syntax.AND && x.Op != syntax.OR {
			e.warn("discarded", x, "the result of %s is not used", x.Op)
		}
	}
}

// sameName reports whether two functions are the same, or the same method of two values.
func sameName(a, b *types.Atom) bool {
	x, isX := a.Fn.(*bound)
	y, isY := b.Fn.(*bound)
	return a == b || isX && isY && x.method == y.method
}

func (e *engine) discardedCall(x *syntax.CallExpr) {
	fn := e.quiet(x.Fn)
	if !fn.Every(func(a *types.Atom) bool { return sameName(a, fn.Atoms()[0]) }) {
		return
	}
	a := fn.Atoms()[0]
	switch f := a.Fn.(type) {
	case *native:
		if f.pure && f.name != "int" && f.name != "float" { // those check, too
			e.warn("discarded", x, "the result of %s is not used", f.name)
		}
	case *bound:
		if f.method.pure {
			e.warn("discarded", x, "the result of %s is not used; %s is unchanged", a.Name, finding.Describe(x.Fn.(*syntax.DotExpr).X))
		}
	case *Callable:
		if f.Pure {
			e.warn("discarded", x, "the result of %s is not used", f.Name)
		}
	}
}
