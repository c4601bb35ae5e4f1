package flow

import (
	"maps"

	"github.com/vmcp-dev/vmcp/script/check/scope"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// state is what is known of the variables at one point of the text. Variables of all functions
// that are being followed are in one map; one that is missing may be anything.
type state struct {
	vars map[*syntax.Ident]types.Type
	dead bool // nothing leads here
}

func (s *state) clone() *state { return &state{vars: maps.Clone(s.vars), dead: s.dead} }

// join is the state where two ways meet.
func join(a, b *state) *state {
	switch {
	case a.dead:
		return b
	case b.dead:
		return a
	}
	out := &state{vars: make(map[*syntax.Ident]types.Type, len(a.vars))}
	for k, t := range a.vars {
		if u, ok := b.vars[k]; ok {
			out.vars[k] = types.Join(t, u)
		} else {
			out.vars[k] = t // unset on the other way: reading it there fails anyway
		}
	}
	for k, t := range b.vars {
		if _, ok := a.vars[k]; !ok {
			out.vars[k] = t
		}
	}
	return out
}

// grown joins b into a for the next round of a loop, and reports whether anything is new. In
// the last rounds what still grows becomes anything.
func grown(a, b *state, widen bool) (*state, bool) {
	if b.dead {
		return a, false
	}
	if a.dead {
		return b, true
	}
	out, changed := join(a, b), false
	for k, t := range out.vars {
		old, ok := a.vars[k]
		if ok && types.Equal(old, t) {
			continue
		}
		changed = true
		if widen && ok {
			out.vars[k] = types.Any
		}
	}
	return out, changed
}

// frame is a function that is being followed.
type frame struct {
	unit    *Unit
	fn      *function
	top     bool
	call    syntax.Node // what called it
	returns types.Type
	breaks  []*loopExits
}

// loopExits are the states in which a loop is left early, or goes on.
type loopExits struct{ out, next *state }

// read is the type of a variable.
func (e *engine) read(id *syntax.Ident) (types.Type, bool) {
	f := scope.First(id)
	if f == nil {
		return types.Any, false
	}
	v := e.frame.unit.scopes.Vars[f]
	t, ok := e.state.vars[f]
	if v != nil && v.Owner != e.frame.node() && v.Assigned > 1 {
		return types.Any, true // who knows which of the assignments was the last
	}
	if e.frame.fn != nil && v != nil && v.Assigned == 1 {
		if kept, has := e.frame.fn.kept[f]; has && v.Owner != e.frame.node() {
			t, ok = kept, true
		}
	}
	if !ok {
		return types.Any, true
	}
	if v != nil && v.Shared {
		t = t.Weaken()
	}
	return t, true
}

func (f *frame) node() syntax.Node {
	if f.fn == nil {
		return nil
	}
	return f.fn.node
}

// set gives a variable a value.
func (e *engine) set(id *syntax.Ident, t types.Type) {
	if f := scope.First(id); f != nil {
		e.state.vars[f] = t
		e.note(id, t)
	}
}

// note remembers the type of an expression for editors.
func (e *engine) note(x syntax.Expr, t types.Type) {
	if e.frame.unit == e.root {
		e.types[x] = t
	}
}

// change makes f of the value that a path leads to: a variable, or a part of one with names
// that the text shows.
func (e *engine) change(x syntax.Expr, f func(types.Type) types.Type) {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		e.change(x.X, f)
	case *syntax.Ident:
		if t, ok := e.read(x); ok && !t.IsAny() {
			if id := scope.First(x); id != nil {
				if _, known := e.state.vars[id]; known {
					e.state.vars[id] = f(t)
				}
			}
		}
	case *syntax.IndexExpr:
		key, ok := e.literal(x.Y)
		e.change(x.X, func(t types.Type) types.Type {
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
		e.change(dot.X, func(t types.Type) types.Type {
			return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
				if !a.PlainMap() || a.Elem.IsAny() {
					return a
				}
				return &types.Atom{Kind: types.Dict, Role: types.Made, Open: true, Elem: f(a.Elem)}
			})
		})
	case *syntax.DotExpr:
		e.change(x.X, func(t types.Type) types.Type {
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

// literal is the only text that an expression can be.
func (e *engine) literal(x syntax.Expr) (string, bool) {
	if lit, ok := x.(*syntax.Literal); ok {
		s, ok := lit.Value.(string)
		return s, ok
	}
	if id, ok := x.(*syntax.Ident); ok {
		t, _ := e.read(id)
		return t.Text()
	}
	return "", false
}
