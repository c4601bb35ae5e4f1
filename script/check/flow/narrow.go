package flow

import (
	"slices"

	"github.com/vmcp-dev/vmcp/script/check/scope"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// narrow takes into account that a condition held, or did not.
func (e *engine) narrow(x syntax.Expr, truth bool) {
	if e.state.dead {
		return
	}
	switch x := x.(type) {
	case *syntax.ParenExpr:
		e.narrow(x.X, truth)
	case *syntax.UnaryExpr:
		if x.Op == syntax.NOT {
			e.narrow(x.X, !truth)
		}
	case *syntax.BinaryExpr:
		e.narrowBinary(x, truth)
	case *syntax.Ident:
		if x.Name == "True" && !truth || (x.Name == "False" || x.Name == "None") && truth {
			if scope.First(x) == nil {
				e.state = dead(e.state)
				return
			}
		}
		e.refine(x, truthy(truth))
		e.narrowNamed(x, truth)
	case *syntax.Literal:
		if a := literalType(x).Only(); a != nil && (truth && !a.Truthy() || !truth && !a.Falsy()) {
			e.state = dead(e.state)
		}
	case *syntax.CallExpr:
		e.narrowCall(x, truth)
	case *syntax.Comprehension:
		e.narrowComprehension(x, truth)
	default:
		e.refine(x, truthy(truth))
	}
}

func truthy(truth bool) func(types.Type) types.Type {
	return func(t types.Type) types.Type {
		if truth {
			t = t.Keep((*types.Atom).Truthy)
			return boolIs(t, true)
		}
		return boolIs(t.Keep((*types.Atom).Falsy), false)
	}
}

// boolIs makes what is a bool the one that it is.
func boolIs(t types.Type, value bool) types.Type {
	return t.Replace(types.Bool, func(a *types.Atom) *types.Atom {
		if a.Lit != nil {
			return a
		}
		return &types.Atom{Kind: types.Bool, Lit: value, Role: a.Role}
	})
}

func (e *engine) narrowBinary(x *syntax.BinaryExpr, truth bool) {
	if of, some, ok := lengthOf(x); ok {
		e.narrow(of, truth == some)
		return
	}
	if x.Op == syntax.AND || x.Op == syntax.OR {
		e.narrowBoth(x, truth)
		return
	}
	defer e.supposed(x, truth)
	switch x.Op {
	case syntax.EQL, syntax.NEQ:
		equal := truth == (x.Op == syntax.EQL)
		if name, ok := typeOfCall(x.X); ok {
			e.narrowType(name, x.Y, equal)
			return
		}
		e.narrowEqual(x.X, x.Y, equal)
		e.narrowEqual(x.Y, x.X, equal)
	case syntax.IN, syntax.NOT_IN:
		e.narrowIn(x, truth == (x.Op == syntax.IN))
	case syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		if truth { // None cannot be compared: it was not there
			e.refine(x.X, func(t types.Type) types.Type { return t.Without(types.None) })
			e.refine(x.Y, func(t types.Type) types.Type { return t.Without(types.None) })
		}
	}
}

// narrowBoth is "a and b" or "a or b".
func (e *engine) narrowBoth(x *syntax.BinaryExpr, truth bool) {
	if truth == (x.Op == syntax.AND) { // both are known
		e.narrow(x.X, truth)
		e.narrow(x.Y, truth)
		return
	}
	other := e.state.clone()
	e.narrow(x.X, truth)
	first := e.state
	e.state = other
	e.narrow(x.X, !truth)
	e.narrow(x.Y, truth)
	e.state = either(first, e.state)
}

// narrowEqual takes into account that x is, or is not, what y is.
func (e *engine) narrowEqual(x, y syntax.Expr, equal bool) {
	value := e.quiet(y).Only()
	if value == nil || value.Lit == nil && value.Kind != types.None {
		return
	}
	e.refine(x, func(t types.Type) types.Type {
		if equal {
			return only(t, value)
		}
		return t.Keep(func(a *types.Atom) bool { return !sameValue(a, value) })
	})
}

// quiet is the type of an expression, without telling anything again.
func (e *engine) quiet(x syntax.Expr) types.Type {
	e.mute++
	defer func() { e.mute-- }()
	return e.eval(x)
}

// sameValue reports whether all that a can be is value.
func sameValue(a, value *types.Atom) bool {
	if a.Kind == types.None || value.Kind == types.None {
		return a.Kind == value.Kind
	}
	return a.Lit != nil && types.SameLit(a.Lit, value.Lit)
}

// only is the part of t that can be equal to a value.
func only(t types.Type, value *types.Atom) types.Type {
	if t.IsAny() {
		if value.Kind == types.None {
			return types.Of(value)
		}
		return types.Of(&types.Atom{Kind: value.Kind, Lit: value.Lit})
	}
	out := types.Never
	for _, a := range t.Atoms() {
		switch {
		case sameValue(a, value):
			out = types.Join(out, types.Of(a))
		case a.Lit == nil && (a.Kind == value.Kind || a.Kind == types.Float && value.Kind == types.Int) && a.Kind != types.None:
			out = types.Join(out, types.Of(&types.Atom{Kind: a.Kind, Lit: value.Lit, Role: a.Role}))
		}
	}
	return out
}

// typeOfCall recognises type(x), and returns its argument.
func typeOfCall(x syntax.Expr) (syntax.Expr, bool) {
	call, ok := x.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, false
	}
	id, ok := call.Fn.(*syntax.Ident)
	if !ok || id.Name != "type" || scope.First(id) != nil {
		return nil, false
	}
	return call.Args[0], true
}

var typeNames = map[string]types.Kind{"NoneType": types.None, "bool": types.Bool, "int": types.Int, "float": types.Float, "string": types.Text,
	"bytes": types.Bytes, "list": types.List, "tuple": types.Tuple, "set": types.Set, "dict": types.Dict, "struct": types.Struct,
	"function": types.Func, "builtin_function_or_method": types.Func, "range": types.Range}

func (e *engine) narrowType(x, name syntax.Expr, equal bool) {
	text, ok := e.quiet(name).Text()
	k, known := typeNames[text]
	if !ok || !known {
		return
	}
	e.refine(x, func(t types.Type) types.Type {
		switch {
		case t.IsAny() && equal && k != types.Struct && k != types.Func && k != types.None:
			return types.Kinds(k)
		case equal:
			return t.Keep(func(a *types.Atom) bool { return a.Kind == k })
		}
		return t.Without(k)
	})
}

func (e *engine) narrowIn(x *syntax.BinaryExpr, in bool) {
	if name, ok := e.literal(x.X); ok {
		e.refine(dictOf(x.Y), func(t types.Type) types.Type {
			return t.Replace(types.Dict, func(a *types.Atom) *types.Atom { return present(a, name, in) })
		})
	}
	list := elementsOf(x.Y)
	if list == nil {
		return
	}
	if id, ok := x.X.(*syntax.Ident); ok && id.Name == "None" {
		if !in { // none of them is
			e.someOf(list)
		}
		return
	}
	if subject, ok := typeOfCall(x.X); ok {
		e.narrowTypes(subject, list, in)
		return
	}
	var values []*types.Atom
	for _, el := range list {
		v := e.quiet(el).Only()
		if v == nil || v.Lit == nil && v.Kind != types.None {
			return
		}
		values = append(values, v)
	}
	e.refine(x.X, func(t types.Type) types.Type {
		if !in {
			return t.Keep(func(a *types.Atom) bool {
				return !slices.ContainsFunc(values, func(v *types.Atom) bool { return sameValue(a, v) })
			})
		}
		if t.IsAny() {
			return t
		}
		out := types.Never
		for _, v := range values {
			if t.Some(func(a *types.Atom) bool { return sameValue(a, v) || a.Lit == nil && a.Kind == v.Kind }) {
				out = types.Join(out, only(t, v))
			}
		}
		return out
	})
}

// narrowTypes is type(x) in ("list", "tuple").
func (e *engine) narrowTypes(x syntax.Expr, names []syntax.Expr, in bool) {
	kinds := map[types.Kind]bool{}
	for _, n := range names {
		text, _ := e.quiet(n).Text()
		k, known := typeNames[text]
		if !known {
			return
		}
		kinds[k] = true
	}
	e.refine(x, func(t types.Type) types.Type {
		return t.Keep(func(a *types.Atom) bool { return kinds[a.Kind] == in })
	})
}

// elementsOf are the elements of a list or tuple that is written out.
func elementsOf(x syntax.Expr) []syntax.Expr {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return elementsOf(x.X)
	case *syntax.ListExpr:
		return x.List
	case *syntax.TupleExpr:
		return x.List
	}
	return nil
}

// present is an atom whose key is there, or not; nil when that cannot be.
func present(a *types.Atom, name string, there bool) *types.Atom {
	f, ok := a.Field(name)
	switch {
	case ok && there:
		f.Presence = types.Required
		return a.With(f)
	case there && !ok && (a.Open || a.Role != types.Made):
		return a.With(types.Field{Name: name, Type: a.Unnamed()})
	}
	return a
}

// narrowCall is a condition such as d.get("k"), bool(x), or a check of the script's own.
func (e *engine) narrowCall(x *syntax.CallExpr, truth bool) {
	if g, ok := e.getCall(x); ok {
		e.refineGet(g, truthy(truth))
		return
	}
	id, ok := x.Fn.(*syntax.Ident)
	switch {
	case ok && scope.First(id) != nil:
		e.checked(x)
	case ok && len(x.Args) == 1 && (id.Name == "bool" || id.Name == "len"):
		e.narrow(x.Args[0], truth)
	case ok && len(x.Args) == 1 && (id.Name == "all" || id.Name == "any"):
		e.narrowAll(x, id.Name == "all", truth)
	default:
		e.supposed(x, truth)
		if dot, ok := x.Fn.(*syntax.DotExpr); ok && len(e.getsIn(x)) == 0 {
			e.doubtless(dot.X)
			for _, arg := range x.Args {
				e.doubtless(arg)
			}
		}
	}
}

// get is d.get("name") or d.get("name", missing).
type get struct {
	base    syntax.Expr
	name    string
	missing types.Type
}

// getCall recognises base.get("name").
func (e *engine) getCall(x syntax.Expr) (g get, ok bool) {
	call, isCall := x.(*syntax.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return get{}, false
	}
	dot, isDot := call.Fn.(*syntax.DotExpr)
	if !isDot || dot.Name.Name != "get" {
		return get{}, false
	}
	g = get{base: dot.X, missing: types.Kinds(types.None)}
	g.name, ok = e.literal(call.Args[0])
	if len(call.Args) > 1 {
		g.missing = e.quiet(call.Args[1])
	}
	return g, ok
}

// refineGet takes into account what a get was: where what it gives for a missing field cannot be, the field is there.
func (e *engine) refineGet(g get, f func(types.Type) types.Type) {
	absent := f(g.missing)
	e.refine(g.base, func(t types.Type) types.Type {
		return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
			field, ok := a.Field(g.name)
			if !ok {
				if a.Role == types.Made && !a.Open {
					if absent.IsNever() {
						return nil
					}
					return a
				}
				field = types.Field{Name: g.name, Type: a.Unnamed(), Presence: types.Optional}
			}
			left := f(field.Type)
			switch {
			case field.Presence != types.Required && !absent.IsNever():
				return a // it may still be missing
			case left.IsNever():
				return nil
			}
			field.Type, field.Presence = left, types.Required
			return a.With(field)
		})
	})
}

// refine narrows the value of a path: a variable, or a part of one. What cannot be is dropped
// with all that it is in; when nothing is left, nothing leads here.
func (e *engine) refine(x syntax.Expr, f func(types.Type) types.Type) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		e.refine(x.X, f)
	case *syntax.Ident:
		e.refineName(x, f)
	case *syntax.IndexExpr:
		if name, ok := e.literal(x.Y); ok {
			e.refine(x.X, func(t types.Type) types.Type {
				return t.Replace(types.Dict, func(a *types.Atom) *types.Atom { return refined(a, name, f) })
			})
			return
		}
		if n, ok := e.quiet(x.Y).Int(); ok && n >= 0 {
			e.refineElement(x, n, f)
		}
	case *syntax.DotExpr:
		e.refine(x.X, func(t types.Type) types.Type {
			return t.Replace(types.Struct, func(a *types.Atom) *types.Atom { return refined(a, x.Name.Name, f) })
		})
	case *syntax.CallExpr:
		if g, ok := e.getCall(x); ok {
			e.refineGet(g, f)
		}
	}
}

func (e *engine) refineName(x *syntax.Ident, f func(types.Type) types.Type) {
	id := scope.First(x)
	if id == nil {
		return
	}
	if v := e.frame.unit.scopes.Vars[id]; v != nil && v.Owner != e.frame.node() && v.Assigned > 1 {
		return
	}
	t, known := e.state.vars[id]
	if e.frame.fn != nil {
		if kept, has := e.frame.fn.kept[id]; has {
			t, known = kept, true
		}
	}
	if !known || t.IsNever() {
		return
	}
	left := f(t)
	if left.IsNever() {
		e.state = dead(e.state)
		return
	}
	e.state.vars[id] = left
	if e.frame.fn != nil {
		if _, has := e.frame.fn.kept[id]; has {
			e.state.vars[id] = left
			delete(e.frame.fn.kept, id)
		}
	}
}

// refineElement narrows an element of a tuple.
func (e *engine) refineElement(x *syntax.IndexExpr, n int, f func(types.Type) types.Type) {
	e.refine(x.X, func(t types.Type) types.Type {
		return t.Replace(types.Tuple, func(a *types.Atom) *types.Atom {
			if !a.Sized || n >= len(a.Elems) {
				return a
			}
			b := *a
			b.Elems = slices.Clone(a.Elems)
			if b.Elems[n] = f(a.Elems[n]); b.Elems[n].IsNever() {
				return nil
			}
			return &b
		})
	})
}

// refined is an atom with a field narrowed that was read; nil when it can have no such field.
func refined(a *types.Atom, name string, f func(types.Type) types.Type) *types.Atom {
	field, ok := a.Field(name)
	if !ok {
		return a
	}
	field.Type = f(field.Type)
	if field.Type.IsNever() {
		return nil
	}
	field.Presence = types.Required
	return a.With(field)
}
