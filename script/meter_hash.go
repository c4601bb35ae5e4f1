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

// setKey does d[k] = v.
func (b *budget) setKey(d *starlark.Dict, k, v starlark.Value) error {
	n := d.Len()
	weight, err := b.insertCost(n, k)
	if err != nil {
		return err
	}
	if err := d.SetKey(k, v); err != nil {
		return err
	}
	return b.inserted(d, n, k, weight)
}

// insert does s.add(k).
func (b *budget) insert(s *starlark.Set, k starlark.Value) error {
	n := s.Len()
	weight, err := b.insertCost(n, k)
	if err != nil {
		return err
	}
	if err := s.Insert(k); err != nil {
		return err
	}
	return b.inserted(s, n, k, weight)
}

// insertCost pays for an entry of a table that has n, as if it were a new one. It
// returns the steps that k is worth.
func (b *budget) insertCost(n int, k starlark.Value) (weight int64, err error) {
	before := b.steps
	if err := b.keyCost(k); err != nil || n < 8 {
		return b.steps - before, err // the first eight are part of the table
	}
	return b.steps - before, b.charge(entryWeight)
}

// A table is a dict or a set.
type table interface {
	starlark.Value
	starlark.Iterable
	Len() int
}

// inserted notes that k, which is worth so many steps, is now in t, which had n entries
// before.
func (b *budget) inserted(t table, n int, k starlark.Value, weight int64) error {
	if t.Len() == n {
		if n >= 8 {
			b.memory -= entryWeight
		}
		return nil
	}
	if n < smallTable && weight < bulky {
		return nil
	}
	return b.crowdCost(t, k, weight)
}

// Tables of up to smallTable entries are searched in no time even if all their keys
// hash alike, unless the keys are bulky. Lambdas, integers with equal low bits, short
// strings and what is made of them can be made to hash alike, so of other tables a
// sketch is kept of where their keys fall, and crowds are charged and bounded.
const (
	smallTable = 64
	bulky      = 4 // steps that a key is worth
	maxCrowd   = 2000
)

// sketch counts the keys of a table by the low bits of their hash. Keys in one chain
// of the table are in one cell of the sketch.
type sketch struct {
	cells []int32 // a power of two
	n     int
	peak  int // the most entries that the table has had
}

// add counts k and returns how many keys are where it falls.
func (s *sketch) add(k starlark.Value, weight int64) (crowd int64) {
	s.n++
	s.peak = max(s.peak, s.n)
	if c := s.cell(k); c != nil {
		*c++
	}
	return s.crowd(k, weight)
}

func (s *sketch) cell(k starlark.Value) *int32 {
	h, err := k.Hash()
	if err != nil {
		return nil
	}
	return &s.cells[h&uint32(len(s.cells)-1)]
}

// crowd is how many keys are where k falls, beyond what chance explains. The hash of a
// long string is another one in every process, and what is charged must not depend on it:
// to have that many keys in one place by chance takes longer than anybody waits.
func (s *sketch) crowd(k starlark.Value, weight int64) int64 {
	c := s.cell(k)
	if c == nil {
		return 0
	}
	byChance := 4*s.n/len(s.cells) + 32
	if weight >= bulky {
		byChance -= 20
	}
	return int64(*c) - int64(byChance)
}

// crowdCost pays for the chain that the new key k of t ends.
func (b *budget) crowdCost(t table, k starlark.Value, weight int64) error {
	s := b.large[t]
	if s == nil || s.n >= 16*len(s.cells) || t.Len() < s.n/2 {
		_, err := b.resketch(t, s)
		return err
	}
	return b.crowded(s.add(k, weight), weight)
}

// crowded pays for a search among keys that hash alike.
func (b *budget) crowded(crowd, weight int64) error {
	switch {
	case crowd <= 0:
		return nil
	case crowd > maxCrowd:
		return fmt.Errorf("more than %d keys that hash alike in one table", maxCrowd)
	}
	b.flooded = true
	return b.work(crowd*(weight+1)/elemsPerStep + 1)
}

// resketch counts the keys of t afresh.
func (b *budget) resketch(t table, old *sketch) (*sketch, error) {
	cells := 2 * smallTable
	for cells*4 < t.Len() {
		cells *= 2
	}
	if err := b.charge(int64(4*cells) + 2*tinyWeight); err != nil {
		return nil, err
	}
	s := &sketch{cells: make([]int32, cells)}
	if old != nil {
		s.peak = old.peak
	}
	if b.large == nil {
		b.large = map[starlark.Value]*sketch{}
	}
	b.large[t] = s
	if err := b.visit(t.Len()); err != nil {
		return nil, err
	}
	for k := range starlark.Elements(t) {
		before := b.steps
		if err := b.keyCost(k); err != nil {
			return nil, err
		}
		weight := b.steps - before
		if err := b.crowded(s.add(k, weight), weight); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lookup pays for finding k in t.
func (b *budget) lookup(t table, k starlark.Value) error {
	before := b.steps
	if err := b.keyCost(k); err != nil {
		return err
	}
	weight := b.steps - before
	if !b.flooded || t.Len() < smallTable && weight < bulky {
		return nil
	}
	s := b.large[t]
	if s == nil {
		var err error
		if s, err = b.resketch(t, nil); err != nil {
			return err
		}
	}
	return b.crowded(s.crowd(k, weight), weight)
}

// lookups pays for finding every key of x in y.
func (b *budget) lookups(x, y table) error {
	for k := range starlark.Elements(x) {
		if err := b.lookup(y, k); err != nil {
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
	return b.lookups(t, t)
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
	for _, t := range []table{x, t} {
		if err := b.tableCost(t); err != nil {
			return err
		}
	}
	if !b.flooded {
		return nil
	}
	if err := b.lookups(x, t); err != nil {
		return err
	}
	return b.lookups(t, x)
}
