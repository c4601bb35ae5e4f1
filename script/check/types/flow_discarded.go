package types

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// statement checks an expression whose value is not used.
func (e *engine) statement(s *syntax.ExprStmt) {
	e.eval(s.X)
	x := meter.Unparen(s.X)
	switch x := x.(type) {
	case *syntax.CallExpr:
		e.discardedCall(x)
		if id, ok := x.Fn.(*syntax.Ident); ok && First(id) != nil {
			e.conds.Checked(x)
		}
	case *syntax.BinaryExpr:
		if x.Op == syntax.EQL {
			e.warn("discarded", x, "the result of == is not used; = assigns")
		} else if x.Op != syntax.AND && x.Op != syntax.OR {
			e.warn("discarded", x, "the result of %s is not used", x.Op)
		}
	}
}

// sameName reports whether two functions are the same, or the same method of two values.
func sameName(a, b *Atom) bool {
	x, isX := a.Fn.(*bound)
	y, isY := b.Fn.(*bound)
	return a == b || isX && isY && x.Method == y.Method
}

func (e *engine) discardedCall(x *syntax.CallExpr) {
	fn := e.quiet(x.Fn)
	if !fn.Every(func(a *Atom) bool { return sameName(a, fn.Atoms()[0]) }) {
		return
	}
	a := fn.Atoms()[0]
	switch f := a.Fn.(type) {
	case *Native:
		if f.Pure && f.Name != "int" && f.Name != "float" { // those are also used to check a value
			e.warn("discarded", x, "the result of %s is not used", f.Name)
		}
	case *bound:
		if f.Method.Pure {
			e.warn("discarded", x, "the result of %s is not used; %s is unchanged", a.Name, describe(x.Fn.(*syntax.DotExpr).X))
		}
	case *Builtin:
		if f.Pure {
			e.warn("discarded", x, "the result of %s is not used", f.Name)
		}
	}
}
