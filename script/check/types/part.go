package types

import (
	"slices"

	"go.starlark.net/syntax"
)

// Replace applies f to the members of one kind; those for which f returns nil are removed.
func (t Type) Replace(k Kind, f func(*Atom) *Atom) Type {
	if t.IsAny() {
		return t
	}
	out := Never
	for _, a := range t.Atoms() {
		if a.Kind == k {
			if a = f(a); a == nil {
				continue
			}
		}
		out = Join(out, Of(a))
	}
	return out
}

// Weaken returns what remains known about values that the script made, once they may be changed through an alias.
func (t Type) Weaken() Type {
	if !t.Some(mutable) {
		return t
	}
	out := Never
	for _, a := range t.Atoms() {
		if mutable(a) {
			out = Join(out, Kinds(a.Kind))
		} else {
			out = Join(out, Of(a))
		}
	}
	return out
}

func mutable(a *Atom) bool {
	return a.Kind == Dict && a.Role == ownRole || a.Kind == List || a.Kind == Set
}

// NotNone returns a type without None, if it has other members.
func (t Type) NotNone() Type {
	if left := t.Without(None); !left.IsNever() {
		return left
	}
	return t
}

// unexpectedNone reports whether an atom is a None that the script did not write itself.
func unexpectedNone(a *Atom) bool { return a.Kind == None && a.Role != ownRole }

// isJSON reports whether the JSON form of an atom's value is known.
func isJSON(a *Atom) bool {
	return slices.Contains([]Kind{None, boolKind, Int, floatKind, Text, List, Dict, tuple}, a.Kind)
}

// Unnamed returns the type under keys that are not fields.
func (a *Atom) Unnamed() Type {
	if a.Role == ownRole {
		return Any
	}
	return a.Elem
}

// PlainMap reports whether a dict that the script makes has only computed keys.
func (a *Atom) PlainMap() bool { return a.Role == ownRole && len(a.Fields) == 0 }

// Store returns a dict after a value was set under a key, at these places of the text.
func (a *Atom) Store(key, value Type, keyAt, valueAt syntax.Expr) *Atom {
	if name, ok := key.Text(); ok {
		return a.With(Field{Name: name, Type: value, Key: keyAt, Value: valueAt})
	}
	b := *a
	names := []string{}
	if !key.Every(func(k *Atom) bool {
		s, ok := k.Lit.(string)
		names = append(names, s)
		return ok
	}) {
		b.Open = true
		b.Elem = Join(b.Elem, value)
		b.Fields = nil
		for _, f := range a.Fields {
			f.Type = Join(f.Type, value)
			b.Fields = append(b.Fields, f)
		}
		return &b
	}
	out := a
	for _, name := range names {
		f, has := out.Field(name)
		if !has {
			f = Field{Name: name, Presence: maybe, Key: keyAt}
		}
		f.Type, f.Value = Join(f.Type, value), nil
		out = out.With(f)
	}
	return out
}
