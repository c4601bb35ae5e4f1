package types

import (
	"go.starlark.net/syntax"
)

func (e *engine) stmts(list []syntax.Stmt) {
	for _, s := range list {
		if e.env.Dead || e.work > maxWork {
			return
		}
		e.stmt(s)
	}
}

func (e *engine) stmt(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		e.statement(s)
	case *syntax.AssignStmt:
		e.assignment(s)
	case *syntax.IfStmt:
		e.branch(s)
	case *syntax.ForStmt:
		e.forLoop(s)
	case *syntax.WhileStmt:
		e.whileLoop(s)
	case *syntax.DefStmt:
		e.define(s)
	case *syntax.ReturnStmt:
		e.returned(s)
	case *syntax.LoadStmt:
		e.load(s)
	case *syntax.BranchStmt:
		e.jump(s)
	}
}

func (e *engine) branch(s *syntax.IfStmt) {
	e.eval(s.Cond)
	no := e.env.Clone()
	e.conds.Narrow(s.Cond, true)
	e.stmts(s.True)
	yes := e.env.State
	e.env.State = no
	e.conds.Narrow(s.Cond, false)
	e.stmts(s.False)
	e.env.State = envJoin(yes, e.env.State)
}

func (e *engine) jump(s *syntax.BranchStmt) {
	if s.Token == syntax.PASS || len(e.frame.breaks) == 0 {
		return
	}
	l := e.frame.breaks[len(e.frame.breaks)-1]
	if s.Token == syntax.BREAK {
		l.out = envJoin(l.out, e.env.State)
	} else {
		l.next = envJoin(l.next, e.env.State)
	}
	e.env.End()
}

const rounds = 3

// loop follows a body until the types no longer change, then once more to report problems. head is followed before
// each iteration; leave is called where the loop may end.
func (e *engine) loop(head func(), body []syntax.Stmt, leave func()) {
	start := e.env.State
	exits := &loopExits{}
	round := func() *State {
		exits.out, exits.next = start.Ended(), start.Ended()
		e.env.State = start.Clone()
		e.frame.breaks = append(e.frame.breaks, exits)
		head()
		e.stmts(body)
		e.frame.breaks = e.frame.breaks[:len(e.frame.breaks)-1]
		return envJoin(e.env.State, exits.next)
	}
	e.mute++
	for i := range rounds + 2 {
		next, changed := grown(start, round(), i >= rounds)
		start = next
		if !changed {
			break
		}
	}
	e.mute--
	end, _ := grown(start, round(), false)
	e.env.State = end.Clone()
	leave()
	e.env.State = envJoin(e.env.State, exits.out)
}

func (e *engine) forLoop(s *syntax.ForStmt) {
	over := e.eval(s.X)
	elem := e.iterated(s.X, over)
	once := nonEmpty(over)
	before := e.env.State
	ran := before
	e.loop(func() { e.assign(s.Vars, elem, nil); e.watch(s) }, s.Body, func() {})
	if once { // the body ran, so its variables are set
		ran = e.env.State
	} else {
		ran = envJoin(before, e.env.State)
	}
	e.env.State = ran
}

// nonEmpty reports whether a loop over a value has at least one iteration.
func nonEmpty(t Type) bool {
	return t.Every(func(a *Atom) bool { return a.Kind == tuple && a.Sized && len(a.Elems) > 0 })
}

func (e *engine) whileLoop(s *syntax.WhileStmt) {
	e.loop(func() {
		e.eval(s.Cond)
		e.conds.Narrow(s.Cond, true)
	}, s.Body, func() {
		e.eval(s.Cond)
		e.conds.Narrow(s.Cond, false)
	})
}

// watch reports changes of the iterated value within the loop.
func (e *engine) watch(s *syntax.ForStmt) {
	id, ok := s.X.(*syntax.Ident)
	if !ok || e.mute > 0 {
		return
	}
	t, _ := e.env.Read(id)
	if !t.Is(Dict, List, Set) {
		return
	}
	w := &changeWatch{engine: e, id: First(id), name: id.Name}
	w.block(s.Body)
}

func (e *engine) returned(s *syntax.ReturnStmt) {
	t := Kinds(None)
	if s.Result != nil {
		t = e.eval(s.Result)
	}
	e.frame.returns = Join(e.frame.returns, returnedNone(t))
	if output := e.output(); output != nil && !e.env.Dead {
		var n syntax.Node = s
		if s.Result != nil {
			n = s.Result
		}
		e.fits.Check(value{Code: "output", Subject: "the output", Whole: n, Output: true}, s.Result, t, output)
	}
	e.env.End()
}

// returnedNone marks a None that a function returns, which callers have to expect.
func returnedNone(t Type) Type {
	if !t.Has(None) {
		return t
	}
	out := t.Without(None)
	return Join(out, Of(&Atom{Kind: None, Role: Output}))
}

// output returns the output schema of the tool whose entry function is being followed, or nil.
func (e *engine) output() *Schema {
	if e.frame.fn == nil || e.frame.unit != e.root {
		return nil
	}
	runs := func(entry *Entry) bool {
		return entry != nil && e.frame.fn.node == syntax.Node(e.root.scopes.Defs[entry.Function])
	}
	if runs(e.entry) {
		return e.entry.Output
	}
	for i := range e.root.Entries {
		if runs(&e.root.Entries[i]) {
			return e.root.Entries[i].Output
		}
	}
	return nil
}

func (e *engine) load(s *syntax.LoadStmt) {
	var m *module
	if u := e.Load(e.frame.unit, s.ModuleName()); u != nil {
		m = e.module(u)
	}
	for i, id := range s.To {
		t := Any
		if m != nil && !m.loading {
			if known, ok := m.globals[s.From[i].Name]; ok {
				t = known
			}
		}
		e.set(id, t)
	}
}

func (e *engine) assignment(s *syntax.AssignStmt) {
	if s.Op == syntax.EQ {
		e.assign(s.LHS, e.eval(s.RHS), s.RHS)
		return
	}
	left := e.eval(s.LHS)
	right := e.eval(s.RHS)
	op := s.Op - syntax.PLUS_EQ + syntax.PLUS
	var t Type
	if left.Has(List) && op == syntax.PLUS { // extends it by any iterable
		t = left.Replace(List, func(a *Atom) *Atom {
			return &Atom{Kind: List, Elem: Join(a.Elem, elementOf(right))}
		})
	} else {
		t = e.binary(&syntax.BinaryExpr{X: s.LHS, OpPos: s.OpPos, Op: op, Y: s.RHS}, left, right)
	}
	e.assign(s.LHS, t, s.RHS)
}

// assign assigns a type to the target of an assignment.
func (e *engine) assign(x syntax.Expr, t Type, value syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Ident:
		e.set(x, t)
	case *syntax.ParenExpr:
		e.assign(x.X, t, value)
	case *syntax.TupleExpr:
		e.unpack(x, x.List, t)
	case *syntax.ListExpr:
		e.unpack(x, x.List, t)
	case *syntax.IndexExpr:
		e.setItem(x, t, value)
	case *syntax.DotExpr:
		if on := e.eval(x.X); on.Is(Struct) {
			e.report("immutable", x, "%s cannot be changed", article(on))
		}
	}
}

func (e *engine) unpack(at syntax.Expr, list []syntax.Expr, t Type) {
	sized := t.Is(tuple, List)
	for i, target := range list {
		elem := Never
		for _, a := range t.Atoms() {
			switch {
			case a.Sized && i < len(a.Elems):
				elem = Join(elem, a.Elems[i])
			case a.Kind == List, a.Kind == Iterable, a.Kind == Set:
				elem = Join(elem, a.Elem)
			default:
				elem = Any
			}
		}
		if t.IsAny() || elem.IsNever() {
			elem = Any
		}
		e.assign(target, elem, nil)
	}
	if sized && t.Every(func(a *Atom) bool { return a.Sized && len(a.Elems) != len(list) }) {
		e.report("index", at, "these are %d names for %d values", len(list), len(t.Atoms()[0].Elems))
	}
	if t.Is(None, boolKind, Int, floatKind, Struct, funcKind, Text) && !t.Is(None) {
		e.report("index", at, "%s cannot be unpacked", article(t))
	}
}

// setItem is d[key] = value.
func (e *engine) setItem(x *syntax.IndexExpr, t Type, value syntax.Expr) {
	on := e.eval(x.X)
	key := e.eval(x.Y)
	if on.Is(tuple, Text, Bytes, rangeKind) {
		e.report("immutable", x, "%s cannot be changed", article(on))
		return
	}
	if on.Is(Dict) {
		e.hashable(x.Y, key)
	}
	if on.Is(List) && key.Is(Text, floatKind, None, Dict, List) {
		e.report("index", x.Y, "a list is indexed by an integer, not by %s", article(key))
	}
	e.env.Change(x.X, func(old Type) Type { return stored(old, key, t, x.Y, value) })
}

// stored returns the type of a value after one of its keys was set.
func stored(old, key, t Type, keyAt, valueAt syntax.Expr) Type {
	if old.IsAny() {
		return old
	}
	out := Never
	for _, a := range old.Atoms() {
		b := *a
		switch {
		case a.Kind == List:
			b = Atom{Kind: List, Elem: Join(a.Elem, t)}
		case a.Kind != Dict:
		default:
			b = *a.Store(key, t, keyAt, valueAt)
		}
		out = Join(out, Of(&b))
	}
	return out
}
