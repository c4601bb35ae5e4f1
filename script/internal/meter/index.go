package meter

import (
	"errors"
	"fmt"
	"math"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// place is the target x of an assignment x[i] = v or x.name = v. In an augmented assignment it also stands for the
// value that x[i] has.
type place struct {
	budget *Budget
	x      starlark.Value
	old    starlark.Value
}

var (
	_ starlark.HasSetKey   = (*place)(nil)
	_ starlark.HasSetField = (*place)(nil)
	_ starlark.HasBinary   = (*place)(nil)
)

// place makes the target of an assignment whose index runs no code.
func (b *Budget) place(x starlark.Value) (starlark.Value, error) {
	b.ops.place.x = x
	return &b.ops.place, nil
}

func (b *Budget) augmentPlace(x starlark.Value) (starlark.Value, error) {
	return &place{budget: b, x: x}, nil
}

// Get returns x[i] for an augmented assignment.
func (p *place) Get(i starlark.Value) (starlark.Value, bool, error) {
	var err error
	p.old, err = p.budget.index(p.x, i)
	return p, true, err
}

// SetKey executes x[i] = v.
func (p *place) SetKey(i, v starlark.Value) error {
	x := p.x
	p.x = nil
	return p.budget.setIndex(x, i, v)
}

// Attr returns x.name for an augmented assignment.
func (p *place) Attr(name string) (starlark.Value, error) {
	x, ok := p.x.(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("%s has no .%s field or method", p.x.Type(), name)
	}
	old, err := x.Attr(name)
	if old == nil || err != nil {
		return nil, err
	}
	p.old = old
	return p, nil
}

func (p *place) AttrNames() []string {
	if x, ok := p.x.(starlark.HasAttrs); ok {
		return x.AttrNames()
	}
	return nil
}

// SetField executes x.name = v.
func (p *place) SetField(name string, v starlark.Value) error {
	if x, ok := p.x.(starlark.HasSetField); ok {
		return x.SetField(name, v)
	}
	return fmt.Errorf("can't assign to .%s field of %s", name, p.x.Type())
}

// Binary computes the new value of an augmented assignment.
func (p *place) Binary(op syntax.Token, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	old := p.old
	p.old = nil
	return p.budget.augment(op, old, y)
}

func (p *place) String() string        { return "place" }
func (p *place) Type() string          { return p.x.Type() }
func (p *place) Freeze()               {}
func (p *place) Truth() starlark.Bool  { return true }
func (p *place) Hash() (uint32, error) { return 0, errors.New("unhashable: place") }

// index computes x[i].
func (b *Budget) index(x, i starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case *starlark.Dict:
		if err := b.lookup(x, i); err != nil {
			return nil, err
		}
		v, found, err := x.Get(i)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, b.noDictKey(x, i)
		}
		return v, nil
	case starlark.Mapping:
		v, found, err := x.Get(i)
		if err == nil && !found {
			err = b.noKey(x, i)
		}
		return v, err
	case starlark.Indexable:
		n, err := position(x, i, "%s index: %s")
		if err != nil {
			return nil, err
		}
		return x.Index(n), nil
	}
	return nil, fmt.Errorf("unhandled index operation %s[%s]", x.Type(), i.Type())
}

func (b *Budget) noKey(x, key starlark.Value) error {
	text, err := b.repr(key)
	if err != nil {
		return err
	}
	return fmt.Errorf("key %s not in %s", text, x.Type())
}

const (
	maxKeysSeen = 100 // of a dict that are compared
	maxKeyShown = 64  // bytes of a key that is shown
)

// noDictKey is noKey with the keys that the dict has, for the error of the run.
func (b *Budget) noDictKey(d *starlark.Dict, key starlark.Value) error {
	err := b.noKey(d, key)
	want, ok := key.(starlark.String)
	if !ok || b.Final(err) {
		return err
	}
	missing := &MissingKey{Err: err, Key: string(want), Size: d.Len()}
	it := d.Iterate() // d.Keys makes a list of all
	defer it.Done()
	var k starlark.Value
	for len(missing.Keys) < maxKeysSeen && it.Next(&k) {
		if s, ok := k.(starlark.String); ok && len(s) <= maxKeyShown {
			missing.Keys = append(missing.Keys, string(s))
		}
	}
	return missing
}

// position returns the offset in x that i denotes.
func position(x starlark.Indexable, i starlark.Value, format string) (int, error) {
	have, err := starlark.AsInt32(i)
	if err != nil {
		if format == "" {
			return 0, err
		}
		return 0, fmt.Errorf(format, x.Type(), err)
	}
	n := x.Len()
	at := have
	if at < 0 {
		at += n
	}
	switch {
	case 0 <= at && at < n:
		return at, nil
	case n == 0:
		return 0, fmt.Errorf("index %d out of range: empty %s", have, x.Type())
	}
	return 0, fmt.Errorf("%s index %d out of range [%d:%d]", x.Type(), have, -n, n-1)
}

// setIndex executes x[i] = v.
func (b *Budget) setIndex(x, i, v starlark.Value) error {
	switch x := x.(type) {
	case *starlark.Dict:
		return b.setKey(x, i, v)
	case starlark.HasSetKey:
		return x.SetKey(i, v)
	case starlark.HasSetIndex:
		n, err := position(x, i, "")
		if err != nil {
			return err
		}
		return x.SetIndex(n, v)
	}
	return fmt.Errorf("%s value does not support item assignment", x.Type())
}

// slice computes x[lo:hi:step], given as a tuple.
func (b *Budget) slice(x, bounds starlark.Value) (starlark.Value, error) {
	s, ok := x.(starlark.Sliceable)
	if !ok {
		return nil, fmt.Errorf("invalid slice operand %s", x.Type())
	}
	t := bounds.(starlark.Tuple)
	start, end, step, err := sliceBounds(s.Len(), t[0], t[1], t[2])
	if err != nil {
		return nil, err
	}
	if err := b.sliceCost(x, start, end, step); err != nil {
		return nil, err
	}
	return s.Slice(start, end, step), nil
}

func (b *Budget) sliceCost(x starlark.Value, start, end, step int) error {
	n := int64((end - start) / step)
	switch x := x.(type) {
	case starlark.String, starlark.Bytes:
		if step == 1 {
			return nil // shares the bytes, which stay charged
		}
		return b.copyCost(n, 4)
	case starlark.Tuple:
		if step == 1 {
			return nil
		}
		return b.copyCost(n, 4*16)
	case *starlark.List:
		if step == 1 {
			return b.copyCost(n, 16)
		}
		return b.copyCost(n, 4*16)
	case starlark.Indexable:
		if x.Type() == "range" && x.Len() > 1 {
			return rangeStep(x, step)
		}
	}
	return nil
}

// rangeStep refuses a slice of a range whose step would overflow.
func rangeStep(x starlark.Indexable, step int) error {
	first, _ := x.Index(0).(starlark.Int).Int64()
	second, _ := x.Index(1).(starlark.Int).Int64()
	by := second - first
	product := by * int64(step)
	if by == math.MinInt64 || product/by != int64(step) || product == math.MinInt64 {
		return errors.New("slice of range: step too large")
	}
	return nil
}

// sliceBounds returns the offsets that lo, hi and by denote for n elements.
func sliceBounds(n int, lo, hi, by starlark.Value) (start, end, step int, err error) {
	step = 1
	if by != starlark.None {
		if step, err = starlark.AsInt32(by); err != nil {
			return 0, 0, 0, fmt.Errorf("invalid slice step: %s", err)
		}
		if step == 0 {
			return 0, 0, 0, errors.New("zero is not a valid slice step")
		}
	}
	if step > 0 {
		start, end, err = spanOf(lo, hi, n)
		return start, max(start, end), step, err
	}
	if start, err = bound(lo, n, n-1); err != nil {
		return 0, 0, 0, fmt.Errorf("invalid start index: %s", err)
	}
	if end, err = bound(hi, n, -1); err != nil {
		return 0, 0, 0, fmt.Errorf("invalid end index: %s", err)
	}
	start = min(start, n-1)
	end = max(end, -1)
	return max(start, end), end, step, nil
}

// spanOf returns the offsets that lo and hi denote for n elements, each clamped to these; lo may exceed hi.
func spanOf(lo, hi starlark.Value, n int) (start, end int, err error) {
	if start, err = bound(lo, n, 0); err != nil {
		return 0, 0, fmt.Errorf("invalid start index: %s", err)
	}
	if end, err = bound(hi, n, n); err != nil {
		return 0, 0, fmt.Errorf("invalid end index: %s", err)
	}
	return min(max(start, 0), n), min(max(end, 0), n), nil
}

// bound returns v, counted from the end if negative, or none for None.
func bound(v starlark.Value, n, none int) (int, error) {
	if v == nil || v == starlark.None {
		return none, nil
	}
	i, err := starlark.AsInt32(v)
	if i < 0 {
		i += n
	}
	return i, err
}
