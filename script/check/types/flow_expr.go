package types

import (
	"math/big"

	"go.starlark.net/syntax"
)

// partsPerWork is how many parts of a value are compared or joined in the time of following an expression.
const partsPerWork = 32

// eval returns the type of an expression and reports its problems.
func (e *engine) eval(x syntax.Expr) Type {
	if e.work++; e.work > maxWork || x == nil {
		return Any
	}
	t := e.compute(x)
	for _, a := range t.atoms {
		e.work += (len(a.Fields) + len(a.Elems)) / partsPerWork
	}
	e.note(x, t)
	return t
}

func (e *engine) compute(x syntax.Expr) Type {
	switch x := x.(type) {
	case *syntax.Literal:
		return operationLiteral(x)
	case *syntax.Ident:
		return e.name(x)
	case *syntax.ParenExpr:
		return e.eval(x.X)
	case *syntax.ListExpr:
		return listOf(e.joined(x.List))
	case *syntax.TupleExpr:
		elems := make([]Type, len(x.List))
		for i, el := range x.List {
			elems[i] = e.eval(el)
		}
		return tupleOf(elems...)
	case *syntax.DictExpr:
		return e.dict(x)
	case *syntax.UnaryExpr:
		return e.unary(x)
	case *syntax.BinaryExpr:
		return e.operation(x)
	case *syntax.CondExpr:
		return e.conditional(x)
	case *syntax.DotExpr:
		return e.attribute(x)
	case *syntax.IndexExpr:
		return e.index(x)
	case *syntax.SliceExpr:
		return e.slice(x)
	case *syntax.Comprehension:
		return e.comprehension(x)
	case *syntax.LambdaExpr:
		return e.lambda(x)
	case *syntax.CallExpr:
		return e.call(x)
	}
	return Any
}

func (e *engine) joined(list []syntax.Expr) Type {
	t := Never
	for _, x := range list {
		t = Join(t, e.eval(x))
	}
	return t
}

// name returns the type of a name.
func (e *engine) name(id *syntax.Ident) Type {
	if t, bound := e.env.Read(id); bound {
		return t
	}
	switch id.Name {
	case "None":
		return Of(&Atom{Kind: None, Role: ownRole})
	case "True":
		return Literal(true)
	case "False":
		return Literal(false)
	}
	if c := e.Builtins[id.Name]; c != nil {
		if c.Members != nil {
			return Of(&Atom{Kind: moduleKind, Name: id.Name, Fn: c})
		}
		return Of(&Atom{Kind: funcKind, Fn: c, Name: c.Name})
	}
	if u := Natives[id.Name]; u != nil {
		return Of(&Atom{Kind: funcKind, Fn: u, Name: id.Name})
	}
	return Any
}

func (e *engine) dict(x *syntax.DictExpr) Type {
	a := &Atom{Kind: Dict, Role: ownRole}
	written := map[string]bool{}
	for _, el := range x.List {
		entry := el.(*syntax.DictEntry)
		key, value := e.eval(entry.Key), e.eval(entry.Value)
		e.hashable(entry.Key, key)
		name, literal := key.Text()
		switch {
		case len(written) > maxFields:
		case literal && !written[name]: // a is not shared yet
			a.Fields = append(a.Fields, Field{Name: name, Type: value, Key: entry.Key, Value: entry.Value})
		default:
			a = a.Store(key, value, entry.Key, entry.Value)
		}
		if literal {
			written[name] = true
		}
	}
	if len(written) > maxFields {
		return Of(a.unfolded())
	}
	a.Base = nil
	return Of(a)
}

// hashable reports a key that is not hashable.
func (e *engine) hashable(at syntax.Expr, key Type) {
	if key.Is(List, Dict, Set) {
		e.report("index", at, "%s cannot be a key", article(key))
	}
}

func (e *engine) unary(x *syntax.UnaryExpr) Type {
	if x.X == nil {
		return Any
	}
	t := e.eval(x.X)
	switch x.Op {
	case syntax.NOT:
		return Kinds(boolKind)
	case syntax.MINUS, syntax.PLUS:
		if a := t.Only(); a != nil && a.Lit != nil && x.Op == syntax.MINUS {
			switch lit := a.Lit.(type) {
			case *big.Int:
				return Literal(new(big.Int).Neg(lit))
			case float64:
				return Literal(-lit)
			}
		}
		if t.Is(Text, List, Dict, None, boolKind) {
			e.report("operand", x, "%s has no sign", article(t))
			return Any
		}
		return t.Widen()
	}
	return Any
}

// operation is the type of a binary operation; the left operand of and, or narrows the types in the right one.
func (e *engine) operation(x *syntax.BinaryExpr) Type {
	if x.Op != syntax.AND && x.Op != syntax.OR {
		left := e.eval(x.X)
		return e.binary(x, left, e.eval(x.Y))
	}
	left := e.eval(x.X)
	skip := e.env.Clone()
	e.conds.Narrow(x.X, x.Op == syntax.AND)
	right := Never
	if !e.env.Dead {
		right = e.eval(x.Y)
	}
	e.env.State = envJoin(skip, e.env.State)
	if x.Op == syntax.AND {
		return Join(left.Keep((*Atom).Falsy), right)
	}
	return Join(left.Keep((*Atom).Truthy), right)
}

func (e *engine) conditional(x *syntax.CondExpr) Type {
	e.eval(x.Cond)
	no := e.env.Clone()
	a, b := Never, Never
	e.conds.Narrow(x.Cond, true)
	if !e.env.Dead {
		a = e.eval(x.True)
	}
	yes := e.env.State
	e.env.State = no
	e.conds.Narrow(x.Cond, false)
	if !e.env.Dead {
		b = e.eval(x.False)
	}
	e.env.State = envJoin(yes, e.env.State)
	e.last[x.True], e.last[x.False] = a, b
	return Join(a, b)
}

func (e *engine) comprehension(x *syntax.Comprehension) Type {
	saved := e.env.State
	e.env.State = saved.Clone()
	for _, c := range x.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			e.assign(c.Vars, e.iterated(c.X, e.eval(c.X)), nil)
		case *syntax.IfClause:
			e.eval(c.Cond)
			e.conds.Narrow(c.Cond, true)
		}
	}
	var t Type
	if entry, ok := x.Body.(*syntax.DictEntry); ok {
		key := e.eval(entry.Key)
		e.hashable(entry.Key, key)
		t = Of(&Atom{Kind: Dict, Open: true, Elem: e.eval(entry.Value), Role: ownRole})
	} else {
		t = listOf(e.eval(x.Body))
	}
	e.env.State = saved
	return t
}

// iterated is the type of the elements of a value.
func (e *engine) iterated(at syntax.Expr, t Type) Type {
	if t.Is(None, boolKind, Int, floatKind, Text, funcKind, Struct, duration, timeKind) {
		e.report("index", at, "%s is not iterable", article(t))
		return Any
	}
	e.noneFor(at, t, operationIterable)
	return elementOf(t)
}

func (e *engine) slice(x *syntax.SliceExpr) Type {
	t := e.eval(x.X)
	for _, p := range []syntax.Expr{x.Lo, x.Hi, x.Step} {
		if p != nil {
			if b := e.eval(p); b.Is(Text, floatKind, Dict, List) {
				e.report("index", p, "a slice is from and to integers, not %s", article(b))
			}
		}
	}
	if t.Is(None, boolKind, Int, floatKind, Dict, Set, Struct, funcKind) {
		e.report("index", x, "%s cannot be cut in slices", article(t))
		return Any
	}
	e.noneFor(x.X, t, func(a *Atom) bool {
		return a.Kind == Text || a.Kind == List || a.Kind == tuple || a.Kind == Bytes
	})
	return t.Without(None).Widen().Replace(tuple, func(a *Atom) *Atom {
		return &Atom{Kind: tuple, Elem: Any}
	})
}

// noneFor warns about a value that may be None where None cannot be used, provided that its other types can.
func (e *engine) noneFor(at syntax.Expr, t Type, can func(*Atom) bool) bool {
	if t.IsAny() || !t.Some(unexpectedNone) {
		return false
	}
	rest := t.Without(None)
	if rest.IsNever() || !rest.Every(can) {
		return false
	}
	e.warn("maybe-none", at, "%s may be None here", describe(at))
	e.conds.Refine(at, func(t Type) Type { return t.Without(None) })
	return true
}

// quiet returns the type of an expression without reporting problems again.
func (e *engine) quiet(x syntax.Expr) Type {
	e.mute++
	defer func() { e.mute-- }()
	return e.eval(x)
}

// recorded returns the type that was last computed for an expression.
func (e *engine) recorded(x syntax.Expr) Type {
	t, ok := e.last[x]
	if !ok {
		return Never
	}
	return t
}
