package script

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// intCost pays for x op y.
func (b *budget) intCost(op syntax.Token, x starlark.Int, y starlark.Value) error {
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

// bigCost pays for x op y, one of which has more than 64 bits, and bounds the result.
func (b *budget) bigCost(op syntax.Token, x, y starlark.Int) error {
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
	if err := b.charge(int64(size)); err != nil { // eight times its bytes
		return err
	}
	return b.work(int64(m/64) * int64(n/64) / 1024)
}

// chargeInt pays for a copy of i.
func (b *budget) chargeInt(i starlark.Int) error {
	if _, small := i.Int64(); small {
		return nil
	}
	return b.charge(int64(bits(i)))
}

func bits(i starlark.Int) int {
	if v, ok := i.Int64(); ok && int64(int32(v)) == v {
		return 32
	}
	return i.BigInt().BitLen()
}
