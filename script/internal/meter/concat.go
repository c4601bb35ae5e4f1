package meter

import (
	"unsafe"

	"go.starlark.net/starlark"
)

// A script that builds a text with s += line repeatedly would be charged for a copy of the whole text each time, and
// charges are not refunded. So when the left operand of a sum of strings is itself the result of a sum, the new string
// is made with spare capacity, and the next sum appends in place. Strings that were returned before do not change: a
// longer one begins with them.

// concats are the last sums of strings.
type concats struct {
	bufs [4][]byte // each is one sum, with its spare capacity
	next int
}

// smallText is the length of strings that are always copied, in bytes.
const smallText = 256

// concat returns x + y.
func (b *Budget) concat(x, y starlark.String) (starlark.Value, error) {
	n := len(x) + len(y)
	if n < smallText || len(y) == 0 {
		return x + y, b.Charge(int64(n) + tinyWeight)
	}
	if err := b.Work(int64(len(y)) / blockPerStep); err != nil {
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
	return textIn(*buf), b.Charge(tinyWeight)
}

// newConcat returns x + y, with capacity for size bytes.
func (b *Budget) newConcat(buf *[]byte, x, y starlark.String, size int) (starlark.Value, error) {
	if err := b.copyCost(int64(size), 1); err != nil {
		return nil, err
	}
	*buf = append(append(make([]byte, 0, size), x...), y...)
	return textIn(*buf), nil
}

// find returns the buffer of the sum x, or nil.
func (c *concats) find(x starlark.String) *[]byte {
	for i := range c.bufs {
		buf := &c.bufs[i]
		if len(x) > 0 && len(*buf) == len(x) && unsafe.SliceData(*buf) == unsafe.StringData(string(x)) {
			return buf
		}
	}
	return nil
}

// take returns the oldest buffer, to be replaced.
func (c *concats) take() *[]byte {
	c.next = (c.next + 1) % len(c.bufs)
	return &c.bufs[c.next]
}

// textIn returns the string in buf. Its bytes are never written again, only those after it.
func textIn(buf []byte) starlark.String {
	return starlark.String(unsafe.String(unsafe.SliceData(buf), len(buf)))
}
