package meter

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// This part of the package writes values as the interpreter does, and charges before each piece: shared parts are written as often
// as they occur.

// maxNesting bounds how deep a value may be nested to be written out.
const maxNesting = 400

// charger charges for what is written. Its errors end the writing.
type charger interface {
	// Written charges for n bytes that were written.
	Written(n int) error
	// Charge charges for n bytes in advance.
	Charge(n int64) error
	// Visit charges for visiting n values.
	Visit(n int) error
	// Room returns how many bytes can still be charged.
	Room() int64
}

// reprOf returns repr(v).
func reprOf(v starlark.Value, p charger) (string, error) {
	w := writer{payer: p}
	if err := w.value(v, 0); err != nil {
		return "", err
	}
	return w.out.String(), w.pay(true)
}

// bits returns about how many bits an integer has; 32 for all that fit.
func bits(i starlark.Int) int {
	if v, ok := i.Int64(); ok && int64(int32(v)) == v {
		return 32
	}
	return i.BigInt().BitLen()
}

// validUTF8 replaces every byte that is not UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// writer writes values as the interpreter does.
type writer struct {
	payer charger
	out   strings.Builder
	paid  int
	path  []starlark.Value // the enclosing lists and dicts
}

// pay charges for what was written since the last call.
func (w *writer) pay(all bool) error {
	n := w.out.Len() - w.paid
	if n < 4096 && !all {
		return nil
	}
	w.paid = w.out.Len()
	return w.payer.Written(n)
}

// room makes sure that n bytes can be charged before they are written.
func (w *writer) room(n int) error {
	if n < 4096 {
		return nil
	}
	return w.payer.Charge(int64(n))
}

func (w *writer) value(v starlark.Value, depth int) error {
	if err := w.pay(false); err != nil {
		return err
	}
	if depth > maxNesting {
		return fmt.Errorf("%s nested more than %d deep cannot be written out", v.Type(), maxNesting)
	}
	switch v := v.(type) {
	case starlark.String:
		return w.leaf(v, 4*len(v))
	case starlark.Bytes:
		return w.leaf(v, 4*len(v))
	case starlark.Int:
		return w.leaf(v, bits(v))
	case *starlark.List:
		return w.enclosed("[", "]", v, v, func(first bool, elem starlark.Value) error {
			return w.element(first, elem, depth)
		})
	case starlark.Tuple:
		return w.tuple(v, depth)
	case *starlark.Set:
		return w.enclosed("set([", "])", v, nil, func(first bool, elem starlark.Value) error {
			return w.element(first, elem, depth)
		})
	case *starlark.Dict:
		return w.enclosed("{", "}", v, v, func(first bool, k starlark.Value) error {
			if err := w.element(first, k, depth); err != nil {
				return err
			}
			w.out.WriteString(": ")
			elem, _, err := v.Get(k)
			if err != nil {
				return err
			}
			return w.value(elem, depth+1)
		})
	case *starlarkstruct.Struct:
		return w.structure(v, depth)
	}
	return w.other(v)
}

// leaf writes a value whose text has at most about n bytes.
func (w *writer) leaf(v starlark.Value, n int) error {
	if err := w.room(n); err != nil {
		return err
	}
	w.out.WriteString(v.String())
	return nil
}

// other writes a value without parts. Views of strings, such as s.elems(), write their string.
func (w *writer) other(v starlark.Value) error {
	if n := starlark.Len(v); n > 0 && v.Type() != "range" {
		return w.leaf(v, 8*n)
	}
	if v.Type() == "string.codepoints" || v.Type() == "bytes.elems" {
		return w.leaf(v, 8*count(v.(starlark.Iterable), w.payer))
	}
	w.out.WriteString(v.String())
	return nil
}

// count counts the elements of an iterable of unknown length, as far as they can be charged.
func count(v starlark.Iterable, p charger) (n int) {
	room := p.Room()
	for range starlark.Elements(v) {
		n += 4
		if int64(n) > room {
			break
		}
	}
	return n
}

func (w *writer) element(first bool, v starlark.Value, depth int) error {
	if !first {
		w.out.WriteString(", ")
	}
	return w.value(v, depth+1)
}

// enclosed writes the elements of v between two brackets; self is v where it could contain itself.
func (w *writer) enclosed(open, end string, v starlark.Iterable, self starlark.Value, each func(first bool, elem starlark.Value) error) error {
	w.out.WriteString(open)
	if self != nil {
		if slices.Contains(w.path, self) {
			w.out.WriteString("...")
			w.out.WriteString(end)
			return nil
		}
		w.path = append(w.path, self)
		defer func() { w.path = w.path[:len(w.path)-1] }()
		if err := w.payer.Visit(len(w.path)); err != nil {
			return err
		}
	}
	first := true
	for elem := range starlark.Elements(v) {
		if err := each(first, elem); err != nil {
			return err
		}
		first = false
	}
	w.out.WriteString(end)
	return nil
}

func (w *writer) tuple(t starlark.Tuple, depth int) error {
	w.out.WriteByte('(')
	for i, elem := range t {
		if err := w.element(i == 0, elem, depth); err != nil {
			return err
		}
	}
	if len(t) == 1 {
		w.out.WriteByte(',')
	}
	w.out.WriteByte(')')
	return nil
}

func (w *writer) structure(s *starlarkstruct.Struct, depth int) error {
	if name, ok := s.Constructor().(starlark.String); ok {
		w.out.WriteString(name.GoString()) // without quotes, as the interpreter does
	} else {
		w.out.WriteString(s.Constructor().String())
	}
	w.out.WriteByte('(')
	for i, name := range s.AttrNames() {
		v, err := s.Attr(name)
		if err != nil {
			return err
		}
		if i > 0 {
			w.out.WriteString(", ")
		}
		w.out.WriteString(name)
		w.out.WriteString(" = ")
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte(')')
	return nil
}
