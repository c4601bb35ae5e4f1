package types

import (
	"hash/maphash"

	"go.starlark.net/syntax"
)

// Vars are the types of variables. The map is persistent: a copy shares all with the original, and where two paths meet, only
// what differs between them is looked at. So following a branch or a call costs what it changes, however many variables a
// file has. The zero value is empty.
type Vars struct{ root *varNode }

// varNode is a variable, or a branch of the tree, which has 4 bits of the hash for each level.
type varNode struct {
	id   *syntax.Ident // nil: a branch
	hash uint64
	t    Type
	sub  *[16]*varNode
}

const (
	levelBits = 4
	hashBits  = 64
)

var varSeed = maphash.MakeSeed()

// Get returns the type of a variable.
func (v Vars) Get(id *syntax.Ident) (t Type, known bool) {
	n, hash := v.root, maphash.Comparable(varSeed, id)
	for ; n != nil && n.sub != nil; hash >>= levelBits {
		n = n.sub[hash&15]
	}
	if n == nil || n.id != id {
		return Never, false
	}
	return n.t, true
}

// With returns v with a variable set.
func (v Vars) With(id *syntax.Ident, t Type) Vars {
	return Vars{v.root.with(&varNode{id: id, hash: maphash.Comparable(varSeed, id), t: t}, 0)}
}

// with returns the tree with a variable set. Of two with the same hash one is forgotten, and may be anything.
func (n *varNode) with(leaf *varNode, level uint) *varNode {
	if n == nil || n.id == leaf.id || level == hashBits {
		return leaf
	}
	out := n.branch(level)
	at := leaf.hash >> level & 15
	out.sub[at] = out.sub[at].with(leaf, level+levelBits)
	return out
}

// branch returns a copy of a branch, or a new one with a variable.
func (n *varNode) branch(level uint) *varNode {
	out := &varNode{sub: new([16]*varNode)}
	switch {
	case n == nil:
	case n.sub != nil:
		*out.sub = *n.sub
	default:
		out.sub[n.hash>>level&15] = n
	}
	return out
}

// meeting is where two paths meet.
type meeting struct {
	both  func(a, b Type) Type // the type of a variable that may differ
	added bool                 // a variable is set on the second path only
}

// of returns the variables of both paths.
func (m *meeting) of(a, b Vars) Vars { return Vars{m.nodes(a.root, b.root, 0)} }

func (m *meeting) nodes(a, b *varNode, level uint) *varNode {
	switch {
	case a == b, b == nil:
		return a
	case a == nil:
		m.added = true
		return b
	case a.id != nil && a.id == b.id:
		t := m.both(a.t, b.t)
		if same(t, a.t) {
			return a
		}
		return &varNode{id: a.id, hash: a.hash, t: t}
	case level == hashBits:
		return a
	}
	x, y := a.branch(level), b.branch(level)
	equal := a.sub != nil
	for i, n := range x.sub {
		x.sub[i] = m.nodes(n, y.sub[i], level+levelBits)
		equal = equal && x.sub[i] == n
	}
	if equal {
		return a
	}
	return x
}
