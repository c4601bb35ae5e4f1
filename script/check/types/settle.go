package types

// establishedTypes makes what is uncertain in t and also in u known to the script: fields that may be missing, and None.
// some reports whether there is any.
func establishedTypes(t, u Type) (out Type, some bool) { return established(t, u, 6) }

func established(t, u Type, depth int) (out Type, some bool) {
	if t.any || u.any || depth == 0 || same(t, u) {
		return t, false
	}
	for _, a := range t.atoms {
		switch {
		case a.Kind == None && a.Role != ownRole && !u.Has(None):
			a, some = &Atom{Kind: None, Role: ownRole}, true
		case a.Kind == Dict || a.Kind == Struct:
			for _, b := range u.atoms {
				if b.Kind == a.Kind && b.base() == a.base() {
					var found bool
					a, found = establishedFields(a, b, depth-1)
					some = some || found
				}
			}
		}
		out.atoms = append(out.atoms, a)
	}
	return out, some
}

func establishedFields(a, b *Atom, depth int) (out *Atom, some bool) {
	out = a
	inB := b.fieldIndex()
	for _, f := range a.Fields {
		i, ok := inB[f.Name]
		if !ok {
			continue
		}
		g, changed := b.Fields[i], false
		if f.Presence == Optional && g.Presence == required {
			f.Presence, changed = maybe, true
		}
		t, found := established(f.Type, g.Type, depth)
		if found {
			f.Type, changed = t, true
		}
		if changed {
			out, some = out.With(f), true
		}
	}
	return out, some
}
