// Package env is what is known of the variables of a script at one point of its text: the state that
// every way to that point leaves, and what the function around sees of it.
package env

import (
	"maps"

	"github.com/vmcp-dev/vmcp/script/check/scope"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// State is what is known of the variables at one point of the text. Variables of all functions
// that are being followed are in one map; one that is missing may be anything.
type State struct {
	Vars map[*syntax.Ident]types.Type
	Dead bool // nothing leads here
}

// Clone is a state that changes apart from s.
func (s *State) Clone() *State { return &State{Vars: maps.Clone(s.Vars), Dead: s.Dead} }

// Ended is the state behind a point that nothing goes on from.
func (s *State) Ended() *State { return &State{Vars: s.Vars, Dead: true} }

// Join is the state where two ways meet.
func Join(a, b *State) *State {
	switch {
	case a.Dead:
		return b
	case b.Dead:
		return a
	}
	out := &State{Vars: make(map[*syntax.Ident]types.Type, len(a.Vars))}
	for k, t := range a.Vars {
		if u, ok := b.Vars[k]; ok {
			out.Vars[k] = types.Join(t, u)
		} else {
			out.Vars[k] = t // unset on the other way: reading it there fails anyway
		}
	}
	for k, t := range b.Vars {
		if _, ok := a.Vars[k]; !ok {
			out.Vars[k] = t
		}
	}
	return out
}

// Grown joins b into a for the next round of a loop, and reports whether anything is new. In
// the last rounds what still grows becomes anything.
func Grown(a, b *State, widen bool) (*State, bool) {
	if b.Dead {
		return a, false
	}
	if a.Dead {
		return b, true
	}
	out, changed := Join(a, b), false
	for k, t := range out.Vars {
		old, ok := a.Vars[k]
		if ok && types.Equal(old, t) {
			continue
		}
		changed = true
		if widen && ok {
			out.Vars[k] = types.Any
		}
	}
	return out, changed
}

// Env is the variables as one function sees them at one point of its text.
type Env struct {
	*State
	Scopes *scope.Scopes // of the file
	Owner  syntax.Node   // the function; nil for the top level
	// Kept are the captured variables that are assigned once, as they were when the function was made.
	Kept map[*syntax.Ident]types.Type
}

// End says that nothing goes on from here.
func (e *Env) End() { e.State = e.Ended() }

// Read is the type of a variable; ok is false for what is none.
func (e *Env) Read(id *syntax.Ident) (t types.Type, ok bool) {
	f := scope.First(id)
	if f == nil {
		return types.Any, false
	}
	v := e.Scopes.Vars[f]
	t, known := e.Vars[f]
	if v != nil && v.Owner != e.Owner && v.Assigned > 1 {
		return types.Any, true // who knows which of the assignments was the last
	}
	if v != nil && v.Assigned == 1 && v.Owner != e.Owner {
		if kept, has := e.Kept[f]; has {
			t, known = kept, true
		}
	}
	if !known {
		return types.Any, true
	}
	if v != nil && v.Shared {
		t = t.Weaken()
	}
	return t, true
}

// Refine makes f of what is known of a variable. Where nothing is left, nothing leads here.
func (e *Env) Refine(x *syntax.Ident, f func(types.Type) types.Type) {
	id := scope.First(x)
	if id == nil {
		return
	}
	if v := e.Scopes.Vars[id]; v != nil && v.Owner != e.Owner && v.Assigned > 1 {
		return
	}
	t, known := e.Vars[id]
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
	e.Vars[id] = left
	delete(e.Kept, id)
}

// Change makes f of the value that a path leads to: a variable, or a part of one with names
// that the text shows.
func (e *Env) Change(x syntax.Expr, f func(types.Type) types.Type) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		e.Change(x.X, f)
	case *syntax.Ident:
		if t, ok := e.Read(x); ok && !t.IsAny() {
			if id := scope.First(x); id != nil {
				if _, known := e.Vars[id]; known {
					e.Vars[id] = f(t)
				}
			}
		}
	case *syntax.IndexExpr:
		key, ok := e.Literal(x.Y)
		e.Change(x.X, func(t types.Type) types.Type {
			if !ok {
				return t.Weaken()
			}
			return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
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
		e.Change(dot.X, func(t types.Type) types.Type {
			return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
				if !a.PlainMap() || a.Elem.IsAny() {
					return a
				}
				return &types.Atom{Kind: types.Dict, Role: types.Made, Open: true, Elem: f(a.Elem)}
			})
		})
	case *syntax.DotExpr:
		e.Change(x.X, func(t types.Type) types.Type {
			return t.Replace(types.Struct, func(a *types.Atom) *types.Atom {
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

// Literal is the only text that an expression can be.
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

// Either is the state where one of two conditions held. Where each of them removes a doubt that the other
// leaves, which of the two is there is the script's business.
func Either(a, b *State) *State {
	if a.Dead || b.Dead {
		return Join(a, b)
	}
	x, y := a.Clone(), b.Clone()
	inA, inB := false, false
	for k, t := range a.Vars {
		u, ok := b.Vars[k]
		if !ok || types.Equal(t, u) {
			continue
		}
		var some bool
		x.Vars[k], some = types.Settle(t, u)
		inA = inA || some
		y.Vars[k], some = types.Settle(u, t)
		inB = inB || some
	}
	if inA && inB {
		return Join(x, y)
	}
	return Join(a, b)
}
