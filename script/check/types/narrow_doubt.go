package types

import (
	"math/big"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"go.starlark.net/syntax"
)

// A condition that cannot be analysed is assumed to check all uncertain values in it: nothing is reported about these
// after it.

// supposed narrows by a condition on fields that are read with a default: where the condition cannot have this outcome
// if the field is missing, the field is present.
func (r *Refiner) supposed(x syntax.Expr, truth bool) {
	for _, call := range r.getsIn(x) {
		g, _ := r.getCall(call)
		v, known := r.suppose(x, call)
		switch {
		case !known:
			r.Refine(g.base, sure(g.name, true))
		case v.truth() != truth:
			r.Refine(g.base, sure(g.name, false))
		}
	}
}

// getsIn returns the calls such as d.get("k") in an expression.
func (r *Refiner) getsIn(x syntax.Expr) (calls []*syntax.CallExpr) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LambdaExpr, *syntax.Comprehension:
			return false
		case *syntax.CallExpr:
			if _, ok := r.getCall(n); ok {
				calls = append(calls, n)
			}
		}
		return true
	})
	return calls
}

// constant is a known value: nil for None, a bool, string or number, empty{}.
type constant struct{ v any }

// empty is any list, tuple or dict without elements.
type empty struct{}

func (c constant) truth() bool {
	switch v := c.v.(type) {
	case nil, empty:
		return false
	default:
		return (&Atom{Lit: v}).Truthy()
	}
}

// suppose evaluates an expression for the case that a get in it finds nothing.
func (r *Refiner) suppose(x syntax.Expr, missing *syntax.CallExpr) (constant, bool) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return r.suppose(x.X, missing)
	case *syntax.ListExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.TupleExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.DictExpr:
		return constant{empty{}}, len(x.List) == 0
	case *syntax.CallExpr:
		return r.supposeCall(x, missing)
	case *syntax.UnaryExpr:
		if v, ok := r.suppose(x.X, missing); ok && x.Op == syntax.NOT {
			return constant{!v.truth()}, true
		}
	case *syntax.BinaryExpr:
		a, okA := r.suppose(x.X, missing)
		b, okB := r.suppose(x.Y, missing)
		if okA && okB {
			return compared(x.Op, a.v, b.v)
		}
		if text, isText := b.v.(string); okB && (isText && text == "" || b.v == empty{}) && r.Type(x.X).Every(func(a *Atom) bool { return a.Lit != "" }) {
			return constant{x.Op == syntax.NOT_IN}, x.Op == syntax.IN || x.Op == syntax.NOT_IN // nothing is in it
		}
	case *syntax.Literal, *syntax.Ident:
		if a := r.Type(x).Only(); a != nil && (a.Lit != nil || a.Kind == None) {
			return constant{a.Lit}, true
		}
	}
	return constant{}, false
}

func (r *Refiner) supposeCall(x, missing *syntax.CallExpr) (constant, bool) {
	if x == missing {
		if len(x.Args) == 1 {
			return constant{nil}, true
		}
		return r.suppose(x.Args[1], missing)
	}
	switch fn := x.Fn.(type) {
	case *syntax.Ident:
		if First(fn) != nil || len(x.Args) != 1 {
			break
		}
		v, ok := r.suppose(x.Args[0], missing)
		switch {
		case !ok:
		case fn.Name == "bool":
			return constant{v.truth()}, true
		case fn.Name == "len" && (v.v == "" || v.v == empty{}):
			return constant{new(big.Int)}, true
		}
	case *syntax.DotExpr: // of an empty text
		v, ok := r.suppose(fn.X, missing)
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
				prefix, known := r.suppose(x.Args[0], missing)
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
		equal = sameLit(a, b)
	}
	switch op {
	case syntax.EQL:
		return constant{equal}, true
	case syntax.NEQ:
		return constant{!equal}, true
	}
	x, y := number(a), number(b)
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

// sure makes a field present; some, also not None.
func sure(name string, some bool) func(Type) Type {
	return func(t Type) Type {
		return t.Replace(Dict, func(a *Atom) *Atom {
			f, ok := a.Field(name)
			if !ok || a.Role == ownRole {
				return a
			}
			f.Presence = required
			if some {
				f.Type = f.Type.NotNone()
			}
			return a.With(f)
		})
	}
}

// allSure makes all fields of a dict present.
func allSure(t Type) Type {
	return t.NotNone().Replace(Dict, func(a *Atom) *Atom {
		for _, f := range a.Fields {
			if f.Presence == Optional && a.Role != ownRole {
				f.Presence = required
				a = a.With(f)
			}
		}
		return a
	})
}

// doubtless makes everything present that an expression reads.
func (r *Refiner) doubtless(x syntax.Node) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			r.askedByCall(n)
		case *syntax.BinaryExpr:
			r.askedByOperator(n)
		case *syntax.ListExpr:
			r.someOf(n.List)
		case *syntax.TupleExpr:
			r.someOf(n.List)
		}
		return true
	})
}

func (r *Refiner) someOf(list []syntax.Expr) {
	for _, x := range list {
		r.Refine(x, Type.NotNone)
	}
}

func (r *Refiner) askedByCall(x *syntax.CallExpr) {
	if g, ok := r.getCall(x); ok {
		r.Refine(g.base, sure(g.name, true))
		return
	}
	if dot, ok := x.Fn.(*syntax.DotExpr); ok && len(x.Args) == 0 {
		switch dot.Name.Name {
		case "keys", "items", "values":
			r.Refine(dot.X, allSure)
		}
	}
}

func (r *Refiner) askedByOperator(x *syntax.BinaryExpr) {
	switch x.Op {
	case syntax.IN, syntax.NOT_IN:
		if name, ok := r.Env.Literal(x.X); ok {
			r.Refine(dictOf(x.Y), sure(name, false))
		} else {
			r.Refine(dictOf(x.Y), allSure)
		}
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		r.Refine(x.X, Type.NotNone)
		r.Refine(x.Y, Type.NotNone)
	}
}

// each narrows by a condition on all elements of a comprehension.
func (r *Refiner) each(c *syntax.Comprehension, cond syntax.Expr, truth bool) {
	over, ok := c.Clauses[0].(*syntax.ForClause)
	id, isName := over.Vars.(*syntax.Ident)
	if !ok || !isName || First(id) == nil {
		r.doubtless(c)
		return
	}
	elem := elementOf(r.Type(over.X))
	if !elem.Every(func(a *Atom) bool { return a.Lit != nil }) {
		r.someOf(meter.Elements(over.X))
		r.doubtless(c)
		return
	}
	saved, had := r.Env.Vars.Get(First(id))
	if !had {
		saved = Any
	}
	for _, a := range elem.Atoms() {
		r.Env.Vars = r.Env.Vars.With(First(id), Of(a))
		r.Narrow(cond, truth)
	}
	r.Env.Vars = r.Env.Vars.With(First(id), saved)
}

// narrowComprehension narrows by a list of mistakes, or of valid elements, used as a condition.
func (r *Refiner) narrowComprehension(c *syntax.Comprehension, truth bool) {
	switch len(c.Clauses) {
	case 1: // it is empty if the iterated value is
		if over, ok := c.Clauses[0].(*syntax.ForClause); ok {
			r.Refine(over.X, truthy(truth))
		}
	case 2:
		cond, ok := c.Clauses[1].(*syntax.IfClause)
		if !ok {
			r.doubtless(c)
		} else if !truth {
			r.each(c, cond.Cond, false)
		}
	default:
		r.doubtless(c)
	}
}

// narrowAll narrows by all(...) or any(...).
func (r *Refiner) narrowAll(x *syntax.CallExpr, all, truth bool) {
	if all != truth {
		return // not known for which of them
	}
	arg := meter.Unparen(x.Args[0])
	if list := meter.Elements(arg); list != nil {
		for _, el := range list {
			r.Narrow(el, truth)
		}
		return
	}
	if c, ok := arg.(*syntax.Comprehension); ok {
		if len(c.Clauses) == 1 {
			r.each(c, c.Body, truth)
			return
		}
	}
	r.doubtless(x)
}

// lengthOf recognises a comparison of len(x) that decides only whether x is empty.
func lengthOf(x *syntax.BinaryExpr) (of syntax.Expr, some, ok bool) {
	call, isCall := x.X.(*syntax.CallExpr)
	n, isNumber := x.Y.(*syntax.Literal)
	if !isCall || !isNumber || len(call.Args) != 1 {
		return nil, false, false
	}
	id, isName := call.Fn.(*syntax.Ident)
	if !isName || id.Name != "len" || First(id) != nil {
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
