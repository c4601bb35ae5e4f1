package types

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// This part of the package returns the types of the results of operators, loops and formats from the types of their operands.

// some reports whether an operand is valid with some member of the other side.
func some(op syntax.Token, a *Atom, other Type, swapped bool) bool {
	return other.Some(func(b *Atom) bool {
		if swapped {
			_, ok := operationOf(op, b, a)
			return ok
		}
		_, ok := operationOf(op, a, b)
		return ok
	})
}

// unknown returns the result of an operator when one side is not known.
func unknown(op syntax.Token, left, right Type) Type {
	if op == syntax.LT || op == syntax.LE || op == syntax.GT || op == syntax.GE {
		return Kinds(boolKind)
	}
	if op == syntax.SLASH {
		return Kinds(floatKind, duration)
	}
	if op == syntax.PLUS && (left.Is(Text) || right.Is(Text)) {
		return Kinds(Text)
	}
	return Any
}

// operationOf returns the result of an operator for two kinds; ok is false when it fails.
func operationOf(op syntax.Token, a, b *Atom) (Type, bool) {
	numbers := isNumber(a.Kind) && isNumber(b.Kind)
	integers := a.Kind == Int && b.Kind == Int
	result := func(k ...Kind) (Type, bool) { return Kinds(k...), true }
	if a.Kind == opaque || b.Kind == opaque || a.Kind == Iterable && a.Name != "" {
		return Any, true
	}
	switch op {
	case syntax.PLUS:
		return plus(a, b)
	case syntax.MINUS:
		switch {
		case numbers:
			return arithmetic(a, b), true
		case a.Kind == Set && b.Kind == Set:
			return Of(a), true
		case a.Kind == timeKind && b.Kind == timeKind, a.Kind == duration && b.Kind == duration:
			return result(duration)
		case a.Kind == timeKind && b.Kind == duration:
			return result(timeKind)
		}
	case syntax.STAR:
		return times(a, b)
	case syntax.SLASH:
		if numbers || a.Kind == duration && b.Kind == duration {
			return result(floatKind)
		}
		return Kinds(duration), a.Kind == duration && isNumber(b.Kind)
	case syntax.SLASHSLASH, syntax.PERCENT:
		if a.Kind == duration {
			return Any, true
		}
		return arithmetic(a, b), numbers
	case syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		return Kinds(boolKind), ordered(a, b, numbers)
	case syntax.PIPE:
		if a.Kind == Dict && b.Kind == Dict {
			return merged(a, b), true
		}
		fallthrough
	case syntax.AMP, syntax.CIRCUMFLEX:
		if a.Kind == Set && b.Kind == Set {
			return Of(&Atom{Kind: Set, Elem: Join(a.Elem, b.Elem)}), true
		}
		return Kinds(Int), integers
	case syntax.LTLT, syntax.GTGT:
		return Kinds(Int), integers
	}
	return Any, false
}

// isNumber reports whether a kind is numeric.
func isNumber(k Kind) bool { return k == Int || k == floatKind }

func arithmetic(a, b *Atom) Type {
	if a.Kind == Int && b.Kind == Int {
		return Kinds(Int)
	}
	return Kinds(floatKind)
}

func plus(a, b *Atom) (Type, bool) {
	switch {
	case isNumber(a.Kind) && isNumber(b.Kind):
		return arithmetic(a, b), true
	case a.Kind != b.Kind:
		return Kinds(timeKind), a.Kind == timeKind && b.Kind == duration || a.Kind == duration && b.Kind == timeKind
	}
	switch a.Kind {
	case Text, Bytes, duration:
		s, okA := a.Lit.(string)
		t, okB := b.Lit.(string)
		if okA && okB && len(s)+len(t) < 200 {
			return Literal(s + t), true
		}
		return Kinds(a.Kind), true
	case List:
		return listOf(Join(a.Elem, b.Elem)), true
	case tuple:
		if a.Sized && b.Sized {
			return tupleOf(slices.Concat(a.Elems, b.Elems)...), true
		}
		return Kinds(tuple), true
	}
	return Any, false
}

func times(a, b *Atom) (Type, bool) {
	if isNumber(a.Kind) && isNumber(b.Kind) {
		return arithmetic(a, b), true
	}
	if a.Kind == Int || a.Kind == floatKind && b.Kind == duration {
		a, b = b, a
	}
	switch {
	case a.Kind == duration && isNumber(b.Kind):
		return Kinds(duration), true
	case b.Kind != Int:
		return Any, false
	case a.Kind == Text, a.Kind == Bytes:
		return Kinds(a.Kind), true
	case a.Kind == List:
		return Of(a), true
	case a.Kind == tuple:
		return Kinds(tuple), true
	}
	return Any, false
}

// ordered reports whether two kinds can be compared with <.
func ordered(a, b *Atom, numbers bool) bool {
	if numbers {
		return true
	}
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case None, Dict, funcKind, Struct, moduleKind, rangeKind:
		return false
	}
	return true
}

// merged returns a | b for dicts.
func merged(a, b *Atom) Type {
	if a.Role != ownRole && !a.Declared || b.Role != ownRole && !b.Declared {
		return Kinds(Dict)
	}
	out := &Atom{Kind: Dict, Role: ownRole, Open: a.Open || b.Open, Elem: Join(a.Elem, b.Elem), Fields: slices.Clone(a.Fields)}
	at := out.fieldIndex()
	for _, f := range b.Fields {
		i, ok := at[f.Name]
		if !ok {
			out.Fields = append(out.Fields, f)
			continue
		}
		if f.Presence != required {
			f.Type, f.Presence = Join(f.Type, out.Fields[i].Type), out.Fields[i].Presence
		}
		out.Fields[i] = f
	}
	if len(out.Fields) > maxFields {
		return Of(out.unfolded())
	}
	for i := range out.Fields {
		if out.Fields[i].Presence == Optional {
			out.Fields[i].Presence = maybe
		}
	}
	out.Base = nil
	return Of(out)
}

// verbs parses a format of the % operator. Starlark has %s, %r and the like only, without widths.
func verbs(s string) (verbs []byte, keyed bool, bad string) {
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

// operationIterable reports whether a value can be iterated over.
func operationIterable(a *Atom) bool {
	switch a.Kind {
	case List, tuple, Set, Dict, Iterable, rangeKind, Bytes:
		return true
	}
	return false
}

// elementOf returns the type of the elements of an iterable.
func elementOf(t Type) Type {
	if t.IsAny() {
		return Any
	}
	out := Never
	for _, a := range t.Atoms() {
		switch a.Kind {
		case List, Set, Iterable:
			out = Join(out, a.Elem)
		case rangeKind:
			out = Join(out, Kinds(Int))
		case tuple:
			if !a.Sized {
				return Any
			}
			for _, el := range a.Elems {
				out = Join(out, el)
			}
		case Dict:
			out = Join(out, keysOf(a))
		case None:
		default:
			return Any
		}
	}
	return out
}

// keysOf returns the type of the keys of a dict: strings when it comes from JSON.
func keysOf(a *Atom) Type {
	switch {
	case a.Role != ownRole && len(a.Fields) > 0:
		return Kinds(Text)
	case a.Role == ownRole && !a.Open:
		t := Never
		for _, f := range a.Fields {
			t = Join(t, Literal(f.Name))
		}
		return t
	}
	return Any
}

// operationLiteral returns the type of a literal.
func operationLiteral(x *syntax.Literal) Type {
	switch v := x.Value.(type) {
	case string:
		if x.Token == syntax.BYTES {
			return Kinds(Bytes)
		}
		return Literal(v)
	case int64, *big.Int, float64:
		return Literal(v)
	}
	return Any
}
