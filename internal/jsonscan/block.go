package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// blockSize is the number of bytes that are processed together, one bit of a word for each.
const blockSize = 64

// blocks is the state of a pass over whole blocks inside of a container. It computes which
// bytes are quotes, which of them are escaped, and from that which bytes are inside of
// strings, for all bytes of a block at once; the method is that of simdjson (Langdale,
// Lemire: Parsing Gigabytes of JSON per Second).
type blocks struct {
	inString         uint64 // all ones when the next byte is inside of a string, else 0
	escaped          uint64 // 1 when the next byte is escaped by a backslash before it
	depth            int
	opening, closing uint64 // brackets outside of strings in the block that pass stopped at
}

// pass processes the whole blocks of p and returns the number of their bytes. It stops at a
// block that may end the value or nest too deep: then opening, closing, inString and escaped
// are the state after this block, and depth that before it.
func (b *blocks) pass(p []byte) int {
	if vectors && len(p) >= blockSize {
		return blockSize * passVectors(b, &p[0], len(p)/blockSize)
	}
	return b.passWords(p)
}

// passWords is pass with words of 64 bits.
func (b *blocks) passWords(p []byte) int {
	n := 0
	for n+blockSize <= len(p) && b.next((*[blockSize]byte)(p[n:])) {
		n += blockSize
	}
	return n
}

// next processes one block; false when it stops at it as pass does.
func (b *blocks) next(p *[blockSize]byte) bool {
	if b.inString != 0 && b.escaped == 0 && bytes.IndexByte(p[:], '"') < 0 && bytes.IndexByte(p[:], '\\') < 0 {
		return true
	}
	quotes, slashes := textMasks(p)
	quotes &^= b.escapes(slashes)
	inside := evenOut(quotes) ^ b.inString
	b.inString = -(inside >> 63)
	if inside == ^uint64(0) {
		return true
	}
	opening, closing := bracketMasks(p)
	opening, closing = opening&^inside, closing&^inside
	opened, closed := bits.OnesCount64(opening), bits.OnesCount64(closing)
	if closed >= b.depth || b.depth+opened > MaxDepth {
		b.opening, b.closing = opening, closing
		return false
	}
	b.depth += opened - closed
	return true
}

// count updates the depth by the brackets of the block that pass stopped at.
func (b *blocks) count() (n int, done bool, err error) {
	for m := b.opening | b.closing; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if b.closing>>i&1 != 0 {
			b.depth--
		} else if b.depth++; b.depth > MaxDepth {
			return i, false, fmt.Errorf("nested deeper than %d", MaxDepth)
		}
		if b.depth == 0 {
			return i + 1, true, nil
		}
	}
	return blockSize, false, nil
}

// escapes returns which bytes follow an odd number of backslashes.
func (b *blocks) escapes(slashes uint64) uint64 {
	before := b.escaped
	if slashes == 0 {
		b.escaped = 0
		return before
	}
	const even = 0x5555555555555555
	slashes &^= before
	follows := slashes<<1 | before
	odd := slashes &^ even &^ follows
	sum, carry := bits.Add64(odd, slashes, 0)
	b.escaped = carry
	return (even ^ sum<<1) & follows
}

// evenOut sets each bit with an odd number of set bits at or below it: the bytes from
// an opening quote up to the closing one.
func evenOut(m uint64) uint64 {
	m ^= m << 1
	m ^= m << 2
	m ^= m << 4
	m ^= m << 8
	m ^= m << 16
	return m ^ m<<32
}

// textMasks returns which bytes of the block are quotes and which are backslashes.
func textMasks(p *[blockSize]byte) (quotes, slashes uint64) {
	for i := 0; i < blockSize; i += 8 {
		w := binary.LittleEndian.Uint64(p[i : i+8])
		quotes |= equal(w, '"') << i
		slashes |= equal(w, '\\') << i
	}
	return quotes, slashes
}

// bracketMasks returns which bytes open a container and which close one. The two kinds
// of brackets differ in the bit 0x20 alone, and no other byte becomes a bracket when it
// is set.
func bracketMasks(p *[blockSize]byte) (opening, closing uint64) {
	for i := 0; i < blockSize; i += 8 {
		w := binary.LittleEndian.Uint64(p[i:i+8]) | 0x2020202020202020
		opening |= equal(w, '{') << i
		closing |= equal(w, '}') << i
	}
	return opening, closing
}

// equal returns one bit for each byte of w, set where the byte is c.
func equal(w uint64, c byte) uint64 {
	const ones, low, gather = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f, 0x0002040810204081
	x := w ^ ones*uint64(c)
	return ^((x&low + low) | x | low) * gather >> 56
}
