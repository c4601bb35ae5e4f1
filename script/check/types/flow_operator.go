package types

import (
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/display"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"go.starlark.net/syntax"
)

// binary is the type of x op y, except for and, or.
func (e *engine) binary(x *syntax.BinaryExpr, left, right Type) Type {
	switch x.Op {
	case syntax.EQL, syntax.NEQ:
		e.comparable(x.X, x.Y, left, right)
		e.comparable(x.Y, x.X, right, left)
		return Kinds(boolKind)
	case syntax.IN, syntax.NOT_IN:
		e.membership(x, left, right)
		return Kinds(boolKind)
	case syntax.PERCENT:
		if left.Is(Text) {
			e.format(x, left, right)
			return Kinds(Text)
		}
	}
	if left.IsAny() || right.IsAny() || left.IsNever() || right.IsNever() {
		return unknown(x.Op, left, right)
	}
	out, fits := Never, false
	noneLeft, noneRight := left.Some(unexpectedNone), right.Some(unexpectedNone)
	for _, a := range left.Atoms() {
		for _, b := range right.Atoms() {
			if t, ok := operationOf(x.Op, a, b); ok {
				out, fits = Join(out, t), true
			}
		}
	}
	if !fits {
		e.operandProblem(x, left, right)
		return Never
	}
	if noneLeft && !left.Is(None) {
		e.noneFor(x.X, left, func(a *Atom) bool { return some(x.Op, a, right, false) })
	}
	if noneRight && !right.Is(None) {
		e.noneFor(x.Y, right, func(b *Atom) bool { return some(x.Op, b, left, true) })
	}
	return out
}

var operatorWords = map[syntax.Token]string{syntax.LT: "<", syntax.LE: "<=", syntax.GT: ">", syntax.GE: ">="}

// operandProblem reports operands that never fit.
func (e *engine) operandProblem(x *syntax.BinaryExpr, left, right Type) {
	p := FindingProblem{Code: "operand", Node: x, Message: fmt.Sprintf("%s %s %s", bare(left), x.Op, bare(right))}
	switch {
	case x.Op == syntax.PLUS && left.Is(Text) && !right.Is(None):
		p.Hint = "use str(...)"
	case x.Op == syntax.PLUS && right.Is(Text) && !left.Is(None):
		p.Hint = "use str(...)"
	case operatorWords[x.Op] != "" && left.Is(Text) != right.Is(Text) && (left.Is(Int, floatKind) || right.Is(Int, floatKind)):
		p.Hint = "use int(...)"
	}
	p.Message += " is not possible"
	e.say(p)
}

// comparable warns about a comparison with a literal that a closed set does not contain.
func (e *engine) comparable(at, other syntax.Expr, t, value Type) {
	_ = at
	v := value.Only()
	if v == nil || v.Lit == nil || v.Set != nil {
		return
	}
	e.inSet(other, t, v)
}

// inSet warns about a value that is in none of the sets that t can have.
func (e *engine) inSet(at syntax.Expr, t Type, v *Atom) {
	rest := t.Without(None)
	var all []any
	closed := rest.Every(func(a *Atom) bool {
		if a.Kind == boolKind && a.Role != ownRole && a.Lit == nil && v.Kind == Text {
			all = append(all, true, false)
			return true
		}
		all = append(all, a.Set...)
		return a.Set != nil
	})
	if !closed || slices.ContainsFunc(all, func(x any) bool { return sameLit(x, v.Lit) }) {
		return
	}
	var shown, names []string
	for _, x := range all {
		s, ok := x.(string)
		if !ok {
			s = show(x)
		}
		if !slices.Contains(shown, s) {
			shown, names = append(shown, s), append(names, s)
		}
	}
	p := FindingProblem{Code: "never-equal", Warning: true, Node: at, Message: fmt.Sprintf("this is %s, never %s", list2(shown, "or"), show(v.Lit))}
	if s, ok := v.Lit.(string); ok {
		if near := display.Nearest(s, names); near != "" {
			p.Hint, p.Fix = fmt.Sprintf("did you mean %q?", near), quoted(near)
		}
	}
	e.say(p)
}

// membership checks x in y.
func (e *engine) membership(x *syntax.BinaryExpr, left, right Type) {
	if right.Is(None, boolKind, Int, floatKind, funcKind, Struct) {
		e.report("operand", x, "%s in %s is not possible", bare(left), bare(right))
		return
	}
	if right.Is(Text) && left.Is(Int, floatKind, List, Dict, boolKind) {
		e.report("operand", x, "%s in string is not possible", bare(left))
		return
	}
	e.noneFor(x.Y, right, func(a *Atom) bool { return operationIterable(a) || a.Kind == Text })
	for _, el := range meter.Elements(x.Y) {
		if v := e.quiet(el).Only(); v != nil && v.Lit != nil && v.Set == nil {
			e.inSet(el, left, v)
		}
	}
}

// format checks "..." % values.
func (e *engine) format(x *syntax.BinaryExpr, left, right Type) {
	text, ok := left.Text()
	if !ok || right.IsAny() || right.IsNever() {
		return
	}
	verbs, keyed, bad := verbs(text)
	if bad != "" {
		e.report("format", x.X, "%s", bad)
		return
	}
	if keyed {
		return
	}
	a := right.Only()
	values := []Type{right}
	if a != nil && a.Kind == tuple {
		if !a.Sized {
			return
		}
		values = a.Elems
	} else if right.Has(tuple) {
		return
	}
	if len(values) != len(verbs) {
		if a != nil && a.Kind == Dict && len(verbs) == 0 {
			return
		}
		e.report("format", x, "the format wants %s, has %d", plural(len(verbs), "value"), len(values))
		return
	}
	exprs := meter.Elements(x.Y)
	for i, v := range values {
		var at syntax.Expr = x.Y
		if len(exprs) == len(values) {
			at = exprs[i]
		}
		e.formatted(at, verbs[i], v)
	}
}

// formatted reports a value that a verb does not accept.
func (e *engine) formatted(at syntax.Expr, verb byte, v Type) {
	switch verb {
	case 'd', 'i', 'o', 'x', 'X', 'c':
		if v.Is(Text) && verb == 'c' {
			return
		}
		if v.Is(Text, None, List, Dict, tuple, boolKind) {
			e.report("format", at, "%%%c wants an integer, this is %s", verb, article(v))
			return
		}
		e.noneFor(at, v, func(a *Atom) bool { return isNumber(a.Kind) })
	case 'e', 'f', 'g', 'E', 'F', 'G':
		if v.Is(Text, None, List, Dict, tuple, boolKind) {
			e.report("format", at, "%%%c wants a number, this is %s", verb, article(v))
			return
		}
		e.noneFor(at, v, func(a *Atom) bool { return isNumber(a.Kind) })
	}
}
