package check

import (
	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// A function that is made in a loop and kept sees the last value of the loop's variables when it is called after the
// loop. One that is called in the same iteration does not, nor one that is kept when the loop is left.

// comprehension reports functions that a comprehension collects and that use its variables.
func (c *checker) comprehension(x *syntax.Comprehension) {
	vars := map[*syntax.Ident]bool{}
	for _, clause := range x.Clauses {
		if f, ok := clause.(*syntax.ForClause); ok {
			meter.EachName(f.Vars, func(id *syntax.Ident) { vars[types.First(id)] = true })
		}
	}
	k := &keeper{checker: c, vars: vars}
	k.kept(x.Body)
}

// loop reports functions that the body of a loop keeps and that use variables that it assigns.
func (c *checker) loop(body []syntax.Stmt, loopVars syntax.Expr) {
	k := &keeper{checker: c, vars: map[*syntax.Ident]bool{}, defs: map[*syntax.Ident]*syntax.DefStmt{}}
	note := func(id *syntax.Ident) {
		if f := types.First(id); f != nil {
			k.vars[f] = true
		}
	}
	if loopVars != nil {
		meter.EachName(loopVars, note)
	}
	k.assigned(body, note)
	k.block(body)
}

// keeper searches functions that a loop keeps.
type keeper struct {
	*checker
	vars map[*syntax.Ident]bool // variables that the loop assigns, by the identifier that binds them first
	defs map[*syntax.Ident]*syntax.DefStmt
}

// assigned calls f with the variables that statements of a loop's body assign.
func (k *keeper) assigned(stmts []syntax.Stmt, f func(*syntax.Ident)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			meter.EachName(s.LHS, f)
		case *syntax.IfStmt:
			k.assigned(s.True, f)
			k.assigned(s.False, f)
		case *syntax.ForStmt:
			meter.EachName(s.Vars, f)
			k.assigned(s.Body, f)
		case *syntax.WhileStmt:
			k.assigned(s.Body, f)
		case *syntax.DefStmt:
			if id := types.First(s.Name); id != nil {
				k.defs[id] = s
			}
		}
	}
}

// block checks statements. Functions that are kept right before the loop is left are not reported.
func (k *keeper) block(stmts []syntax.Stmt) {
	for i, s := range stmts {
		if leavesLoop(stmts[i+1:]) {
			return
		}
		switch s := s.(type) {
		case *syntax.AssignStmt:
			if _, local := s.LHS.(*syntax.Ident); !local || s.Op != syntax.EQ {
				k.kept(s.RHS)
			}
		case *syntax.ExprStmt:
			if call, ok := s.X.(*syntax.CallExpr); ok && appends(call) {
				for _, arg := range call.Args {
					k.kept(arg)
				}
			}
		case *syntax.IfStmt:
			k.block(s.True)
			k.block(s.False)
		}
	}
}

// leavesLoop reports whether statements certainly leave the loop.
func leavesLoop(stmts []syntax.Stmt) bool {
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

// appends reports whether a call adds its arguments to a collection.
func appends(call *syntax.CallExpr) bool {
	dot, ok := call.Fn.(*syntax.DotExpr)
	return ok && (dot.Name.Name == "append" || dot.Name.Name == "insert" || dot.Name.Name == "extend" || dot.Name.Name == "add")
}

// kept reports the functions in a value that is kept.
func (k *keeper) kept(x syntax.Node) {
	switch x := x.(type) {
	case *syntax.LambdaExpr:
		k.function(x, x.Function)
	case *syntax.Ident:
		if def := k.defs[types.First(x)]; def != nil {
			k.function(def, def.Function)
		}
	case *syntax.ParenExpr:
		k.kept(x.X)
	case *syntax.ListExpr:
		for _, e := range x.List {
			k.kept(e)
		}
	case *syntax.TupleExpr:
		for _, e := range x.List {
			k.kept(e)
		}
	case *syntax.DictExpr:
		for _, e := range x.List {
			k.kept(e)
		}
	case *syntax.DictEntry:
		k.kept(x.Value)
	}
}

// function reports a function that uses a variable that the loop assigns.
func (k *keeper) function(n syntax.Node, resolved any) {
	fn, ok := resolved.(*resolve.Function)
	if !ok {
		return
	}
	for _, free := range fn.FreeVars {
		if k.vars[free.First] {
			name := free.First.Name
			p := k.warn(codeClosure, n, "all of these functions see the last value of %s", name)
			p.Hint = "bind it: lambda " + name + " = " + name + ": ..., or use parallel(fn, items)"
			return
		}
	}
	k.global(n, fn)
}

// global is function for loops at top level, whose variables are not cells.
func (k *keeper) global(n syntax.Node, fn *resolve.Function) {
	reported := false
	for _, s := range fn.Body {
		syntax.Walk(s, func(x syntax.Node) bool {
			id, ok := x.(*syntax.Ident)
			if !ok || reported {
				return !reported
			}
			if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope == resolve.Global && k.vars[b.First] {
				reported = true
				k.warn(codeClosure, n, "all of these functions see the last value of %s", id.Name).Hint = "bind it: lambda " + id.Name + " = " + id.Name + ": ..., or use parallel(fn, items)"
			}
			return true
		})
	}
}
