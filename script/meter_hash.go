package script

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// keyCost pays for hashing k and comparing it with an equal key. The hash of a tuple
// visits all of its parts, however often they are shared.
func (b *budget) keyCost(k starlark.Value) error {
	switch k := k.(type) {
	case starlark.String:
		return b.textCost(len(k))
	case starlark.Bytes:
		return b.textCost(len(k))
	case starlark.Tuple, *starlarkstruct.Struct:
		return b.deepKeyCost(k, 0)
	}
	return nil
}

func (b *budget) deepKeyCost(k starlark.Value, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%s nested more than %d deep cannot be hashed", k.Type(), maxNesting)
	}
	switch k := k.(type) {
	case starlark.Tuple:
		for i, elem := range k {
			if i%elemsPerStep == 0 {
				if err := b.work(1); err != nil {
					return err
				}
			}
			if err := b.deepKeyCost(elem, depth+1); err != nil {
				return err
			}
		}
		return nil
	case *starlarkstruct.Struct:
		names := k.AttrNames()
		if err := b.work(int64(len(names)) + 1); err != nil {
			return err
		}
		for _, name := range names {
			v, err := k.Attr(name)
			if err != nil {
				return err
			}
			if err := b.deepKeyCost(v, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return b.keyCost(k)
}

// keysCost pays for hashing every key of a dict or set.
func (b *budget) keysCost(table starlark.Iterable) error {
	for k := range starlark.Elements(table) {
		if err := b.keyCost(k); err != nil {
			return err
		}
	}
	return nil
}

// setKey does d[k] = v.
func (b *budget) setKey(d *starlark.Dict, k, v starlark.Value) error {
	n := d.Len()
	if err := b.insertCost(n, k); err != nil {
		return err
	}
	if err := d.SetKey(k, v); err != nil {
		return err
	}
	return b.inserted(d, n, k)
}

// insert does s.add(k).
func (b *budget) insert(s *starlark.Set, k starlark.Value) error {
	n := s.Len()
	if err := b.insertCost(n, k); err != nil {
		return err
	}
	if err := s.Insert(k); err != nil {
		return err
	}
	return b.inserted(s, n, k)
}

// insertCost pays for an entry of a table that has n, as if it were a new one.
func (b *budget) insertCost(n int, k starlark.Value) error {
	if err := b.keyCost(k); err != nil || n < 8 {
		return err // the first eight are part of the table
	}
	return b.charge(entryWeight)
}

// A table is a dict or a set.
type table interface {
	starlark.Value
	starlark.Iterable
	Len() int
}

// inserted notes that k is now in t, which had n entries before.
func (b *budget) inserted(t table, n int, k starlark.Value) error {
	if t.Len() == n {
		if n >= 8 {
			b.memory -= entryWeight
		}
		return nil
	}
	if n < smallTable {
		return nil
	}
	return b.crowdCost(t, k)
}

// Tables of up to smallTable entries are searched in no time even if all their keys
// hash alike. Lambdas, integers with equal low bits and short strings can be made to,
// so of larger tables a sketch is kept of where their keys fall, and crowds are charged
// and bounded.
const (
	smallTable = 128
	maxCrowd   = 2000
)

// sketch counts the keys of a table by the low bits of their hash. Keys in one chain
// of the table are in one cell of the sketch.
type sketch struct {
	cells []int32 // a power of two
	n     int
	peak  int // the most entries that the table has had
}

func (s *sketch) add(k starlark.Value) (crowd int64) {
	h, err := k.Hash()
	if err != nil {
		return 0
	}
	c := &s.cells[h&uint32(len(s.cells)-1)]
	*c++
	s.n++
	s.peak = max(s.peak, s.n)
	return s.excess(*c)
}

// excess is how many keys are in a cell beyond what chance explains.
func (s *sketch) excess(c int32) int64 {
	return int64(c) - int64(4*s.n/len(s.cells)) - 32
}

// crowdCost pays for the chain that the new key k of t ends.
func (b *budget) crowdCost(t table, k starlark.Value) error {
	s := b.large[t]
	if s == nil || s.n >= 16*len(s.cells) || t.Len() < s.n/2 {
		return b.resketch(t, s)
	}
	return b.crowded(s.add(k))
}

// crowded pays for a chain that has more keys than chance explains.
func (b *budget) crowded(excess int64) error {
	switch {
	case excess <= 0:
		return nil
	case excess > maxCrowd:
		return fmt.Errorf("more than %d keys that hash alike in one table", maxCrowd)
	}
	return b.work(excess/elemsPerStep + 1)
}

// resketch counts the keys of t afresh.
func (b *budget) resketch(t table, old *sketch) error {
	cells := smallTable
	for cells*4 < t.Len() {
		cells *= 2
	}
	if err := b.charge(int64(4*cells) + 2*tinyWeight); err != nil {
		return err
	}
	if err := b.visit(t.Len()); err != nil {
		return err
	}
	s := &sketch{cells: make([]int32, cells)}
	if old != nil {
		s.peak = old.peak
	}
	if b.large == nil {
		b.large = map[starlark.Value]*sketch{}
	}
	b.large[t] = s
	for k := range starlark.Elements(t) {
		if err := b.keyCost(k); err != nil {
			return err
		}
		if err := b.crowded(s.add(k)); err != nil {
			return err
		}
	}
	return nil
}

// peak is how many entries t has, or has had.
func (b *budget) peak(t table) int64 {
	n := int64(t.Len())
	if s := b.large[t]; s != nil {
		n = max(n, int64(s.peak))
	}
	return n
}

// tableCost pays for a copy of t, or a walk through it.
func (b *budget) tableCost(t table) error {
	n := b.peak(t)
	if err := b.chargeEach(n, entryWeight); err != nil {
		return err
	}
	if err := b.work(n / 4); err != nil {
		return err
	}
	return b.keysCost(t)
}

// tablesCost pays for an operator on two dicts or sets.
func (b *budget) tablesCost(x table, y starlark.Value) error {
	var t table
	switch y := y.(type) {
	case *starlark.Dict:
		t = y
	case *starlark.Set:
		t = y
	default:
		return nil // an error
	}
	if err := b.charge(dictWeight); err != nil {
		return err
	}
	if err := b.tableCost(x); err != nil {
		return err
	}
	return b.tableCost(t)
}
