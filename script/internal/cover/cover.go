// Package cover counts which statements and which ways of the branches of programs were taken.
package cover

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"go.starlark.net/syntax"
)

// Set is what the programs that are compiled with it count. The zero value is ready. Programs may
// run at the same time.
type Set struct {
	mu     sync.Mutex
	points []*Point // guarded by mu
	probes []*Probe // guarded by mu
	table  atomic.Pointer[[]*Probe]
	off    atomic.Bool
}

// Point is a statement, or what can go two ways.
type Point struct {
	Pos syntax.Position
	// Branch says that Ways[0] and Ways[1] count its two ways; else Ways[0] counts how often
	// the statement was begun.
	Branch bool
	ways   [2]atomic.Int64
	fresh  atomic.Bool // of a while loop: reached, and its condition not decided yet
}

// Ways are the counts.
func (p *Point) Ways() [2]int64 { return [2]int64{p.ways[0].Load(), p.ways[1].Load()} }

// Way is one way of a branch.
type Way struct {
	Point *Point
	Index int
	First bool // counts only for the first time since the loop was reached
}

// Probe is what happens at one place of a rewritten file.
type Probe struct {
	// Statement begins here; nil: none.
	Statement *Point
	// Loop is the while loop that is reached here; nil: none.
	Loop *Point
	// Jump says that the statement is a jump which is alone in its block: behind a mark it is
	// an instruction of its own.
	Jump bool
	// True and False are the ways that are taken when the value here is so.
	True, False []Way
}

// Point adds a point.
func (s *Set) Point(at syntax.Position, branch bool) *Point {
	p := &Point{Pos: at, Branch: branch}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = append(s.points, p)
	return p
}

// Probe adds a probe and returns its number.
func (s *Set) Probe(p *Probe) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes = append(s.probes, p)
	table := s.probes
	s.table.Store(&table)
	return len(s.probes) - 1
}

// Count switches counting on and off; it begins on.
func (s *Set) Count(on bool) { s.off.Store(!on) }

// Reach counts that probe n was reached, as a statement.
func (s *Set) Reach(n int) (p *Probe) {
	p = (*s.table.Load())[n]
	if s.off.Load() {
		return p
	}
	if p.Statement != nil {
		p.Statement.ways[0].Add(1)
	}
	if p.Loop != nil {
		p.Loop.fresh.Store(true)
	}
	return p
}

// Decide counts which way probe n went.
func (s *Set) Decide(n int, truth bool) {
	if s.off.Load() {
		return
	}
	p := (*s.table.Load())[n]
	ways := p.False
	if truth {
		ways = p.True
	}
	for _, w := range ways {
		if !w.First || w.Point.fresh.Swap(false) {
			w.Point.ways[w.Index].Add(1)
		}
	}
}

// Points are all points, in the order of files and places.
func (s *Set) Points() []*Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	points := slices.Clone(s.points)
	slices.SortStableFunc(points, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Pos.Filename(), b.Pos.Filename()), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return points
}
