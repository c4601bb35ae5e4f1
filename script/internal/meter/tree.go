package meter

import "go.starlark.net/syntax"

// This part of the package has what the passes over the syntax tree of a script have in common.

// EachName calls f for the names that an assignment to x binds.
func EachName(x syntax.Expr, f func(*syntax.Ident)) {
	switch x := x.(type) {
	case *syntax.Ident:
		f(x)
	case *syntax.ParenExpr:
		EachName(x.X, f)
	case *syntax.TupleExpr:
		for _, e := range x.List {
			EachName(e, f)
		}
	case *syntax.ListExpr:
		for _, e := range x.List {
			EachName(e, f)
		}
	}
}

// Loads returns the load statements at top level and in its blocks, the only places where the language allows them.
func Loads(stmts []syntax.Stmt) (found []*syntax.LoadStmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.LoadStmt:
			found = append(found, s)
		case *syntax.IfStmt:
			found = append(found, Loads(s.True)...)
			found = append(found, Loads(s.False)...)
		case *syntax.ForStmt:
			found = append(found, Loads(s.Body)...)
		case *syntax.WhileStmt:
			found = append(found, Loads(s.Body)...)
		}
	}
	return found
}

// FindFunction returns the definition of a function at top level, or nil, and whether anything binds its name.
func FindFunction(f *syntax.File, name string) (def *syntax.DefStmt, bound bool) {
	for _, s := range f.Stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			if s.Name.Name == name {
				def, bound = s, true
			}
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok && id.Name == name {
				def, bound = nil, true
			}
		}
	}
	return def, bound
}

// Beginning returns the position of the first statement of a tree.
func Beginning(f *syntax.File) syntax.Position {
	if len(f.Stmts) > 0 {
		return syntax.Start(f.Stmts[0])
	}
	return syntax.MakePosition(&f.Path, 1, 1)
}

// Unparen returns an expression without enclosing parentheses.
func Unparen(x syntax.Expr) syntax.Expr {
	for {
		p, ok := x.(*syntax.ParenExpr)
		if !ok {
			return x
		}
		x = p.X
	}
}

// Elements returns the elements of a list or tuple display.
func Elements(x syntax.Expr) []syntax.Expr {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return Elements(x.X)
	case *syntax.ListExpr:
		return x.List
	case *syntax.TupleExpr:
		return x.List
	}
	return nil
}

// Before reports whether a is before b in the same file.
func Before(a, b syntax.Position) bool { return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col }

// Inside reports whether p is from start to end, both included.
func Inside(p, start, end syntax.Position) bool { return !Before(p, start) && !Before(end, p) }
