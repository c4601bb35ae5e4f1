package check

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// fixUndefined adds fixes that replace undefined names.
func (c *checker) fixUndefined(f *syntax.File, builtins []Builtin) {
	var names []string
	for i := range c.found {
		p := &c.found[i]
		name, ok := strings.CutPrefix(p.Message, "undefined: ")
		near, meant := strings.CutPrefix(p.Hint, "did you mean ")
		if p.Code != codeUndefined || !ok || !meant {
			continue
		}
		if names == nil {
			predeclared := starlark.StringDict{}
			for _, b := range builtins {
				predeclared[b.Name] = starlark.None
			}
			names = meter.Names(f, predeclared)
		}
		p.Fix = fixed(*p, strings.TrimSuffix(near, "?"), display.Only(name, names))
	}
}

// fixUnusedLoad adds a fix that removes a loaded name, or the whole line if nothing else that it loads is used. A
// statement of several lines, or with a comment, is not changed.
func (c *checker) fixUnusedLoad(p *diag.Problem, u *uses, id *syntax.Ident) {
	s := u.Loads[id]
	if s == nil || p.EndLine == 0 || s.Load.Line != s.Rparen.Line || !c.alone(s) {
		return
	}
	line := int(s.Load.Line)
	remove := diag.Edit{Pos: diag.Pos{File: p.File, Line: line, Column: 1}, EndLine: line + 1, EndColumn: 1}
	if i := slices.Index(s.To, id); slices.ContainsFunc(s.To, func(to *syntax.Ident) bool { b := u.Find(to); return b == nil || b.Reads > 0 }) {
		_, before := s.Module.Span()
		if i > 0 {
			before = behind(s.From[i-1])
		}
		remove.Column, remove.EndLine, remove.EndColumn = int(before.Col), line, int(behind(s.From[i]).Col)
	}
	p.Fix = &diag.Fix{Title: "remove the unused name", Safe: true, Edits: []diag.Edit{remove}}
}

// behind returns the position after a quoted name.
func behind(id *syntax.Ident) syntax.Position {
	_, end := id.Span()
	end.Col++
	return end
}

// alone reports whether a statement is alone on its line, and another line follows.
func (c *checker) alone(s *syntax.LoadStmt) bool {
	if c.lines == nil {
		c.lines = strings.SplitAfter(string(c.file.Source), "\n")
	}
	n := int(s.Load.Line) - 1
	if c.file.Origin.Exact {
		n -= c.file.Origin.Line - 1
	}
	if n < 0 || n >= len(c.lines) || !strings.HasSuffix(c.lines[n], "\n") {
		return false
	}
	text := strings.TrimSpace(c.lines[n])
	return strings.HasPrefix(text, "load") && strings.HasSuffix(text, ")") && !strings.ContainsAny(text, "#;\\")
}
