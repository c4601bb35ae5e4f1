package check

import (
	"slices"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// loads reports load statements of missing files, and of names that a file does not define. Problems inside a loaded
// file are reported with that file.
func (c *checker) loads(f *syntax.File) {
	if c.o.Load == nil {
		return
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		s, ok := n.(*syntax.LoadStmt)
		if !ok {
			return true
		}
		lib := c.needs.read(c.file.Name, s.ModuleName())
		if lib.err != nil {
			c.add(codeLoad, s.Module, "load %q: %v", s.ModuleName(), lib.err)
			return false
		}
		if t, err := script.Parse(lib.file, c.o.Limits); err == nil {
			c.loaded(s, t)
		}
		return false
	})
}

// loaded reports names that a loaded file does not define.
func (c *checker) loaded(s *syntax.LoadStmt, lib *syntax.File) {
	var names []string
	globals(lib.Stmts, func(id *syntax.Ident) { names = append(names, id.Name) })
	for _, id := range s.From {
		if slices.Contains(names, id.Name) {
			continue
		}
		p := c.add(codeLoad, id, "%s has no %s", s.ModuleName(), id.Name)
		if near := display.Nearest(id.Name, names); near != "" {
			p.Hint = "did you mean " + near + "?"
			p.Fix = fixed(*p, near, display.Only(id.Name, names))
		}
	}
}

// globals calls f for the names that statements at top level bind.
func globals(stmts []syntax.Stmt, f func(*syntax.Ident)) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			f(s.Name)
		case *syntax.AssignStmt:
			meter.EachName(s.LHS, f)
		case *syntax.ForStmt:
			meter.EachName(s.Vars, f)
			globals(s.Body, f)
		case *syntax.WhileStmt:
			globals(s.Body, f)
		case *syntax.IfStmt:
			globals(s.True, f)
			globals(s.False, f)
		}
	}
}
