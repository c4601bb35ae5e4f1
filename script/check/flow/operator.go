package flow

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// binary is the type of x op y; and, or are elsewhere.
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
		return operated(x.Op, left, right)
	}
	out, fits := types.Never, false
	noneLeft, noneRight := left.Some(surprisingNone), right.Some(surprisingNone)
	for _, a := range left.Atoms() {
		for _, b := range right.Atoms() {
			if t, ok := operate(x.Op, a, b); ok {
				out, fits = types.Join(out, t), true
			}
		}
	}
	if !fits {
		e.operandProblem(x, left, right)
		return types.Never
	}
	if noneLeft && !left.Is(types.None) {
		e.noneFor(x.X, left, func(a *types.Atom) bool { return some(x.Op, a, right, false) })
	}
	if noneRight && !right.Is(types.None) {
		e.noneFor(x.Y, right, func(b *types.Atom) bool { return some(x.Op, b, left, true) })
	}
	return out
}

// some reports whether an operand goes with one member of the other side.
func some(op syntax.Token, a *types.Atom, other types.Type, swapped bool) bool {
	return other.Some(func(b *types.Atom) bool {
		if swapped {
			_, ok := operate(op, b, a)
			return ok
		}
		_, ok := operate(op, a, b)
		return ok
	})
}

// operated is what an operator gives when one side is not known.
func operated(op syntax.Token, left, right types.Type) types.Type {
	if op == syntax.LT || op == syntax.LE || op == syntax.GT || op == syntax.GE {
		return types.Kinds(types.Bool)
	}
	if op == syntax.SLASH {
		return types.Kinds(types.Float, types.Duration)
	}
	if op == syntax.PLUS && (left.Is(types.Text) || right.Is(types.Text)) {
		return types.Kinds(types.Text)
	}
	return types.Any
}

// operate is what an operator gives for two kinds; ok is false when it fails.
func operate(op syntax.Token, a, b *types.Atom) (types.Type, bool) {
	numbers := isNumber(a.Kind) && isNumber(b.Kind)
	integers := a.Kind == types.Int && b.Kind == types.Int
	result := func(k ...types.Kind) (types.Type, bool) { return types.Kinds(k...), true }
	if a.Kind == types.Opaque || b.Kind == types.Opaque || a.Kind == types.Iterable && a.Name != "" {
		return types.Any, true
	}
	switch op {
	case syntax.PLUS:
		return plus(a, b)
	case syntax.MINUS:
		switch {
		case numbers:
			return arithmetic(a, b), true
		case a.Kind == types.Set && b.Kind == types.Set:
			return types.Of(a), true
		case a.Kind == types.Time && b.Kind == types.Time, a.Kind == types.Duration && b.Kind == types.Duration:
			return result(types.Duration)
		case a.Kind == types.Time && b.Kind == types.Duration:
			return result(types.Time)
		}
	case syntax.STAR:
		return times(a, b)
	case syntax.SLASH:
		if numbers || a.Kind == types.Duration && b.Kind == types.Duration {
			return result(types.Float)
		}
		return types.Kinds(types.Duration), a.Kind == types.Duration && isNumber(b.Kind)
	case syntax.SLASHSLASH, syntax.PERCENT:
		if a.Kind == types.Duration {
			return types.Any, true
		}
		return arithmetic(a, b), numbers
	case syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		return types.Kinds(types.Bool), ordered(a, b, numbers)
	case syntax.PIPE:
		if a.Kind == types.Dict && b.Kind == types.Dict {
			return merged(a, b), true
		}
		fallthrough
	case syntax.AMP, syntax.CIRCUMFLEX:
		if a.Kind == types.Set && b.Kind == types.Set {
			return types.Of(&types.Atom{Kind: types.Set, Elem: types.Join(a.Elem, b.Elem)}), true
		}
		return types.Kinds(types.Int), integers
	case syntax.LTLT, syntax.GTGT:
		return types.Kinds(types.Int), integers
	}
	return types.Any, false
}

func isNumber(k types.Kind) bool { return k == types.Int || k == types.Float }

func arithmetic(a, b *types.Atom) types.Type {
	if a.Kind == types.Int && b.Kind == types.Int {
		return types.Kinds(types.Int)
	}
	return types.Kinds(types.Float)
}

func plus(a, b *types.Atom) (types.Type, bool) {
	switch {
	case isNumber(a.Kind) && isNumber(b.Kind):
		return arithmetic(a, b), true
	case a.Kind != b.Kind:
		return types.Kinds(types.Time), a.Kind == types.Time && b.Kind == types.Duration || a.Kind == types.Duration && b.Kind == types.Time
	}
	switch a.Kind {
	case types.Text, types.Bytes, types.Duration:
		s, okA := a.Lit.(string)
		t, okB := b.Lit.(string)
		if okA && okB && len(s)+len(t) < 200 {
			return types.Literal(s + t), true
		}
		return types.Kinds(a.Kind), true
	case types.List:
		return types.ListOf(types.Join(a.Elem, b.Elem)), true
	case types.Tuple:
		if a.Sized && b.Sized {
			return types.TupleOf(slices.Concat(a.Elems, b.Elems)...), true
		}
		return types.Kinds(types.Tuple), true
	}
	return types.Any, false
}

func times(a, b *types.Atom) (types.Type, bool) {
	if isNumber(a.Kind) && isNumber(b.Kind) {
		return arithmetic(a, b), true
	}
	if a.Kind == types.Int || a.Kind == types.Float && b.Kind == types.Duration {
		a, b = b, a
	}
	switch {
	case a.Kind == types.Duration && isNumber(b.Kind):
		return types.Kinds(types.Duration), true
	case b.Kind != types.Int:
		return types.Any, false
	case a.Kind == types.Text, a.Kind == types.Bytes:
		return types.Kinds(a.Kind), true
	case a.Kind == types.List:
		return types.Of(a), true
	case a.Kind == types.Tuple:
		return types.Kinds(types.Tuple), true
	}
	return types.Any, false
}

// ordered reports whether two kinds can be compared with <.
func ordered(a, b *types.Atom, numbers bool) bool {
	if numbers {
		return true
	}
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case types.None, types.Dict, types.Func, types.Struct, types.Module, types.Range:
		return false
	}
	return true
}

// merged is a | b of dicts.
func merged(a, b *types.Atom) types.Type {
	if a.Role != types.Made && len(a.Fields) == 0 || b.Role != types.Made && len(b.Fields) == 0 {
		return types.Kinds(types.Dict)
	}
	out := &types.Atom{Kind: types.Dict, Role: types.Made, Open: a.Open || b.Open, Elem: types.Join(a.Elem, b.Elem), Fields: slices.Clone(a.Fields)}
	for _, f := range b.Fields {
		if f.Presence != types.Required {
			if old, ok := out.Field(f.Name); ok {
				f.Type, f.Presence = types.Join(f.Type, old.Type), old.Presence
			}
		}
		out = out.With(f)
	}
	for i := range out.Fields {
		if out.Fields[i].Presence == types.Optional {
			out.Fields[i].Presence = types.Maybe
		}
	}
	out.Base = nil
	return types.Of(out)
}

var operatorWords = map[syntax.Token]string{syntax.LT: "<", syntax.LE: "<=", syntax.GT: ">", syntax.GE: ">="}

// operandProblem tells of operands that never fit.
func (e *engine) operandProblem(x *syntax.BinaryExpr, left, right types.Type) {
	p := Problem{Code: "operand", Node: x, Message: fmt.Sprintf("%s %s %s", bare(left), x.Op, bare(right))}
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

// bare is a type without its article.
func bare(t types.Type) string {
	return strings.NewReplacer("an ", "", "a ", "").Replace(article(t))
}

// comparable warns of a comparison with a literal that a closed set does not have.
func (e *engine) comparable(at, other syntax.Expr, t, value types.Type) {
	_ = at
	v := value.Only()
	if v == nil || v.Lit == nil || v.Set != nil {
		return
	}
	e.inSet(other, t, v)
}

// inSet warns of a value that is in none of the sets that t can be of.
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
	p := Problem{Code: "never-equal", Warning: true, Node: at, Message: fmt.Sprintf("this is %s, never %s", types.List2(shown, "or"), types.Show(v.Lit))}
	if s, ok := v.Lit.(string); ok {
		if near := spell.Nearest(s, names); near != "" {
			p.Hint, p.Fix = fmt.Sprintf("did you mean %q?", near), quoted(near)
		}
	}
	e.say(p)
}

// membership is x in y.
func (e *engine) membership(x *syntax.BinaryExpr, left, right types.Type) {
	if right.Is(types.None, types.Bool, types.Int, types.Float, types.Func, types.Struct) {
		e.tell("operand", x, "%s in %s is not possible", bare(left), bare(right))
		return
	}
	if right.Is(types.Text) && left.Is(types.Int, types.Float, types.List, types.Dict, types.Bool) {
		e.tell("operand", x, "%s in text is not possible", bare(left))
		return
	}
	e.noneFor(x.Y, right, func(a *types.Atom) bool { return iterable(a) || a.Kind == types.Text })
	for _, el := range elementsOf(x.Y) {
		if v := e.quiet(el).Only(); v != nil && v.Lit != nil && v.Set == nil {
			e.inSet(el, left, v)
		}
	}
}

// format is "..." % values.
func (e *engine) format(x *syntax.BinaryExpr, left, right types.Type) {
	text, ok := left.Text()
	if !ok || right.IsAny() || right.IsNever() {
		return
	}
	verbs, keyed, bad := verbsOf(text)
	if bad != "" {
		e.tell("format", x.X, "%s", bad)
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
		e.tell("format", x, "the format wants %s, has %d", plural(len(verbs), "value"), len(values))
		return
	}
	exprs := elementsOf(x.Y)
	for i, v := range values {
		var at syntax.Expr = x.Y
		if len(exprs) == len(values) {
			at = exprs[i]
		}
		e.formatted(at, verbs[i], v)
	}
}

// formatted tells of a value that a verb does not take.
func (e *engine) formatted(at syntax.Expr, verb byte, v types.Type) {
	switch verb {
	case 'd', 'i', 'o', 'x', 'X', 'c':
		if v.Is(types.Text) && verb == 'c' {
			return
		}
		if v.Is(types.Text, types.None, types.List, types.Dict, types.Tuple, types.Bool) {
			e.tell("format", at, "%%%c wants an integer, this is %s", verb, article(v))
			return
		}
		e.noneFor(at, v, func(a *types.Atom) bool { return isNumber(a.Kind) })
	case 'e', 'f', 'g', 'E', 'F', 'G':
		if v.Is(types.Text, types.None, types.List, types.Dict, types.Tuple, types.Bool) {
			e.tell("format", at, "%%%c wants a number, this is %s", verb, article(v))
			return
		}
		e.noneFor(at, v, func(a *types.Atom) bool { return isNumber(a.Kind) })
	}
}

// verbsOf reads a format of the % operator. Only %s %r and the like are there, without widths.
func verbsOf(s string) (verbs []byte, keyed bool, bad string) {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		i++
		if i == len(s) {
			return nil, false, "the format ends with %; write %% for a percent sign"
		}
		if s[i] == '%' {
			continue
		}
		if s[i] == '(' {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				return nil, false, "the format has a ( without its )"
			}
			keyed = true
			if i += end + 1; i >= len(s) {
				return nil, false, "the format ends within %(...)"
			}
		}
		if !strings.ContainsRune("srdiouxXeEfFgGca", rune(s[i])) || s[i] == 'u' || s[i] == 'a' {
			return nil, false, fmt.Sprintf("%%%c is no verb of a format: Starlark has no widths, precisions and flags; printf(\"%%-8s\", x) has", s[i])
		}
		verbs = append(verbs, s[i])
	}
	return verbs, keyed, ""
}
