package meter

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"go.starlark.net/syntax"
)

// This part of the package counts which statements and which outcomes of conditions were reached in programs.

// Set has the counts of the programs that are compiled with it. The zero value is ready for use, by concurrent runs
// too.
type Set struct {
	mu     sync.Mutex
	points []*Point // guarded by mu
	probes []*Probe // guarded by mu
	table  atomic.Pointer[[]*Probe]
	off    atomic.Bool
}

// Point is a statement, or a branch with two outcomes.
type Point struct {
	Pos syntax.Position
	// Branch says that Ways[0] and Ways[1] count the two outcomes; otherwise Ways[0] counts how often the statement
	// was begun.
	Branch bool
	ways   [2]atomic.Int64
	fresh  atomic.Bool // of a while loop: reached, its condition not evaluated yet
}

// Ways returns the counts.
func (p *Point) Ways() [2]int64 { return [2]int64{p.ways[0].Load(), p.ways[1].Load()} }

// Way is one outcome of a branch.
type Way struct {
	Point *Point
	Index int
	First bool // counts only the first time after the loop was reached
}

// Probe is what one mark in a rewritten file counts.
type Probe struct {
	// Statement begins here; nil: none.
	Statement *Point
	// Loop is the while loop that is reached here; nil: none.
	Loop *Point
	// Jump says that the statement is a jump alone in its block: after a mark it is a separate instruction.
	Jump bool
	// True and False are the outcomes to count when the value here is true or false.
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

// Count switches counting on and off; it is initially on.
func (s *Set) Count(on bool) { s.off.Store(!on) }

// Reach counts the statement of probe n.
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

// Decide counts an outcome at probe n.
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

// Points returns all points, ordered by file and position.
func (s *Set) Points() []*Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	points := slices.Clone(s.points)
	slices.SortStableFunc(points, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Pos.Filename(), b.Pos.Filename()), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return points
}
