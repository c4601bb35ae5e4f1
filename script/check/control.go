package check

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// keys warns about duplicate keys in a dict.
func (c *checker) keys(d *syntax.DictExpr) {
	seen := map[any]bool{}
	for _, e := range d.List {
		lit, ok := e.(*syntax.DictEntry).Key.(*syntax.Literal)
		if !ok {
			continue
		}
		switch lit.Value.(type) {
		case string, int64:
		default:
			continue
		}
		if seen[lit.Value] {
			c.warn("duplicate-key", lit, "duplicate key %s; the last one is used", lit.Raw)
		}
		seen[lit.Value] = true
	}
}

// resolved runs the checks that need resolved names.
func (c *checker) resolved(f *syntax.File) {
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			c.recursion(n)
		case *syntax.DictExpr:
			c.keys(n)
		case *syntax.ForStmt:
			c.loop(n.Body, n.Vars)
		case *syntax.WhileStmt:
			c.loop(n.Body, nil)
		case *syntax.Comprehension:
			c.comprehension(n)
		}
		return true
	})
}

// recursion warns about a function that calls itself unconditionally.
func (c *checker) recursion(def *syntax.DefStmt) {
	name := types.First(def.Name)
	if name == nil || name != def.Name {
		return
	}
	r := &recursion{is: func(x *syntax.CallExpr) bool {
		id, ok := x.Fn.(*syntax.Ident)
		return ok && types.First(id) == name
	}}
	if r.block(def.Body) == always {
		c.warn("recursion", r.call, "%s always calls itself, so it never returns", def.Name.Name)
	}
}

// recursion searches a call that a function makes on every path.
type recursion struct {
	is   func(*syntax.CallExpr) bool
	call *syntax.CallExpr
}

// way is what certainly happens on the paths through statements.
type way uint8

const (
	onward way = iota // it continues without the call
	always            // the call is made
	ended             // it may end without the call
)

func (r *recursion) block(stmts []syntax.Stmt) way {
	for _, s := range stmts {
		if w := r.stmt(s); w != onward {
			return w
		}
	}
	return onward
}

func (r *recursion) stmt(s syntax.Stmt) way {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		if r.expr(s.X) {
			return always
		}
		if ends(s) {
			return ended
		}
	case *syntax.AssignStmt:
		if r.expr(s.RHS) {
			return always
		}
	case *syntax.ReturnStmt:
		if r.expr(s.Result) {
			return always
		}
		return ended
	case *syntax.BranchStmt:
		if s.Token != syntax.PASS {
			return ended
		}
	case *syntax.IfStmt:
		if r.expr(s.Cond) {
			return always
		}
		a, b := r.block(s.True), r.block(s.False)
		switch {
		case a == ended || b == ended:
			return ended
		case a == always && b == always:
			return always
		}
	case *syntax.ForStmt, *syntax.WhileStmt:
		left := false
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ReturnStmt:
				left = true
			case *syntax.CallExpr:
				id, ok := n.Fn.(*syntax.Ident)
				left = left || ok && id.Name == "fail"
			}
			return !left
		})
		if left {
			return ended
		}
	}
	return onward
}

// expr reports whether computing x certainly makes the call.
func (r *recursion) expr(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.CallExpr:
		if r.is(x) {
			r.call = x
			return true
		}
		for _, arg := range x.Args {
			if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
				arg = b.Y
			}
			if r.expr(arg) {
				return true
			}
		}
		return r.expr(x.Fn)
	case *syntax.BinaryExpr:
		return r.expr(x.X) || x.Op != syntax.AND && x.Op != syntax.OR && r.expr(x.Y)
	case *syntax.ParenExpr:
		return r.expr(x.X)
	case *syntax.UnaryExpr:
		return r.expr(x.X)
	case *syntax.CondExpr:
		return r.expr(x.Cond) || r.expr(x.True) && r.expr(x.False)
	case *syntax.DotExpr:
		return r.expr(x.X)
	case *syntax.IndexExpr:
		return r.expr(x.X) || r.expr(x.Y)
	case *syntax.ListExpr:
		return r.any(x.List)
	case *syntax.TupleExpr:
		return r.any(x.List)
	case *syntax.DictExpr:
		return r.any(x.List)
	case *syntax.DictEntry:
		return r.expr(x.Value)
	}
	return false
}

func (r *recursion) any(list []syntax.Expr) bool {
	for _, e := range list {
		if r.expr(e) {
			return true
		}
	}
	return false
}

// cycles reports scripted tools that call each other on every path.
func (p *Program) cycles() (found diag.Problems) {
	calls := map[string]map[string]*syntax.CallExpr{}
	files := map[string]*checked{}
	for _, f := range p.files {
		if !f.parsed {
			continue
		}
		for tool := range f.sure {
			files[tool] = f
		}
	}
	for name, f := range files {
		calls[name] = map[string]*syntax.CallExpr{}
		for other, call := range f.sure[name] {
			if files[other] != nil {
				calls[name][other] = call
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if way := circle(calls, name, nil, map[string]bool{}); way != nil && name == slices.Min(way) {
			words := strings.Join(way, " and ") + " call each other in a cycle"
			if len(way) == 1 {
				words = name + " always calls itself"
			}
			call := calls[name][way[min(1, len(way)-1)]]
			found = append(found, spanned(files[name].source.File, call, diag.Problem{Code: "tool-cycle", Message: words}))
		}
	}
	return found
}

// sureCalls returns the calls of tools that a function of a file makes on every path, by tool.
func (p *Program) sureCalls(f *syntax.File, function string) map[string]*syntax.CallExpr {
	def, _ := meter.FindFunction(f, function)
	if def == nil {
		return nil
	}
	named := func(x *syntax.CallExpr) string {
		b := p.shared.predefine.called(x)
		if b == nil || b.Tool.Name == "" {
			return ""
		}
		name, _ := literalString(b.Tool.of(x))
		return name
	}
	sure, seen := map[string]*syntax.CallExpr{}, map[string]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		x, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		if tool := named(x); tool != "" && !seen[tool] && len(seen) < mostSure {
			seen[tool] = true
			r := &recursion{is: func(x *syntax.CallExpr) bool { return named(x) == tool }}
			if r.block(def.Body) == always {
				sure[tool] = r.call
			}
		}
		return true
	})
	return sure
}

// mostSure bounds how many tools of a file are searched for on its paths.
const mostSure = 100

// circle returns a path from a tool back to it, without the tools in tried, from which no path leads back.
func circle(calls map[string]map[string]*syntax.CallExpr, from string, way []string, tried map[string]bool) []string {
	way, tried[from] = append(way, from), true
	for _, next := range slices.Sorted(maps.Keys(calls[from])) {
		if next == way[0] {
			return way
		}
		if !tried[next] {
			if found := circle(calls, next, slices.Clone(way), tried); found != nil {
				return found
			}
		}
	}
	return nil
}
