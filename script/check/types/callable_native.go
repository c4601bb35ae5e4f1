package types

import (
	"go.starlark.net/syntax"
)

// Native is a function of the language.
type Native struct {
	Name     string
	Min, Max int // arguments by position; Max -1: any number
	Keywords string
	Pure     bool // called only for its result
	Gives    func(args []Argument) Type
	// Wants is what the first argument must be, or Every argument, named by Word; nil: anything.
	Wants func(*Atom) bool
	Word  string
	Every bool
	// Compares says that it compares what Compared returns; Ends, that it does not return.
	Compares, Ends bool
}

func fixed(k ...Kind) func([]Argument) Type {
	return func([]Argument) Type { return Kinds(k...) }
}

func anything([]Argument) Type { return Any }

// Natives are the functions of the language.
var Natives map[string]*Native

func init() {
	Natives = map[string]*Native{
		"abs":       {Min: 1, Max: 1, Gives: firstWiden, Wants: isNumeric, Word: "a number", Pure: true},
		"all":       {Min: 1, Max: 1, Gives: fixed(boolKind), Wants: operationIterable, Word: "a list", Pure: true},
		"any":       {Min: 1, Max: 1, Gives: fixed(boolKind), Wants: operationIterable, Word: "a list", Pure: true},
		"bool":      {Min: 0, Max: 1, Gives: fixed(boolKind), Pure: true},
		"bytes":     {Min: 1, Max: 1, Gives: fixed(Bytes)},
		"chr":       {Min: 1, Max: 1, Gives: fixed(Text), Wants: isInteger, Word: "an integer", Pure: true},
		"dict":      {Min: 0, Max: 1, Keywords: "*", Gives: makeDict, Pure: true},
		"dir":       {Min: 1, Max: 1, Gives: func([]Argument) Type { return listOf(Kinds(Text)) }, Pure: true},
		"enumerate": {Min: 1, Max: 2, Keywords: "start", Gives: enumerated, Wants: operationIterable, Word: "a list", Pure: true},
		"fail":      {Min: 0, Max: -1, Keywords: "sep", Gives: anything, Ends: true},
		"float":     {Min: 0, Max: 1, Gives: fixed(floatKind), Wants: isConvertible, Word: "a number or a string", Pure: true},
		"getattr":   {Min: 2, Max: 3, Gives: anything, Pure: true},
		"hasattr":   {Min: 2, Max: 2, Gives: fixed(boolKind), Pure: true},
		"hash":      {Min: 1, Max: 1, Gives: fixed(Int), Pure: true},
		"int":       {Min: 0, Max: 2, Keywords: "base", Gives: fixed(Int), Wants: isConvertible, Word: "a number or a string", Pure: true},
		"len":       {Min: 1, Max: 1, Gives: fixed(Int), Wants: sized, Word: "a string, list or dict", Pure: true},
		"list":      {Min: 0, Max: 1, Gives: makeList, Wants: operationIterable, Word: "a list", Pure: true},
		"max":       {Min: 1, Max: -1, Keywords: "key", Gives: extreme, Compares: true, Pure: true},
		"min":       {Min: 1, Max: -1, Keywords: "key", Gives: extreme, Compares: true, Pure: true},
		"ord":       {Min: 1, Max: 1, Gives: fixed(Int), Pure: true},
		"print":     {Min: 0, Max: -1, Keywords: "sep", Gives: fixed(None)},
		"range":     {Min: 1, Max: 3, Gives: fixed(rangeKind), Wants: isInteger, Word: "integers", Every: true, Pure: true},
		"repr":      {Min: 1, Max: 1, Gives: fixed(Text), Pure: true},
		"reversed":  {Min: 1, Max: 1, Gives: makeList, Wants: operationIterable, Word: "a list", Pure: true},
		"set":       {Min: 0, Max: 1, Gives: makeSet, Wants: operationIterable, Word: "a list", Pure: true},
		"sorted":    {Min: 1, Max: 1, Keywords: "key reverse", Gives: makeList, Compares: true, Wants: operationIterable, Word: "a list", Pure: true},
		"str":       {Min: 1, Max: 1, Gives: makeText, Pure: true},
		"tuple":     {Min: 0, Max: 1, Gives: func([]Argument) Type { return Of(&Atom{Kind: tuple, Elem: Any}) }, Wants: operationIterable, Word: "a list", Pure: true},
		"type":      {Min: 1, Max: 1, Gives: fixed(Text), Pure: true},
		"zip":       {Min: 0, Max: -1, Gives: zipped, Pure: true},
	}
	for name, n := range Natives {
		n.Name = name
	}
}

func isNumeric(a *Atom) bool { return isNumber(a.Kind) }
func isInteger(a *Atom) bool { return a.Kind == Int }
func isConvertible(a *Atom) bool {
	return isNumber(a.Kind) || a.Kind == Text || a.Kind == boolKind
}
func sized(a *Atom) bool {
	return operationIterable(a) && a.Kind != Iterable || a.Kind == Text
}

func firstWiden(args []Argument) Type {
	if len(args) == 0 {
		return Any
	}
	return args[0].Type.Without(None).Widen()
}

func firstElement(args []Argument) Type {
	if len(args) == 0 || args[0].Name != "" {
		return Any
	}
	return elementOf(args[0].Type)
}

func makeList(args []Argument) Type {
	if args != nil && len(args) == 0 {
		return listOf(Never)
	}
	return listOf(firstElement(args))
}

func makeSet(args []Argument) Type {
	return Of(&Atom{Kind: Set, Elem: Any})
}

func makeText(args []Argument) Type {
	if len(args) == 1 {
		if s, ok := args[0].Type.Text(); ok {
			return Literal(s)
		}
	}
	return Kinds(Text)
}

func makeDict(args []Argument) Type {
	if args == nil {
		return Kinds(Dict)
	}
	out := &Atom{Kind: Dict, Role: ownRole}
	for _, a := range args {
		switch {
		case a.Name != "":
			out = out.With(Field{Name: a.Name, Type: a.Type, Value: a.Expr})
		case a.Type.Is(Dict) && a.Type.Only() != nil:
			t, _ := operationOf(syntax.PIPE, out, a.Type.Only())
			if out = t.Only(); out == nil {
				return Kinds(Dict)
			}
		default:
			return Kinds(Dict)
		}
	}
	return Of(out)
}

func enumerated(args []Argument) Type {
	return listOf(tupleOf(Kinds(Int), firstElement(args)))
}

func zipped(args []Argument) Type {
	if args == nil {
		return Kinds(List)
	}
	var elems []Type
	for _, a := range args {
		elems = append(elems, elementOf(a.Type))
	}
	return listOf(tupleOf(elems...))
}

// comparedArgs returns the type of what sorted, max and min compare: the elements of one argument, or several arguments.
func comparedArgs(args []Argument) Type {
	positional := positional(args)
	if len(positional) == 1 {
		return elementOf(positional[0].Type)
	}
	t := Never
	for _, a := range positional[min(1, len(positional)):] {
		t = Join(t, a.Type)
	}
	if len(positional) > 1 {
		t = Join(t, positional[0].Type)
	}
	return t
}

func extreme(args []Argument) Type {
	elem := comparedArgs(args)
	if elem.IsNever() {
		return Any
	}
	return elem.Widen()
}
