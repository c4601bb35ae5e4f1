package meter

import (
	"fmt"

	"go.starlark.net/starlark"
)

var dictMethods = map[string]metered{
	"clear":      {cost: clearCost},
	"get":        {cost: lookupArgCost},
	"items":      {cost: itemsCost},
	"keys":       {cost: itemsCost},
	"pop":        {cost: lookupArgCost},
	"popitem":    {cost: firstCost},
	"setdefault": {call: setDefault},
	"update":     {call: updateDict},
	"values":     {cost: itemsCost},
}

// clearCost charges for the largest size that the table has had: it does not shrink.
func clearCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	t := recv.(table)
	if b.large[t] == nil && t.Len() > smallTable {
		if _, err := b.resketch(t, nil); err != nil {
			return err
		}
	}
	return b.Work(b.peak(t) / 4)
}

func lookupArgCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return b.lookup(recv.(table), args[0])
}

func itemsCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	n := recv.(*starlark.Dict).Len()
	if err := b.chargeEach(int64(n)+1, 16+16+24+24+16); err != nil {
		return err
	}
	return b.visit(n)
}

// firstCost charges for deleting the first key.
func firstCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	for k := range starlark.Elements(recv.(starlark.Iterable)) {
		return b.lookup(recv.(table), k)
	}
	return nil
}

func setDefault(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 {
		return c.pass()
	}
	d := c.recv.(*starlark.Dict)
	n := d.Len()
	weight, err := b.insertCost(n, c.args[0])
	if err != nil {
		return nil, err
	}
	v, err := c.pass()
	if err != nil {
		return nil, err
	}
	return v, b.inserted(d, n, c.args[0], weight)
}

func updateDict(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) > 1 {
		return c.pass()
	}
	if err := b.fill(c.recv.(*starlark.Dict), c.args, c.kwargs); err != nil {
		return nil, c.wrong(b, err)
	}
	return starlark.None, nil
}

// fill adds the entries of a dict or of pairs, then the keyword arguments.
func (b *Budget) fill(d *starlark.Dict, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if len(args) == 1 {
		if err := b.fillFrom(d, args[0]); err != nil {
			return err
		}
	}
	seen := map[starlark.Value]bool{}
	for _, kv := range kwargs {
		if seen[kv[0]] {
			return fmt.Errorf("duplicate keyword arg: %v", kv[0])
		}
		seen[kv[0]] = true
		if err := b.Charge(tinyWeight); err != nil {
			return err
		}
		if err := b.setKey(d, kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func (b *Budget) fillFrom(d *starlark.Dict, from starlark.Value) error {
	switch from := from.(type) {
	case *starlark.Dict:
		return b.update(d, from, "insert into")
	case starlark.IterableMapping:
		for _, item := range from.Items() {
			if err := b.setKey(d, item[0], item[1]); err != nil {
				return err
			}
		}
		return nil
	case starlark.Iterable:
		return b.fillPairs(d, from)
	}
	return fmt.Errorf("got %s, want iterable", from.Type())
}

func (b *Budget) fillPairs(d *starlark.Dict, from starlark.Iterable) error {
	i := 0
	for pair := range starlark.Elements(from) {
		if err := b.Work(1); err != nil {
			return err
		}
		p, ok := pair.(starlark.Iterable)
		if !ok {
			return fmt.Errorf("dictionary update sequence element #%d is not iterable (%s)", i, pair.Type())
		}
		n := starlark.Len(pair)
		if n < 0 {
			return fmt.Errorf("dictionary update sequence element #%d has unknown length (%s)", i, pair.Type())
		}
		if n != 2 {
			return fmt.Errorf("dictionary update sequence element #%d has length %d, want 2", i, n)
		}
		var kv []starlark.Value
		for v := range starlark.Elements(p) {
			kv = append(kv, v)
		}
		if err := b.Charge(2 * tinyWeight); err != nil { // for the values that an iterator makes
			return err
		}
		if err := b.setKey(d, kv[0], kv[1]); err != nil {
			return err
		}
		i++
	}
	return nil
}

var setMethods = map[string]metered{
	"add":                  {call: addToSet},
	"clear":                {cost: clearCost},
	"difference":           {call: setOperation},
	"discard":              {cost: lookupArgCost},
	"intersection":         {call: setOperation},
	"issubset":             {call: setOperation},
	"issuperset":           {call: setOperation},
	"pop":                  {cost: firstCost},
	"remove":               {cost: lookupArgCost},
	"symmetric_difference": {call: setOperation},
	"union":                {call: union},
	"update":               {call: updateSet},
}

func addToSet(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	s := c.recv.(*starlark.Set)
	n := s.Len()
	weight, err := b.insertCost(n, c.args[0])
	if err != nil {
		return nil, err
	}
	if _, err := c.pass(); err != nil {
		return nil, err
	}
	return starlark.None, b.inserted(s, n, c.args[0], weight)
}

// setOperation makes a set of the other operand first, so that it is charged like any other.
func setOperation(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 && len(c.kwargs) == 0 {
		return nil, fmt.Errorf("%s: got 0 arguments, want 1", c.name)
	}
	other, ok := c.args[0].(starlark.Iterable)
	if len(c.args) != 1 || !ok {
		return c.pass()
	}
	set, ok := other.(*starlark.Set)
	if !ok {
		set = new(starlark.Set)
		if err := b.insertAll(set, other); err != nil {
			return nil, c.wrong(b, err)
		}
		c.args = starlark.Tuple{set}
	}
	if err := b.tablesCost(c.recv.(table), set); err != nil {
		return nil, err
	}
	return c.pass()
}

func union(b *Budget, c *call) (starlark.Value, error) {
	recv := c.recv.(*starlark.Set)
	if err := b.Charge(dictWeight); err != nil {
		return nil, err
	}
	if err := b.tableCost(recv); err != nil {
		return nil, err
	}
	clone, err := recv.Union(starlark.Tuple(nil).Iterate())
	if err != nil {
		return nil, err
	}
	c.recv = clone
	if _, err := updateSet(b, c); err != nil {
		return nil, err
	}
	return clone, nil
}

func updateSet(b *Budget, c *call) (starlark.Value, error) {
	if len(c.kwargs) > 0 {
		return c.pass()
	}
	for i, arg := range c.args {
		iterable, ok := arg.(starlark.Iterable)
		if !ok {
			return nil, fmt.Errorf("%s: argument #%d is not iterable: %s", c.name, i+1, arg.Type())
		}
		if err := b.insertAll(c.recv.(*starlark.Set), iterable); err != nil {
			return nil, c.wrong(b, err)
		}
	}
	return starlark.None, nil
}

// insertAll adds the elements of v to s.
func (b *Budget) insertAll(s *starlark.Set, v starlark.Iterable) error {
	each := tinyWeight
	switch v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Dict, *starlark.Set:
		each = 0
	}
	i := 0
	for k := range starlark.Elements(v) {
		if i++; i%elemsPerStep == 0 {
			if err := b.Work(2); err != nil {
				return err
			}
		}
		if err := b.Charge(int64(each)); err != nil {
			return err
		}
		if err := b.insert(s, k); err != nil {
			return err
		}
	}
	return nil
}
