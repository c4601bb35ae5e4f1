package script

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"go.starlark.net/starlark"
)

// maxNumber bounds the bytes of one JSON number: reading a longer integer takes
// time that grows with the square of its length.
const maxNumber = 4096

// Decode makes a Starlark value of one JSON text, straight from its bytes.
//
// Objects become dicts in the order of the text, arrays lists, integers exact ints
// of any size (up to 4096 digits), numbers with a fraction or an exponent floats.
// A key that occurs twice keeps its first place and its last value. Bytes that are
// not UTF-8 and lone surrogates become U+FFFD, as in encoding/json.
//
// What is made is charged to b while it is made; b may be nil. Arrays and objects
// may nest maxDepth deep.
func Decode(b *budget, data []byte, maxDepth int) (starlark.Value, error) {
	d := decoder{data: data, depth: maxDepth, maxDepth: maxDepth, budget: b}
	v, err := d.document()
	if err != nil {
		return nil, err
	}
	return v, d.flush()
}

// DecodeIn is Decode on the budget of the run that t belongs to, which also pays
// for reading the text.
func DecodeIn(t *starlark.Thread, data []byte, maxDepth int) (starlark.Value, error) {
	if err := Work(t, int64(len(data))/bytesPerStep); err != nil {
		return nil, err
	}
	return Decode(budgetOf(t), data, maxDepth)
}

// decoder reads data from pos on. It is not reused.
type decoder struct {
	data            []byte
	pos             int
	depth, maxDepth int
	budget          *budget
	cost            int64 // not yet charged to budget

	// open holds the members of the arrays and objects that are open, so that each is
	// made at its exact size when it closes.
	open stack
	// names holds short strings seen lately, at the place that their bytes choose.
	// A key of 10,000 equal objects is one string.
	names []name
	// scratch is where strings with escapes are put together.
	scratch []byte
}

type name struct {
	text  string
	value starlark.Value
}

// What the values of a JSON text weigh, in bytes; see docs/limits.md.
const (
	stringWeight = 24
	listWeight   = 48
	dictWeight   = 528
)

// dictTableWeight is the weight of what a dict of n entries holds beside itself.
func dictTableWeight(n int) int64 {
	if n <= 8 {
		return 0
	}
	return int64(n) * entryWeight
}

func (d *decoder) document() (starlark.Value, error) {
	d.space()
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	d.space()
	if d.pos < len(d.data) {
		return nil, d.unexpected("the end")
	}
	return v, nil
}

func (d *decoder) value() (starlark.Value, error) {
	if d.pos >= len(d.data) {
		return nil, d.unexpected("a value")
	}
	switch c := d.data[d.pos]; c {
	case '"':
		return d.string()
	case '{':
		return d.object()
	case '[':
		return d.array()
	case 't':
		return d.word("true", starlark.True)
	case 'f':
		return d.word("false", starlark.False)
	case 'n':
		return d.word("null", starlark.None)
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return d.number()
		}
		return nil, d.unexpected("a value")
	}
}

func (d *decoder) word(word string, v starlark.Value) (starlark.Value, error) {
	if !bytes.HasPrefix(d.data[d.pos:], []byte(word)) {
		return nil, d.unexpected("a value")
	}
	d.pos += len(word)
	return v, nil
}

func (d *decoder) array() (starlark.Value, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	base := d.open.n
	if d.next() == ']' {
		d.pos++
		return d.list(base)
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if err := d.push(v); err != nil {
			return nil, err
		}
		switch d.next() {
		case ',':
			d.pos++
			d.space()
		case ']':
			d.pos++
			return d.list(base)
		default:
			return nil, d.unexpected(`"," or "]"`)
		}
	}
}

// list makes a list of the values from base on and takes them off the stack.
func (d *decoder) list(base int) (starlark.Value, error) {
	d.depth++
	n := d.open.n - base
	if err := d.charge(listWeight + 16*int64(n)); err != nil {
		return nil, err
	}
	if n == 0 {
		return starlark.NewList(nil), nil
	}
	return starlark.NewList(d.open.pop(base)), nil
}

func (d *decoder) object() (starlark.Value, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	base := d.open.n
	if d.next() == '}' {
		d.pos++
		return d.dict(base)
	}
	for {
		if d.pos >= len(d.data) || d.data[d.pos] != '"' {
			return nil, d.unexpected("a key in quotes")
		}
		k, err := d.string()
		if err != nil {
			return nil, err
		}
		if d.next() != ':' {
			return nil, d.unexpected(`":"`)
		}
		d.pos++
		d.space()
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if err := d.push(k); err != nil {
			return nil, err
		}
		if err := d.push(v); err != nil {
			return nil, err
		}
		switch d.next() {
		case ',':
			d.pos++
			d.space()
		case '}':
			d.pos++
			return d.dict(base)
		default:
			return nil, d.unexpected(`"," or "}"`)
		}
	}
}

// dict makes a dict of the pairs from base on and takes them off the stack.
func (d *decoder) dict(base int) (starlark.Value, error) {
	d.depth++
	n := (d.open.n - base) / 2
	if err := d.charge(dictWeight + dictTableWeight(n)); err != nil {
		return nil, err
	}
	v := starlark.NewDict(max(n-1, 0)) // a dict grows before the entry that is one too many
	for i := base; i < d.open.n; i += 2 {
		if err := d.setKey(v, *d.open.at(i), *d.open.at(i + 1)); err != nil {
			return nil, err
		}
	}
	d.open.n = base
	return v, nil
}

func (d *decoder) setKey(v *starlark.Dict, key, value starlark.Value) error {
	n := v.Len()
	if err := v.SetKey(key, value); err != nil {
		return err
	}
	if n < smallTable || v.Len() == n || d.budget == nil {
		return nil
	}
	return d.budget.crowdCost(v, key, 0)
}

// push keeps a member of what is open.
func (d *decoder) push(v starlark.Value) error {
	if d.open.full() {
		if err := d.charge(16 * chunk); err != nil {
			return err
		}
	}
	d.open.push(v)
	return nil
}

// stack is a stack of values that grows without moving them.
type stack struct {
	chunks [][]starlark.Value // of chunk values; the first may be shorter
	n      int
}

const chunk = 1024

// full reports whether the next push makes a chunk.
func (s *stack) full() bool { return s.n>>10 == len(s.chunks) }

func (s *stack) push(v starlark.Value) {
	i := s.n >> 10
	switch {
	case i == 0 && len(s.chunks) > 0:
		s.chunks[0] = append(s.chunks[0][:s.n], v)
		s.n++
		return
	case i == 0:
		s.chunks = append(s.chunks, make([]starlark.Value, 1, 32))
	case s.full():
		s.chunks = append(s.chunks, make([]starlark.Value, chunk))
	}
	s.chunks[i][s.n&(chunk-1)] = v
	s.n++
}

func (s *stack) at(i int) *starlark.Value { return &s.chunks[i>>10][i&(chunk-1)] }

// pop takes the values from base on.
func (s *stack) pop(base int) []starlark.Value {
	values := make([]starlark.Value, s.n-base)
	for done := 0; done < len(values); {
		i := base + done
		done += copy(values[done:], s.chunks[i>>10][i&(chunk-1):])
	}
	s.n = base
	return values
}

// string reads a string; the cursor is on its opening quote.
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

// longString reads the rest of a string that is not plain ASCII from at on.
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

// escape appends what the escape at the cursor stands for.
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

// hex4 reads the \uXXXX at offset i.
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

// intern makes a string of b, or finds the one that was made before.
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

// nameAt returns where b is, or may be put: a name has two places, by some of its bytes.
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
	if len(text) > maxNumber {
		d.pos = start
		return nil, fmt.Errorf("json: offset %d: number of %d digits, at most %d can be read", start, len(text), maxNumber)
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

// scanNumber moves over a number and says whether it is an integer.
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

// peek returns the byte at the cursor, zero at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// next moves over white space and returns the byte there.
func (d *decoder) next() byte {
	d.space()
	return d.peek()
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// enter opens an array or an object.
func (d *decoder) enter() error {
	d.pos++
	d.depth--
	if d.depth < 0 {
		return fmt.Errorf("json: offset %d: nested more than %d deep", d.pos-1, d.maxDepth)
	}
	return nil
}

// charge notes what is about to be made and settles it in portions.
func (d *decoder) charge(n int64) error {
	d.cost += n
	if d.cost < 64<<10 {
		return nil
	}
	return d.flush()
}

func (d *decoder) flush() error {
	n := d.cost
	d.cost = 0
	if d.budget == nil {
		return nil
	}
	return d.budget.charge(n)
}

func (d *decoder) unexpected(want string) error {
	if d.pos >= len(d.data) {
		return fmt.Errorf("json: want %s, have the end of the text", want)
	}
	_, size := utf8.DecodeRune(d.data[d.pos:])
	return fmt.Errorf("json: offset %d: want %s, have %q", d.pos, want, d.data[d.pos:d.pos+size])
}
