package types

import (
	"slices"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"go.starlark.net/syntax"
)

// This part of the package derives what a condition proves about values: which of their possible types remain where it is true
// or false, and which fields are present.

// Refiner narrows what is known of variables by conditions.
type Refiner struct {
	Env *Env
	// Type returns the type of an expression at this point, without reporting problems.
	Type func(syntax.Expr) Type

	named int // depth of names of conditions, at most maxNamed
}

// Narrow narrows by a condition that is true, or false.
func (r *Refiner) Narrow(x syntax.Expr, truth bool) {
	if r.Env.Dead {
		return
	}
	switch x := x.(type) {
	case *syntax.ParenExpr:
		r.Narrow(x.X, truth)
	case *syntax.UnaryExpr:
		if x.Op == syntax.NOT {
			r.Narrow(x.X, !truth)
		}
	case *syntax.BinaryExpr:
		r.narrowBinary(x, truth)
	case *syntax.Ident:
		if x.Name == "True" && !truth || (x.Name == "False" || x.Name == "None") && truth {
			if First(x) == nil {
				r.Env.End()
				return
			}
		}
		r.Refine(x, truthy(truth))
		r.narrowNamed(x, truth)
	case *syntax.Literal:
		if a := operationLiteral(x).Only(); a != nil && (truth && !a.Truthy() || !truth && !a.Falsy()) {
			r.Env.End()
		}
	case *syntax.CallExpr:
		r.narrowCall(x, truth)
	case *syntax.Comprehension:
		r.narrowComprehension(x, truth)
	default:
		r.Refine(x, truthy(truth))
	}
}

func truthy(truth bool) func(Type) Type {
	return func(t Type) Type {
		if truth {
			t = t.Keep((*Atom).Truthy)
			return boolIs(t, true)
		}
		return boolIs(t.Keep((*Atom).Falsy), false)
	}
}

// boolIs narrows bools to one value.
func boolIs(t Type, value bool) Type {
	return t.Replace(boolKind, func(a *Atom) *Atom {
		if a.Lit != nil {
			return a
		}
		return &Atom{Kind: boolKind, Lit: value, Role: a.Role}
	})
}

func (r *Refiner) narrowBinary(x *syntax.BinaryExpr, truth bool) {
	if of, some, ok := lengthOf(x); ok {
		r.Narrow(of, truth == some)
		return
	}
	if x.Op == syntax.AND || x.Op == syntax.OR {
		r.narrowBoth(x, truth)
		return
	}
	defer r.supposed(x, truth)
	switch x.Op {
	case syntax.EQL, syntax.NEQ:
		equal := truth == (x.Op == syntax.EQL)
		if name, ok := typeOfCall(x.X); ok {
			r.narrowType(name, x.Y, equal)
			return
		}
		r.narrowEqual(x.X, x.Y, equal)
		r.narrowEqual(x.Y, x.X, equal)
	case syntax.IN, syntax.NOT_IN:
		r.narrowIn(x, truth == (x.Op == syntax.IN))
	case syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		if truth { // comparing None fails, so it was not None
			r.Refine(x.X, func(t Type) Type { return t.Without(None) })
			r.Refine(x.Y, func(t Type) Type { return t.Without(None) })
		}
	}
}

// narrowBoth narrows by "a and b" or "a or b".
func (r *Refiner) narrowBoth(x *syntax.BinaryExpr, truth bool) {
	if truth == (x.Op == syntax.AND) { // both are known
		r.Narrow(x.X, truth)
		r.Narrow(x.Y, truth)
		return
	}
	other := r.Env.Clone()
	r.Narrow(x.X, truth)
	first := r.Env.State
	r.Env.State = other
	r.Narrow(x.X, !truth)
	r.Narrow(x.Y, truth)
	r.Env.State = either(first, r.Env.State)
}

// narrowEqual narrows by x == y or x != y.
func (r *Refiner) narrowEqual(x, y syntax.Expr, equal bool) {
	value := r.Type(y).Only()
	if value == nil || value.Lit == nil && value.Kind != None {
		return
	}
	r.Refine(x, func(t Type) Type {
		if equal {
			return only(t, value)
		}
		return t.Keep(func(a *Atom) bool { return !sameValue(a, value) })
	})
}

// sameValue reports whether value is all that a can be.
func sameValue(a, value *Atom) bool {
	if a.Kind == None || value.Kind == None {
		return a.Kind == value.Kind
	}
	return a.Lit != nil && sameLit(a.Lit, value.Lit)
}

// only returns the part of t that can be equal to a value.
func only(t Type, value *Atom) Type {
	if t.IsAny() {
		if value.Kind == None {
			return Of(value)
		}
		return Of(&Atom{Kind: value.Kind, Lit: value.Lit})
	}
	out := Never
	for _, a := range t.Atoms() {
		switch {
		case sameValue(a, value):
			out = Join(out, Of(a))
		case a.Lit == nil && (a.Kind == value.Kind || a.Kind == floatKind && value.Kind == Int) && a.Kind != None:
			out = Join(out, Of(&Atom{Kind: a.Kind, Lit: value.Lit, Role: a.Role}))
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
	if !ok || id.Name != "type" || First(id) != nil {
		return nil, false
	}
	return call.Args[0], true
}

var typeNames = map[string]Kind{"NoneType": None, "bool": boolKind, "int": Int, "float": floatKind, "string": Text,
	"bytes": Bytes, "list": List, "tuple": tuple, "set": Set, "dict": Dict, "struct": Struct,
	"function": funcKind, "builtin_function_or_method": funcKind, "range": rangeKind}

func (r *Refiner) narrowType(x, name syntax.Expr, equal bool) {
	text, ok := r.Type(name).Text()
	k, known := typeNames[text]
	if !ok || !known {
		return
	}
	r.Refine(x, func(t Type) Type {
		switch {
		case t.IsAny() && equal && k != Struct && k != funcKind && k != None:
			return Kinds(k)
		case equal:
			return t.Keep(func(a *Atom) bool { return a.Kind == k })
		}
		return t.Without(k)
	})
}

func (r *Refiner) narrowIn(x *syntax.BinaryExpr, in bool) {
	if name, ok := r.Env.Literal(x.X); ok {
		r.Refine(dictOf(x.Y), func(t Type) Type {
			return t.Replace(Dict, func(a *Atom) *Atom { return present(a, name, in) })
		})
	}
	list := meter.Elements(x.Y)
	if list == nil {
		return
	}
	if id, ok := x.X.(*syntax.Ident); ok && id.Name == "None" {
		if !in { // none of them is
			r.someOf(list)
		}
		return
	}
	if subject, ok := typeOfCall(x.X); ok {
		r.narrowTypes(subject, list, in)
		return
	}
	var values []*Atom
	for _, el := range list {
		v := r.Type(el).Only()
		if v == nil || v.Lit == nil && v.Kind != None {
			return
		}
		values = append(values, v)
	}
	r.Refine(x.X, func(t Type) Type {
		if !in {
			return t.Keep(func(a *Atom) bool {
				return !slices.ContainsFunc(values, func(v *Atom) bool { return sameValue(a, v) })
			})
		}
		if t.IsAny() {
			return t
		}
		out := Never
		for _, v := range values {
			if t.Some(func(a *Atom) bool { return sameValue(a, v) || a.Lit == nil && a.Kind == v.Kind }) {
				out = Join(out, only(t, v))
			}
		}
		return out
	})
}

// narrowTypes narrows by type(x) in ("list", "tuple").
func (r *Refiner) narrowTypes(x syntax.Expr, names []syntax.Expr, in bool) {
	kinds := map[Kind]bool{}
	for _, n := range names {
		text, _ := r.Type(n).Text()
		k, known := typeNames[text]
		if !known {
			return
		}
		kinds[k] = true
	}
	r.Refine(x, func(t Type) Type {
		return t.Keep(func(a *Atom) bool { return kinds[a.Kind] == in })
	})
}

// present returns an atom whose key is present, or missing; nil when that is impossible.
func present(a *Atom, name string, there bool) *Atom {
	f, ok := a.Field(name)
	switch {
	case ok && there:
		f.Presence = required
		return a.With(f)
	case there && !ok && (a.Open || a.Role != ownRole):
		return a.With(Field{Name: name, Type: a.Unnamed()})
	}
	return a
}

// narrowCall narrows by a condition such as d.get("k"), bool(x), or a function of the script that checks.
func (r *Refiner) narrowCall(x *syntax.CallExpr, truth bool) {
	if g, ok := r.getCall(x); ok {
		r.refineGet(g, truthy(truth))
		return
	}
	id, ok := x.Fn.(*syntax.Ident)
	switch {
	case ok && First(id) != nil:
		r.Checked(x)
	case ok && len(x.Args) == 1 && (id.Name == "bool" || id.Name == "len"):
		r.Narrow(x.Args[0], truth)
	case ok && len(x.Args) == 1 && (id.Name == "all" || id.Name == "any"):
		r.narrowAll(x, id.Name == "all", truth)
	default:
		r.supposed(x, truth)
		if dot, ok := x.Fn.(*syntax.DotExpr); ok && len(r.getsIn(x)) == 0 {
			r.doubtless(dot.X)
			for _, arg := range x.Args {
				r.doubtless(arg)
			}
		}
	}
}

// get narrows by d.get("name") or d.get("name", missing).
type get struct {
	base    syntax.Expr
	name    string
	missing Type
}

// getCall recognises base.get("name").
func (r *Refiner) getCall(x syntax.Expr) (g get, ok bool) {
	call, isCall := x.(*syntax.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return get{}, false
	}
	dot, isDot := call.Fn.(*syntax.DotExpr)
	if !isDot || dot.Name.Name != "get" {
		return get{}, false
	}
	g = get{base: dot.X, missing: Kinds(None)}
	g.name, ok = r.Env.Literal(call.Args[0])
	if len(call.Args) > 1 {
		g.missing = r.Type(call.Args[1])
	}
	return g, ok
}

// refineGet narrows by the result of a get: where the result for a missing field is impossible, the field is present.
func (r *Refiner) refineGet(g get, f func(Type) Type) {
	absent := f(g.missing)
	r.Refine(g.base, func(t Type) Type {
		return t.Replace(Dict, func(a *Atom) *Atom {
			field, ok := a.Field(g.name)
			if !ok {
				if a.Role == ownRole && !a.Open {
					if absent.IsNever() {
						return nil
					}
					return a
				}
				field = Field{Name: g.name, Type: a.Unnamed(), Presence: Optional}
			}
			left := f(field.Type)
			switch {
			case field.Presence != required && !absent.IsNever():
				return a // the field may still be missing
			case left.IsNever():
				return nil
			}
			field.Type, field.Presence = left, required
			return a.With(field)
		})
	})
}

// Refine applies f to the type at the end of a path: a variable, or a part of one. Impossible members are removed;
// when nothing is left, the present point is unreachable.
func (r *Refiner) Refine(x syntax.Expr, f func(Type) Type) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		r.Refine(x.X, f)
	case *syntax.Ident:
		r.Env.Refine(x, f)
	case *syntax.IndexExpr:
		if name, ok := r.Env.Literal(x.Y); ok {
			r.Refine(x.X, func(t Type) Type {
				return t.Replace(Dict, func(a *Atom) *Atom { return refined(a, name, f) })
			})
			return
		}
		if n, ok := r.Type(x.Y).Int(); ok && n >= 0 {
			r.refineElement(x, n, f)
		}
	case *syntax.DotExpr:
		r.Refine(x.X, func(t Type) Type {
			return t.Replace(Struct, func(a *Atom) *Atom { return refined(a, x.Name.Name, f) })
		})
	case *syntax.CallExpr:
		if g, ok := r.getCall(x); ok {
			r.refineGet(g, f)
		}
	}
}

// refineElement narrows an element of a tuple.
func (r *Refiner) refineElement(x *syntax.IndexExpr, n int, f func(Type) Type) {
	r.Refine(x.X, func(t Type) Type {
		return t.Replace(tuple, func(a *Atom) *Atom {
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

// refined returns an atom with a narrowed field; nil when it cannot have such a field.
func refined(a *Atom, name string, f func(Type) Type) *Atom {
	field, ok := a.Field(name)
	if !ok {
		return a
	}
	field.Type = f(field.Type)
	if field.Type.IsNever() {
		return nil
	}
	field.Presence = required
	return a.With(field)
}
