package meter

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// This part of the package decodes JSON into Starlark values and encodes them, charging a budget as it goes.

// Decode makes a Starlark value from one JSON text, directly from its bytes.
//
// Objects become dicts in the order of the text, arrays become lists, integers exact ints (up to 4096 digits), numbers
// with a fraction or an exponent floats. A key that occurs twice keeps its first place and its last value. Bytes that
// are not UTF-8 and lone surrogates become U+FFFD, as in encoding/json.
//
// Values are charged to b while they are made; b may be nil. Arrays and objects may nest maxDepth deep.
func Decode(b *Budget, data []byte, maxDepth int) (starlark.Value, error) {
	d := decoder{data: data, depth: maxDepth, maxDepth: maxDepth, budget: b}
	v, err := d.document()
	if err != nil {
		return nil, err
	}
	return v, d.flush()
}

// DecodeIn is Decode on the budget of the run of t, which is also charged for reading the text.
func DecodeIn(t *starlark.Thread, data []byte, maxDepth int) (starlark.Value, error) {
	b := Of(t)
	if b != nil {
		if err := b.Read(int64(len(data))); err != nil {
			return nil, err
		}
	}
	return Decode(b, data, maxDepth)
}

// decoder decodes data from pos on. It is used once.
type decoder struct {
	data            []byte
	pos             int
	depth, maxDepth int
	budget          *Budget
	cost            int64 // bytes not yet charged to budget

	// open holds the members of the open arrays and objects, so that each is made with its exact size when it is
	// closed.
	open stack
	// names caches recent short strings, indexed by some of their bytes. A key of 10,000 equal objects is one string.
	names []name
	// scratch is the buffer for strings with escapes.
	scratch []byte
}

type name struct {
	text  string
	value starlark.Value
}

// Weights of the values of a JSON text, in bytes; see docs/limits.md.
const (
	stringWeight = 24
	listWeight   = 48
)

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

// list makes a list of the values from base on and removes them from the stack.
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

// dict makes a dict of the pairs from base on and removes them from the stack.
func (d *decoder) dict(base int) (starlark.Value, error) {
	d.depth++
	n := (d.open.n - base) / 2
	if err := d.charge(weightOfDict(n)); err != nil {
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
	if d.budget == nil {
		return nil
	}
	return d.budget.Inserted(v, n, key)
}

// push adds a member of the open array or object.
func (d *decoder) push(v starlark.Value) error {
	if d.open.full() {
		if err := d.charge(16 * chunk); err != nil {
			return err
		}
	}
	d.open.push(v)
	return nil
}

// peek returns the byte at the cursor, 0 at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// next skips white space and returns the byte there.
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

// charge adds n bytes to cost, and charges the budget in portions.
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
	return d.budget.Charge(n)
}

func (d *decoder) unexpected(want string) error {
	if d.pos >= len(d.data) {
		return fmt.Errorf("json: want %s, have the end of the text", want)
	}
	_, size := utf8.DecodeRune(d.data[d.pos:])
	return fmt.Errorf("json: offset %d: want %s, have %q", d.pos, want, d.data[d.pos:d.pos+size])
}
