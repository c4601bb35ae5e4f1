package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// blockSize is how many bytes are looked at side by side: one bit of a word for each.
const blockSize = 64

// skipBlock goes on by one block. It computes which bytes are quotes, which of them are
// escaped, and from that which bytes are inside of strings, without looking at any byte
// alone; the method is that of simdjson (Langdale, Lemire: Parsing Gigabytes of JSON per
// Second), in words of 64 bits.
func (s *ValueScanner) skipBlock(p *[blockSize]byte) (n int, done bool, err error) {
	if s.inString && !s.escaped && bytes.IndexByte(p[:], '"') < 0 && bytes.IndexByte(p[:], '\\') < 0 {
		return blockSize, false, nil
	}
	quotes, slashes := textMasks(p)
	quotes &^= s.escapes(slashes)
	if s.inString && quotes == 0 {
		return blockSize, false, nil
	}
	inside := evenOut(quotes)
	if s.inString {
		inside = ^inside
	}
	s.inString = inside>>63 != 0
	if inside == ^uint64(0) {
		return blockSize, false, nil
	}
	opening, closing := bracketMasks(p)
	return s.count(opening&^inside, closing&^inside, quotes)
}

// count follows the depth through one block.
func (s *ValueScanner) count(opening, closing, quotes uint64) (n int, done bool, err error) {
	if s.depth == 0 { // the value is a string, which has ended
		s.inString, s.escaped = false, false
		return bits.TrailingZeros64(quotes) + 1, true, nil
	}
	opened, closed := bits.OnesCount64(opening), bits.OnesCount64(closing)
	if closed < s.depth && s.depth+opened <= MaxDepth {
		s.depth += opened - closed
		return blockSize, false, nil
	}
	for m := opening | closing; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if opening>>i&1 == 0 {
			s.depth--
		} else if s.depth++; s.depth > MaxDepth {
			return i, false, fmt.Errorf("nested deeper than %d", MaxDepth)
		}
		if s.depth == 0 {
			s.inString, s.escaped = false, false
			return i + 1, true, nil
		}
	}
	return blockSize, false, nil
}

// escapes is which bytes stand behind an odd number of backslashes.
func (s *ValueScanner) escapes(slashes uint64) uint64 {
	var before uint64
	if s.escaped {
		before = 1
	}
	if slashes == 0 {
		s.escaped = false
		return before
	}
	const even = 0x5555555555555555
	slashes &^= before
	follows := slashes<<1 | before
	odd := slashes &^ even &^ follows
	sum, carry := bits.Add64(odd, slashes, 0)
	s.escaped = carry != 0
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
