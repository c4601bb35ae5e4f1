package meter

import (
	"maps"
	"math"
	"slices"

	"go.starlark.net/syntax"
)

// This part of the package prepares the tree of a file for the interpreter: Check refuses trees that are too large for later
// passes; Instrument makes every operation that can allocate, or work more than a step is worth, ask the budget first.

// Instrument rewrites the tree of a file so that every operation that can allocate, or work more than a step is worth,
// asks the budget of its run first. Positions do not change. It returns the functions whose frames are large.
//
// docs/limits.md explains what is rewritten, and why the rest need not be.
//
// With counts, statements and branches are also marked for coverage; nil marks none.
func Instrument(f *syntax.File, counts *Set) (Frames, error) {
	if err := Check(f, math.MaxInt); err != nil {
		return nil, err
	}
	r := &rewriter{used: map[string]bool{}, bound: Bound(f), frames: Frames{}, cover: counts, loops: map[*syntax.WhileStmt]*Point{}}
	f.Stmts = r.stmts(f.Stmts, true)
	if len(r.used) > 0 {
		f.Stmts = append(r.prelude(syntax.MakePosition(&f.Path, 1, 1)), f.Stmts...)
	}
	return r.frames, nil
}

type rewriter struct {
	used   map[string]bool // operators that the file uses
	bound  map[string]bool // names that the file itself binds
	frames Frames
	cover  *Set                         // nil: nothing is counted
	loops  map[*syntax.WhileStmt]*Point // marked loops
}

// operatorVar is the global variable that holds an operator. Source text cannot contain this name, and load does not
// export names that begin with an underscore.
func operatorVar(name string) string { return "_ " + name }

// prelude assigns the operators that the file uses to global variables.
func (r *rewriter) prelude(pos syntax.Position) []syntax.Stmt {
	ident := func(name string) *syntax.Ident { return &syntax.Ident{NamePos: pos, Name: name} }
	assign := func(name string, x syntax.Expr) syntax.Stmt {
		return &syntax.AssignStmt{OpPos: pos, Op: syntax.EQ, LHS: ident(name), RHS: x}
	}
	const all = "_ operators"
	if r.marksOnly() {
		r.used["alone"] = true
	}
	stmts := []syntax.Stmt{assign(all, &syntax.CallExpr{Fn: ident(operatorsName), Lparen: pos, Rparen: pos})}
	for _, name := range slices.Sorted(maps.Keys(r.used)) {
		op := &syntax.DotExpr{X: ident(all), Dot: pos, NamePos: pos, Name: ident(name)}
		stmts = append(stmts, assign(operatorVar(name), op))
	}
	return stmts
}

// single writes op | x, an operation on one value.
func (r *rewriter) single(name string, pos syntax.Position, x syntax.Expr) syntax.Expr {
	r.used[name] = true
	op := &syntax.Ident{NamePos: pos, Name: operatorVar(name)}
	return &syntax.BinaryExpr{X: op, OpPos: pos, Op: syntax.PIPE, Y: x}
}

// double writes x - (op | y), an operation on two values.
func (r *rewriter) double(name string, pos syntax.Position, x, y syntax.Expr) syntax.Expr {
	return &syntax.BinaryExpr{X: x, OpPos: pos, Op: syntax.MINUS, Y: r.single(name, pos, y)}
}

// made writes (op | weight) or x, which charges for what x makes.
func (r *rewriter) made(pos syntax.Position, weight int, x syntax.Expr) syntax.Expr {
	pay := r.single("made", pos, number(pos, weight))
	return &syntax.BinaryExpr{X: pay, OpPos: pos, Op: syntax.OR, Y: x}
}

func number(pos syntax.Position, n int) syntax.Expr {
	return &syntax.Literal{Token: syntax.INT, TokenPos: pos, Value: int64(n)}
}

// stmts rewrites a block. A while loop gets a statement before it, because its jumps have no position: an error that
// the interpreter raises at one, such as running out of steps, has the position before it.
func (r *rewriter) stmts(stmts []syntax.Stmt, documented bool) (out []syntax.Stmt) {
	for i, s := range stmts {
		mark := r.statement(s, i == 0, documented && i < docLen(stmts))
		r.stmt(s)
		if mark != nil {
			out = append(out, mark)
		}
		if loop, ok := s.(*syntax.WhileStmt); ok {
			out = append(out, r.pay(loop.While, 1))
		}
		out = append(out, s)
	}
	return out
}

func (r *rewriter) stmt(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		r.assign(s)
	case *syntax.DefStmt:
		r.params(s.Params)
		weight := r.frameWeight(s, s.Def, s.Params)
		s.Body = r.stmts(s.Body, true)
		if weight > 0 {
			s.Body = slices.Insert(s.Body, docLen(s.Body), r.pay(s.Def, weight))
		}
	case *syntax.ExprStmt:
		s.X = r.expr(s.X)
	case *syntax.IfStmt:
		s.Cond = r.condition(s.Cond, s.If)
		s.True, s.False = r.stmts(s.True, false), r.stmts(s.False, false)
	case *syntax.ForStmt:
		s.X = r.iterable(s)
		s.Vars = r.target(s.Vars)
		s.Body = r.stmts(s.Body, false)
	case *syntax.WhileStmt:
		s.Cond = r.whileCondition(s)
		s.Body = r.stmts(s.Body, false)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = r.expr(s.Result)
		}
	}
}

func (r *rewriter) pay(pos syntax.Position, weight int) syntax.Stmt {
	return &syntax.ExprStmt{X: r.single("made", pos, number(pos, weight))}
}

// docLen returns the number of statements that are the docstring of a function, 0 or 1.
func docLen(body []syntax.Stmt) int {
	if len(body) == 0 {
		return 0
	}
	if s, ok := body[0].(*syntax.ExprStmt); ok {
		if lit, ok := s.X.(*syntax.Literal); ok && lit.Token == syntax.STRING {
			return 1
		}
	}
	return 0
}

func (r *rewriter) assign(s *syntax.AssignStmt) {
	s.RHS = r.expr(s.RHS)
	if s.Op == syntax.EQ {
		s.LHS = r.target(s.LHS)
		return
	}
	switch lhs := unparen(s.LHS).(type) {
	case *syntax.Ident:
		if !r.bound[lhs.Name] {
			return // never bound; executing it is an error
		}
		read := &syntax.Ident{NamePos: lhs.NamePos, Name: lhs.Name}
		s.RHS = r.double(s.Op.String(), s.OpPos, read, s.RHS)
		s.Op = syntax.EQ
	case *syntax.IndexExpr:
		lhs.X = r.single("augment", lhs.Lbrack, r.expr(lhs.X))
		lhs.Y = r.expr(lhs.Y)
	case *syntax.DotExpr:
		lhs.X = r.single("augment", lhs.Dot, r.expr(lhs.X))
	}
}

// target rewrites the target of an assignment.
func (r *rewriter) target(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		e.X = r.target(e.X)
	case *syntax.TupleExpr:
		r.targets(e.List)
	case *syntax.ListExpr:
		r.targets(e.List)
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
	case *syntax.IndexExpr:
		place := "augment"
		switch e.Y.(type) {
		case *syntax.Ident, *syntax.Literal:
			place = "place" // evaluating the index runs no code
		}
		e.X = r.single(place, e.Lbrack, r.expr(e.X))
		e.Y = r.expr(e.Y)
	}
	return e
}

func (r *rewriter) targets(list []syntax.Expr) {
	for i, e := range list {
		list[i] = r.target(e)
	}
}

func (r *rewriter) params(params []syntax.Expr) {
	for _, p := range params {
		if p, ok := p.(*syntax.BinaryExpr); ok {
			p.Y = r.expr(p.Y)
		}
	}
}

func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return r.binary(e)
	case *syntax.UnaryExpr:
		return r.unary(e)
	case *syntax.CallExpr:
		e.Fn = r.expr(e.Fn)
		for i, arg := range e.Args {
			e.Args[i] = r.arg(arg)
		}
	case *syntax.Comprehension:
		return r.comprehension(e)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = r.condition(e.Cond, e.If), r.expr(e.True), r.expr(e.False)
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
		if isMetered(e.Name.Name) {
			e.X = r.single("view", e.Dot, e.X)
		}
	case *syntax.IndexExpr:
		e.X = r.expr(e.X)
		if !r.literal(e.Y) || isText(e.Y) {
			return r.double("index", e.Lbrack, e.X, r.expr(e.Y))
		}
	case *syntax.SliceExpr:
		return r.slice(e)
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.ListExpr, *syntax.TupleExpr, *syntax.DictExpr, *syntax.LambdaExpr:
		weight := r.display(e)
		if weight > 2*tinyWeight {
			return &syntax.ParenExpr{X: r.made(startOf(e), weight, e), Lparen: startOf(e)}
		}
	}
	return e
}

// startOf returns the position of a display.
func startOf(e syntax.Expr) syntax.Position {
	start, _ := e.Span()
	return start
}

// display rewrites the elements of a list, tuple, dict or lambda, and returns its weight with that of the displays
// directly inside.
func (r *rewriter) display(e syntax.Expr) (weight int) {
	switch e := e.(type) {
	case *syntax.ListExpr:
		return tinyWeight + r.elements(e.List)
	case *syntax.TupleExpr:
		return tinyWeight + r.elements(e.List)
	case *syntax.DictExpr:
		weight = int(weightOfDict(len(e.List)))
		for _, x := range e.List {
			entry := x.(*syntax.DictEntry)
			if !r.literal(entry.Key) {
				entry.Key = r.single("key", entry.Colon, r.expr(entry.Key))
			}
			var inside int
			entry.Value, inside = r.element(entry.Value)
			weight += inside
		}
		return weight
	case *syntax.LambdaExpr:
		r.params(e.Params)
		frame := r.frameWeight(e, e.Lambda, e.Params)
		e.Body = r.expr(e.Body)
		if frame > 0 {
			e.Body = &syntax.ParenExpr{X: r.made(e.Lambda, frame, e.Body), Lparen: e.Lambda}
		}
		return 3 * tinyWeight
	}
	return 0
}

// elements rewrites the elements of a display in place.
func (r *rewriter) elements(list []syntax.Expr) (weight int) {
	for i, e := range list {
		var inside int
		list[i], inside = r.element(e)
		weight += inside
	}
	return weight
}

// element rewrites an element of a display, which charges for the displays inside of it.
func (r *rewriter) element(e syntax.Expr) (_ syntax.Expr, weight int) {
	switch e.(type) {
	case *syntax.ListExpr, *syntax.TupleExpr, *syntax.DictExpr, *syntax.LambdaExpr:
		return e, r.display(e)
	}
	return r.expr(e), 0
}

func (r *rewriter) arg(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		if e.Op == syntax.EQ { // name=value
			e.Y = r.expr(e.Y)
			return e
		}
	case *syntax.UnaryExpr:
		switch e.Op {
		case syntax.STAR:
			e.X = r.single("args", e.OpPos, r.expr(e.X))
			return e
		case syntax.STARSTAR:
			e.X = r.single("kwargs", e.OpPos, r.expr(e.X))
			return e
		}
	}
	return r.expr(e)
}

func (r *rewriter) unary(e *syntax.UnaryExpr) syntax.Expr {
	if r.literal(e.X) {
		return e
	}
	e.X = r.expr(e.X)
	if e.Op == syntax.NOT {
		return e
	}
	return r.single("unary"+e.Op.String(), e.OpPos, e.X)
}

func (r *rewriter) binary(e *syntax.BinaryExpr) syntax.Expr {
	native := r.isNative(e)
	if r.cover != nil && (e.Op == syntax.AND || e.Op == syntax.OR) {
		e.X, e.Y = r.leftOperand(e, nil, nil), r.expr(e.Y)
		return e
	}
	e.X, e.Y = r.expr(e.X), r.expr(e.Y)
	if native {
		return e
	}
	switch e.Op {
	case syntax.IN, syntax.NOT_IN:
		e.Y = r.single("in", e.OpPos, e.Y)
		return e
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		e.Y = r.single(e.Op.String(), e.OpPos, e.Y)
		e.Op = syntax.IN
		return e
	}
	return r.double(e.Op.String(), e.OpPos, e.X, e.Y)
}

func (r *rewriter) slice(e *syntax.SliceExpr) syntax.Expr {
	bound := func(x syntax.Expr) syntax.Expr {
		if x == nil {
			r.used["none"] = true
			return &syntax.Ident{NamePos: e.Lbrack, Name: operatorVar("none")}
		}
		return r.expr(x)
	}
	x := r.expr(e.X)
	bounds := &syntax.TupleExpr{Lparen: e.Lbrack, List: []syntax.Expr{bound(e.Lo), bound(e.Hi), bound(e.Step)}, Rparen: e.Rbrack}
	return r.double("slice", e.Lbrack, x, bounds)
}

// comprehension rewrites a comprehension. A dict comprehension makes its entries first and the dict at the end; an
// unhashable key is still refused immediately.
func (r *rewriter) comprehension(e *syntax.Comprehension) syntax.Expr {
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			c.X = r.expr(c.X)
			c.Vars = r.target(c.Vars)
		case *syntax.IfClause:
			c.Cond = r.condition(c.Cond, c.If)
		}
	}
	entry, ok := e.Body.(*syntax.DictEntry)
	if !ok {
		e.Body = r.expr(e.Body)
		return e
	}
	e.Curly = false
	pair := &syntax.TupleExpr{Lparen: entry.Colon, List: []syntax.Expr{r.expr(entry.Key), r.expr(entry.Value)}, Rparen: entry.Colon}
	e.Body = r.single("pair", entry.Colon, pair)
	return r.single("entries", entry.Colon, e)
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// isText reports whether e is a string literal: when a dict lacks it as a key, the error lists the keys that it has.
func isText(e syntax.Expr) bool {
	lit, ok := e.(*syntax.Literal)
	return ok && lit.Token == syntax.STRING
}
