package meter

import (
	"go.starlark.net/starlark"
)

// The marks of coverage, in builds for tests: see rewrite/cover.go. They count no steps.

// mark is op | n: the statement of probe n begins.
func (b *Budget) mark(n starlark.Value) (starlark.Value, error) {
	if b.Cover.Reach(probe(n)).Jump {
		b.steps--
	}
	return starlark.None, nil
}

// way is n - (op | x): x decides probe n.
func (b *Budget) way(n, x starlark.Value) (starlark.Value, error) {
	b.Cover.Decide(probe(n), bool(x.Truth()))
	return x, nil
}

// loop is n - (op | x): a loop goes over x, and is entered if there is anything in it.
func (b *Budget) loop(n, x starlark.Value) (starlark.Value, error) {
	over, ok := x.(starlark.Iterable)
	if !ok {
		return x, nil // the interpreter returns the error
	}
	return &watched{over, b, probe(n)}, nil
}

func probe(n starlark.Value) int {
	i, _ := starlark.AsInt32(n)
	return i
}

// watched is the sequence of a counted loop.
type watched struct {
	starlark.Iterable
	budget *Budget
	probe  int
}

// Iterate starts the loop.
func (w *watched) Iterate() starlark.Iterator {
	return &watchedIterator{Iterator: w.Iterable.Iterate(), of: w}
}

type watchedIterator struct {
	starlark.Iterator
	of    *watched
	begun bool
}

// Next counts whether there was a first element.
func (i *watchedIterator) Next(p *starlark.Value) bool {
	more := i.Iterator.Next(p)
	if !i.begun {
		i.begun = true
		i.of.budget.Cover.Decide(i.of.probe, more)
	}
	return more
}
