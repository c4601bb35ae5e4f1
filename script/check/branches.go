package check

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// branches reports augmented assignments that lose updates: x[i] += effect() reads the old value, other branches
// compute while the effect runs, and then it writes. It checks the functions that run in branches, and those of the
// file that they call.
func (c *checker) branches(f *syntax.File) {
	w := &branchWalk{checker: c, defs: defsOf(f), seen: map[syntax.Node]bool{}}
	syntax.Walk(f, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			if b := c.builtins.called(call); b != nil {
				w.argument(b.Branches.of(call))
			}
		}
		return true
	})
}

// branchWalk visits the functions that run in branches, each once.
type branchWalk struct {
	*checker
	defs map[string]*syntax.DefStmt // functions whose name is bound once
	seen map[syntax.Node]bool
}

// defsOf returns the functions of a file by name, without names that are defined twice.
func defsOf(f *syntax.File) map[string]*syntax.DefStmt {
	defs := map[string]*syntax.DefStmt{}
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.DefStmt); ok {
			if _, twice := defs[d.Name.Name]; twice {
				d = nil
			}
			defs[n.(*syntax.DefStmt).Name.Name] = d
		}
		return true
	})
	return defs
}

// argument checks functions that are passed to run in branches.
func (w *branchWalk) argument(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Ident:
		w.function(w.defs[x.Name])
	case *syntax.LambdaExpr:
		w.calls(x.Body)
	case *syntax.ParenExpr:
		w.argument(x.X)
	case *syntax.ListExpr:
		for _, e := range x.List {
			w.argument(e)
		}
	case *syntax.TupleExpr:
		for _, e := range x.List {
			w.argument(e)
		}
	case *syntax.Comprehension:
		w.argument(x.Body)
	}
}

// function checks a function that runs in a branch.
func (w *branchWalk) function(d *syntax.DefStmt) {
	if d == nil || w.seen[d] {
		return
	}
	w.seen[d] = true
	own := boundIn(d)
	for _, s := range d.Body {
		syntax.Walk(s, func(n syntax.Node) bool {
			if a, ok := n.(*syntax.AssignStmt); ok {
				w.assignment(a, own)
			}
			return true
		})
		w.calls(s)
	}
}

// calls follows the calls of functions of the file.
func (w *branchWalk) calls(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			if id, ok := call.Fn.(*syntax.Ident); ok {
				w.function(w.defs[id.Name])
			}
		}
		return true
	})
}

// assignment reports x[i] += effect() where x is not local to the function.
func (w *branchWalk) assignment(a *syntax.AssignStmt, own map[string]bool) {
	if a.Op == syntax.EQ {
		return
	}
	base := baseOf(a.LHS)
	if base == nil || own[base.Name] || !w.hasEffect(a.RHS, map[*syntax.DefStmt]bool{}) {
		return
	}
	p := w.warn(codeLostUpdate, a, "branches can overwrite each other's updates: %s is read before the call on the right, and other branches run meanwhile", base.Name)
	p.Hint = "call first: value = ..., then " + a.Op.String() + " value"
}

// baseOf returns the x of x[i].y; nil for a plain name, which is always local.
func baseOf(x syntax.Expr) *syntax.Ident {
	for inside := false; ; inside = true {
		switch e := x.(type) {
		case *syntax.IndexExpr:
			x = e.X
		case *syntax.DotExpr:
			x = e.X
		case *syntax.ParenExpr:
			x = e.X
		case *syntax.Ident:
			if inside {
				return e
			}
			return nil
		default:
			return nil
		}
	}
}

// boundIn returns the names that a function binds: parameters and what it assigns. It is not known whether branches
// share a parameter, so none is reported.
func boundIn(d *syntax.DefStmt) map[string]bool {
	own := map[string]bool{}
	add := func(id *syntax.Ident) { own[id.Name] = true }
	for _, p := range d.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			add(p)
		case *syntax.BinaryExpr:
			add(p.X.(*syntax.Ident))
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				add(id)
			}
		}
	}
	for _, s := range d.Body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.AssignStmt:
				meter.EachName(n.LHS, add)
			case *syntax.ForStmt:
				meter.EachName(n.Vars, add)
			}
			return true
		})
	}
	return own
}

// hasEffect reports whether computing x calls a builtin with an effect, also through functions of the file. A function
// that x only makes does not count.
func (w *branchWalk) hasEffect(x syntax.Node, seen map[*syntax.DefStmt]bool) (found bool) {
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LambdaExpr, *syntax.DefStmt:
			return n == x
		case *syntax.CallExpr:
			if b := w.builtins.called(n); b != nil {
				found = found || b.Effect
				break
			}
			id, ok := n.Fn.(*syntax.Ident)
			if !ok {
				break
			}
			if d := w.defs[id.Name]; d != nil && !seen[d] {
				seen[d] = true
				found = found || w.hasEffect(d, seen)
			}
		}
		return !found
	})
	return found
}
