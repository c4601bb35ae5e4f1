package meter

import (
	"errors"

	"go.starlark.net/starlark"
)

var listMethods = map[string]metered{
	"clear":  {cost: listWalkCost},
	"extend": {call: extendList},
	"index":  {call: indexList},
	"insert": {cost: listMoveCost},
	"pop":    {cost: popCost},
	"remove": {call: removeFromList},
}

func listWalkCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	return b.visit(recv.(*starlark.List).Len())
}

// popCost charges for moving the elements behind the one that is removed.
func popCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return listMoveCost(b, recv, args)
}

func listMoveCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	if err := b.Charge(2 * slotWeight); err != nil {
		return err
	}
	return b.Work(int64(recv.(*starlark.List).Len()) * 16 / blockPerStep)
}

func extendList(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	iterable, ok := c.args[0].(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	if err := b.extend(c.recv.(*starlark.List), iterable, "extend"); err != nil {
		return nil, c.wrong(b, err)
	}
	return starlark.None, nil
}

func indexList(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 || len(c.args) > 3 || len(c.kwargs) > 0 {
		return c.pass()
	}
	l := c.recv.(*starlark.List)
	var lo, hi starlark.Value
	if len(c.args) > 1 {
		lo = c.args[1]
	}
	if len(c.args) > 2 {
		hi = c.args[2]
	}
	start, end, err := spanOf(lo, hi, l.Len())
	if err != nil {
		return nil, c.wrong(b, err)
	}
	i, err := b.indexOf(c.args[0], l, start, end)
	if err == nil && i < 0 {
		err = errors.New("value not in list")
	}
	if err != nil {
		return nil, c.wrong(b, err)
	}
	return starlark.MakeInt(i), nil
}

func removeFromList(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	l := c.recv.(*starlark.List)
	if err := mutable(l, "remove from"); err != nil {
		return nil, c.wrong(b, err)
	}
	i, err := b.indexOf(c.args[0], l, 0, l.Len())
	if err == nil && i < 0 {
		err = errors.New("element not found")
	}
	if err != nil {
		return nil, c.wrong(b, err)
	}
	if err := listMoveCost(b, l, nil); err != nil {
		return nil, err
	}
	pop, _ := l.Attr("pop")
	_, err = pop.(*starlark.Builtin).CallInternal(c.thread, starlark.Tuple{starlark.MakeInt(i)}, nil)
	return starlark.None, err
}
