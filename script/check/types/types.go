// Package types represents what a check knows of the values of a script: kinds, literals, fields of dicts, and unions
// of them; and the types that JSON Schemas describe.
//
// A [Type] is immutable. Nothing is ever reported about Any.
package types

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/syntax"
)

// Kind is the kind of a value, without its contents.
type Kind uint8

// The kinds of values.
const (
	None Kind = iota
	boolKind
	Int
	floatKind
	Text
	Bytes
	List
	tuple
	Set
	Dict
	Struct
	funcKind
	duration
	timeKind
	Iterable // can only be iterated over: pages, the elements of a string
	rangeKind
	moduleKind
	opaque // can only be passed on
)

var kindNames = [...]string{"None", "a bool", "an integer", "a float", "a string", "bytes", "a list", "a tuple", "a set",
	"a dict", "a struct", "a function", "a duration", "a time", "an iterable", "a range", "a module", "a result"}

func (k Kind) String() string { return kindNames[k] }

// Type is a set of possible values: anything, or a union of atoms. The zero value is Never.
type Type struct {
	any   bool
	atoms []*Atom
}

// Any may be anything; Never is the type of an expression that does not return, or is not known yet.
var (
	Any   = Type{any: true}
	Never = Type{}
)

// Atom is one member of a union.
type Atom struct {
	Kind Kind
	// Lit is the value when it is known: bool, string, *big.Int or float64.
	Lit any
	// Elem is the type of the elements of a list, set or iterable, of a tuple of unknown length, and of a dict under
	// keys that are not fields.
	Elem Type
	// Elems are the elements of a tuple of known length, or of an unchanged list.
	Elems []Type
	Sized bool // a tuple whose length is that of Elems
	// Fields are those of a dict or struct, Open says that a dict may have others.
	Fields []Field
	Open   bool
	// Declared says that the fields are all that whoever declared the dict expects, so that another name is a mistake.
	// What a condition proves about single fields does not change it.
	Declared bool
	// Role is the origin of a dict or struct.
	Role Role
	// Name names it in messages: the tool whose output it is, the struct's name.
	Name string
	// Base identifies what an atom is a variant of; variants of one are merged.
	Base *Atom
	// Fn is the function; flow.go defines its type.
	Fn any
	// Set has all values that a literal of a closed set could have been; nil for a literal of the script.
	Set []any
}

// Role is the origin of an atom.
type Role uint8

// The roles of dicts and structs.
const (
	Plain       Role = iota
	ownRole          // by the script itself
	Output           // of a tool
	Params           // of the script's tool
	contentRole      // of an answer
)

// Presence says whether a field is present.
type Presence uint8

// Whether a field is present.
const (
	required Presence = iota
	Optional          // optional by its schema
	maybe             // the script sets it on some paths only, or has checked for it
)

// Field is one field of a dict or struct.
type Field struct {
	Name     string
	Type     Type
	Presence Presence
	// Key and Value are where the script wrote the field; nil otherwise.
	Key, Value syntax.Expr
}

const (
	maxAtoms    = 8
	maxLiterals = 16
)

// Of returns the type of one atom.
func Of(a *Atom) Type { return Type{atoms: []*Atom{a}} }

// Kinds returns the union of plain kinds.
func Kinds(kinds ...Kind) Type {
	var t Type
	for _, k := range kinds {
		a := &Atom{Kind: k}
		if k == List || k == Set || k == tuple || k == Dict || k == Iterable {
			a.Elem, a.Open = Any, true
		}
		if k == rangeKind {
			a.Elem = Kinds(Int)
		}
		t.atoms = append(t.atoms, a)
	}
	return t
}

// Literal returns the type of one value: bool, string, int, *big.Int or float64.
func Literal(v any) Type {
	switch v := v.(type) {
	case bool:
		return Of(&Atom{Kind: boolKind, Lit: v})
	case string:
		return Of(&Atom{Kind: Text, Lit: v})
	case int:
		return Literal(big.NewInt(int64(v)))
	case int64:
		return Literal(big.NewInt(v))
	case *big.Int:
		return Of(&Atom{Kind: Int, Lit: v})
	case float64:
		return Of(&Atom{Kind: floatKind, Lit: v})
	}
	return Kinds(None)
}

// listOf returns the type of a list of elements.
func listOf(elem Type) Type { return Of(&Atom{Kind: List, Elem: elem}) }

// tupleOf returns the type of a tuple of known length.
func tupleOf(elems ...Type) Type { return Of(&Atom{Kind: tuple, Elems: elems, Sized: true}) }

// iterableOf returns the type of an iterable of elements.
func iterableOf(elem Type) Type { return Of(&Atom{Kind: Iterable, Elem: elem}) }

// IsAny reports whether nothing is known.
func (t Type) IsAny() bool { return t.any }

// IsNever reports whether there is no value.
func (t Type) IsNever() bool { return !t.any && len(t.atoms) == 0 }

// Atoms returns the members of the union; none for Any.
func (t Type) Atoms() []*Atom { return t.atoms }

// Every reports whether t is known and f holds for every member.
func (t Type) Every(f func(*Atom) bool) bool {
	return !t.any && len(t.atoms) > 0 && !slices.ContainsFunc(t.atoms, func(a *Atom) bool { return !f(a) })
}

// Some reports whether f holds for a member of the union.
func (t Type) Some(f func(*Atom) bool) bool { return slices.ContainsFunc(t.atoms, f) }

// Is reports whether every member has one of the kinds.
func (t Type) Is(kinds ...Kind) bool {
	return t.Every(func(a *Atom) bool { return slices.Contains(kinds, a.Kind) })
}

// Has reports whether a member has the kind.
func (t Type) Has(k Kind) bool { return t.Some(func(a *Atom) bool { return a.Kind == k }) }

// Keep returns the part of the union for which f holds.
func (t Type) Keep(f func(*Atom) bool) Type {
	if t.any {
		return t
	}
	var out Type
	for _, a := range t.atoms {
		if f(a) {
			out.atoms = append(out.atoms, a)
		}
	}
	return out
}

// Without returns t without a kind.
func (t Type) Without(k Kind) Type { return t.Keep(func(a *Atom) bool { return a.Kind != k }) }

// Only returns the single member of a union.
func (t Type) Only() *Atom {
	if !t.any && len(t.atoms) == 1 {
		return t.atoms[0]
	}
	return nil
}

// Text returns the only literal string that t can be.
func (t Type) Text() (string, bool) {
	if a := t.Only(); a != nil {
		s, ok := a.Lit.(string)
		return s, ok
	}
	return "", false
}

// Int returns the only literal integer that t can be, if it is small.
func (t Type) Int() (int, bool) {
	if a := t.Only(); a != nil {
		if n, ok := a.Lit.(*big.Int); ok && n.IsInt64() {
			return int(n.Int64()), true
		}
	}
	return 0, false
}

// Widen returns t without literals, for computed values.
func (t Type) Widen() Type {
	out := Never
	for _, a := range t.atoms {
		if a.Lit != nil {
			a = &Atom{Kind: a.Kind}
		}
		out = Join(out, Of(a))
	}
	if t.any {
		return Any
	}
	return out
}

// Field returns a field of an atom by name.
func (a *Atom) Field(name string) (Field, bool) {
	for _, f := range a.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Names returns the names of an atom's fields.
func (a *Atom) Names() []string {
	names := make([]string, len(a.Fields))
	for i, f := range a.Fields {
		names[i] = f.Name
	}
	return names
}

// maxFields bounds the fields of a dict that the script makes. Of one with more, no field is known.
const maxFields = 500

// With returns a copy of an atom with a field set.
func (a *Atom) With(f Field) *Atom {
	b := *a
	if a.Role == ownRole && len(a.Fields) >= maxFields {
		return a.unfolded()
	}
	b.Fields = slices.Clone(a.Fields)
	if i := slices.IndexFunc(b.Fields, func(g Field) bool { return g.Name == f.Name }); i >= 0 {
		b.Fields[i] = f
	} else {
		b.Fields = append(b.Fields, f)
	}
	b.Base = a.base()
	return &b
}

// unfolded returns a dict that the script makes without its fields.
func (a *Atom) unfolded() *Atom { return &Atom{Kind: a.Kind, Role: a.Role, Open: true, Elem: Any} }

// fieldIndex finds the fields of an atom by their names.
func (a *Atom) fieldIndex() map[string]int {
	at := make(map[string]int, len(a.Fields))
	for i, f := range a.Fields {
		at[f.Name] = i
	}
	return at
}

func (a *Atom) base() *Atom {
	if a.Base != nil {
		return a.Base
	}
	return a
}

// Falsy reports whether the atom can be false as a condition.
func (a *Atom) Falsy() bool {
	switch lit := a.Lit.(type) {
	case bool:
		return !lit
	case string:
		return lit == ""
	case *big.Int:
		return lit.Sign() == 0
	case float64:
		return lit == 0
	}
	switch a.Kind {
	case Struct, funcKind, moduleKind, opaque, timeKind, Iterable:
		return false
	case tuple:
		return !a.Sized || len(a.Elems) == 0
	}
	return true
}

// Truthy reports whether the atom can be true as a condition.
func (a *Atom) Truthy() bool {
	switch lit := a.Lit.(type) {
	case bool:
		return lit
	case string:
		return lit != ""
	case *big.Int:
		return lit.Sign() != 0
	case float64:
		return lit != 0
	}
	return a.Kind != None && !(a.Kind == tuple && a.Sized && len(a.Elems) == 0)
}

// sameLit reports whether two literals are equal by ==.
func sameLit(a, b any) bool {
	x, y := number(a), number(b)
	if x != nil && y != nil {
		return x.Cmp(y) == 0
	}
	return a == b
}

// number returns the number that a literal is; nil for other literals, and for NaN.
func number(lit any) *big.Float {
	switch v := lit.(type) {
	case *big.Int:
		return new(big.Float).SetInt(v)
	case float64:
		if v == v {
			return new(big.Float).SetFloat64(v)
		}
	}
	return nil
}

// String returns the type as messages and editors show it.
func (t Type) String() string { return t.show(3) }

func (t Type) show(depth int) string {
	if t.any {
		return "anything"
	}
	if len(t.atoms) == 0 {
		return "nothing"
	}
	parts := make([]string, 0, len(t.atoms))
	for _, a := range t.atoms {
		if s := a.show(depth); !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	return list2(parts, "or")
}

// list2 joins words as in a sentence: a, b or c.
func list2(parts []string, word string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " " + word + " " + parts[len(parts)-1]
}

// show returns a literal as a script writes it.
func show(lit any) string {
	switch v := lit.(type) {
	case string:
		return strconv.Quote(v)
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(lit)
}

func (a *Atom) show(depth int) string {
	if a.Lit != nil {
		return show(a.Lit)
	}
	switch {
	case (a.Kind == Struct || a.Kind == Dict) && len(a.Fields) > 0 && depth > 0:
		var parts []string
		for _, f := range a.Fields {
			mark := ""
			if f.Presence != required {
				mark = "?"
			}
			parts = append(parts, f.Name+mark+": "+f.Type.show(depth-1))
		}
		if a.Kind == Struct {
			return "struct(" + strings.Join(parts, ", ") + ")"
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case (a.Kind == List || a.Kind == Set) && !a.Elem.any && !a.Elem.IsNever() && depth > 0:
		return a.Kind.String() + " of " + a.Elem.show(depth-1)
	}
	return a.Kind.String()
}
