package check

import (
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// unused warns about names that are never read.
func (c *checker) unused(u *uses, src Source, loaded map[string]bool) {
	for _, b := range u.Names {
		if b.Reads > 0 || strings.HasPrefix(b.First.Name, "_") || len(b.Assigned) == 0 {
			continue
		}
		switch {
		case b.Kind == load:
			c.fixUnusedLoad(c.unusedName(b), u, b.First)
		case b.Function == nil && (b.Kind != def || src.Kind != ToolFile || src.runs(b.First.Name) || loadsName(loaded, src.Name, b.First.Name)):
		case b.Kind == assignment, b.Kind == def:
			c.unusedName(b)
		case b.Kind == parameter:
			c.unusedParameter(u, b, src)
		}
	}
}

func (c *checker) unusedName(b *name) *diag.Problem {
	what := "used"
	if b.Kind == def {
		what = "called"
	}
	p := c.warn("unused", b.First, "%s is never %s", b.First.Name, what)
	if b.Kind == assignment {
		p.Hint = "rename it to _" + b.First.Name + " if this is intended"
	}
	return p
}

// loadsName reports whether some file loads a name from a file.
func loadsName(loaded map[string]bool, file, name string) bool {
	for key := range loaded {
		module, loads, _ := strings.Cut(key, " ")
		if loads == name && isModule(file, module) {
			return true
		}
	}
	return false
}

// unusedParameter warns about a parameter of a function that is only ever called by its name: a function that is
// passed on has the parameters that its caller requires.
func (c *checker) unusedParameter(u *uses, b *name, src Source) {
	def, ok := b.Function.(*syntax.DefStmt)
	if !ok || src.runs(def.Name.Name) {
		return
	}
	fn := u.Find(def.Name)
	if fn == nil || fn.Reads != fn.Called || fn.Reads == 0 || len(fn.Assigned) > 1 {
		return
	}
	for _, p := range def.Params {
		if un, ok := p.(*syntax.UnaryExpr); ok && un.X == b.First {
			return
		}
	}
	c.warn("unused-parameter", b.First, "%s is never used", b.First.Name).Hint = "rename it to _" + b.First.Name + " if this is intended"
}

// scope reports globals that a function reads before it binds the same name.
func (c *checker) scope(u *uses) {
	globals := map[string]bool{}
	for _, b := range u.Names {
		if b.Function == nil {
			globals[b.First.Name] = true
		}
	}
	for _, b := range u.Names {
		if b.Function == nil || b.Kind != assignment || !globals[b.First.Name] && c.builtins[b.First.Name] == nil {
			continue
		}
		if early := u.ReadTooEarly(b); early != nil {
			c.add("scope", early, "%s is local here, and read before it is assigned", b.First.Name).Hint = "a name that a function assigns is local in the whole function"
		}
	}
}
