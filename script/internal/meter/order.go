package meter

import (
	"cmp"
	"errors"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// extreme implements max and min.
func (b *Budget) extreme(c *call, op syntax.Token) (starlark.Value, error) {
	if len(c.args) == 0 {
		return c.pass()
	}
	var key starlark.Callable
	if err := starlark.UnpackArgs(c.name, nil, c.kwargs, "key?", &key); err != nil {
		return nil, err
	}
	var all starlark.Value = c.args
	if len(c.args) == 1 {
		all = c.args[0]
	}
	iterable, ok := all.(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	if n := int64(starlark.Len(iterable)) / elemsPerStep; n > portionSteps && n > b.stepsLeft() {
		return nil, b.Work(n) // there are not enough steps
	}
	var best, bestKey starlark.Value
	i := 0
	for v := range starlark.Elements(iterable) {
		if i++; i%elemsPerStep == 0 {
			if err := b.Work(1); err != nil {
				return nil, err
			}
		}
		k, err := keyOf(c.thread, key, v)
		if err != nil {
			return nil, err
		}
		better := best == nil
		if !better {
			if better, err = b.compare(op, k, bestKey, starlark.CompareLimit); err != nil {
				return nil, c.wrong(b, err)
			}
		}
		if better {
			best, bestKey = v, k
		}
	}
	if best == nil {
		return nil, c.wrong(b, errors.New("argument is an empty sequence"))
	}
	return best, nil
}

// keyOf applies the key function, if there is one.
func keyOf(t *starlark.Thread, key starlark.Callable, v starlark.Value) (starlark.Value, error) {
	if key == nil {
		return v, nil
	}
	return starlark.Call(t, key, starlark.Tuple{v}, nil)
}

func sorted(b *Budget, c *call) (starlark.Value, error) {
	var (
		iterable starlark.Iterable
		key      starlark.Callable
		reverse  bool
	)
	if err := starlark.UnpackArgs(c.name, c.args, c.kwargs, "iterable", &iterable, "key?", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	iterable, err := b.sized(iterable, 3*16+16)
	if err != nil {
		return nil, err
	}
	items, err := b.keyed(c.thread, iterable, key)
	if err != nil {
		return nil, err
	}
	if err := b.sort(items, reverse); err != nil {
		return nil, err
	}
	values := make([]starlark.Value, len(items))
	for i, item := range items {
		values[i] = item.value
	}
	return starlark.NewList(values), nil
}

// item is a value to be sorted, with its key.
type item struct{ key, value starlark.Value }

func (b *Budget) keyed(t *starlark.Thread, v starlark.Iterable, key starlark.Callable) ([]item, error) {
	items := make([]item, 0, starlark.Len(v))
	for elem := range starlark.Elements(v) {
		k, err := keyOf(t, key, elem)
		if err != nil {
			return nil, err
		}
		items = append(items, item{k, elem})
	}
	return items, nil
}

// sort sorts items. As in the interpreter, values without an order count as equal, and the error is that of the last
// such pair; after a limit or a cancellation it returns as soon as possible.
func (b *Budget) sort(items []item, reverse bool) error {
	var failed error
	ended := false
	n := 0
	slices.SortStableFunc(items, func(x, y item) int {
		if ended {
			return 0
		}
		if n++; n%elemsPerStep == 0 {
			if err := b.Work(1); err != nil {
				failed, ended = err, true
				return 0
			}
		}
		if reverse {
			x, y = y, x
		}
		c, err := b.order(x.key, y.key)
		if err != nil {
			failed, ended = err, b.Final(err)
		}
		return c
	})
	return failed
}

// order compares two values.
func (b *Budget) order(x, y starlark.Value) (int, error) {
	switch x := x.(type) {
	case starlark.Int:
		if y, ok := y.(starlark.Int); ok {
			return x.Cmp(y, 1)
		}
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			return cmp.Compare(x, y), b.textCost(min(len(x), len(y)))
		}
	}
	less, err := b.compare(syntax.LT, x, y, starlark.CompareLimit)
	if err != nil {
		return 0, err
	}
	if less {
		return -1, nil
	}
	more, err := b.compare(syntax.LT, y, x, starlark.CompareLimit)
	if more {
		return 1, err
	}
	return 0, err
}
