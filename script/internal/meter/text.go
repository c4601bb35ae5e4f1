package meter

import (
	"errors"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// repr returns repr(v), charged for while it is written: shared parts are written as often as they occur.
func (b *Budget) repr(v starlark.Value) (string, error) {
	return reprOf(v, payer{b})
}

// payer charges for what package repr writes.
type payer struct{ *Budget }

// Written charges for n bytes. A builder that grows has allocated about three times its length.
func (p payer) Written(n int) error {
	if err := p.Charge(int64(3*n) + tinyWeight); err != nil {
		return err
	}
	return p.Work(int64(n) / bytesPerStep)
}

func (p payer) Visit(n int) error { return p.visit(n) }
func (p payer) Room() int64       { return p.room() }

// str returns str(v): a string is returned unchanged.
func (b *Budget) str(v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.String:
		return string(v), nil
	case starlark.Bytes:
		return validUTF8(string(v)), b.copyCost(int64(len(v)), 8)
	}
	return b.repr(v)
}

// rendered is a value whose text is known, for formatting by the interpreter.
type rendered struct {
	starlark.Value
	text string
}

func (r rendered) String() string { return r.text }

// render makes a value whose formatting takes time proportional to its text. Small numbers and strings are unchanged.
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

// format implements format.format(*args, **kwargs). A field can be repeated, so every field is charged for the longest
// argument.
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
	if err := b.Work(int64(fields) * int64(len(kwargs)+longest/bytesPerStep) / elemsPerStep); err != nil {
		return nil, nil, err
	}
	if err := b.chargeEach(int64(fields), 3*int64(longest)+1); err != nil {
		return nil, nil, err
	}
	return newArgs, newKwargs, b.copyCost(3*int64(len(format)), 1)
}

// interpolate implements format % v.
func (b *Budget) interpolate(format starlark.String, v starlark.Value) (starlark.Value, error) {
	if small(format) && small(v) {
		return starlark.Binary(syntax.PERCENT, format, v)
	}
	if err := b.Work(int64(len(format)) / bytesPerStep); err != nil {
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

// small reports whether v is a number or string whose text is covered by one step.
func small(v starlark.Value) bool {
	switch v := v.(type) {
	case starlark.String:
		return len(v) < 2*tinyWeight
	case starlark.Int:
		_, ok := v.Int64()
		return ok
	}
	return false
}

// formatArgs renders the operands of a format and charges for their text.
type formatArgs struct {
	budget *Budget
	quoted bool // some field escapes its operand
	err    error
}

// wrap returns what to format instead of v.
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

// operand renders one operand and charges for its text.
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
	return r, f.budget.Work(int64(n) / bytesPerStep)
}

// formatMap is the mapping of a format such as "%(name)s". The interpreter discards the errors of its methods, so they
// are kept.
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
