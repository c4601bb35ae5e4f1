package meter

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// compare computes v op y like starlark.CompareDepth, and charges for every element that it visits: two small lists
// that share their parts can unfold to any size.
func (b *Budget) compare(op syntax.Token, v, y starlark.Value, depth int) (bool, error) {
	switch x := v.(type) {
	case starlark.Int:
		if y, ok := y.(starlark.Int); ok {
			c, err := x.Cmp(y, 1)
			return threeway(op, c), err
		}
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			if err := b.textCost(min(len(x), len(y))); err != nil {
				return false, err
			}
		}
	case starlark.Bytes:
		if y, ok := y.(starlark.Bytes); ok {
			if err := b.textCost(min(len(x), len(y))); err != nil {
				return false, err
			}
		}
	case *starlark.List:
		if y, ok := y.(*starlark.List); ok {
			return b.compareSequences(op, x, y, depth)
		}
	case starlark.Tuple:
		if _, ok := y.(starlark.Tuple); ok {
			return b.compareTuples(op, v, y, depth)
		}
	case *starlark.Dict:
		if y, ok := y.(*starlark.Dict); ok && (op == syntax.EQL || op == syntax.NEQ) {
			eq, err := b.equalDicts(x, y, depth)
			return eq == (op == syntax.EQL) && err == nil, err
		}
	case *starlark.Set:
		if y, ok := y.(*starlark.Set); ok {
			if err := b.compareSetsCost(x, y); err != nil {
				return false, err
			}
		}
	case *starlarkstruct.Struct:
		if y, ok := y.(*starlarkstruct.Struct); ok && (op == syntax.EQL || op == syntax.NEQ) {
			eq, err := b.equalStructs(x, y, depth)
			return eq == (op == syntax.EQL) && err == nil, err
		}
	}
	return starlark.CompareDepth(op, v, y, depth)
}

func (b *Budget) equal(x, y starlark.Value, depth int) (bool, error) {
	return b.compare(syntax.EQL, x, y, depth)
}

// textCost charges for comparing, hashing or copying n bytes.
func (b *Budget) textCost(n int) error {
	if n < blockPerStep {
		return nil
	}
	return b.Work(int64(n) / blockPerStep)
}

func threeway(op syntax.Token, c int) bool {
	switch op {
	case syntax.EQL:
		return c == 0
	case syntax.NEQ:
		return c != 0
	case syntax.LE:
		return c <= 0
	case syntax.LT:
		return c < 0
	case syntax.GE:
		return c >= 0
	}
	return c > 0
}

// compareTuples compares tuples in the interfaces that they came in: converting them again would allocate.
func (b *Budget) compareTuples(op syntax.Token, x, y starlark.Value, depth int) (bool, error) {
	return b.compareSequences(op, x.(starlark.Indexable), y.(starlark.Indexable), depth)
}

func (b *Budget) compareSequences(op syntax.Token, x, y starlark.Indexable, depth int) (bool, error) {
	if depth < 1 {
		return false, errTooDeep
	}
	m, n := x.Len(), y.Len()
	if m != n && (op == syntax.EQL || op == syntax.NEQ) {
		return op == syntax.NEQ, nil
	}
	for i := range min(m, n) {
		if i%elemsPerStep == 0 {
			if err := b.Work(1); err != nil {
				return false, err
			}
		}
		eq, err := b.equal(x.Index(i), y.Index(i), depth-1)
		if err != nil {
			return false, err
		}
		if !eq {
			if op == syntax.EQL || op == syntax.NEQ {
				return op == syntax.NEQ, nil
			}
			return b.compare(op, x.Index(i), y.Index(i), depth-1)
		}
	}
	return threeway(op, m-n), nil
}

var errTooDeep = fmt.Errorf("comparison exceeded maximum recursion depth")

func (b *Budget) equalDicts(x, y *starlark.Dict, depth int) (bool, error) {
	if depth < 1 {
		return false, errTooDeep
	}
	if x.Len() != y.Len() {
		return false, nil
	}
	for k, v := range x.Entries() {
		if err := b.Work(1); err != nil {
			return false, err
		}
		if err := b.lookup(y, k); err != nil {
			return false, err
		}
		w, found, _ := y.Get(k)
		if !found {
			return false, nil
		}
		if eq, err := b.equal(v, w, depth-1); !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (b *Budget) equalStructs(x, y *starlarkstruct.Struct, depth int) (bool, error) {
	if depth < 1 {
		return false, errTooDeep
	}
	names := x.AttrNames()
	if err := b.Work(int64(len(names)) + 1); err != nil {
		return false, err
	}
	if len(names) != len(y.AttrNames()) || x.Constructor() != y.Constructor() {
		return false, nil
	}
	for _, name := range names {
		v, err := x.Attr(name)
		if err != nil {
			return false, err
		}
		w, err := y.Attr(name)
		if err != nil {
			return false, nil // no such field
		}
		if eq, err := b.equal(v, w, depth-1); !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (b *Budget) compareSetsCost(x, y *starlark.Set) error {
	if err := b.chargeEach(b.peak(x), tinyWeight/4); err != nil { // a bit for each key that is found
		return err
	}
	n := min(x.Len(), y.Len())
	if err := b.Work(int64(n)/4 + b.peak(x)/elemsPerStep); err != nil {
		return err
	}
	if err := b.lookups(x, y); err != nil {
		return err
	}
	return b.lookups(y, x)
}

// contains computes x in y.
func (b *Budget) contains(x, y starlark.Value) (bool, error) {
	switch y := y.(type) {
	case *starlark.List:
		return b.find(x, y, 0, y.Len())
	case starlark.Tuple:
		return b.find(x, y, 0, len(y))
	case *starlark.Dict:
		if err := b.lookup(y, x); err != nil {
			return false, err
		}
		_, found, _ := y.Get(x) // as in the interpreter, an unhashable key is not found
		return found, nil
	case *starlark.Set:
		if err := b.lookup(y, x); err != nil {
			return false, err
		}
	case starlark.String:
		if x, ok := x.(starlark.String); ok {
			if err := b.searchCost(len(y), len(x)); err != nil {
				return false, err
			}
		}
	case starlark.Bytes:
		if x, ok := x.(starlark.Bytes); ok {
			if err := b.searchCost(len(y), len(x)); err != nil {
				return false, err
			}
		}
	}
	v, err := starlark.Binary(syntax.IN, x, y)
	if err != nil {
		return false, err
	}
	return bool(v.Truth()), nil
}

// find reports whether x is among the elements from start to end of y.
func (b *Budget) find(x starlark.Value, y starlark.Indexable, start, end int) (bool, error) {
	i, err := b.indexOf(x, y, start, end)
	return i >= 0, err
}

// indexOf returns the place of x between start and end in y, or -1.
func (b *Budget) indexOf(x starlark.Value, y starlark.Indexable, start, end int) (int, error) {
	for i := start; i < end; i++ {
		if (i-start)%elemsPerStep == elemsPerStep-1 {
			if err := b.Work(1); err != nil {
				return -1, err
			}
		}
		eq, err := b.equal(y.Index(i), x, starlark.CompareLimit)
		if err != nil {
			return -1, err
		}
		if eq {
			return i, nil
		}
	}
	return -1, nil
}

// searchCost charges for looking for m bytes in n. Long needles that hash like what they
// are compared with make the standard library's search quadratic.
func (b *Budget) searchCost(n, m int) error {
	if n < 64 {
		return nil
	}
	cost := int64(n) / (4 * bytesPerStep)
	if m > 32 && n > m {
		cost += int64(n-m) * int64(m) / (8 * blockPerStep)
	}
	return b.Work(cost)
}
