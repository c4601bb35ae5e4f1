package check

import (
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// comprehension reports functions that a comprehension collects and that use its
// variable: when they are called, all see its last value.
func (c *checker) comprehension(x *syntax.Comprehension) {
	vars := map[string]bool{}
	for _, clause := range x.Clauses {
		if f, ok := clause.(*syntax.ForClause); ok {
			tree.EachName(f.Vars, func(id *syntax.Ident) { vars[id.Name] = true })
		}
	}
	c.kept(x.Body, vars)
}

// loop reports functions that the body of a loop keeps and that use its variable.
func (c *checker) loop(s *syntax.ForStmt) {
	vars := map[string]bool{}
	tree.EachName(s.Vars, func(id *syntax.Ident) { vars[id.Name] = true })
	for _, s := range s.Body {
		switch s := s.(type) {
		case *syntax.AssignStmt:
			if _, local := s.LHS.(*syntax.Ident); !local || s.Op != syntax.EQ {
				c.kept(s.RHS, vars)
			}
		case *syntax.ExprStmt:
			if call, ok := s.X.(*syntax.CallExpr); ok && appends(call) {
				for _, arg := range call.Args {
					c.kept(arg, vars)
				}
			}
		}
	}
}

// appends reports whether a call puts its arguments into a value.
func appends(call *syntax.CallExpr) bool {
	dot, ok := call.Fn.(*syntax.DotExpr)
	return ok && (dot.Name.Name == "append" || dot.Name.Name == "insert" || dot.Name.Name == "extend" || dot.Name.Name == "add")
}

// kept reports the functions in a value that is kept for later.
func (c *checker) kept(x syntax.Node, vars map[string]bool) {
	switch x := x.(type) {
	case *syntax.LambdaExpr:
		if used := captured(x, vars); len(used) > 0 {
			names := strings.Join(used, ", ")
			p := c.warn(codeClosure, x, "every one of these functions will see the last %s", names)
			p.Hint = "bind it, lambda " + used[0] + "=" + used[0] + ": ..., or use parallel(fn, items)"
		}
	case *syntax.ParenExpr:
		c.kept(x.X, vars)
	case *syntax.ListExpr:
		for _, e := range x.List {
			c.kept(e, vars)
		}
	case *syntax.TupleExpr:
		for _, e := range x.List {
			c.kept(e, vars)
		}
	case *syntax.DictExpr:
		for _, e := range x.List {
			c.kept(e, vars)
		}
	case *syntax.DictEntry:
		c.kept(x.Value, vars)
	}
}

// captured are the names in vars that the body of a function uses and does not bind.
func captured(fn *syntax.LambdaExpr, vars map[string]bool) (used []string) {
	bound := map[string]bool{}
	fields := map[*syntax.Ident]bool{} // names behind a dot
	for _, p := range fn.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			bound[p.Name] = true
		case *syntax.BinaryExpr:
			bound[p.X.(*syntax.Ident).Name] = true
		}
	}
	syntax.Walk(fn.Body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comprehension:
			for _, clause := range n.Clauses {
				if f, ok := clause.(*syntax.ForClause); ok {
					tree.EachName(f.Vars, func(id *syntax.Ident) { bound[id.Name] = true })
				}
			}
		case *syntax.DotExpr:
			fields[n.Name] = true
		case *syntax.Ident:
			if vars[n.Name] && !bound[n.Name] && !fields[n] {
				bound[n.Name] = true
				used = append(used, n.Name)
			}
		}
		return true
	})
	return used
}
