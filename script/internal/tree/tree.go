// Package tree has what the passes over the syntax tree of a script have in common.
package tree

import "go.starlark.net/syntax"

// EachName calls f for the names that an assignment to x gives values to.
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
