package types

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// wants reports an argument of the wrong type.
func (e *engine) wants(x *syntax.CallExpr, n *Native, a Argument) {
	if a.Name != "" || a.Spread {
		return
	}
	known := func(a *Atom) bool { return a.Kind != opaque && a.Kind != Iterable }
	if a.Type.Every(func(a *Atom) bool { return known(a) && !n.Wants(a) }) {
		e.report("builtin-value", a.Expr, "%s wants %s, this is %s", describe(x.Fn), n.Word, article(a.Type))
		return
	}
	e.noneFor(a.Expr, a.Type, n.Wants)
}

// wanted reports arguments of the wrong type, and warns about a loop that is too long.
func (e *engine) wanted(x *syntax.CallExpr, n *Native, args []Argument) {
	if n.Wants == nil || len(args) == 0 {
		return
	}
	if !n.Every {
		args = args[:1]
	}
	for _, a := range args {
		e.wants(x, n, a)
	}
	if rounds, ok := args[0].Type.Int(); ok && n == Natives["range"] && len(args) == 1 && e.Steps > 0 && int64(rounds) >= e.Steps {
		e.warn("limit", args[0].Expr, "a loop of %d iterations exceeds the %d steps of a run", rounds, e.Steps)
	}
}

// callNative is the type of a call of a function of the language.
func (e *engine) callNative(x *syntax.CallExpr, n *Native, args []Argument) Type {
	positional, spread := len(positional(args)), false
	for _, a := range args {
		spread = spread || a.Spread
		if a.Name != "" && n.Keywords != "*" && !strings.Contains(" "+n.Keywords+" ", " "+a.Name+" ") {
			names := strings.Fields(n.Keywords)
			hint, near := meant(a.Name, names)
			e.say(FindingProblem{Code: "call-keyword", Node: keywordAt(x, a.Name), Message: fmt.Sprintf("%s has no parameter %s", n.Name, a.Name), Hint: hint, Fix: near})
			return e.nativeGives(n, nil)
		}
	}
	if !spread && (positional < n.Min || n.Max >= 0 && positional > n.Max) {
		want := plural(n.Min, "argument")
		if n.Max != n.Min {
			want = fmt.Sprintf("%d to %d arguments", n.Min, n.Max)
		}
		e.report("call-arity", x, "%s wants %s, has %d", n.Name, want, positional)
		return Any
	}
	if spread {
		args = nil
	} else {
		e.wanted(x, n, args)
	}
	if e.env.Dead {
		return Never
	}
	return e.nativeGives(n, args)
}

// nativeGives is the result of a function of the language; args is nil where they are not known.
func (e *engine) nativeGives(n *Native, args []Argument) Type {
	switch {
	case n.Ends:
		e.env.End()
		return Never
	case n.Compares && args != nil && !e.compares(n, args):
		return Any
	}
	return n.Gives(args)
}

// compares follows the key function of sorted, min and max for each element, and reports elements that cannot be
// compared. It returns whether there are elements.
func (e *engine) compares(n *Native, args []Argument) bool {
	if len(args) == 0 {
		return true
	}
	positional := positional(args)
	if one := n.Max != 1 && len(positional) == 1; one && positional[0].Type.Is(Int, floatKind, None, boolKind) {
		e.report("builtin-value", positional[0].Expr, "this wants a list, or several values; it is %s", article(positional[0].Type))
		return false
	}
	elem := comparedArgs(args)
	key, ok := named(args, "key")
	switch {
	case !ok && n.Max == 1:
		e.sortable(args[0].Expr, elem)
	case ok && !key.Type.Is(None) && !elem.IsNever():
		e.sortable(key.Expr, e.results(key.Type, key.Expr, elem))
	}
	return true
}

// sortable reports values that cannot be compared with each other.
func (e *engine) sortable(at syntax.Expr, t Type) {
	if t.Is(Dict) || t.Is(Struct) {
		e.say(FindingProblem{Code: "operand", Node: at, Message: article(t) + " cannot be compared with another", Hint: "sorted(..., key = lambda x: ...)"})
	}
}
