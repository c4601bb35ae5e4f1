package types

import "slices"

// Join returns the union of two types.
func Join(a, b Type) Type {
	switch {
	case a.any || b.any:
		return Any
	case len(a.atoms) == 0:
		return b
	case len(b.atoms) == 0 || same(a, b):
		return a
	}
	out := Type{atoms: slices.Clone(a.atoms)}
	for _, x := range b.atoms {
		out = out.add(x)
	}
	if len(out.atoms) > maxAtoms {
		out = out.plain()
	}
	if len(out.atoms) > maxAtoms+maxLiterals || out.others() > maxAtoms {
		return Any
	}
	return out
}

// same reports whether two unions consist of identical atoms.
func same(a, b Type) bool { return a.any == b.any && slices.Equal(a.atoms, b.atoms) }

// others counts the members that are not literals.
func (t Type) others() (n int) {
	for _, a := range t.atoms {
		if a.Lit == nil {
			n++
		}
	}
	return n
}

// plain replaces the literals of a kind that has too many of them by the kind.
func (t Type) plain() Type {
	count := map[Kind]int{}
	for _, a := range t.atoms {
		if a.Lit != nil {
			count[a.Kind]++
		}
	}
	var out Type
	done := map[Kind]bool{}
	for _, a := range t.atoms {
		if a.Lit != nil && count[a.Kind] > maxLiterals {
			if !done[a.Kind] {
				out.atoms = append(out.atoms, &Atom{Kind: a.Kind})
			}
			done[a.Kind] = true
			continue
		}
		out.atoms = append(out.atoms, a)
	}
	return out
}

// add returns the union with one more member. t's atoms are not shared.
func (t Type) add(x *Atom) Type {
	for i, a := range t.atoms {
		if a == x {
			return t
		}
		if m := merge(a, x); m != nil {
			t.atoms[i] = m
			if a.Lit != nil && m.Lit == nil { // a plain kind absorbs its literals
				t.atoms = slices.DeleteFunc(t.atoms, func(b *Atom) bool { return b != m && b.Kind == m.Kind && b.Lit != nil })
			}
			return t
		}
	}
	t.atoms = append(t.atoms, x)
	return t
}

// merge returns one atom for two, or nil when they stay separate.
func merge(a, b *Atom) *Atom {
	if a.Kind != b.Kind {
		return nil
	}
	switch a.Kind {
	case None:
		if b.Role == ownRole { // the script handles it
			return b
		}
		return a
	case duration, timeKind, rangeKind, opaque:
		return a
	case boolKind, Int, floatKind, Text, Bytes:
		switch {
		case a.Lit == nil:
			return a
		case b.Lit == nil:
			return b
		case sameLit(a.Lit, b.Lit):
			return a
		}
		return nil
	case List, Set, Iterable:
		if a.Name != b.Name {
			return nil
		}
		return &Atom{Kind: a.Kind, Name: a.Name, Elem: Join(a.Elem, b.Elem)}
	case tuple:
		return mergeTuples(a, b)
	case Dict, Struct:
		return mergeFields(a, b)
	case funcKind:
		if a.Fn == b.Fn {
			return a
		}
	}
	return nil
}

func mergeTuples(a, b *Atom) *Atom {
	if !a.Sized || !b.Sized || len(a.Elems) != len(b.Elems) {
		return nil
	}
	m := &Atom{Kind: tuple, Sized: true, Elems: make([]Type, len(a.Elems))}
	for i := range a.Elems {
		m.Elems[i] = Join(a.Elems[i], b.Elems[i])
	}
	return m
}

// mergeFields merges variants of one record, and dicts that the script made.
func mergeFields(a, b *Atom) *Atom {
	made := a.Kind == Dict && a.Role == ownRole && b.Role == ownRole
	if a.base() != b.base() && !made {
		if a.Kind == Dict && a.Role != ownRole && b.Role != ownRole && len(a.Fields)+len(b.Fields) == 0 {
			return &Atom{Kind: Dict, Open: true, Elem: Join(a.Elem, b.Elem)}
		}
		return nil
	}
	if a.Kind == Struct && tagged(a, b) {
		return nil
	}
	m := *a
	m.Open = a.Open || b.Open
	m.Elem = Join(a.Elem, b.Elem)
	m.Fields = make([]Field, 0, len(a.Fields))
	inA, inB := a.fieldIndex(), b.fieldIndex()
	for _, f := range a.Fields {
		var g Field
		i, ok := inB[f.Name]
		if ok {
			g = b.Fields[i]
		}
		m.Fields = append(m.Fields, mergeField(f, g, ok))
	}
	for _, g := range b.Fields {
		if _, ok := inA[g.Name]; !ok {
			m.Fields = append(m.Fields, mergeField(g, Field{}, false))
		}
	}
	if made && len(m.Fields) > maxFields {
		return a.unfolded()
	}
	return &m
}

// tagged reports whether two variants differ in a literal that identifies them.
func tagged(a, b *Atom) bool {
	inB := b.fieldIndex()
	for _, f := range a.Fields {
		i, ok := inB[f.Name]
		if !ok {
			continue
		}
		x, g := f.Type.Only(), b.Fields[i]
		if y := g.Type.Only(); x != nil && y != nil && x.Lit != nil && y.Lit != nil && !sameLit(x.Lit, y.Lit) {
			return true
		}
	}
	return false
}

func mergeField(f, g Field, both bool) Field {
	if !both {
		if f.Presence == required {
			f.Presence = maybe
		}
		return f
	}
	f.Type = Join(f.Type, g.Type)
	if f.Presence == required || g.Presence == Optional {
		f.Presence = g.Presence
	}
	if f.Key != g.Key || f.Value != g.Value {
		f.Value = nil
	}
	return f
}

// equalTypes reports whether two types are known to be the same. It may return false for equal ones.
func equalTypes(a, b Type) bool { return equal(a, b, 12) }

func equal(a, b Type, depth int) bool {
	if same(a, b) {
		return true
	}
	if a.any != b.any || len(a.atoms) != len(b.atoms) || depth == 0 {
		return false
	}
	for i, x := range a.atoms {
		if !equalAtoms(x, b.atoms[i], depth-1) {
			return false
		}
	}
	return true
}

func equalAtoms(a, b *Atom, depth int) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.Fn != b.Fn || a.Open != b.Open || a.Sized != b.Sized || a.Role != b.Role ||
		len(a.Fields) != len(b.Fields) || len(a.Elems) != len(b.Elems) || (a.Lit == nil) != (b.Lit == nil) {
		return false
	}
	if a.Lit != nil && !sameLit(a.Lit, b.Lit) || !equal(a.Elem, b.Elem, depth) {
		return false
	}
	for i, e := range a.Elems {
		if !equal(e, b.Elems[i], depth) {
			return false
		}
	}
	for i, f := range a.Fields {
		g := b.Fields[i]
		if f.Name != g.Name || f.Presence != g.Presence || !equal(f.Type, g.Type, depth) {
			return false
		}
	}
	return true
}
