package types

import (
	"go.starlark.net/syntax"
)

// changeWatch searches changes of the value that a loop iterates over.
type changeWatch struct {
	*engine
	id   *syntax.Ident
	name string
}

// block checks statements of the loop's body that may be followed by another iteration. A change before leaving the
// loop is not reported.
func (w *changeWatch) block(stmts []syntax.Stmt) {
	for i, s := range stmts {
		if i+1 < len(stmts) && leaves(stmts[i+1:]) {
			return
		}
		switch s := s.(type) {
		case *syntax.IfStmt:
			w.block(s.True)
			w.block(s.False)
		case *syntax.ForStmt:
			w.block(s.Body)
		case *syntax.ExprStmt:
			if call, ok := s.X.(*syntax.CallExpr); ok {
				w.call(call)
			}
		case *syntax.AssignStmt:
			if call, ok := s.RHS.(*syntax.CallExpr); ok {
				w.call(call)
			}
			if ix, ok := s.LHS.(*syntax.IndexExpr); ok && w.is(ix.X) { // also for an existing key
				w.reported(ix)
			}
		}
	}
}

// leaves reports whether statements certainly leave the loop.
func leaves(stmts []syntax.Stmt) bool {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.ReturnStmt:
			return true
		case *syntax.BranchStmt:
			return s.Token == syntax.BREAK
		}
	}
	return false
}

func (w *changeWatch) is(x syntax.Expr) bool {
	id, ok := x.(*syntax.Ident)
	return ok && First(id) == w.id
}

func (w *changeWatch) call(x *syntax.CallExpr) {
	dot, ok := x.Fn.(*syntax.DotExpr)
	if ok && changing[dot.Name.Name] && w.is(dot.X) {
		w.reported(x)
	}
}

func (w *changeWatch) reported(n syntax.Node) {
	w.report("changed-in-loop", n, "%s is changed while it is iterated over; iterate over list(%s)", w.name, w.name)
}
