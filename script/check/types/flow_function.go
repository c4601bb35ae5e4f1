package types

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/display"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// function is a def or lambda of a script.
type function struct {
	node     syntax.Node
	name     string
	unit     *Unit
	params   []syntax.Expr
	body     []syntax.Stmt
	result   syntax.Expr // the body of a lambda
	defaults map[string]Type
	kept     map[*syntax.Ident]Type // types of captured variables that are assigned once
}

// frame is a function that is being followed.
type frame struct {
	unit    *Unit
	fn      *function
	call    syntax.Node // the call
	returns Type
	breaks  []*loopExits
}

// loopExits are the states at break and continue statements.
type loopExits struct{ out, next *State }

const maxChain = 4 // nested calls that are followed

func (e *engine) define(s *syntax.DefStmt) {
	fn := e.function(s, s.Name.Name, s.Params, s.Function)
	fn.body = s.Body
	e.set(s.Name, Of(&Atom{Kind: funcKind, Fn: fn, Name: fn.name}))
}

func (e *engine) lambda(x *syntax.LambdaExpr) Type {
	fn := e.function(x, "lambda", x.Params, x.Function)
	fn.result = x.Body
	return Of(&Atom{Kind: funcKind, Fn: fn, Name: fn.name})
}

// function makes the value of a def or lambda, with its defaults and captured variables.
func (e *engine) function(n syntax.Node, name string, params []syntax.Expr, resolved any) *function {
	fn := e.funcs[n]
	if fn == nil {
		fn = &function{node: n, name: name, unit: e.frame.unit, params: params}
		e.funcs[n] = fn
		if e.frame.unit == e.root && (e.frame.fn != nil || name == "lambda") {
			e.pending = append(e.pending, fn)
		}
	}
	fn.defaults = map[string]Type{}
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			fn.defaults[b.X.(*syntax.Ident).Name] = e.eval(b.Y)
		}
	}
	fn.kept = map[*syntax.Ident]Type{}
	if r, ok := resolved.(*resolve.Function); ok {
		for _, free := range r.FreeVars {
			v := fn.unit.scopes.Vars[free.First]
			if t, known := e.env.Vars.Get(free.First); known && v != nil && v.Assigned == 1 {
				fn.kept[free.First] = t
			}
		}
	}
	return fn
}

// invoke follows a function with the arguments of one call, or with unknown ones. force follows it at any depth of
// calls.
func (e *engine) invoke(fn *function, args []Argument, call syntax.Node, force bool) Type {
	if e.work > maxWork || !force && len(e.chain) >= maxChain || e.isFollowed(fn) {
		return Any
	}
	saved, outer := e.env, e.frame
	e.env = Env{State: saved.Clone(), Scopes: fn.unit.scopes, Owner: fn.node, Kept: maps.Clone(fn.kept)} // what narrowing shows about them is valid for this call only
	e.frame = &frame{unit: fn.unit, fn: fn, call: call}
	e.chain = append(e.chain, e.frame)
	if e.mute == 0 {
		e.seen[fn.node] = true
	}
	e.bind(fn, args)
	if fn.result != nil {
		e.frame.returns = returnedNone(e.eval(fn.result))
	} else {
		e.stmts(fn.body)
		e.end(fn)
	}
	t := e.frame.returns
	ended := t.IsNever() && e.work <= maxWork
	e.chain = e.chain[:len(e.chain)-1]
	e.env, e.frame = saved, outer
	if ended && call != nil {
		e.env.End() // it never returns
	}
	return t
}

func (e *engine) isFollowed(fn *function) bool {
	return slices.ContainsFunc(e.chain, func(f *frame) bool { return f.fn.node == fn.node })
}

// end checks the end of a function's body.
func (e *engine) end(fn *function) {
	if e.env.Dead {
		return
	}
	none := &Atom{Kind: None, Role: Output}
	if n := len(fn.body); n > 0 && !e.frame.returns.IsNever() {
		switch fn.body[n-1].(type) {
		case *syntax.ForStmt, *syntax.WhileStmt: // it may always return inside
			none.Role = ownRole
		}
	}
	if output := e.output(); output != nil && !output.Type.IsAny() && !output.Type.Has(None) {
		if none.Role != ownRole && e.work <= maxWork && !e.chained(fn.body) {
			def := fn.node.(*syntax.DefStmt)
			var at syntax.Node = def.Name
			if !e.frame.returns.IsNever() {
				at = fn.body[len(fn.body)-1]
			}
			e.report("return-missing", at, "returns None here, output wants %s", article(output.Type))
		}
	}
	e.frame.returns = Join(e.frame.returns, Of(none))
}

// chained reports whether a body ends with a chain of comparisons of an unknown value: one of them may always be true.
func (e *engine) chained(body []syntax.Stmt) bool {
	s, ok := body[len(body)-1].(*syntax.IfStmt)
	if !ok || len(s.False) != 1 {
		return false
	}
	if _, more := s.False[0].(*syntax.IfStmt); !more {
		return false
	}
	b, ok := s.Cond.(*syntax.BinaryExpr)
	return ok && b.Op == syntax.EQL && (e.quiet(b.X).IsAny() || e.quiet(b.Y).IsAny())
}

// bind sets the parameters to the arguments of a call.
func (e *engine) bind(fn *function, args []Argument) {
	spread := args == nil || slices.ContainsFunc(args, func(a Argument) bool { return a.Spread })
	position, positional := 0, positional(args)
	for _, p := range fn.params {
		switch p := p.(type) {
		case *syntax.Ident:
			e.set(p, e.passed(p.Name, args, positional, &position, spread, Any))
		case *syntax.BinaryExpr:
			id := p.X.(*syntax.Ident)
			fallback := fn.defaults[id.Name]
			if spread {
				fallback = Any
			}
			e.set(id, e.passed(id.Name, args, positional, &position, spread, fallback))
		case *syntax.UnaryExpr:
			if id, ok := p.X.(*syntax.Ident); ok {
				if p.Op == syntax.STAR {
					position = len(positional)
					e.set(id, Kinds(tuple))
				} else {
					e.set(id, Kinds(Dict))
				}
			}
		}
	}
}

func (e *engine) passed(name string, args, positional []Argument, position *int, spread bool, fallback Type) Type {
	i := *position
	*position++
	if i < len(positional) {
		return positional[i].Type
	}
	for _, a := range args {
		if a.Name == name {
			return a.Type
		}
	}
	if spread {
		return Any
	}
	return fallback
}

// callFunction is the type of a call of a function of the script.
func (e *engine) callFunction(x *syntax.CallExpr, fn *function, args []Argument) Type {
	if !e.arity(x, fn, args) {
		return Any
	}
	if args == nil {
		args = []Argument{}
	}
	t := e.invoke(fn, args, x, false)
	e.leaked(fn, args)
	return t
}

// leaked forgets what is known of arguments that a function may change or keep.
func (e *engine) leaked(fn *function, args []Argument) {
	positional := positional(args)
	for i, p := range fn.params {
		id, ok := p.(*syntax.Ident)
		if b, isDefault := p.(*syntax.BinaryExpr); isDefault {
			id, ok = b.X.(*syntax.Ident)
		}
		if !ok {
			continue
		}
		v := fn.unit.scopes.Vars[First(id)]
		if v == nil || v.Changed == 0 && len(v.Stored) == 0 && !v.Captured {
			continue
		}
		for j, a := range args {
			if a.Name == id.Name || a.Name == "" && i < len(positional) && j == i {
				if a.Expr != nil {
					e.env.Change(a.Expr, Type.Weaken)
				}
			}
		}
	}
}

// arity reports a call that does not fit a function's parameters.
func (e *engine) arity(x *syntax.CallExpr, fn *function, args []Argument) bool {
	names, required, most, kwargs := signature(fn.params)
	if slices.ContainsFunc(args, func(a Argument) bool { return a.Spread }) {
		return true
	}
	positional := positional(args)
	if most >= 0 && len(positional) > most {
		e.report("call-arity", x, "%s wants %s, has %d", fn.name, arguments(names), len(positional))
		return false
	}
	for _, a := range args {
		if a.Name != "" && !kwargs && !slices.Contains(names, a.Name) {
			hint, near := meant(a.Name, names)
			e.say(FindingProblem{Code: "call-keyword", Node: keywordAt(x, a.Name), Message: fmt.Sprintf("%s has no parameter %s", fn.name, a.Name), Hint: hint, Fix: near, Sure: display.Only(a.Name, names)})
			return false
		}
		if i := slices.Index(names, a.Name); a.Name != "" && i >= 0 && i < len(positional) && most >= 0 {
			e.report("call-arity", keywordAt(x, a.Name), "%s gets %s twice", fn.name, a.Name)
			return false
		}
	}
	for i, name := range required {
		if name != "" && i >= len(positional) && !slices.ContainsFunc(args, func(a Argument) bool { return a.Name == name }) {
			e.report("call-arity", x, "%s wants %s, has %d", fn.name, arguments(names), len(args))
			return false
		}
	}
	return true
}

// signature parses parameters. It returns all names; by position those that are required ("" for one with a default);
// how many may be given by position (-1: any number); and whether any keyword is accepted.
func signature(params []syntax.Expr) (names, required []string, most int, kwargs bool) {
	star := false
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.Ident:
			names, required = append(names, p.Name), append(required, p.Name)
		case *syntax.BinaryExpr:
			names, required = append(names, p.X.(*syntax.Ident).Name), append(required, "")
		case *syntax.UnaryExpr:
			if p.Op == syntax.STARSTAR {
				kwargs = true
				continue
			}
			star = true
			if p.X != nil {
				most = -1
			}
			continue
		}
		if !star {
			most++
		}
	}
	return names, required, most, kwargs
}

// keywordAt returns the name of a keyword argument.
func keywordAt(x *syntax.CallExpr, name string) syntax.Node {
	for _, arg := range x.Args {
		if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			if id, ok := b.X.(*syntax.Ident); ok && id.Name == name {
				return id
			}
		}
	}
	return x
}

// results returns what fn returns when a builtin calls it with args.
func (e *engine) results(fn Type, at syntax.Node, args ...Type) Type {
	if fn.IsAny() {
		return Any
	}
	out := Never
	for _, a := range fn.Atoms() {
		f, ok := a.Fn.(*function)
		if !ok {
			return Any
		}
		list := []Argument{}
		for _, t := range args {
			list = append(list, Argument{Type: t})
		}
		if _, required, most, _ := signature(f.params); most >= 0 && len(list) > most || len(required) > len(list) && required[len(list)] != "" {
			e.wrongCallback(at, f, len(list))
			return Any
		}
		out = Join(out, e.invoke(f, list, at, false))
	}
	return out
}

// wrongCallback reports a function that a builtin cannot call.
func (e *engine) wrongCallback(at syntax.Node, f *function, n int) {
	names, _, _, _ := signature(f.params)
	if n == 0 {
		e.report("call-arity", at, "%s wants %s, and is called without any", f.name, arguments(names))
		return
	}
	e.report("call-arity", at, "%s wants %s, and is called with %d", f.name, arguments(names), n)
}
