package star

import (
	"strings"

	"github.com/bazelbuild/buildtools/build"
)

// maxWidth is the length of a line above which brackets are broken over several lines.
const maxWidth = 96

const tab = 4

// File prints statements, formatted, with long lines broken at brackets.
func File(stmts []Stmt) (string, error) {
	for _, s := range stmts {
		breakStmt(s, 0)
	}
	text := string(build.FormatWithoutRewriting(&build.File{Type: build.TypeDefault, Stmt: stmts}))
	f, err := build.ParseDefault("script.star", []byte(text))
	if err != nil {
		return "", err
	}
	return string(build.Format(f)), nil
}

// flat is the text of an expression on one line.
func flat(e build.Expr) string {
	f := &build.File{Type: build.TypeDefault, Stmt: []build.Expr{e}}
	return strings.TrimSuffix(string(build.FormatWithoutRewriting(f)), "\n")
}

// Same reports whether two expressions have the same text.
func Same(a, b Expr) bool { return flat(a.Bare().Node) == flat(b.Bare().Node) }

func fits(e build.Expr, column, after int) bool {
	text := flat(e)
	return column+len(text)+after <= maxWidth && !strings.Contains(text, "\n")
}

func breakBlock(body []build.Expr, indent int) {
	for _, s := range body {
		breakStmt(s, indent)
	}
}

// breakStmt breaks the expressions of a statement that are too long; indent is the column at which it begins.
func breakStmt(s build.Expr, indent int) {
	switch s := s.(type) {
	case *build.DefStmt:
		breakBlock(s.Body, indent+tab)
	case *build.IfStmt:
		breakExpr(s.Cond, indent, indent+len("if "), 1)
		breakBlock(s.True, indent+tab)
		breakBlock(s.False, indent+tab)
	case *build.ForStmt:
		breakExpr(s.X, indent, indent+len("for  in ")+len(flat(s.Vars)), 1)
		breakBlock(s.Body, indent+tab)
	case *build.ReturnStmt:
		if s.Result != nil {
			breakExpr(s.Result, indent, indent+len("return "), 0)
		}
	default:
		breakExpr(s, indent, indent, 0)
	}
}

// breakExpr breaks the brackets of an expression that is too long for its line: indent is the
// column at which the line begins, column that of the expression, after the length of the text behind it.
func breakExpr(e build.Expr, indent, column, after int) {
	if fits(e, column, after) {
		return
	}
	switch e := e.(type) {
	case *build.CallExpr:
		breakCall(e, indent, column, after)
	case *build.DictExpr:
		e.ForceMultiLine = len(e.List) > 0
		for _, kv := range e.List {
			breakExpr(kv.Value, indent+tab, indent+tab+len(flat(kv.Key))+2, 1)
		}
	case *build.ListExpr:
		e.ForceMultiLine = breakAll(e.List, indent)
	case *build.TupleExpr:
		e.ForceMultiLine = breakAll(e.List, indent) && !e.NoBrackets
	case *build.Comprehension:
		e.ForceMultiLine = true
		breakExpr(e.Body, indent+tab, indent+tab, 0)
	case *build.BinaryExpr:
		breakExpr(e.X, indent, column, 0)
		breakExpr(e.Y, indent, column+len(lastLine(e.X))+len(e.Op)+2, after)
	case *build.ConditionalExpr:
		breakExpr(e.Then, indent, column, 0)
		breakExpr(e.Else, indent, column, after)
	case *build.LambdaExpr:
		breakExpr(e.Body[0], indent, column+len("lambda: "), after)
	case *build.AssignExpr:
		breakExpr(e.RHS, indent, column+len(flat(e.LHS))+len(" = "), after)
	case *build.DotExpr:
		breakExpr(e.X, indent, column, after+len(e.Name)+1)
	case *build.IndexExpr:
		breakExpr(e.X, indent, column, after)
	case *build.ParenExpr:
		breakExpr(e.X, indent, column+1, after+1)
	}
}

func lastLine(e build.Expr) string {
	text := flat(e)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func breakAll(list []build.Expr, indent int) bool {
	for _, x := range list {
		breakExpr(x, indent+tab, indent+tab, 1)
	}
	return len(list) > 0
}

// breakCall breaks the last argument when it is a bracket and all before it fit on the line, else
// the call itself.
func breakCall(c *build.CallExpr, indent, column, after int) {
	if len(c.List) == 0 {
		breakExpr(c.X, indent, column, after+2)
		return
	}
	last := len(c.List) - 1
	at := column + len(flat(c.X)) + 1
	for _, a := range c.List[:last] {
		text := flat(a)
		at += len(text) + 2
		if strings.Contains(text, "\n") {
			at = maxWidth
		}
	}
	if opens(c.List[last]) && at+20 <= maxWidth {
		breakExpr(c.List[last], indent, at, after+1)
		return
	}
	c.ForceMultiLine = breakAll(c.List, indent)
}

// opens reports whether an argument is broken on the line of its call.
func opens(e build.Expr) bool {
	switch e := e.(type) {
	case *build.DictExpr:
		return len(e.List) > 0
	case *build.ListExpr:
		return len(e.List) > 0
	case *build.Comprehension:
		return true
	case *build.CallExpr:
		return len(e.List) == 1 && opens(e.List[0])
	}
	return false
}
