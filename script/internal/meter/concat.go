package meter

import (
	"unsafe"

	"go.starlark.net/starlark"
)

// A script that builds a text with s += line, again and again, would pay for a copy of
// the whole text each time, and charges are not refunded. So a sum of strings leaves room
// behind itself when its left side is such a sum already: the next one then goes on in
// place. What was there before stays as it is, for a longer string begins with it.

// concats are the last sums of strings that were made.
type concats struct {
	bufs [4][]byte // each is one sum; what is behind it is room
	next int
}

// smallText is copied without further thought.
const smallText = 256

// concat is x + y.
func (b *Budget) concat(x, y starlark.String) (starlark.Value, error) {
	n := len(x) + len(y)
	if n < smallText || len(y) == 0 {
		return x + y, b.Charge(int64(n) + TinyWeight)
	}
	if err := b.Work(int64(len(y)) / BlockPerStep); err != nil {
		return nil, err
	}
	buf := b.concats.find(x)
	if buf == nil {
		return b.newConcat(b.concats.take(), x, y, n)
	}
	if cap(*buf) < n {
		return b.newConcat(buf, x, y, 2*n)
	}
	*buf = append(*buf, y...)
	return textIn(*buf), b.Charge(TinyWeight)
}

// newConcat makes x + y with room for size bytes.
func (b *Budget) newConcat(buf *[]byte, x, y starlark.String, size int) (starlark.Value, error) {
	if err := b.copyCost(int64(size), 1); err != nil {
		return nil, err
	}
	*buf = append(append(make([]byte, 0, size), x...), y...)
	return textIn(*buf), nil
}

// find returns the sum that x is.
func (c *concats) find(x starlark.String) *[]byte {
	for i := range c.bufs {
		buf := &c.bufs[i]
		if len(x) > 0 && len(*buf) == len(x) && unsafe.SliceData(*buf) == unsafe.StringData(string(x)) {
			return buf
		}
	}
	return nil
}

// take gives up the oldest sum.
func (c *concats) take() *[]byte {
	c.next = (c.next + 1) % len(c.bufs)
	return &c.bufs[c.next]
}

// textIn is the string that buf holds. Its bytes are never written again: only those
// behind it are.
func textIn(buf []byte) starlark.String {
	return starlark.String(unsafe.String(unsafe.SliceData(buf), len(buf)))
}
