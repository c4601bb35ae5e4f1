package flow

import (
	"math/big"

	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/scope"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// Conditions that are not understood are taken to ask for what is not sure in them: what a
// script has looked at is not told about behind it.

// supposed takes into account what a condition says of the fields that it gets with a default: where it
// cannot have come out so with the field missing, the field is there.
func (e *engine) supposed(x syntax.Expr, truth bool) {
	for _, call := range e.getsIn(x) {
		g, _ := e.getCall(call)
		v, known := e.suppose(x, call)
		switch {
		case !known:
			e.refine(g.base, sure(g.name, true))
		case v.truth() != truth:
			e.refine(g.base, sure(g.name, false))
		}
	}
}

// getsIn are the calls such as d.get("k") in an expression.
func (e *engine) getsIn(x syntax.Expr) (calls []*syntax.CallExpr) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LambdaExpr, *syntax.Comprehension:
			return false
		case *syntax.CallExpr:
			if _, ok := e.getCall(n); ok {
				calls = append(calls, n)
			}
		}
		return true
	})
	return calls
}

// constant is a value that is known: nil for None, a bool, text or number, empty{}.
type constant struct{ v any }

// empty is a list, tuple or dict without elements.
type empty struct{}

func (c constant) truth() bool {
	switch v := c.v.(type) {
	case nil, empty:
		return false
	default:
		return (&types.Atom{Lit: v}).Truthy()
	}
}

// suppose is the value of an expression when a get in it finds nothing.
func (e *engine) suppose(x syntax.Expr, missing *syntax.CallExpr) (constant, bool) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return e.suppose(x.X, missing)
	case *syntax.ListExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.TupleExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.DictExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.CallExpr:
		return e.supposeCall(x, missing)
	case *syntax.UnaryExpr:
		if v, ok := e.suppose(x.X, missing); ok && x.Op == syntax.NOT {
			return constant{!v.truth()}, true
		}
	case *syntax.BinaryExpr:
		a, okA := e.suppose(x.X, missing)
		b, okB := e.suppose(x.Y, missing)
		if okA && okB {
			return compared(x.Op, a.v, b.v)
		}
		if text, isText := b.v.(string); okB && (isText && text == "" || b.v == empty{}) && e.quiet(x.X).Every(func(a *types.Atom) bool { return a.Lit != "" }) {
			return constant{x.Op == syntax.NOT_IN}, x.Op == syntax.IN || x.Op == syntax.NOT_IN // nothing is in it
		}
	case *syntax.Literal, *syntax.Ident:
		if a := e.quiet(x).Only(); a != nil && (a.Lit != nil || a.Kind == types.None) {
			return constant{a.Lit}, true
		}
	}
	return constant{}, false
}

func (e *engine) supposeCall(x, missing *syntax.CallExpr) (constant, bool) {
	if x == missing {
		if len(x.Args) == 1 {
			return constant{nil}, true
		}
		return e.suppose(x.Args[1], missing)
	}
	switch fn := x.Fn.(type) {
	case *syntax.Ident:
		if scope.First(fn) != nil || len(x.Args) != 1 {
			break
		}
		v, ok := e.suppose(x.Args[0], missing)
		switch {
		case !ok:
		case fn.Name == "bool":
			return constant{v.truth()}, true
		case fn.Name == "len" && (v.v == "" || v.v == empty{}):
			return constant{new(big.Int)}, true
		}
	case *syntax.DotExpr: // of an empty text
		v, ok := e.suppose(fn.X, missing)
		if !ok || v.v != "" {
			break
		}
		switch fn.Name.Name {
		case "strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize":
			return constant{""}, true
		case "isdigit", "isalpha", "isalnum", "isspace":
			return constant{false}, true
		case "startswith", "endswith":
			if len(x.Args) == 1 {
				prefix, known := e.suppose(x.Args[0], missing)
				return constant{prefix.v == ""}, known
			}
		}
	}
	return constant{}, false
}

// compared is a op b.
func compared(op syntax.Token, a, b any) (constant, bool) {
	equal := a == b
	if a != nil && b != nil {
		equal = types.SameLit(a, b)
	}
	switch op {
	case syntax.EQL:
		return constant{equal}, true
	case syntax.NEQ:
		return constant{!equal}, true
	}
	x, y := types.Number(a), types.Number(b)
	if x == nil || y == nil {
		return constant{}, false
	}
	n := x.Cmp(y)
	switch op {
	case syntax.LT:
		return constant{n < 0}, true
	case syntax.LE:
		return constant{n <= 0}, true
	case syntax.GT:
		return constant{n > 0}, true
	case syntax.GE:
		return constant{n >= 0}, true
	}
	return constant{}, false
}

// sure takes a field to be there; some, and to be not None.
func sure(name string, some bool) func(types.Type) types.Type {
	return func(t types.Type) types.Type {
		return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
			f, ok := a.Field(name)
			if !ok || a.Role == types.Made {
				return a
			}
			f.Presence = types.Required
			if some {
				f.Type = f.Type.NotNone()
			}
			return a.With(f)
		})
	}
}

// allSure takes all fields of a dict to be there.
func allSure(t types.Type) types.Type {
	return t.NotNone().Replace(types.Dict, func(a *types.Atom) *types.Atom {
		for _, f := range a.Fields {
			if f.Presence == types.Optional && a.Role != types.Made {
				f.Presence = types.Required
				a = a.With(f)
			}
		}
		return a
	})
}

// doubtless takes what an expression asks for to be there.
func (e *engine) doubtless(x syntax.Node) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			e.askedByCall(n)
		case *syntax.BinaryExpr:
			e.askedByOperator(n)
		case *syntax.ListExpr:
			e.someOf(n.List)
		case *syntax.TupleExpr:
			e.someOf(n.List)
		}
		return true
	})
}

func (e *engine) someOf(list []syntax.Expr) {
	for _, x := range list {
		e.refine(x, types.Type.NotNone)
	}
}

func (e *engine) askedByCall(x *syntax.CallExpr) {
	if g, ok := e.getCall(x); ok {
		e.refine(g.base, sure(g.name, true))
		return
	}
	if dot, ok := x.Fn.(*syntax.DotExpr); ok && len(x.Args) == 0 {
		switch dot.Name.Name {
		case "keys", "items", "values":
			e.refine(dot.X, allSure)
		}
	}
}

func (e *engine) askedByOperator(x *syntax.BinaryExpr) {
	switch x.Op {
	case syntax.IN, syntax.NOT_IN:
		if name, ok := e.literal(x.X); ok {
			e.refine(dictOf(x.Y), sure(name, false))
		} else {
			e.refine(dictOf(x.Y), allSure)
		}
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		e.refine(x.X, types.Type.NotNone)
		e.refine(x.Y, types.Type.NotNone)
	}
}

// each narrows by a condition that holds, or does not, for all elements that a comprehension goes over.
func (e *engine) each(c *syntax.Comprehension, cond syntax.Expr, truth bool) {
	over, ok := c.Clauses[0].(*syntax.ForClause)
	id, isName := over.Vars.(*syntax.Ident)
	if !ok || !isName || scope.First(id) == nil {
		e.doubtless(c)
		return
	}
	elem := operation.ElementOf(e.quiet(over.X))
	if !elem.Every(func(a *types.Atom) bool { return a.Lit != nil }) {
		e.someOf(elementsOf(over.X))
		e.doubtless(c)
		return
	}
	saved, had := e.state.vars[scope.First(id)]
	for _, a := range elem.Atoms() {
		e.state.vars[scope.First(id)] = types.Of(a)
		e.narrow(cond, truth)
	}
	if delete(e.state.vars, scope.First(id)); had {
		e.state.vars[scope.First(id)] = saved
	}
}

// narrowComprehension is a list of what is wrong, or right, as a condition.
func (e *engine) narrowComprehension(c *syntax.Comprehension, truth bool) {
	switch len(c.Clauses) {
	case 1: // it is empty when what it goes over is
		if over, ok := c.Clauses[0].(*syntax.ForClause); ok {
			e.refine(over.X, truthy(truth))
		}
	case 2:
		cond, ok := c.Clauses[1].(*syntax.IfClause)
		if !ok {
			e.doubtless(c)
		} else if !truth {
			e.each(c, cond.Cond, false)
		}
	default:
		e.doubtless(c)
	}
}

// narrowAll is all(...), or any(...), as a condition.
func (e *engine) narrowAll(x *syntax.CallExpr, all, truth bool) {
	if all != truth {
		return // who knows which of them
	}
	arg := unparen(x.Args[0])
	if list := elementsOf(arg); list != nil {
		for _, el := range list {
			e.narrow(el, truth)
		}
		return
	}
	if c, ok := arg.(*syntax.Comprehension); ok {
		if len(c.Clauses) == 1 {
			e.each(c, c.Body, truth)
			return
		}
	}
	e.doubtless(x)
}

// lengthOf recognises a comparison of len(x) that says no more than whether x is empty.
func lengthOf(x *syntax.BinaryExpr) (of syntax.Expr, some, ok bool) {
	call, isCall := x.X.(*syntax.CallExpr)
	n, isNumber := x.Y.(*syntax.Literal)
	if !isCall || !isNumber || len(call.Args) != 1 {
		return nil, false, false
	}
	id, isName := call.Fn.(*syntax.Ident)
	if !isName || id.Name != "len" || scope.First(id) != nil {
		return nil, false, false
	}
	switch {
	case n.Value == int64(0) && (x.Op == syntax.GT || x.Op == syntax.NEQ), n.Value == int64(1) && x.Op == syntax.GE:
		return call.Args[0], true, true
	case n.Value == int64(0) && (x.Op == syntax.EQL || x.Op == syntax.LE), n.Value == int64(1) && x.Op == syntax.LT:
		return call.Args[0], false, true
	}
	return nil, false, false
}

// either is the state where one of two conditions held. Where each of them removes a doubt that the other
// leaves, which of the two is there is the script's business.
func either(a, b *state) *state {
	if a.dead || b.dead {
		return join(a, b)
	}
	x, y := a.clone(), b.clone()
	inA, inB := false, false
	for k, t := range a.vars {
		u, ok := b.vars[k]
		if !ok || types.Equal(t, u) {
			continue
		}
		var some bool
		x.vars[k], some = types.Settle(t, u)
		inA = inA || some
		y.vars[k], some = types.Settle(u, t)
		inB = inB || some
	}
	if inA && inB {
		return join(x, y)
	}
	return join(a, b)
}
