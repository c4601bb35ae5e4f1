package format

import (
	"fmt"
	"reflect"
	"slices"

	"go.starlark.net/syntax"
)

// difference returns where the meaning of two trees differs, "" for nowhere. It ignores
// positions, parentheses and the spelling of literals; of load statements it compares the loaded
// names.
func difference(a, b *syntax.File) string {
	loadsA, restA := apart(a)
	loadsB, restB := apart(b)
	if !slices.Equal(loadsA, loadsB) {
		return fmt.Sprintf("it would load %q, not %q", loadsB, loadsA)
	}
	if at := unequal(reflect.ValueOf(restA), reflect.ValueOf(restB)); at != "" {
		return "its meaning would change in line " + at
	}
	return ""
}

// apart separates the load statements of the top level from the others; the loaded names are
// sorted, unless a name is loaded twice.
func apart(f *syntax.File) (loads []string, rest []syntax.Stmt) {
	for _, s := range f.Stmts {
		load, ok := s.(*syntax.LoadStmt)
		if !ok {
			rest = append(rest, s)
			continue
		}
		loads = append(loads, fmt.Sprint(load.Module.Value))
		for i := range load.From {
			loads = append(loads, fmt.Sprintf("%v %s %s", load.Module.Value, load.From[i].Name, load.To[i].Name))
		}
	}
	if !loadsTwice(f) {
		slices.Sort(loads)
		loads = slices.Compact(loads)
	}
	return loads, rest
}

// uncompared are fields for the spelling, or that are set after parsing.
var uncompared = []string{"Raw", "Binding", "Function", "Module", "Options", "Path"}

var positionType = reflect.TypeFor[syntax.Position]()

// unequal returns the line of a in which two values of a tree differ, or "".
func unequal(a, b reflect.Value) string {
	a, b = inner(a), inner(b)
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return lineOf(a)
	}
	if !a.IsValid() {
		return ""
	}
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return cmpLine(a, b)
		}
		for i := range a.Len() {
			if at := unequal(a.Index(i), b.Index(i)); at != "" {
				return at
			}
		}
		return ""
	case reflect.Pointer:
		return unequalNodes(a, b)
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		return "?"
	}
	return ""
}

func unequalNodes(a, b reflect.Value) string {
	if l, ok := a.Interface().(*syntax.Literal); ok {
		m := b.Interface().(*syntax.Literal)
		if l.Token != m.Token || !reflect.DeepEqual(l.Value, m.Value) {
			return lineOf(a)
		}
		return ""
	}
	fields := a.Elem().Type()
	for i := range fields.NumField() {
		f := fields.Field(i)
		if f.Type == positionType || !f.IsExported() && f.Anonymous || slices.Contains(uncompared, f.Name) && f.Type != reflect.TypeFor[*syntax.Literal]() {
			continue
		}
		at := unequal(a.Elem().Field(i), b.Elem().Field(i))
		if at == "?" {
			at = lineOf(a)
		}
		if at != "" {
			return at
		}
	}
	return ""
}

// inner returns a value without interfaces and parentheses; invalid for nil.
func inner(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		if v.IsNil() {
			return reflect.Value{}
		}
		if p, ok := v.Interface().(*syntax.ParenExpr); ok {
			v = reflect.ValueOf(p.X)
			continue
		}
		if v.Kind() == reflect.Pointer {
			return v
		}
		v = v.Elem()
	}
	return v
}

// cmpLine returns the line of the first element of a list whose length has changed.
func cmpLine(a, b reflect.Value) string {
	if a.Len() > 0 {
		return lineOf(inner(a.Index(0)))
	}
	return lineOf(inner(b.Index(0)))
}

func lineOf(v reflect.Value) string {
	if v.IsValid() {
		if n, ok := v.Interface().(syntax.Node); ok {
			start, _ := n.Span()
			return fmt.Sprint(start.Line)
		}
	}
	return "?"
}
