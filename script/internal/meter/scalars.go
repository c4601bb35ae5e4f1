package meter

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"go.starlark.net/starlark"
)

// string decodes a string; the cursor is on its opening quote.
func (d *decoder) string() (starlark.Value, error) {
	start := d.pos + 1
	for i := start; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			d.pos = i + 1
			return d.intern(d.data[start:i])
		case c == '\\' || c >= utf8.RuneSelf:
			return d.longString(start, i)
		case c < ' ':
			d.pos = i
			return nil, d.unexpected("a character of a string")
		}
	}
	d.pos = len(d.data)
	return nil, d.unexpected("the end of a string")
}

// longString decodes the rest of a string that is not plain ASCII from at on.
func (d *decoder) longString(start, at int) (starlark.Value, error) {
	buf := append(d.scratch[:0], d.data[start:at]...)
	d.pos = at
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		switch {
		case c == '"':
			d.pos++
			d.scratch = buf[:0]
			return d.intern(buf)
		case c == '\\':
			var err error
			if buf, err = d.escape(buf); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, d.unexpected("a character of a string")
		case c < utf8.RuneSelf:
			buf = append(buf, c)
			d.pos++
		default:
			r, size := utf8.DecodeRune(d.data[d.pos:])
			buf = utf8.AppendRune(buf, r)
			d.pos += size
		}
	}
	return nil, d.unexpected("the end of a string")
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape appends the character of the escape at the cursor.
func (d *decoder) escape(buf []byte) ([]byte, error) {
	if d.pos+1 >= len(d.data) {
		d.pos++
		return nil, d.unexpected("an escape")
	}
	c := d.data[d.pos+1]
	if plain := escapes[c]; plain != 0 {
		d.pos += 2
		return append(buf, plain), nil
	}
	r, ok := d.hex4(d.pos)
	if !ok {
		return nil, d.unexpected(`an escape such as \n or \u00e9`)
	}
	d.pos += 6
	if utf16.IsSurrogate(r) {
		low, ok := d.hex4(d.pos)
		pair := utf16.DecodeRune(r, low)
		if ok && pair != utf8.RuneError {
			d.pos += 6
			return utf8.AppendRune(buf, pair), nil
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(buf, r), nil
}

// hex4 returns the number of the \uXXXX at offset i.
func (d *decoder) hex4(i int) (rune, bool) {
	if i+6 > len(d.data) || d.data[i] != '\\' || d.data[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range d.data[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// intern returns b as a string, from the cache if it is there.
func (d *decoder) intern(b []byte) (starlark.Value, error) {
	const maxName = 32
	if len(b) == 0 {
		return starlark.String(""), nil
	}
	if len(b) > maxName || len(d.data) < 8*maxName {
		if err := d.charge(stringWeight + int64(len(b))); err != nil {
			return nil, err
		}
		return starlark.String(b), nil
	}
	n := d.nameAt(b)
	if n.text == string(b) {
		return n.value, nil
	}
	if err := d.charge(stringWeight + int64(len(b))); err != nil {
		return nil, err
	}
	s := string(b)
	*n = name{s, starlark.String(s)}
	return n.value, nil
}

// nameAt returns where b is cached, or may be: a name has two places, by some of its bytes.
func (d *decoder) nameAt(b []byte) *name {
	if d.names == nil {
		size := 256
		if len(d.data) < 4096 {
			size = 64
		}
		d.names = make([]name, size)
	}
	hash := (uint32(len(b))<<24 | uint32(b[0])<<16 | uint32(b[len(b)/2])<<8 | uint32(b[len(b)-1])) * 2654435769
	first := &d.names[int(hash>>24)&(len(d.names)-1)]
	second := &d.names[int(hash>>16)&(len(d.names)-1)]
	if second.text == string(b) || first.text != string(b) && first.text != "" {
		return second
	}
	return first
}

func (d *decoder) number() (starlark.Value, error) {
	start := d.pos
	isInt, err := d.scanNumber()
	if err != nil {
		return nil, err
	}
	text := d.data[start:d.pos]
	if len(text) > maxDigits {
		d.pos = start
		return nil, fmt.Errorf("json: offset %d: number of %d digits, at most %d can be read", start, len(text), maxDigits)
	}
	if isInt {
		return d.integer(text)
	}
	if err := d.charge(8); err != nil {
		return nil, err
	}
	f, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
	if errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("json: offset %d: number %.40s is too large for a float", start, text)
	}
	return starlark.Float(f), nil
}

func (d *decoder) integer(text []byte) (starlark.Value, error) {
	if len(text) <= 18 {
		n, digits := int64(0), text
		if text[0] == '-' {
			digits = text[1:]
		}
		for _, c := range digits {
			n = n*10 + int64(c-'0')
		}
		if text[0] == '-' {
			n = -n
		}
		if len(text) > 9 {
			d.cost += 48
		}
		return starlark.MakeInt64(n), nil
	}
	if err := d.charge(int64(len(text)) + 96); err != nil {
		return nil, err
	}
	i, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		return nil, fmt.Errorf("json: %.40s is not an integer", text)
	}
	return starlark.MakeBigInt(i), nil
}

// scanNumber moves the cursor over a number and reports whether it is an integer.
func (d *decoder) scanNumber() (isInt bool, err error) {
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return false, d.unexpected("a digit")
	}
	isInt = true
	if d.peek() == '.' {
		d.pos++
		isInt = false
		if !d.digits() {
			return false, d.unexpected("a digit")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		isInt = false
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if !d.digits() {
			return false, d.unexpected("a digit")
		}
	}
	return isInt, nil
}

func (d *decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.data) && d.data[d.pos]-'0' < 10 {
		d.pos++
	}
	return d.pos > start
}
