// Package operation returns the types of the results of operators, loops and formats from the types of their operands.
package operation

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// Some reports whether an operand is valid with some member of the other side.
func Some(op syntax.Token, a *types.Atom, other types.Type, swapped bool) bool {
	return other.Some(func(b *types.Atom) bool {
		if swapped {
			_, ok := Of(op, b, a)
			return ok
		}
		_, ok := Of(op, a, b)
		return ok
	})
}

// Unknown returns the result of an operator when one side is not known.
func Unknown(op syntax.Token, left, right types.Type) types.Type {
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

// Of returns the result of an operator for two kinds; ok is false when it fails.
func Of(op syntax.Token, a, b *types.Atom) (types.Type, bool) {
	numbers := IsNumber(a.Kind) && IsNumber(b.Kind)
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
		return types.Kinds(types.Duration), a.Kind == types.Duration && IsNumber(b.Kind)
	case syntax.SLASHSLASH, syntax.PERCENT:
		if a.Kind == types.Duration {
			return types.Any, true
		}
		return arithmetic(a, b), numbers
	case syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		return types.Kinds(types.Bool), ordered(a, b, numbers)
	case syntax.PIPE:
		if a.Kind == types.Dict && b.Kind == types.Dict {
			return Merged(a, b), true
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

// IsNumber reports whether a kind is numeric.
func IsNumber(k types.Kind) bool { return k == types.Int || k == types.Float }

func arithmetic(a, b *types.Atom) types.Type {
	if a.Kind == types.Int && b.Kind == types.Int {
		return types.Kinds(types.Int)
	}
	return types.Kinds(types.Float)
}

func plus(a, b *types.Atom) (types.Type, bool) {
	switch {
	case IsNumber(a.Kind) && IsNumber(b.Kind):
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
	if IsNumber(a.Kind) && IsNumber(b.Kind) {
		return arithmetic(a, b), true
	}
	if a.Kind == types.Int || a.Kind == types.Float && b.Kind == types.Duration {
		a, b = b, a
	}
	switch {
	case a.Kind == types.Duration && IsNumber(b.Kind):
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

// Merged returns a | b for dicts.
func Merged(a, b *types.Atom) types.Type {
	if a.Role != types.Made && !a.Declared || b.Role != types.Made && !b.Declared {
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

// Verbs parses a format of the % operator. Starlark has %s, %r and the like only, without widths.
func Verbs(s string) (verbs []byte, keyed bool, bad string) {
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
			return nil, false, fmt.Sprintf("%%%c is not a format verb: Starlark has no widths, precisions and flags; printf(\"%%-8s\", x) has", s[i])
		}
		verbs = append(verbs, s[i])
	}
	return verbs, keyed, ""
}

// Iterable reports whether a value can be iterated over.
func Iterable(a *types.Atom) bool {
	switch a.Kind {
	case types.List, types.Tuple, types.Set, types.Dict, types.Iterable, types.Range, types.Bytes:
		return true
	}
	return false
}

// ElementOf returns the type of the elements of an iterable.
func ElementOf(t types.Type) types.Type {
	if t.IsAny() {
		return types.Any
	}
	out := types.Never
	for _, a := range t.Atoms() {
		switch a.Kind {
		case types.List, types.Set, types.Iterable:
			out = types.Join(out, a.Elem)
		case types.Range:
			out = types.Join(out, types.Kinds(types.Int))
		case types.Tuple:
			if !a.Sized {
				return types.Any
			}
			for _, el := range a.Elems {
				out = types.Join(out, el)
			}
		case types.Dict:
			out = types.Join(out, KeysOf(a))
		case types.None:
		default:
			return types.Any
		}
	}
	return out
}

// KeysOf returns the type of the keys of a dict: strings when it comes from JSON.
func KeysOf(a *types.Atom) types.Type {
	switch {
	case a.Role != types.Made && len(a.Fields) > 0:
		return types.Kinds(types.Text)
	case a.Role == types.Made && !a.Open:
		t := types.Never
		for _, f := range a.Fields {
			t = types.Join(t, types.Literal(f.Name))
		}
		return t
	}
	return types.Any
}

// Literal returns the type of a literal.
func Literal(x *syntax.Literal) types.Type {
	switch v := x.Value.(type) {
	case string:
		if x.Token == syntax.BYTES {
			return types.Kinds(types.Bytes)
		}
		return types.Literal(v)
	case int64, *big.Int, float64:
		return types.Literal(v)
	}
	return types.Any
}
