package meter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// repr is repr(v), paid for while it is written: shared parts are written as often as
// they occur.
func (b *Budget) repr(v starlark.Value) (string, error) {
	w := writer{budget: b}
	if err := w.value(v, 0); err != nil {
		return "", err
	}
	return w.out.String(), w.pay(true)
}

// str is str(v): a string stays as it is.
func (b *Budget) str(v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.String:
		return string(v), nil
	case starlark.Bytes:
		return validUTF8(string(v)), b.copyCost(int64(len(v)), 8)
	}
	return b.repr(v)
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
	budget *Budget
	out    strings.Builder
	paid   int
	path   []starlark.Value // the lists and dicts around
}

// pay settles what was written since the last time. A builder that grows has asked
// for about three times its length.
func (w *writer) pay(all bool) error {
	n := w.out.Len() - w.paid
	if n < 4096 && !all {
		return nil
	}
	w.paid = w.out.Len()
	if err := w.budget.Charge(int64(3*n) + TinyWeight); err != nil {
		return err
	}
	return w.budget.Work(int64(n) / BytesPerStep)
}

// room makes sure that n bytes can be paid for before they are written at once.
func (w *writer) room(n int) error {
	if n < 4096 {
		return nil
	}
	return w.budget.Charge(int64(n))
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

// other writes a value that has no parts. The views of strings, such as s.elems(),
// write the string that they show.
func (w *writer) other(v starlark.Value) error {
	if n := starlark.Len(v); n > 0 && v.Type() != "range" {
		return w.leaf(v, 8*n)
	}
	if v.Type() == "string.codepoints" || v.Type() == "bytes.elems" {
		return w.leaf(v, 8*count(v.(starlark.Iterable), w.budget))
	}
	w.out.WriteString(v.String())
	return nil
}

// count counts the elements of an iterable of unknown length as far as they can be paid.
func count(v starlark.Iterable, b *Budget) (n int) {
	room := b.room()
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

// enclosed writes what v yields between two brackets; self is v where it could contain itself.
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
		if err := w.budget.visit(len(w.path)); err != nil {
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

// rendered is a value whose text is known, for the interpreter's own formatting.
type rendered struct {
	starlark.Value
	text string
}

func (r rendered) String() string { return r.text }

// render makes a value that can be formatted in the time that its text takes.
// Small numbers and strings stay what they are.
func (b *Budget) render(v starlark.Value) (_ starlark.Value, size int, err error) {
	switch v := v.(type) {
	case starlark.String:
		return v, len(v), nil
	case starlark.Int:
		if n := bits(v); n > 64 {
			return v, n, nil
		}
		return v, 24, nil
	case starlark.Float, starlark.Bool, starlark.NoneType:
		return v, 32, nil
	}
	text, err := b.repr(v)
	return rendered{v, text}, len(text), err
}

// format is format.format(*args, **kwargs). A field can be repeated, so every field
// pays for the longest argument.
func (b *Budget) format(format string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Tuple, []starlark.Tuple, error) {
	longest := 0
	newArgs := make(starlark.Tuple, len(args))
	for i, v := range args {
		r, n, err := b.render(v)
		if err != nil {
			return nil, nil, err
		}
		newArgs[i] = r
		longest = max(longest, n)
	}
	newKwargs := make([]starlark.Tuple, len(kwargs))
	for i, kv := range kwargs {
		r, n, err := b.render(kv[1])
		if err != nil {
			return nil, nil, err
		}
		newKwargs[i] = starlark.Tuple{kv[0], r}
		longest = max(longest, n)
	}
	if strings.Contains(format, "!") {
		longest *= 4 // !r escapes
	}
	fields := strings.Count(format, "{")
	if err := b.Work(int64(fields) * int64(len(kwargs)+longest/BytesPerStep) / elemsPerStep); err != nil {
		return nil, nil, err
	}
	if err := b.chargeEach(int64(fields), 3*int64(longest)+1); err != nil {
		return nil, nil, err
	}
	return newArgs, newKwargs, b.copyCost(3*int64(len(format)), 1)
}

// interpolate is format % v.
func (b *Budget) interpolate(format starlark.String, v starlark.Value) (starlark.Value, error) {
	if small(format) && small(v) {
		return starlark.Binary(syntax.PERCENT, format, v)
	}
	if err := b.Work(int64(len(format)) / BytesPerStep); err != nil {
		return nil, err
	}
	if err := b.copyCost(4*int64(len(format)), 1); err != nil {
		return nil, err
	}
	operands := &formatArgs{budget: b, quoted: strings.Contains(string(format), "r")}
	arg, err := operands.wrap(v)
	if err != nil {
		return nil, err
	}
	z, err := starlark.Binary(syntax.PERCENT, format, arg)
	if operands.err != nil {
		return nil, operands.err
	}
	return z, err
}

// small reports whether v is a number or string whose text a step pays for.
func small(v starlark.Value) bool {
	switch v := v.(type) {
	case starlark.String:
		return len(v) < 2*TinyWeight
	case starlark.Int:
		_, ok := v.Int64()
		return ok
	}
	return false
}

// formatArgs renders the operands of a format and pays for their text.
type formatArgs struct {
	budget *Budget
	quoted bool // some field escapes its operand
	err    error
}

// wrap makes what to format instead of v.
func (f *formatArgs) wrap(v starlark.Value) (starlark.Value, error) {
	switch v := v.(type) {
	case starlark.Tuple:
		out := make(starlark.Tuple, len(v))
		if err := f.budget.copyCost(int64(len(v)), 32); err != nil {
			return nil, err
		}
		for i, elem := range v {
			r, err := f.operand(elem)
			if err != nil {
				return nil, err
			}
			out[i] = r
		}
		return out, nil
	case starlark.Mapping:
		return formatMap{v, f}, nil
	}
	return f.operand(v)
}

// operand renders one operand and pays for its text.
func (f *formatArgs) operand(v starlark.Value) (starlark.Value, error) {
	r, n, err := f.budget.render(v)
	if err != nil {
		return nil, err
	}
	if f.quoted {
		n *= 4
	}
	if err := f.budget.copyCost(3*int64(n), 1); err != nil {
		return nil, err
	}
	return r, f.budget.Work(int64(n) / BytesPerStep)
}

// formatMap is the mapping of a format such as "%(name)s". The interpreter drops the
// errors of its methods, so they are kept.
type formatMap struct {
	starlark.Mapping
	f *formatArgs
}

// String renders the mapping as a whole, for a field without a key.
func (m formatMap) String() string {
	if m.f.err != nil {
		return ""
	}
	var text string
	text, m.f.err = m.f.budget.repr(m.Mapping)
	return text
}

var errStopped = errors.New("stopped")

// Get renders the value of k.
func (m formatMap) Get(k starlark.Value) (starlark.Value, bool, error) {
	if m.f.err != nil {
		return nil, false, errStopped
	}
	if m.f.err = m.f.budget.keyCost(k); m.f.err != nil {
		return nil, false, errStopped
	}
	v, found, err := m.Mapping.Get(k)
	if err != nil || !found {
		return nil, false, err
	}
	r, err := m.f.operand(v)
	if err != nil {
		m.f.err = err
		return nil, false, errStopped
	}
	return r, true, nil
}
