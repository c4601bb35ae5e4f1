package meter

import "go.starlark.net/starlark"

// This part of the package counts the hashes of the keys of a table, to estimate the cost of a search among colliding ones.

// bulky is the cost in steps from which on the comparison of a key counts.
const bulky = 4

// sketch counts the keys of a table by the low bits of their hash, as the table does, and by all of its bits. The keys
// of a chain are in one cell of the former, those with equal hashes in one cell of both.
type sketch struct {
	low, all []int32 // their length is the same power of two
	n        int     // of keys
	peak     int     // the most entries that the table has had
}

// crowd is how many keys collide with a key, beyond what chance explains.
type crowd struct{ Chain, Equal int64 }

// Add counts k.
func (s *sketch) Add(k starlark.Value, weight int64) crowd {
	s.n++
	s.peak = max(s.peak, s.n)
	if low, all := s.cells(k); low != nil {
		*low++
		*all++
	}
	return s.Crowd(k, weight)
}

func (s *sketch) cells(k starlark.Value) (low, all *int32) {
	h, err := k.Hash()
	if err != nil {
		return nil, nil
	}
	mask := uint32(len(s.low) - 1)
	return &s.low[h&mask], &s.all[((h^h>>15)*2654435769)>>8&mask]
}

// Crowd returns how many keys collide with k. The hash of a long string differs between processes, and charges must
// not depend on it: that many collisions by chance are practically impossible.
func (s *sketch) Crowd(k starlark.Value, weight int64) crowd {
	low, all := s.cells(k)
	if low == nil {
		return crowd{}
	}
	byChance := int64(4*s.n/len(s.low) + 32)
	if weight >= bulky {
		byChance -= 20
	}
	return crowd{int64(*low) - byChance, int64(min(*low, *all)) - byChance}
}

// newSketch returns an empty sketch of so many cells, a power of two, for a table that has had at most peak entries.
func newSketch(cells, peak int) *sketch {
	return &sketch{low: make([]int32, cells), all: make([]int32, cells), peak: peak}
}

// Stale reports whether a table of n entries has to be counted anew: the sketch is too small for it, or counts many
// keys that were removed.
func (s *sketch) Stale(n int) bool { return s.n >= 16*len(s.low) || n < s.n/2 }

// Peak returns the most entries that the table has had.
func (s *sketch) Peak() int { return s.peak }
