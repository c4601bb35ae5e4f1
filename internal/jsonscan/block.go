package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// blockSize is how many bytes are looked at side by side: one bit of a word for each.
const blockSize = 64

// blocks is the state of a pass over whole blocks inside of a container. It computes
// which bytes are quotes, which of them are escaped, and from that which bytes are inside
// of strings, without looking at any byte alone; the method is that of simdjson
// (Langdale, Lemire: Parsing Gigabytes of JSON per Second).
type blocks struct {
	inString         uint64 // all ones when the next byte is inside of a string, else 0
	escaped          uint64 // 1 when the next byte stands behind a backslash that escapes it
	depth            int
	opening, closing uint64 // brackets outside of strings in the block that pass stopped at
}

// pass goes on over the whole blocks of p and returns how many bytes that were. It stops
// at a block that may end the value or nest too deep: the masks are those of this block,
// inString and escaped are as they are behind it, depth as it is in front of it.
func (b *blocks) pass(p []byte) int {
	if vectors && len(p) >= blockSize {
		return blockSize * passVectors(b, &p[0], len(p)/blockSize)
	}
	return b.passWords(p)
}

// passWords is pass in words of 64 bits.
func (b *blocks) passWords(p []byte) int {
	n := 0
	for n+blockSize <= len(p) && b.next((*[blockSize]byte)(p[n:])) {
		n += blockSize
	}
	return n
}

// next goes on over one block, or stops at it as pass does.
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

// count follows the depth through the block that pass stopped at, bracket by bracket.
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

// escapes is which bytes stand behind an odd number of backslashes.
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

// evenOut sets each bit that has an odd number of set bits below or at it: what is
// between a quote and the next.
func evenOut(m uint64) uint64 {
	m ^= m << 1
	m ^= m << 2
	m ^= m << 4
	m ^= m << 8
	m ^= m << 16
	return m ^ m<<32
}

// textMasks is which bytes of the block are quotes and which are backslashes.
func textMasks(p *[blockSize]byte) (quotes, slashes uint64) {
	for i := 0; i < blockSize; i += 8 {
		w := binary.LittleEndian.Uint64(p[i : i+8])
		quotes |= equal(w, '"') << i
		slashes |= equal(w, '\\') << i
	}
	return quotes, slashes
}

// bracketMasks is which bytes open a container and which close one. The two kinds of
// brackets differ in one bit, 0x20, which no other byte has to spare.
func bracketMasks(p *[blockSize]byte) (opening, closing uint64) {
	for i := 0; i < blockSize; i += 8 {
		w := binary.LittleEndian.Uint64(p[i:i+8]) | 0x2020202020202020
		opening |= equal(w, '{') << i
		closing |= equal(w, '}') << i
	}
	return opening, closing
}

// equal has one bit for each byte of w, set where it is c.
func equal(w uint64, c byte) uint64 {
	const ones, low, gather = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f, 0x0002040810204081
	x := w ^ ones*uint64(c)
	return ^((x&low + low) | x | low) * gather >> 56
}
