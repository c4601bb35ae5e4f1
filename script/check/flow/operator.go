package flow

import (
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
	"go.starlark.net/syntax"
)

// binary is the type of x op y, except for and, or.
func (e *engine) binary(x *syntax.BinaryExpr, left, right types.Type) types.Type {
	switch x.Op {
	case syntax.EQL, syntax.NEQ:
		e.comparable(x.X, x.Y, left, right)
		e.comparable(x.Y, x.X, right, left)
		return types.Kinds(types.Bool)
	case syntax.IN, syntax.NOT_IN:
		e.membership(x, left, right)
		return types.Kinds(types.Bool)
	case syntax.PERCENT:
		if left.Is(types.Text) {
			e.format(x, left, right)
			return types.Kinds(types.Text)
		}
	}
	if left.IsAny() || right.IsAny() || left.IsNever() || right.IsNever() {
		return operation.Unknown(x.Op, left, right)
	}
	out, fits := types.Never, false
	noneLeft, noneRight := left.Some(types.UnexpectedNone), right.Some(types.UnexpectedNone)
	for _, a := range left.Atoms() {
		for _, b := range right.Atoms() {
			if t, ok := operation.Of(x.Op, a, b); ok {
				out, fits = types.Join(out, t), true
			}
		}
	}
	if !fits {
		e.operandProblem(x, left, right)
		return types.Never
	}
	if noneLeft && !left.Is(types.None) {
		e.noneFor(x.X, left, func(a *types.Atom) bool { return operation.Some(x.Op, a, right, false) })
	}
	if noneRight && !right.Is(types.None) {
		e.noneFor(x.Y, right, func(b *types.Atom) bool { return operation.Some(x.Op, b, left, true) })
	}
	return out
}

var operatorWords = map[syntax.Token]string{syntax.LT: "<", syntax.LE: "<=", syntax.GT: ">", syntax.GE: ">="}

// operandProblem reports operands that never fit.
func (e *engine) operandProblem(x *syntax.BinaryExpr, left, right types.Type) {
	p := finding.Problem{Code: "operand", Node: x, Message: fmt.Sprintf("%s %s %s", finding.Bare(left), x.Op, finding.Bare(right))}
	switch {
	case x.Op == syntax.PLUS && left.Is(types.Text) && !right.Is(types.None):
		p.Hint = "use str(...)"
	case x.Op == syntax.PLUS && right.Is(types.Text) && !left.Is(types.None):
		p.Hint = "use str(...)"
	case operatorWords[x.Op] != "" && left.Is(types.Text) != right.Is(types.Text) && (left.Is(types.Int, types.Float) || right.Is(types.Int, types.Float)):
		p.Hint = "use int(...)"
	}
	p.Message += " is not possible"
	e.say(p)
}

// comparable warns about a comparison with a literal that a closed set does not contain.
func (e *engine) comparable(at, other syntax.Expr, t, value types.Type) {
	_ = at
	v := value.Only()
	if v == nil || v.Lit == nil || v.Set != nil {
		return
	}
	e.inSet(other, t, v)
}

// inSet warns about a value that is in none of the sets that t can have.
func (e *engine) inSet(at syntax.Expr, t types.Type, v *types.Atom) {
	rest := t.Without(types.None)
	var all []any
	closed := rest.Every(func(a *types.Atom) bool {
		if a.Kind == types.Bool && a.Role != types.Made && a.Lit == nil && v.Kind == types.Text {
			all = append(all, true, false)
			return true
		}
		all = append(all, a.Set...)
		return a.Set != nil
	})
	if !closed || slices.ContainsFunc(all, func(x any) bool { return types.SameLit(x, v.Lit) }) {
		return
	}
	var shown, names []string
	for _, x := range all {
		s, ok := x.(string)
		if !ok {
			s = types.Show(x)
		}
		if !slices.Contains(shown, s) {
			shown, names = append(shown, s), append(names, s)
		}
	}
	p := finding.Problem{Code: "never-equal", Warning: true, Node: at, Message: fmt.Sprintf("this is %s, never %s", types.List2(shown, "or"), types.Show(v.Lit))}
	if s, ok := v.Lit.(string); ok {
		if near := spell.Nearest(s, names); near != "" {
			p.Hint, p.Fix = fmt.Sprintf("did you mean %q?", near), finding.Quoted(near)
		}
	}
	e.say(p)
}

// membership checks x in y.
func (e *engine) membership(x *syntax.BinaryExpr, left, right types.Type) {
	if right.Is(types.None, types.Bool, types.Int, types.Float, types.Func, types.Struct) {
		e.report("operand", x, "%s in %s is not possible", finding.Bare(left), finding.Bare(right))
		return
	}
	if right.Is(types.Text) && left.Is(types.Int, types.Float, types.List, types.Dict, types.Bool) {
		e.report("operand", x, "%s in string is not possible", finding.Bare(left))
		return
	}
	e.noneFor(x.Y, right, func(a *types.Atom) bool { return operation.Iterable(a) || a.Kind == types.Text })
	for _, el := range tree.Elements(x.Y) {
		if v := e.quiet(el).Only(); v != nil && v.Lit != nil && v.Set == nil {
			e.inSet(el, left, v)
		}
	}
}

// format checks "..." % values.
func (e *engine) format(x *syntax.BinaryExpr, left, right types.Type) {
	text, ok := left.Text()
	if !ok || right.IsAny() || right.IsNever() {
		return
	}
	verbs, keyed, bad := operation.Verbs(text)
	if bad != "" {
		e.report("format", x.X, "%s", bad)
		return
	}
	if keyed {
		return
	}
	a := right.Only()
	values := []types.Type{right}
	if a != nil && a.Kind == types.Tuple {
		if !a.Sized {
			return
		}
		values = a.Elems
	} else if right.Has(types.Tuple) {
		return
	}
	if len(values) != len(verbs) {
		if a != nil && a.Kind == types.Dict && len(verbs) == 0 {
			return
		}
		e.report("format", x, "the format wants %s, has %d", finding.Plural(len(verbs), "value"), len(values))
		return
	}
	exprs := tree.Elements(x.Y)
	for i, v := range values {
		var at syntax.Expr = x.Y
		if len(exprs) == len(values) {
			at = exprs[i]
		}
		e.formatted(at, verbs[i], v)
	}
}

// formatted reports a value that a verb does not accept.
func (e *engine) formatted(at syntax.Expr, verb byte, v types.Type) {
	switch verb {
	case 'd', 'i', 'o', 'x', 'X', 'c':
		if v.Is(types.Text) && verb == 'c' {
			return
		}
		if v.Is(types.Text, types.None, types.List, types.Dict, types.Tuple, types.Bool) {
			e.report("format", at, "%%%c wants an integer, this is %s", verb, finding.Article(v))
			return
		}
		e.noneFor(at, v, func(a *types.Atom) bool { return operation.IsNumber(a.Kind) })
	case 'e', 'f', 'g', 'E', 'F', 'G':
		if v.Is(types.Text, types.None, types.List, types.Dict, types.Tuple, types.Bool) {
			e.report("format", at, "%%%c wants a number, this is %s", verb, finding.Article(v))
			return
		}
		e.noneFor(at, v, func(a *types.Atom) bool { return operation.IsNumber(a.Kind) })
	}
}
