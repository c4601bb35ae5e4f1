package callable

import (
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// Native is a function of the language.
type Native struct {
	Name     string
	Min, Max int // arguments by position; Max -1: any number
	Keywords string
	Pure     bool // called only for its result
	Gives    func(args []Argument) types.Type
	// Wants is what the first argument must be, or Every argument, named by Word; nil: anything.
	Wants func(*types.Atom) bool
	Word  string
	Every bool
	// Compares says that it compares what Compared returns; Ends, that it does not return.
	Compares, Ends bool
}

func fixed(k ...types.Kind) func([]Argument) types.Type {
	return func([]Argument) types.Type { return types.Kinds(k...) }
}

func anything([]Argument) types.Type { return types.Any }

// Natives are the functions of the language.
var Natives map[string]*Native

func init() {
	Natives = map[string]*Native{
		"abs":       {Min: 1, Max: 1, Gives: firstWiden, Wants: isNumeric, Word: "a number", Pure: true},
		"all":       {Min: 1, Max: 1, Gives: fixed(types.Bool), Wants: operation.Iterable, Word: "a list", Pure: true},
		"any":       {Min: 1, Max: 1, Gives: fixed(types.Bool), Wants: operation.Iterable, Word: "a list", Pure: true},
		"bool":      {Min: 0, Max: 1, Gives: fixed(types.Bool), Pure: true},
		"bytes":     {Min: 1, Max: 1, Gives: fixed(types.Bytes)},
		"chr":       {Min: 1, Max: 1, Gives: fixed(types.Text), Wants: isInteger, Word: "an integer", Pure: true},
		"dict":      {Min: 0, Max: 1, Keywords: "*", Gives: makeDict, Pure: true},
		"dir":       {Min: 1, Max: 1, Gives: func([]Argument) types.Type { return types.ListOf(types.Kinds(types.Text)) }, Pure: true},
		"enumerate": {Min: 1, Max: 2, Keywords: "start", Gives: enumerated, Wants: operation.Iterable, Word: "a list", Pure: true},
		"fail":      {Min: 0, Max: -1, Keywords: "sep", Gives: anything, Ends: true},
		"float":     {Min: 0, Max: 1, Gives: fixed(types.Float), Wants: isConvertible, Word: "a number or a string", Pure: true},
		"getattr":   {Min: 2, Max: 3, Gives: anything, Pure: true},
		"hasattr":   {Min: 2, Max: 2, Gives: fixed(types.Bool), Pure: true},
		"hash":      {Min: 1, Max: 1, Gives: fixed(types.Int), Pure: true},
		"int":       {Min: 0, Max: 2, Keywords: "base", Gives: fixed(types.Int), Wants: isConvertible, Word: "a number or a string", Pure: true},
		"len":       {Min: 1, Max: 1, Gives: fixed(types.Int), Wants: sized, Word: "a string, list or dict", Pure: true},
		"list":      {Min: 0, Max: 1, Gives: makeList, Wants: operation.Iterable, Word: "a list", Pure: true},
		"max":       {Min: 1, Max: -1, Keywords: "key", Gives: extreme, Compares: true, Pure: true},
		"min":       {Min: 1, Max: -1, Keywords: "key", Gives: extreme, Compares: true, Pure: true},
		"ord":       {Min: 1, Max: 1, Gives: fixed(types.Int), Pure: true},
		"print":     {Min: 0, Max: -1, Keywords: "sep", Gives: fixed(types.None)},
		"range":     {Min: 1, Max: 3, Gives: fixed(types.Range), Wants: isInteger, Word: "integers", Every: true, Pure: true},
		"repr":      {Min: 1, Max: 1, Gives: fixed(types.Text), Pure: true},
		"reversed":  {Min: 1, Max: 1, Gives: makeList, Wants: operation.Iterable, Word: "a list", Pure: true},
		"set":       {Min: 0, Max: 1, Gives: makeSet, Wants: operation.Iterable, Word: "a list", Pure: true},
		"sorted":    {Min: 1, Max: 1, Keywords: "key reverse", Gives: makeList, Compares: true, Wants: operation.Iterable, Word: "a list", Pure: true},
		"str":       {Min: 1, Max: 1, Gives: makeText, Pure: true},
		"tuple":     {Min: 0, Max: 1, Gives: func([]Argument) types.Type { return types.Of(&types.Atom{Kind: types.Tuple, Elem: types.Any}) }, Wants: operation.Iterable, Word: "a list", Pure: true},
		"type":      {Min: 1, Max: 1, Gives: fixed(types.Text), Pure: true},
		"zip":       {Min: 0, Max: -1, Gives: zipped, Pure: true},
	}
	for name, n := range Natives {
		n.Name = name
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

func firstWiden(args []Argument) types.Type {
	if len(args) == 0 {
		return types.Any
	}
	return args[0].Type.Without(types.None).Widen()
}

func firstElement(args []Argument) types.Type {
	if len(args) == 0 || args[0].Name != "" {
		return types.Any
	}
	return operation.ElementOf(args[0].Type)
}

func makeList(args []Argument) types.Type {
	if args != nil && len(args) == 0 {
		return types.ListOf(types.Never)
	}
	return types.ListOf(firstElement(args))
}

func makeSet(args []Argument) types.Type {
	return types.Of(&types.Atom{Kind: types.Set, Elem: types.Any})
}

func makeText(args []Argument) types.Type {
	if len(args) == 1 {
		if s, ok := args[0].Type.Text(); ok {
			return types.Literal(s)
		}
	}
	return types.Kinds(types.Text)
}

func makeDict(args []Argument) types.Type {
	if args == nil {
		return types.Kinds(types.Dict)
	}
	out := &types.Atom{Kind: types.Dict, Role: types.Made}
	for _, a := range args {
		switch {
		case a.Name != "":
			out = out.With(types.Field{Name: a.Name, Type: a.Type, Value: a.Expr})
		case a.Type.Is(types.Dict) && a.Type.Only() != nil:
			t, _ := operation.Of(syntax.PIPE, out, a.Type.Only())
			if out = t.Only(); out == nil {
				return types.Kinds(types.Dict)
			}
		default:
			return types.Kinds(types.Dict)
		}
	}
	return types.Of(out)
}

func enumerated(args []Argument) types.Type {
	return types.ListOf(types.TupleOf(types.Kinds(types.Int), firstElement(args)))
}

func zipped(args []Argument) types.Type {
	if args == nil {
		return types.Kinds(types.List)
	}
	var elems []types.Type
	for _, a := range args {
		elems = append(elems, operation.ElementOf(a.Type))
	}
	return types.ListOf(types.TupleOf(elems...))
}

// Compared returns the type of what sorted, max and min compare: the elements of one argument, or several arguments.
func Compared(args []Argument) types.Type {
	positional := Positional(args)
	if len(positional) == 1 {
		return operation.ElementOf(positional[0].Type)
	}
	t := types.Never
	for _, a := range positional[min(1, len(positional)):] {
		t = types.Join(t, a.Type)
	}
	if len(positional) > 1 {
		t = types.Join(t, positional[0].Type)
	}
	return t
}

func extreme(args []Argument) types.Type {
	elem := Compared(args)
	if elem.IsNever() {
		return types.Any
	}
	return elem.Widen()
}
