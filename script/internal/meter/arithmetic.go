package meter

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

func unary(op syntax.Token) func(*Budget, starlark.Value) (starlark.Value, error) {
	return func(b *Budget, x starlark.Value) (starlark.Value, error) {
		if i, ok := x.(starlark.Int); ok {
			if err := b.chargeInt(i); err != nil {
				return nil, err
			}
		}
		return starlark.Unary(op, x)
	}
}

// binary computes x op y.
func (b *Budget) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	var err error
	switch x := x.(type) {
	case starlark.Int:
		err = b.intCost(op, x, y)
	case starlark.Float:
		if y, ok := y.(starlark.Int); ok {
			err = b.chargeInt(y)
		}
	case starlark.String:
		if op == syntax.PERCENT {
			return b.interpolate(x, y)
		}
		if y, ok := y.(starlark.String); ok && op == syntax.PLUS {
			return b.concat(x, y)
		}
		err = b.sequenceCost(op, len(x), 1, y)
	case starlark.Bytes:
		err = b.sequenceCost(op, len(x), 1, y)
	case *starlark.List:
		err = b.sequenceCost(op, x.Len(), 16, y)
	case starlark.Tuple:
		err = b.sequenceCost(op, len(x), 16, y)
	case *starlark.Set:
		err = b.tablesCost(x, y)
	case *starlark.Dict:
		err = b.tablesCost(x, y)
	case *starlarkstruct.Struct:
		if y, ok := y.(*starlarkstruct.Struct); ok {
			err = b.copyCost(int64(x.Len()+y.Len()), 4*tinyWeight)
		}
	}
	if err != nil {
		return nil, err
	}
	return starlark.Binary(op, x, y)
}

// sequenceCost charges for x + y and x * y, where x has n elements of size each.
func (b *Budget) sequenceCost(op syntax.Token, n int, each int64, y starlark.Value) error {
	switch op {
	case syntax.PLUS:
		m := max(starlark.Len(y), 0)
		if y, ok := y.(starlark.Bytes); ok {
			m = len(y)
		}
		return b.copyCost(int64(n)+int64(m), each)
	case syntax.STAR:
		if y, ok := y.(starlark.Int); ok {
			return b.repeatCost(n, each, y)
		}
	}
	return nil
}

// copyCost charges for a new sequence of n elements.
func (b *Budget) copyCost(n, each int64) error {
	if err := b.chargeEach(n+tinyWeight, each); err != nil {
		return err
	}
	return b.Work(n * each / blockPerStep)
}

func (b *Budget) repeatCost(n int, each int64, count starlark.Int) error {
	times, ok := count.Int64()
	if !ok || times <= 0 || n == 0 || times > 1<<31 {
		return nil // an empty result, or an error
	}
	return b.copyCost(int64(n)*times, each)
}

// augment computes x op= y.
func (b *Budget) augment(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case *starlark.List:
		if y, ok := y.(starlark.Iterable); ok && op == syntax.PLUS {
			return x, b.extend(x, y, "apply += to")
		}
	case *starlark.Dict:
		if y, ok := y.(*starlark.Dict); ok && op == syntax.PIPE {
			return x, b.update(x, y, "apply |= to")
		}
	}
	return b.binary(op, x, y)
}

// extend appends the elements of y to x.
func (b *Budget) extend(x *starlark.List, y starlark.Iterable, verb string) error {
	if err := mutable(x, verb); err != nil {
		return err
	}
	if y, ok := y.(*starlark.List); ok {
		n := y.Len() // x may be y
		if err := b.growCost(n); err != nil {
			return err
		}
		for i := range n {
			x.Append(y.Index(i)) // cannot fail: x is mutable
		}
		return nil
	}
	y, err := b.sized(y, 0)
	if err != nil {
		return err
	}
	if err := b.growCost(starlark.Len(y)); err != nil {
		return err
	}
	for v := range starlark.Elements(y) {
		if err := x.Append(v); err != nil {
			return err
		}
	}
	return nil
}

// growCost charges for n more elements of a list.
func (b *Budget) growCost(n int) error {
	if err := b.chargeEach(int64(n), 3*slotWeight); err != nil {
		return err
	}
	return b.visit(n)
}

// mutable reports an error in the interpreter's words if x must not change now.
func mutable(x *starlark.List, verb string) error {
	var err error
	if x.Len() == 0 {
		err = x.Clear()
	} else {
		err = x.SetIndex(0, x.Index(0))
	}
	if err == nil {
		return nil
	}
	msg := strings.Replace(err.Error(), "cannot clear", "cannot "+verb, 1)
	return errors.New(strings.Replace(msg, "cannot assign to element of", "cannot "+verb, 1))
}

// update adds the entries of y to x.
func (b *Budget) update(x, y *starlark.Dict, verb string) error {
	if err := b.chargeEach(int64(y.Len()), 2*tinyWeight); err != nil {
		return err
	}
	for _, item := range y.Items() {
		if err := b.setKey(x, item[0], item[1]); err != nil {
			if b.Final(err) {
				return err
			}
			return errors.New(strings.Replace(err.Error(), "insert into", verb, 1))
		}
	}
	return nil
}

// intCost charges for x op y.
func (b *Budget) intCost(op syntax.Token, x starlark.Int, y starlark.Value) error {
	switch y := y.(type) {
	case starlark.Int:
		_, smallX := x.Int64()
		_, smallY := y.Int64()
		if smallX && smallY {
			return nil // at most 16 bytes, or 72 after a shift
		}
		return b.bigCost(op, x, y)
	case starlark.Float:
		return b.chargeInt(x)
	case starlark.String:
		if op == syntax.STAR {
			return b.repeatCost(len(y), 1, x)
		}
	case starlark.Bytes:
		if op == syntax.STAR {
			return b.repeatCost(len(y), 1, x)
		}
	case *starlark.List:
		if op == syntax.STAR {
			return b.repeatCost(y.Len(), 16, x)
		}
	case starlark.Tuple:
		if op == syntax.STAR {
			return b.repeatCost(len(y), 16, x)
		}
	}
	return nil
}

// bigCost charges for x op y, one of which has more than 64 bits, and bounds the result.
func (b *Budget) bigCost(op syntax.Token, x, y starlark.Int) error {
	m, n := bits(x), bits(y)
	size := max(m, n)
	switch op {
	case syntax.STAR:
		size = m + n
	case syntax.LTLT:
		size = m + 512
	}
	if size > maxIntBits {
		return fmt.Errorf("integer of more than %d bits", maxIntBits)
	}
	if err := b.Charge(int64(size)); err != nil { // eight times its bytes
		return err
	}
	return b.Work(int64(m/64) * int64(n/64) / 1024)
}

// chargeInt charges for a copy of i.
func (b *Budget) chargeInt(i starlark.Int) error {
	if _, small := i.Int64(); small {
		return nil
	}
	return b.Charge(int64(bits(i)))
}
