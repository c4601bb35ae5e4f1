package editor

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"
)

// dialect finds out where an input ends: it accepts what scripts may contain.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// chunk is what is executed at once: an expression, or statements.
type chunk struct {
	text string
	line int // number in the session of the text's first line
	tree *syntax.File
}

// parseChunk parses a text. more reports that the text is an incomplete chunk: an open bracket or
// string, the head of a block.
func parseChunk(text string) (tree *syntax.File, more bool, err error) {
	tree, err = dialect.Parse(inputName, text, 0)
	if err == nil {
		return tree, strings.HasSuffix(strings.TrimRight(text, "\n"), "\\"), nil
	}
	problem, ok := err.(syntax.Error)
	if !ok {
		return nil, false, err
	}
	lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	atEnd := int(problem.Pos.Line) > lines || strings.Contains(problem.Msg, "end of file") || strings.Contains(problem.Msg, "unexpected EOF")
	return nil, atEnd, err
}

// isBlock reports whether further lines may belong to a text that is complete: its last statement has
// a body in lines of its own.
func isBlock(tree *syntax.File) bool {
	if len(tree.Stmts) == 0 {
		return false
	}
	switch s := tree.Stmts[len(tree.Stmts)-1].(type) {
	case *syntax.DefStmt, *syntax.ForStmt, *syntax.WhileStmt, *syntax.IfStmt:
		start, end := s.Span()
		return end.Line > start.Line
	}
	return false
}

// continuesBlock reports whether a line continues the block before it.
func continuesBlock(line string) bool {
	word, _, _ := strings.Cut(strings.TrimRight(line, ":\r\n"), " ")
	return line != "" && (line[0] == ' ' || line[0] == '\t' || line[0] == '#') || word == "else" || word == "elif"
}

// expression is the expression that a chunk consists of; nil if it has statements.
func (c *chunk) expression() syntax.Expr {
	if len(c.tree.Stmts) != 1 {
		return nil
	}
	s, ok := c.tree.Stmts[0].(*syntax.ExprStmt)
	if !ok {
		return nil
	}
	return s.X
}

// names are the names that a chunk binds at its top level, in order.
func (c *chunk) names() (names []string) {
	var bind func(syntax.Expr)
	bind = func(x syntax.Expr) {
		switch x := x.(type) {
		case *syntax.Ident:
			names = append(names, x.Name)
		case *syntax.ParenExpr:
			bind(x.X)
		case *syntax.TupleExpr:
			for _, e := range x.List {
				bind(e)
			}
		case *syntax.ListExpr:
			for _, e := range x.List {
				bind(e)
			}
		}
	}
	var block func([]syntax.Stmt)
	block = func(stmts []syntax.Stmt) {
		for _, s := range stmts {
			switch s := s.(type) {
			case *syntax.AssignStmt:
				bind(s.LHS)
			case *syntax.DefStmt:
				bind(s.Name)
			case *syntax.LoadStmt:
				for _, to := range s.To {
					bind(to)
				}
			case *syntax.ForStmt:
				bind(s.Vars)
				block(s.Body)
			case *syntax.WhileStmt:
				block(s.Body)
			case *syntax.IfStmt:
				block(s.True)
				block(s.False)
			}
		}
	}
	block(c.tree.Stmts)
	slices.Sort(names)
	return slices.Compact(names)
}

// caret prints a line of the session with a mark below a column, which counts characters.
func caret(line string, column int) string {
	line, column = window(strings.TrimRight(line, "\r\n"), column)
	if column < 1 || column > utf8.RuneCountInString(line)+1 {
		return "    " + line
	}
	var blank strings.Builder
	for _, r := range []rune(line)[:column-1] {
		if r == '\t' {
			blank.WriteRune(r)
		} else {
			blank.WriteByte(' ')
		}
	}
	return fmt.Sprintf("    %s\n    %s^", line, blank.String())
}

// maxLineShown bounds a line that is printed, in characters.
const maxLineShown = 200

// window is the part of a long line around a column, and the column in it.
func window(line string, column int) (string, int) {
	runes := []rune(line)
	if len(runes) <= maxLineShown {
		return line, column
	}
	from := min(max(column-maxLineShown/2, 0), len(runes)-maxLineShown)
	return string(runes[from : from+maxLineShown]), column - from
}
