package script

import (
	"errors"
	"fmt"
	"math"

	"go.starlark.net/starlark"
)

// slice computes x[lo:hi:step], given as a tuple.
func (b *budget) slice(x, bounds starlark.Value) (starlark.Value, error) {
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

func (b *budget) sliceCost(x starlark.Value, start, end, step int) error {
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

// sliceBounds returns what lo, hi and step mean for n elements.
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

// spanOf returns what lo and hi mean for n elements, each within them; lo may be beyond hi.
func spanOf(lo, hi starlark.Value, n int) (start, end int, err error) {
	if start, err = bound(lo, n, 0); err != nil {
		return 0, 0, fmt.Errorf("invalid start index: %s", err)
	}
	if end, err = bound(hi, n, n); err != nil {
		return 0, 0, fmt.Errorf("invalid end index: %s", err)
	}
	return min(max(start, 0), n), min(max(end, 0), n), nil
}

// bound returns v, counted from the end if negative, or what is meant by None.
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
