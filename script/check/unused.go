package check

import (
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// bindingKind is how a name gets its first value.
type bindingKind uint8

const (
	byAssignment bindingKind = iota
	byUnpacking              // with others, of which one may be all that is wanted
	byLoop
	byParameter
	byLoad
	byDef
)

// bound is a name with its uses.
type bound struct {
	id       *syntax.Ident
	kind     bindingKind
	fn       syntax.Node // the function that it is local to; nil: the file
	reads    int
	called   int
	assigned []*syntax.Ident
	read     []*syntax.Ident
}

// uses goes through a resolved file and notes what becomes of its names.
type uses struct {
	all   map[*syntax.Ident]*bound
	order []*bound
	fn    []syntax.Node
	loops map[*syntax.Ident][]syntax.Node // loops around each use
	loop  []syntax.Node
	loads map[*syntax.Ident]*syntax.LoadStmt
}

func usesOf(f *syntax.File) *uses {
	u := &uses{loads: map[*syntax.Ident]*syntax.LoadStmt{}, all: map[*syntax.Ident]*bound{}, loops: map[*syntax.Ident][]syntax.Node{}}
	u.stmts(f.Stmts)
	return u
}

// firstOf is the identifier that binds what another one means; nil of what the file does not bind.
func firstOf(id *syntax.Ident) *syntax.Ident {
	if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope >= resolve.Local && b.Scope <= resolve.Global {
		return b.First
	}
	return nil
}

func (u *uses) of(id *syntax.Ident) *bound {
	first := firstOf(id)
	if first == nil {
		return nil
	}
	b := u.all[first]
	if b == nil {
		b = &bound{id: first}
		u.all[first] = b
		u.order = append(u.order, b)
	}
	u.loops[id] = u.loop[:len(u.loop):len(u.loop)]
	return b
}

func (u *uses) bind(x syntax.Expr, kind bindingKind) {
	switch x := x.(type) {
	case *syntax.Ident:
		if b := u.of(x); b != nil {
			if len(b.assigned) == 0 {
				b.kind = kind
				if len(u.fn) > 0 {
					b.fn = u.fn[len(u.fn)-1]
				}
			}
			b.assigned = append(b.assigned, x)
		}
	case *syntax.ParenExpr:
		u.bind(x.X, kind)
	case *syntax.TupleExpr:
		for _, e := range x.List {
			u.bind(e, max(kind, byUnpacking))
		}
	case *syntax.ListExpr:
		for _, e := range x.List {
			u.bind(e, max(kind, byUnpacking))
		}
	case *syntax.UnaryExpr:
		if x.X != nil {
			u.bind(x.X, kind)
		}
	default:
		u.expr(x)
	}
}

func (u *uses) stmts(list []syntax.Stmt) {
	for _, s := range list {
		u.stmt(s)
	}
}

func (u *uses) stmt(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		u.expr(s.RHS)
		u.bind(s.LHS, byAssignment)
		if id, ok := s.LHS.(*syntax.Ident); ok && s.Op != syntax.EQ {
			if b := u.of(id); b != nil {
				b.read = append(b.read, id) // before it is set: for scope
			}
		}
	case *syntax.ExprStmt:
		u.expr(s.X)
	case *syntax.ReturnStmt:
		u.expr(s.Result)
	case *syntax.IfStmt:
		u.expr(s.Cond)
		u.stmts(s.True)
		u.stmts(s.False)
	case *syntax.ForStmt:
		u.expr(s.X)
		u.loop = append(u.loop, s)
		u.bind(s.Vars, byLoop)
		u.stmts(s.Body)
		u.loop = u.loop[:len(u.loop)-1]
	case *syntax.WhileStmt:
		u.loop = append(u.loop, s)
		u.expr(s.Cond)
		u.stmts(s.Body)
		u.loop = u.loop[:len(u.loop)-1]
	case *syntax.LoadStmt:
		for _, id := range s.To {
			u.bind(id, byLoad)
			u.loads[id] = s
		}
	case *syntax.DefStmt:
		u.bind(s.Name, byDef)
		u.function(s, s.Params, func() { u.stmts(s.Body) })
	}
}

func (u *uses) function(n syntax.Node, params []syntax.Expr, body func()) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			u.expr(b.Y)
		}
	}
	u.fn = append(u.fn, n)
	outer := u.loop
	u.loop = nil
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			p = b.X
		}
		u.bind(p, byParameter)
	}
	body()
	u.loop = outer
	u.fn = u.fn[:len(u.fn)-1]
}

// expr notes the reads in an expression.
func (u *uses) expr(x syntax.Expr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LambdaExpr:
			u.function(n, n.Params, func() { u.expr(n.Body) })
			return false
		case *syntax.Comprehension:
			for _, c := range n.Clauses {
				switch c := c.(type) {
				case *syntax.ForClause:
					u.expr(c.X)
					u.bind(c.Vars, byLoop)
				case *syntax.IfClause:
					u.expr(c.Cond)
				}
			}
			if e, ok := n.Body.(*syntax.DictEntry); ok {
				u.expr(e.Key)
				u.expr(e.Value)
			} else {
				u.expr(n.Body)
			}
			return false
		case *syntax.CallExpr:
			u.call(n)
			return false
		case *syntax.DotExpr:
			u.expr(n.X)
			return false
		case *syntax.Ident:
			u.use(n)
		}
		return true
	})
}

func (u *uses) use(id *syntax.Ident) {
	if b := u.of(id); b != nil {
		b.reads++
		b.read = append(b.read, id)
	}
}

func (u *uses) call(x *syntax.CallExpr) {
	u.expr(x.Fn)
	if id, ok := x.Fn.(*syntax.Ident); ok {
		if b := u.of(id); b != nil {
			b.called++
		}
	}
	for _, arg := range x.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			arg = b.Y
		}
		u.expr(arg)
	}
}

// unused warns of names that nothing reads.
func (c *checker) unused(u *uses, src Source, loaded map[string]bool) {
	for _, b := range u.order {
		if b.reads > 0 || strings.HasPrefix(b.id.Name, "_") || len(b.assigned) == 0 {
			continue
		}
		switch {
		case b.kind == byLoad:
			c.fixUnusedLoad(c.unusedName(b), u, b.id)
		case b.fn == nil && (b.kind != byDef || src.Kind != ToolFile || src.runs(b.id.Name) || loadsName(loaded, src.Name, b.id.Name)):
		case b.kind == byAssignment, b.kind == byDef:
			c.unusedName(b)
		case b.kind == byParameter:
			c.unusedParameter(u, b, src)
		}
	}
}

func (c *checker) unusedName(b *bound) *diag.Problem {
	what := "used"
	if b.kind == byDef {
		what = "called"
	}
	p := c.warn("unused", b.id, "%s is never %s", b.id.Name, what)
	if b.kind == byAssignment {
		p.Hint = "_" + b.id.Name + " if on purpose"
	}
	return p
}

// loadsName reports whether some file loads a name of a file.
func loadsName(loaded map[string]bool, file, name string) bool {
	for key := range loaded {
		module, loads, _ := strings.Cut(key, " ")
		if loads == name && isModule(file, module) {
			return true
		}
	}
	return false
}

// unusedParameter warns of a parameter of a function that is only ever called by its name: one
// that is passed on has the parameters that its caller wants.
func (c *checker) unusedParameter(u *uses, b *bound, src Source) {
	def, ok := b.fn.(*syntax.DefStmt)
	if !ok || src.runs(def.Name.Name) {
		return
	}
	fn := u.of(def.Name)
	if fn == nil || fn.reads != fn.called || fn.reads == 0 || len(fn.assigned) > 1 {
		return
	}
	for _, p := range def.Params {
		if un, ok := p.(*syntax.UnaryExpr); ok && un.X == b.id {
			return
		}
	}
	c.warn("unused-parameter", b.id, "%s is never used", b.id.Name).Hint = "_" + b.id.Name + " if on purpose"
}

// scope reports globals that a function reads before it gives the same name a value of its own.
func (c *checker) scope(u *uses) {
	globals := map[string]bool{}
	for _, b := range u.order {
		if b.fn == nil {
			globals[b.id.Name] = true
		}
	}
	for _, b := range u.order {
		if b.fn == nil || b.kind != byAssignment || len(b.read) == 0 || !globals[b.id.Name] && c.builtins[b.id.Name] == nil {
			continue
		}
		first := b.read[0]
		for _, r := range b.read {
			if less(r.NamePos, first.NamePos) {
				first = r
			}
		}
		set := b.assigned[0]
		if less(set.NamePos, first.NamePos) && !ownValue(b, set, first) || u.sameLoop(first, set) {
			continue
		}
		if b.inner(first) {
			continue
		}
		c.add("scope", first, "%s is local here, and read before it is set", b.id.Name).Hint = "a name that a function sets is its own in all of it"
	}
}

// ownValue reports whether a name is read in the statement that gives it its first value.
func ownValue(b *bound, set, read *syntax.Ident) bool {
	def, ok := b.fn.(*syntax.DefStmt)
	if !ok {
		return false
	}
	found := false
	for _, s := range def.Body {
		found = found || sameStatement(s, read, set)
	}
	return found
}

// inner reports whether a use is in a function within the one that the name belongs to: that
// runs later.
func (b *bound) inner(use *syntax.Ident) bool {
	found := false
	var body []syntax.Stmt
	switch fn := b.fn.(type) {
	case *syntax.DefStmt:
		body = fn.Body
	default:
		return true
	}
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.DefStmt, *syntax.LambdaExpr:
				start, end := n.Span()
				found = found || inside(use.NamePos, start, end)
				return false
			}
			return true
		})
	}
	return found
}

// sameLoop reports whether two uses are in a common loop, where the later one in the text may come
// first.
func (u *uses) sameLoop(a, b *syntax.Ident) bool {
	if a == b {
		return false
	}
	for _, x := range u.loops[a] {
		for _, y := range u.loops[b] {
			if x == y && a.NamePos != b.NamePos && !sameStatement(x, a, b) {
				return true
			}
		}
	}
	return false
}

// sameStatement reports whether a name is read in the very statement that sets it.
func sameStatement(loop syntax.Node, read, set *syntax.Ident) bool {
	found := false
	syntax.Walk(loop, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.AssignStmt); ok && a.LHS == syntax.Expr(set) {
			start, end := a.RHS.Span()
			found = read == set || inside(read.NamePos, start, end)
		}
		return true
	})
	return found
}
