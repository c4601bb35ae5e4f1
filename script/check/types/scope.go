package types

import (
	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// This part of the package collects what the text of a file shows of its variables before types are followed: where each is
// bound, how often it is assigned, and what may change its value.

// Scopes are the variables of a file. A variable is identified by the identifier that binds it first, which the
// resolver notes for every use, in inner functions too.
type Scopes struct {
	Vars    map[*syntax.Ident]*Variable
	Globals map[string]*syntax.Ident
	Defs    map[string]*syntax.DefStmt // functions of the top level that are bound once
	Wild    map[string]bool            // keys that are set in dicts that may have unknown aliases
	Wilder  bool                       // computed keys are set, too
}

// Variable is what the text shows of a variable.
type Variable struct {
	Assigned int         // places that assign it; two for the variable of a loop
	Value    syntax.Expr // the last value assigned by a statement
	Owner    syntax.Node
	Captured bool // an inner function uses it
	fresh    bool // every assigned value is made in the assignment
	Changed  int  // places that change its value
	inside   bool // an inner function changes its value
	Stored   []syntax.Position
	changes  []syntax.Position
	loops    map[syntax.Node]bool // loops around the place that stores it
	Shared   bool                 // its value may be changed through an alias
}

// First returns the identifier that binds what id means; nil if the file does not bind it.
func First(id *syntax.Ident) *syntax.Ident {
	if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope >= resolve.Local && b.Scope <= resolve.Global {
		return b.First
	}
	return nil
}

// ScopeOf returns the variables of a resolved file.
func ScopeOf(tree *syntax.File) *Scopes {
	s := &Scopes{Vars: map[*syntax.Ident]*Variable{}, Globals: map[string]*syntax.Ident{}, Defs: map[string]*syntax.DefStmt{}, Wild: map[string]bool{}}
	w := &scopeWalk{Scopes: s}
	for _, stmt := range tree.Stmts {
		w.visit(stmt)
	}
	for _, stmt := range tree.Stmts {
		if d, ok := stmt.(*syntax.DefStmt); ok && s.of(d.Name) != nil && s.of(d.Name).Assigned == 1 {
			s.Defs[d.Name.Name] = d
		}
	}
	s.findAliased()
	w.wildKeys()
	return s
}

// of returns the variable that an identifier means.
func (s *Scopes) of(id *syntax.Ident) *Variable {
	f := First(id)
	if f == nil {
		return nil
	}
	v := s.Vars[f]
	if v == nil {
		v = &Variable{fresh: true, loops: map[syntax.Node]bool{}}
		s.Vars[f] = v
	}
	return v
}

// findAliased decides which values may be changed through aliases.
func (s *Scopes) findAliased() {
	for _, v := range s.Vars {
		switch {
		case v.inside, v.Captured && v.Changed > 0:
			v.Shared = true
		}
		for _, at := range v.Stored {
			for _, c := range v.changes {
				if before(at, c) {
					v.Shared = true
				}
			}
		}
	}
}

func before(a, b syntax.Position) bool { return a.Line < b.Line || a.Line == b.Line && a.Col <= b.Col }

// scopeWalk visits a file and notes what happens to its variables.
type scopeWalk struct {
	*Scopes
	funcs  []syntax.Node // enclosing functions, outermost first
	writes []write
}

// write is an assignment to a part of a value.
type write struct {
	root *syntax.Ident
	deep bool
	key  syntax.Expr
}

func (w *scopeWalk) inner() syntax.Node {
	if len(w.funcs) == 0 {
		return nil
	}
	return w.funcs[len(w.funcs)-1]
}

// bind notes an assignment of a name.
func (w *scopeWalk) bind(id *syntax.Ident, times int, fresh bool) {
	v := w.of(id)
	if v == nil {
		return
	}
	if v.Assigned == 0 {
		v.Owner = w.inner()
	}
	v.Assigned += times
	v.fresh = v.fresh && fresh
	if f := First(id); f != nil {
		if b := id.Binding.(*resolve.Binding); b.Scope == resolve.Global || len(w.funcs) == 0 {
			w.Globals[id.Name] = f
		}
	}
}

func (w *scopeWalk) bindAll(x syntax.Expr, times int, fresh bool) {
	switch x := x.(type) {
	case *syntax.Ident:
		w.bind(x, times, fresh)
	case *syntax.ParenExpr:
		w.bindAll(x.X, times, fresh)
	case *syntax.TupleExpr:
		for _, e := range x.List {
			w.bindAll(e, times, false)
		}
	case *syntax.ListExpr:
		for _, e := range x.List {
			w.bindAll(e, times, false)
		}
	case *syntax.IndexExpr:
		w.change(x, x.Y)
		w.visit(x.X)
		w.visit(x.Y)
	case *syntax.DotExpr:
		w.visit(x.X)
	}
}

// change notes that a part of a value is set.
func (w *scopeWalk) change(x syntax.Expr, key syntax.Expr) {
	id, deep := rootOf(x)
	if id == nil {
		w.writes = append(w.writes, write{key: key})
		return
	}
	w.writes = append(w.writes, write{root: id, deep: deep, key: key})
	if v := w.of(id); v != nil {
		v.Changed++
		v.changes = append(v.changes, id.NamePos)
		if v.Owner != w.inner() {
			v.inside = true
		}
	}
}

// rootOf returns the variable that a path begins with, and whether the path has more than one step.
func rootOf(x syntax.Expr) (id *syntax.Ident, deep bool) {
	for depth := 0; ; depth++ {
		switch e := x.(type) {
		case *syntax.IndexExpr:
			x = e.X
		case *syntax.DotExpr:
			x = e.X
		case *syntax.ParenExpr:
			x, depth = e.X, depth-1
		case *syntax.Ident:
			return e, depth > 1
		default:
			return nil, true
		}
	}
}

// made reports whether an expression makes a new value without other references.
func made(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.DictExpr, *syntax.ListExpr, *syntax.Comprehension, *syntax.Literal, *syntax.BinaryExpr, *syntax.LambdaExpr:
		return true
	case *syntax.ParenExpr:
		return made(x.X)
	case *syntax.CallExpr:
		id, ok := x.Fn.(*syntax.Ident)
		return ok && First(id) == nil
	}
	return false
}

func (w *scopeWalk) visit(n syntax.Node) {
	switch n := n.(type) {
	case nil:
	case *syntax.AssignStmt:
		w.assign(n)
	case *syntax.ForStmt:
		w.bindAll(n.Vars, 2, false)
		w.visit(n.X)
		w.all(n.Body)
	case *syntax.WhileStmt:
		w.visit(n.Cond)
		w.all(n.Body)
	case *syntax.IfStmt:
		w.visit(n.Cond)
		w.all(n.True)
		w.all(n.False)
	case *syntax.DefStmt:
		w.bind(n.Name, 1, true)
		w.function(n, n.Params, func() { w.all(n.Body) })
	case *syntax.LambdaExpr:
		w.function(n, n.Params, func() { w.visit(n.Body) })
	case *syntax.ReturnStmt:
		if n.Result != nil {
			w.visit(n.Result)
		}
	case *syntax.ExprStmt:
		w.visit(n.X)
	case *syntax.LoadStmt:
		for _, id := range n.To {
			w.bind(id, 1, true)
		}
	case syntax.Expr:
		w.expr(n)
	}
}

func (w *scopeWalk) all(stmts []syntax.Stmt) {
	for _, s := range stmts {
		w.visit(s)
	}
}

func (w *scopeWalk) assign(n *syntax.AssignStmt) {
	w.visit(n.RHS)
	if n.Op != syntax.EQ {
		w.use(n.LHS)
	}
	if id, ok := n.RHS.(*syntax.Ident); ok { // an alias
		w.store(id)
		if to, ok := n.LHS.(*syntax.Ident); ok {
			w.alias(id, to)
		}
	}
	if call, ok := n.RHS.(*syntax.CallExpr); ok {
		if dot, ok := call.Fn.(*syntax.DotExpr); ok && dot.Name.Name == "setdefault" {
			w.change(dot.X, nil)
		}
	}
	w.bindAll(n.LHS, 1, made(n.RHS))
	if id, ok := n.LHS.(*syntax.Ident); ok && n.Op == syntax.EQ {
		if v := w.of(id); v != nil {
			v.Value = n.RHS
		}
	}
}

// alias notes that two names have the same value: changes through one change the other.
func (w *scopeWalk) alias(a, b *syntax.Ident) {
	x, y := w.of(a), w.of(b)
	if x == nil || y == nil || x == y {
		return
	}
	x.Stored, y.Stored = append(x.Stored, syntax.Position{}), append(y.Stored, syntax.Position{})
}

func (w *scopeWalk) store(id *syntax.Ident) {
	if v := w.of(id); v != nil {
		v.Stored = append(v.Stored, id.NamePos)
	}
}

func (w *scopeWalk) use(x syntax.Expr) {
	if id, ok := x.(*syntax.Ident); ok {
		if v := w.of(id); v != nil && v.Assigned > 0 && v.Owner != w.inner() {
			v.Captured = true
		}
	}
}

func (w *scopeWalk) function(n syntax.Node, params []syntax.Expr, body func()) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			w.visit(b.Y)
		}
	}
	w.funcs = append(w.funcs, n)
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			w.bind(p, 1, false)
		case *syntax.BinaryExpr:
			w.bind(p.X.(*syntax.Ident), 1, false)
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				w.bind(id, 1, true)
			}
		}
	}
	body()
	w.funcs = w.funcs[:len(w.funcs)-1]
}

// changing are the methods that change their receiver.
var changing = map[string]bool{"append": true, "extend": true, "insert": true, "remove": true, "pop": true, "clear": true,
	"update": true, "setdefault": true, "popitem": true, "add": true, "discard": true}

func (w *scopeWalk) expr(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Ident:
		w.use(x)
	case *syntax.ListExpr:
		w.elements(x.List)
	case *syntax.TupleExpr:
		w.elements(x.List)
	case *syntax.DictExpr:
		for _, e := range x.List {
			entry := e.(*syntax.DictEntry)
			w.visit(entry.Key)
			w.element(entry.Value)
		}
	case *syntax.Comprehension:
		for _, c := range x.Clauses {
			switch c := c.(type) {
			case *syntax.ForClause:
				w.visit(c.X)
				w.bindAll(c.Vars, 2, false)
			case *syntax.IfClause:
				w.visit(c.Cond)
			}
		}
		if entry, ok := x.Body.(*syntax.DictEntry); ok {
			w.visit(entry.Key)
			w.element(entry.Value)
			return
		}
		w.element(x.Body)
	case *syntax.CallExpr:
		w.call(x)
	default:
		for _, part := range parts(x) {
			w.visit(part)
		}
	}
}

// parts returns the operands of an expression.
func parts(x syntax.Expr) []syntax.Expr {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return []syntax.Expr{x.X}
	case *syntax.UnaryExpr:
		if x.X != nil {
			return []syntax.Expr{x.X}
		}
	case *syntax.BinaryExpr:
		return []syntax.Expr{x.X, x.Y}
	case *syntax.CondExpr:
		return []syntax.Expr{x.Cond, x.True, x.False}
	case *syntax.DotExpr:
		return []syntax.Expr{x.X}
	case *syntax.IndexExpr:
		return []syntax.Expr{x.X, x.Y}
	case *syntax.SliceExpr:
		var all []syntax.Expr
		for _, p := range []syntax.Expr{x.X, x.Lo, x.Hi, x.Step} {
			if p != nil {
				all = append(all, p)
			}
		}
		return all
	}
	return nil
}

func (w *scopeWalk) elements(list []syntax.Expr) {
	for _, e := range list {
		w.element(e)
	}
}

// element handles an expression that is stored in another value.
func (w *scopeWalk) element(x syntax.Expr) {
	if id, ok := x.(*syntax.Ident); ok {
		w.store(id)
	}
	w.visit(x)
}

func (w *scopeWalk) call(x *syntax.CallExpr) {
	w.visit(x.Fn)
	stores := true
	switch fn := x.Fn.(type) {
	case *syntax.Ident:
		stores = First(fn) != nil // builtins keep no references
	case *syntax.DotExpr:
		stores = changing[fn.Name.Name]
		if stores {
			w.change(&syntax.IndexExpr{X: fn.X, Y: fn.X}, methodKey(fn.Name.Name, x.Args))
		}
	}
	for _, arg := range x.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			arg = b.Y
		}
		if u, ok := arg.(*syntax.UnaryExpr); ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) && u.X != nil {
			arg = u.X
		}
		if id, ok := arg.(*syntax.Ident); ok && stores {
			w.store(id)
		}
		w.visit(arg)
	}
}

// methodKey returns the key that a method sets, as far as the text shows it.
func methodKey(method string, args []syntax.Expr) syntax.Expr {
	if method == "setdefault" && len(args) > 0 {
		return args[0]
	}
	if method == "update" && len(args) == 1 {
		return args[0]
	}
	return nil
}

// wildKeys collects the keys that are set in values which may have aliases.
func (w *scopeWalk) wildKeys() {
	for _, wr := range w.writes {
		if wr.root != nil {
			if v := w.of(wr.root); v != nil && v.fresh && !wr.deep && !v.Shared {
				continue
			}
		}
		switch key := wr.key.(type) {
		case *syntax.Literal:
			if s, ok := key.Value.(string); ok {
				w.Wild[s] = true
			}
		case *syntax.DictExpr:
			for _, e := range key.List {
				if lit, ok := e.(*syntax.DictEntry).Key.(*syntax.Literal); ok {
					if s, ok := lit.Value.(string); ok {
						w.Wild[s] = true
					}
				}
			}
		case nil:
		default:
			if wr.root == nil || w.of(wr.root) == nil || !w.of(wr.root).fresh {
				w.Wilder = true
			}
		}
	}
}
