package meter

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// keyCost charges for hashing k and comparing it with an equal key. The hash of a tuple
// visits all of its parts, however often they are shared.
func (b *Budget) keyCost(k starlark.Value) error {
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

func (b *Budget) deepKeyCost(k starlark.Value, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%s nested more than %d deep cannot be hashed", k.Type(), maxNesting)
	}
	switch k := k.(type) {
	case starlark.Tuple:
		for i, elem := range k {
			if i%elemsPerStep == 0 {
				if err := b.Work(1); err != nil {
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
		if err := b.Work(int64(len(names)) + 1); err != nil {
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

// setKey executes d[k] = v.
func (b *Budget) setKey(d *starlark.Dict, k, v starlark.Value) error {
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

// insert executes s.Add(k).
func (b *Budget) insert(s *starlark.Set, k starlark.Value) error {
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

// insertCost charges for an entry in a table of n, as if it were a new one. It returns the steps that k is worth.
func (b *Budget) insertCost(n int, k starlark.Value) (weight int64, err error) {
	before := b.steps
	if err := b.keyCost(k); err != nil || n < 8 {
		return b.steps - before, err // the first eight are part of the table's weight
	}
	return b.steps - before, b.Charge(entryWeight)
}

// A table is a dict or a set.
type table interface {
	starlark.Value
	starlark.Iterable
	Len() int
}

// dictWeight is the weight of a dict with at most eight entries, in bytes.
const dictWeight = 528

// weightOfDict returns the weight of a dict that is made with room for n entries, in bytes.
func weightOfDict(n int) int64 {
	if n <= 8 {
		return dictWeight
	}
	return dictWeight + int64(n)*entryWeight
}

// Inserted reports that the short key k, which is charged already, is now in d, which had n entries before.
func (b *Budget) Inserted(d *starlark.Dict, n int, k starlark.Value) error {
	if n < smallTable || d.Len() == n {
		return nil
	}
	return b.crowdCost(d, k, 0)
}

// inserted reports that k, which is worth weight steps, is now in t, which had n entries before.
func (b *Budget) inserted(t table, n int, k starlark.Value, weight int64) error {
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

// Tables of up to smallTable entries are searched fast even if the hashes of all keys collide, unless the keys are
// bulky. Keys with colliding hashes can be constructed from functions, integers with equal low bits and short strings,
// so for larger tables a sketch counts the hashes of their keys, and collisions are charged and bounded.
//
// Legitimate keys, such as times in whole hours, can share the low bits of their hashes and so a chain of the table,
// which is only walked; keys that share all bits are also compared.
const (
	smallTable = 64
	maxChain   = 20_000
	maxEqual   = 500

	chainPerStep = 256 // keys that are skipped for one step
)

// crowdCost charges for the chain that the new key k of t is at the end of.
func (b *Budget) crowdCost(t table, k starlark.Value, weight int64) error {
	s := b.large[t]
	if s == nil || s.Stale(t.Len()) {
		_, err := b.resketch(t, s)
		return err
	}
	return b.crowded(s.Add(k, weight), weight)
}

// crowded charges for a search among keys with colliding hashes.
func (b *Budget) crowded(c crowd, weight int64) error {
	switch {
	case c.Chain <= 0:
		return nil
	case c.Chain > maxChain:
		return fmt.Errorf("more than %d keys with the same low bits of their hashes in one table", maxChain)
	case c.Equal > maxEqual:
		return fmt.Errorf("more than %d keys with the same hash in one table", maxEqual)
	}
	b.flooded = true
	return b.Work(c.Chain/chainPerStep + max(c.Equal, 0)*(weight+1)/elemsPerStep + 1)
}

// resketch counts the keys of t anew.
func (b *Budget) resketch(t table, old *sketch) (*sketch, error) {
	cells := 2 * smallTable
	for cells*4 < t.Len() {
		cells *= 2
	}
	if err := b.Charge(int64(2*4*cells) + 2*tinyWeight); err != nil {
		return nil, err
	}
	most := 0
	if old != nil {
		most = old.Peak()
	}
	s := newSketch(cells, most)
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
		if err := b.crowded(s.Add(k, weight), weight); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lookup charges for finding k in t.
func (b *Budget) lookup(t table, k starlark.Value) error {
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
	return b.crowded(s.Crowd(k, weight), weight)
}

// lookups charges for finding every key of x in y.
func (b *Budget) lookups(x, y table) error {
	for k := range starlark.Elements(x) {
		if err := b.lookup(y, k); err != nil {
			return err
		}
	}
	return nil
}

// peak returns the most entries that t has had.
func (b *Budget) peak(t table) int64 {
	n := int64(t.Len())
	if s := b.large[t]; s != nil {
		n = max(n, int64(s.Peak()))
	}
	return n
}

// tableCost charges for a copy of t, or a walk through it.
func (b *Budget) tableCost(t table) error {
	n := b.peak(t)
	if err := b.chargeEach(n, entryWeight); err != nil {
		return err
	}
	if err := b.Work(n / 4); err != nil {
		return err
	}
	return b.lookups(t, t)
}

// tablesCost charges for an operator on two dicts or sets.
func (b *Budget) tablesCost(x table, y starlark.Value) error {
	var t table
	switch y := y.(type) {
	case *starlark.Dict:
		t = y
	case *starlark.Set:
		t = y
	default:
		return nil // an error
	}
	if err := b.Charge(dictWeight); err != nil {
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
