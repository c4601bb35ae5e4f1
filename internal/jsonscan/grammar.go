package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func syntaxError(b []byte, i int) error {
	if i >= len(b) {
		return fmt.Errorf("unexpected end at byte %d", len(b))
	}
	return fmt.Errorf("unexpected %q at byte %d", b[i], i)
}

// nesting records, for each open container, whether it is an object.
type nesting struct {
	bits  [MaxDepth / 64]uint64
	depth int
}

func (n *nesting) push(object bool) bool {
	if n.depth == MaxDepth {
		return false
	}
	word, bit := n.depth/64, uint64(1)<<(n.depth%64)
	if object {
		n.bits[word] |= bit
	} else {
		n.bits[word] &^= bit
	}
	n.depth++
	return true
}

func (n *nesting) inObject() bool {
	d := n.depth - 1
	return n.bits[d/64]&(1<<(d%64)) != 0
}

// skipValue checks the value at b[i] and returns the index after it.
func skipValue(b []byte, i int) (int, error) {
	var n nesting
	for {
		if i >= len(b) {
			return i, syntaxError(b, i)
		}
		// A value starts here.
		c := b[i]
		if c == '{' || c == '[' {
			if !n.push(c == '{') {
				return i, fmt.Errorf("nested deeper than %d at byte %d", MaxDepth, i)
			}
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' is '{'+2, ']' is '['+2
				i++
				n.depth--
			} else if c == '[' {
				continue
			} else {
				var err error
				if i, err = skipKey(b, i); err != nil {
					return i, err
				}
				continue
			}
		} else {
			var err error
			if i, err = skipScalar(b, i); err != nil {
				return i, err
			}
		}
		// A value ends here: close the containers that it completes, or go to the next member.
		next, done, err := skipAfter(b, i, &n)
		if err != nil || done {
			return next, err
		}
		i = next
	}
}

// skipAfter skips from the end of a value to the start of the next one; done is set when
// the outermost value is complete.
func skipAfter(b []byte, i int, n *nesting) (next int, done bool, err error) {
	for n.depth > 0 {
		i = skipSpace(b, i)
		if i >= len(b) {
			return i, false, syntaxError(b, i)
		}
		object := n.inObject()
		switch {
		case b[i] == ',' && object:
			i, err = skipKey(b, skipSpace(b, i+1))
			return i, false, err
		case b[i] == ',':
			return skipSpace(b, i+1), false, nil
		case b[i] == '}' && object, b[i] == ']' && !object:
			i++
			n.depth--
		default:
			return i, false, syntaxError(b, i)
		}
	}
	return i, true, nil
}

// skipKey skips `"key" :` and the white space after it.
func skipKey(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, syntaxError(b, i)
	}
	i, err := skipString(b, i)
	if err != nil {
		return i, err
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, syntaxError(b, i)
	}
	return skipSpace(b, i+1), nil
}

func skipScalar(b []byte, i int) (int, error) {
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word), nil
		}
	}
	return i, syntaxError(b, i)
}

func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		if i = skipPlain(b, i); i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			i++
			if i >= len(b) {
				return i, syntaxError(b, i)
			}
			if b[i] == 'u' {
				if i+4 >= len(b) || !isHex(b[i+1:i+5]) {
					return i, syntaxError(b, i)
				}
				i += 4
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), b[i]) < 0 {
				return i, syntaxError(b, i)
			}
		case c < 0x20:
			return i, syntaxError(b, i)
		}
	}
	return i, syntaxError(b, i)
}

// skipPlain skips the unescaped bytes of a string, eight at a time.
func skipPlain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// A top bit is set for each byte that is a control character, a quote or a backslash;
		// bits above the lowest may be wrong.
		found := (w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash
		if found &= tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

func skipNumber(b []byte, i int) (int, error) {
	digits := func() bool {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, syntaxError(b, i)
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			return i, syntaxError(b, i)
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, syntaxError(b, i)
		}
	}
	return i, nil
}
