package flow

import (
	"math/big"

	"github.com/vmcp-dev/vmcp/script/check/callable"
	"github.com/vmcp-dev/vmcp/script/check/env"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// eval returns the type of an expression and reports its problems.
func (e *engine) eval(x syntax.Expr) types.Type {
	if e.work++; e.work > maxWork || x == nil {
		return types.Any
	}
	t := e.compute(x)
	e.note(x, t)
	return t
}

func (e *engine) compute(x syntax.Expr) types.Type {
	switch x := x.(type) {
	case *syntax.Literal:
		return operation.Literal(x)
	case *syntax.Ident:
		return e.name(x)
	case *syntax.ParenExpr:
		return e.eval(x.X)
	case *syntax.ListExpr:
		return types.ListOf(e.joined(x.List))
	case *syntax.TupleExpr:
		elems := make([]types.Type, len(x.List))
		for i, el := range x.List {
			elems[i] = e.eval(el)
		}
		return types.TupleOf(elems...)
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
	return types.Any
}

func (e *engine) joined(list []syntax.Expr) types.Type {
	t := types.Never
	for _, x := range list {
		t = types.Join(t, e.eval(x))
	}
	return t
}

// name returns the type of a name.
func (e *engine) name(id *syntax.Ident) types.Type {
	if t, bound := e.env.Read(id); bound {
		return t
	}
	switch id.Name {
	case "None":
		return types.Of(&types.Atom{Kind: types.None, Role: types.Made})
	case "True":
		return types.Literal(true)
	case "False":
		return types.Literal(false)
	}
	if c := e.Builtins[id.Name]; c != nil {
		if c.Members != nil {
			return types.Of(&types.Atom{Kind: types.Module, Name: id.Name, Fn: c})
		}
		return types.Of(&types.Atom{Kind: types.Func, Fn: c, Name: c.Name})
	}
	if u := callable.Natives[id.Name]; u != nil {
		return types.Of(&types.Atom{Kind: types.Func, Fn: u, Name: id.Name})
	}
	return types.Any
}

func (e *engine) dict(x *syntax.DictExpr) types.Type {
	a := &types.Atom{Kind: types.Dict, Role: types.Made}
	for _, el := range x.List {
		entry := el.(*syntax.DictEntry)
		key, value := e.eval(entry.Key), e.eval(entry.Value)
		e.hashable(entry.Key, key)
		a = a.Store(key, value, entry.Key, entry.Value)
	}
	a.Base = nil
	return types.Of(a)
}

// hashable reports a key that is not hashable.
func (e *engine) hashable(at syntax.Expr, key types.Type) {
	if key.Is(types.List, types.Dict, types.Set) {
		e.report("index", at, "%s cannot be a key", finding.Article(key))
	}
}

func (e *engine) unary(x *syntax.UnaryExpr) types.Type {
	if x.X == nil {
		return types.Any
	}
	t := e.eval(x.X)
	switch x.Op {
	case syntax.NOT:
		return types.Kinds(types.Bool)
	case syntax.MINUS, syntax.PLUS:
		if a := t.Only(); a != nil && a.Lit != nil && x.Op == syntax.MINUS {
			switch lit := a.Lit.(type) {
			case *big.Int:
				return types.Literal(new(big.Int).Neg(lit))
			case float64:
				return types.Literal(-lit)
			}
		}
		if t.Is(types.Text, types.List, types.Dict, types.None, types.Bool) {
			e.report("operand", x, "%s has no sign", finding.Article(t))
			return types.Any
		}
		return t.Widen()
	}
	return types.Any
}

// operation is the type of a binary operation; the left operand of and, or narrows the types in the right one.
func (e *engine) operation(x *syntax.BinaryExpr) types.Type {
	if x.Op != syntax.AND && x.Op != syntax.OR {
		left := e.eval(x.X)
		return e.binary(x, left, e.eval(x.Y))
	}
	left := e.eval(x.X)
	skip := e.env.Clone()
	e.conds.Narrow(x.X, x.Op == syntax.AND)
	right := types.Never
	if !e.env.Dead {
		right = e.eval(x.Y)
	}
	e.env.State = env.Join(skip, e.env.State)
	if x.Op == syntax.AND {
		return types.Join(left.Keep((*types.Atom).Falsy), right)
	}
	return types.Join(left.Keep((*types.Atom).Truthy), right)
}

func (e *engine) conditional(x *syntax.CondExpr) types.Type {
	e.eval(x.Cond)
	no := e.env.Clone()
	a, b := types.Never, types.Never
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
	e.env.State = env.Join(yes, e.env.State)
	e.last[x.True], e.last[x.False] = a, b
	return types.Join(a, b)
}

func (e *engine) comprehension(x *syntax.Comprehension) types.Type {
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
	var t types.Type
	if entry, ok := x.Body.(*syntax.DictEntry); ok {
		key := e.eval(entry.Key)
		e.hashable(entry.Key, key)
		t = types.Of(&types.Atom{Kind: types.Dict, Open: true, Elem: e.eval(entry.Value), Role: types.Made})
	} else {
		t = types.ListOf(e.eval(x.Body))
	}
	e.env.State = saved
	return t
}

// iterated is the type of the elements of a value.
func (e *engine) iterated(at syntax.Expr, t types.Type) types.Type {
	if t.Is(types.None, types.Bool, types.Int, types.Float, types.Text, types.Func, types.Struct, types.Duration, types.Time) {
		e.report("index", at, "%s is not iterable", finding.Article(t))
		return types.Any
	}
	e.noneFor(at, t, operation.Iterable)
	return operation.ElementOf(t)
}

func (e *engine) slice(x *syntax.SliceExpr) types.Type {
	t := e.eval(x.X)
	for _, p := range []syntax.Expr{x.Lo, x.Hi, x.Step} {
		if p != nil {
			if b := e.eval(p); b.Is(types.Text, types.Float, types.Dict, types.List) {
				e.report("index", p, "a slice is from and to integers, not %s", finding.Article(b))
			}
		}
	}
	if t.Is(types.None, types.Bool, types.Int, types.Float, types.Dict, types.Set, types.Struct, types.Func) {
		e.report("index", x, "%s cannot be cut in slices", finding.Article(t))
		return types.Any
	}
	e.noneFor(x.X, t, func(a *types.Atom) bool {
		return a.Kind == types.Text || a.Kind == types.List || a.Kind == types.Tuple || a.Kind == types.Bytes
	})
	return t.Without(types.None).Widen().Replace(types.Tuple, func(a *types.Atom) *types.Atom {
		return &types.Atom{Kind: types.Tuple, Elem: types.Any}
	})
}

// noneFor warns about a value that may be None where None cannot be used, provided that its other types can.
func (e *engine) noneFor(at syntax.Expr, t types.Type, can func(*types.Atom) bool) bool {
	if t.IsAny() || !t.Some(types.UnexpectedNone) {
		return false
	}
	rest := t.Without(types.None)
	if rest.IsNever() || !rest.Every(can) {
		return false
	}
	e.warn("maybe-none", at, "%s may be None here", finding.Describe(at))
	e.conds.Refine(at, func(t types.Type) types.Type { return t.Without(types.None) })
	return true
}

// quiet returns the type of an expression without reporting problems again.
func (e *engine) quiet(x syntax.Expr) types.Type {
	e.mute++
	defer func() { e.mute-- }()
	return e.eval(x)
}

// recorded returns the type that was last computed for an expression.
func (e *engine) recorded(x syntax.Expr) types.Type {
	t, ok := e.last[x]
	if !ok {
		return types.Never
	}
	return t
}
