package types

import (
	"go.starlark.net/syntax"
)

// This part of the package holds what is known of the variables of a script at one point of its text: the state that the paths to
// that point leave, and what a function sees of it.

// State holds the types of the variables at one point of the text, of all functions that are being followed. A missing
// variable may be anything.
type State struct {
	Vars Vars
	Dead bool // the point is unreachable
}

// Clone returns an independent copy.
func (s *State) Clone() *State { return &State{Vars: s.Vars, Dead: s.Dead} }

// Ended returns the state after a point from which execution does not continue.
func (s *State) Ended() *State { return &State{Vars: s.Vars, Dead: true} }

// envJoin returns the state where two paths meet.
func envJoin(a, b *State) *State {
	switch {
	case a.Dead:
		return b
	case b.Dead:
		return a
	}
	m := meeting{both: Join} // unset on one path: reading it fails there anyway
	return &State{Vars: m.of(a.Vars, b.Vars)}
}

// grown joins b into a for the next iteration of a loop, and reports whether a has changed. In the last rounds, types
// that still grow become Any.
func grown(a, b *State, widen bool) (*State, bool) {
	if b.Dead {
		return a, false
	}
	if a.Dead {
		return b, true
	}
	changed := false
	m := meeting{both: func(old, t Type) Type {
		t = Join(old, t)
		switch {
		case equalTypes(old, t):
			return old
		case widen:
			t = Any
		}
		changed = true
		return t
	}}
	out := &State{Vars: m.of(a.Vars, b.Vars)}
	return out, changed || m.added
}

// Env is the view that one function has of the variables at one point of its text.
type Env struct {
	*State
	Scopes *Scopes     // of the file
	Owner  syntax.Node // the function; nil for the top level
	// Kept are the types of captured variables that are assigned once, from when the function was made.
	Kept map[*syntax.Ident]Type
}

// End marks the present point as unreachable.
func (e *Env) End() { e.State = e.Ended() }

// Read returns the type of a variable; ok is false if id is not one.
func (e *Env) Read(id *syntax.Ident) (t Type, ok bool) {
	f := First(id)
	if f == nil {
		return Any, false
	}
	v := e.Scopes.Vars[f]
	t, known := e.Vars.Get(f)
	if v != nil && v.Owner != e.Owner && v.Assigned > 1 {
		return Any, true // the last assignment is not known
	}
	if v != nil && v.Assigned == 1 && v.Owner != e.Owner {
		if kept, has := e.Kept[f]; has {
			t, known = kept, true
		}
	}
	if !known {
		return Any, true
	}
	if v != nil && v.Shared {
		t = t.Weaken()
	}
	return t, true
}

// Refine applies f to the type of a variable. If the result is Never, the present point is unreachable.
func (e *Env) Refine(x *syntax.Ident, f func(Type) Type) {
	id := First(x)
	if id == nil {
		return
	}
	if v := e.Scopes.Vars[id]; v != nil && v.Owner != e.Owner && v.Assigned > 1 {
		return
	}
	t, known := e.Vars.Get(id)
	if kept, has := e.Kept[id]; has {
		t, known = kept, true
	}
	if !known || t.IsNever() {
		return
	}
	left := f(t)
	if left.IsNever() {
		e.End()
		return
	}
	e.Vars = e.Vars.With(id, left)
	delete(e.Kept, id)
}

// Change applies f to the type at the end of a path: a variable, or a part of one with literal names.
func (e *Env) Change(x syntax.Expr, f func(Type) Type) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		e.Change(x.X, f)
	case *syntax.Ident:
		if t, ok := e.Read(x); ok && !t.IsAny() {
			if id := First(x); id != nil {
				if _, known := e.Vars.Get(id); known {
					e.Vars = e.Vars.With(id, f(t))
				}
			}
		}
	case *syntax.IndexExpr:
		key, ok := e.Literal(x.Y)
		e.Change(x.X, func(t Type) Type {
			if !ok {
				return t.Weaken()
			}
			return t.Replace(Dict, func(a *Atom) *Atom {
				field, has := a.Field(key)
				if !has {
					return a
				}
				field.Type = f(field.Type)
				return a.With(field)
			})
		})
	case *syntax.CallExpr: // groups.setdefault(key, []).append(x)
		dot, ok := x.Fn.(*syntax.DotExpr)
		if !ok || dot.Name.Name != "setdefault" {
			return
		}
		e.Change(dot.X, func(t Type) Type {
			return t.Replace(Dict, func(a *Atom) *Atom {
				if !a.PlainMap() || a.Elem.IsAny() {
					return a
				}
				return &Atom{Kind: Dict, Role: ownRole, Open: true, Elem: f(a.Elem)}
			})
		})
	case *syntax.DotExpr:
		e.Change(x.X, func(t Type) Type {
			return t.Replace(Struct, func(a *Atom) *Atom {
				field, has := a.Field(x.Name.Name)
				if !has {
					return a
				}
				field.Type = f(field.Type)
				return a.With(field)
			})
		})
	}
}

// Literal returns the only string that an expression can be.
func (e *Env) Literal(x syntax.Expr) (string, bool) {
	if lit, ok := x.(*syntax.Literal); ok {
		s, ok := lit.Value.(string)
		return s, ok
	}
	if id, ok := x.(*syntax.Ident); ok {
		t, _ := e.Read(id)
		return t.Text()
	}
	return "", false
}

// either returns the state where one of two conditions held. A doubt that only one of them removes is considered
// removed in both, since the script decided between them.
func either(a, b *State) *State {
	if a.Dead || b.Dead {
		return envJoin(a, b)
	}
	doubtless := func(a, b Vars) (out Vars, some bool) {
		m := meeting{both: func(t, u Type) Type {
			if equalTypes(t, u) {
				return t
			}
			known, found := establishedTypes(t, u)
			some = some || found
			return known
		}}
		return m.of(a, b), some
	}
	x, inA := doubtless(a.Vars, b.Vars)
	y, inB := doubtless(b.Vars, a.Vars)
	if inA && inB {
		return envJoin(&State{Vars: x}, &State{Vars: y})
	}
	return envJoin(a, b)
}
