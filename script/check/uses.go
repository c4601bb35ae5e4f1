package check

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/check/types"
)

// This part of the package collects the uses of the names of a file: how each is bound, and where it is read, called and assigned
// again.

// usesKind is how a name is bound first.
type usesKind uint8

// The kinds of bindings.
const (
	assignment usesKind = iota
	unpacking           // with others, of which only one may be needed
	loop
	parameter
	load
	def
)

// name is a name of a file, or of a function in it, with its uses.
type name struct {
	First    *syntax.Ident // that binds it
	Kind     usesKind
	Function syntax.Node // to which it is local; nil: the file
	Reads    int
	Called   int // how many of the reads call it
	Assigned []*syntax.Ident

	read []*syntax.Ident
}

// uses are the names of a resolved file with their uses.
type uses struct {
	Names []*name                            // in the order of the text
	Loads map[*syntax.Ident]*syntax.LoadStmt // the statements that load a name

	all   map[*syntax.Ident]*name
	fn    []syntax.Node
	loops map[*syntax.Ident][]syntax.Node // enclosing loops of each use
	loop  []syntax.Node
}

// usesOf returns the uses of a resolved file.
func usesOf(f *syntax.File) *uses {
	u := &uses{Loads: map[*syntax.Ident]*syntax.LoadStmt{}, all: map[*syntax.Ident]*name{}, loops: map[*syntax.Ident][]syntax.Node{}}
	u.stmts(f.Stmts)
	return u
}

// Find returns the name that an identifier means; nil if the file does not bind it.
func (u *uses) Find(id *syntax.Ident) *name { return u.all[types.First(id)] }

func (u *uses) of(id *syntax.Ident) *name {
	first := types.First(id)
	if first == nil {
		return nil
	}
	b := u.all[first]
	if b == nil {
		b = &name{First: first}
		u.all[first] = b
		u.Names = append(u.Names, b)
	}
	u.loops[id] = u.loop[:len(u.loop):len(u.loop)]
	return b
}

func (u *uses) bind(x syntax.Expr, kind usesKind) {
	switch x := x.(type) {
	case *syntax.Ident:
		if b := u.of(x); b != nil {
			if len(b.Assigned) == 0 {
				b.Kind = kind
				if len(u.fn) > 0 {
					b.Function = u.fn[len(u.fn)-1]
				}
			}
			b.Assigned = append(b.Assigned, x)
		}
	case *syntax.ParenExpr:
		u.bind(x.X, kind)
	case *syntax.TupleExpr:
		for _, e := range x.List {
			u.bind(e, max(kind, unpacking))
		}
	case *syntax.ListExpr:
		for _, e := range x.List {
			u.bind(e, max(kind, unpacking))
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
		u.bind(s.LHS, assignment)
		if id, ok := s.LHS.(*syntax.Ident); ok && s.Op != syntax.EQ {
			if b := u.of(id); b != nil {
				b.read = append(b.read, id) // before it is assigned: for ReadTooEarly
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
		u.bind(s.Vars, loop)
		u.stmts(s.Body)
		u.loop = u.loop[:len(u.loop)-1]
	case *syntax.WhileStmt:
		u.loop = append(u.loop, s)
		u.expr(s.Cond)
		u.stmts(s.Body)
		u.loop = u.loop[:len(u.loop)-1]
	case *syntax.LoadStmt:
		for _, id := range s.To {
			u.bind(id, load)
			u.Loads[id] = s
		}
	case *syntax.DefStmt:
		u.bind(s.Name, def)
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
		u.bind(p, parameter)
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
					u.bind(c.Vars, loop)
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
		b.Reads++
		b.read = append(b.read, id)
	}
}

func (u *uses) call(x *syntax.CallExpr) {
	u.expr(x.Fn)
	if id, ok := x.Fn.(*syntax.Ident); ok {
		if b := u.of(id); b != nil {
			b.Called++
		}
	}
	for _, arg := range x.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			arg = b.Y
		}
		u.expr(arg)
	}
}
