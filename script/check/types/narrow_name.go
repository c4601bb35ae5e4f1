package types

import (
	"go.starlark.net/syntax"
)

const maxNamed = 4 // names of conditions that contain other names of conditions

// narrowNamed narrows by a name that was assigned a condition: has = "k" in d, and later "if has". If what the
// condition is about may have changed since, nothing is known.
func (r *Refiner) narrowNamed(x *syntax.Ident, truth bool) {
	id := First(x)
	if id == nil || r.named >= maxNamed {
		return
	}
	v := r.Env.Scopes.Vars[id]
	if v == nil || v.Value == nil || v.Assigned != 1 || v.Owner != r.Env.Owner || !r.lasting(v.Value) {
		return
	}
	r.named++
	defer func() { r.named-- }()
	r.Narrow(v.Value, truth)
}

// lasting reports whether nothing in the text changes what an expression is about.
func (r *Refiner) lasting(x syntax.Expr) bool {
	ok := true
	syntax.Walk(x, func(n syntax.Node) bool {
		if id, is := n.(*syntax.Ident); is && First(id) != nil {
			if v := r.Env.Scopes.Vars[First(id)]; v != nil && (v.Assigned > 2 || v.Changed > 0) {
				ok = false
			}
		}
		return ok
	})
	return ok
}

// Checked handles a call of a function of the script, which may check for missing values: values that may be None or
// missing are assumed to be present after it.
func (r *Refiner) Checked(x *syntax.CallExpr) {
	for _, arg := range x.Args {
		r.doubtless(arg)
		r.Refine(arg, allSure)
	}
}

// dictOf returns the dict that a list of keys belongs to: d of d.keys().
func dictOf(x syntax.Expr) syntax.Expr {
	if call, ok := x.(*syntax.CallExpr); ok && len(call.Args) == 0 {
		if dot, ok := call.Fn.(*syntax.DotExpr); ok && dot.Name.Name == "keys" {
			return dot.X
		}
	}
	return x
}
