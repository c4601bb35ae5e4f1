package meter

import (
	"go.starlark.net/syntax"
)

// Marks of coverage are operators like those of the budget, in builds for tests only. Each returns the steps that the
// interpreter counts for it, so that a script uses the same number with and without them. A mark is a statement, or
// wraps the value of a condition. Only the operands of and, or and not are wrapped, since wrapping more would change
// the jumps around them.

// statement returns the mark before a statement, nil if the statement is not counted. first says that it is the first
// of its block.
func (r *rewriter) statement(s syntax.Stmt, first, documentation bool) syntax.Stmt {
	if r.cover == nil || documentation {
		return nil
	}
	switch s := s.(type) {
	case *syntax.DefStmt, *syntax.LoadStmt:
		return nil
	case *syntax.ExprStmt:
		if r.declares(s) {
			return nil
		}
	}
	at := syntax.Start(s)
	probe := &Probe{Statement: r.cover.Point(at, false)}
	if jump, ok := s.(*syntax.BranchStmt); ok {
		probe.Jump = first && jump.Token != syntax.PASS
	}
	if loop, ok := s.(*syntax.WhileStmt); ok && !r.constant(loop.Cond) {
		probe.Loop = r.cover.Point(loop.While, true)
		r.loops[loop] = probe.Loop
	}
	return &syntax.ExprStmt{X: r.single("mark", at, number(at, r.cover.Probe(probe)))}
}

// declares reports whether a statement is a declaration: tool(...).
func (r *rewriter) declares(s *syntax.ExprStmt) bool {
	call, ok := s.X.(*syntax.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fn.(*syntax.Ident)
	return ok && id.Name == "tool" && !r.bound[id.Name]
}

// condition rewrites the condition of a branch, which is reported at position at.
func (r *rewriter) condition(e syntax.Expr, at syntax.Position) syntax.Expr {
	if r.cover == nil || r.constant(e) {
		return r.expr(e)
	}
	p := r.cover.Point(at, true)
	return r.decide(e, []Way{{Point: p}}, []Way{{Point: p, Index: 1}})
}

// whileCondition rewrites the condition of a loop, whose outcomes are entered and not entered.
func (r *rewriter) whileCondition(s *syntax.WhileStmt) syntax.Expr {
	p := r.loops[s]
	if p == nil {
		return r.expr(s.Cond)
	}
	return r.decide(s.Cond, []Way{{Point: p, First: true}}, []Way{{Point: p, Index: 1, First: true}})
}

// constant reports whether a condition always has the same outcome.
func (r *rewriter) constant(e syntax.Expr) bool { return r.literal(unparen(e)) }

// decide rewrites an expression whose truth value decides between the given outcomes.
func (r *rewriter) decide(e syntax.Expr, yes, no []Way) syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		e.X = r.decide(e.X, yes, no)
		return e
	case *syntax.UnaryExpr:
		if e.Op == syntax.NOT {
			e.X = r.decide(e.X, no, yes)
			return e
		}
	case *syntax.BinaryExpr:
		if e.Op == syntax.AND || e.Op == syntax.OR {
			e.X = r.leftOperand(e, yes, no)
			e.Y = r.decide(e.Y, yes, no)
			return e
		}
	}
	value := r.expr(e)
	if len(yes)+len(no) == 0 {
		return value
	}
	start := startOf(e)
	n := r.cover.Probe(&Probe{True: yes, False: no})
	return r.double("way", start, number(start, n), value)
}

// leftOperand rewrites the first operand of and, or: it decides whether the second one is evaluated, and otherwise the
// whole expression.
func (r *rewriter) leftOperand(e *syntax.BinaryExpr, yes, no []Way) syntax.Expr {
	if r.constant(e.X) {
		return r.decide(e.X, nil, nil)
	}
	p := r.cover.Point(e.OpPos, true)
	taken, other := []Way{{Point: p}}, []Way{{Point: p, Index: 1}}
	if e.Op == syntax.AND {
		return r.decide(e.X, taken, append(other, no...))
	}
	return r.decide(e.X, append(taken, yes...), other)
}

// iterable rewrites the sequence of a for loop, whose outcomes are entered and not entered.
func (r *rewriter) iterable(s *syntax.ForStmt) syntax.Expr {
	value := r.expr(s.X)
	if r.cover == nil {
		return value
	}
	p := r.cover.Point(s.For, true)
	n := r.cover.Probe(&Probe{True: []Way{{Point: p}}, False: []Way{{Point: p, Index: 1}}})
	return r.double("loop", s.For, number(s.For, n), value)
}

// marksOnly reports whether the file uses no operators but marks.
func (r *rewriter) marksOnly() bool {
	for name := range r.used {
		if name != "mark" && name != "way" && name != "loop" {
			return false
		}
	}
	return true
}
