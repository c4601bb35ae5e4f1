package meter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Encode makes JSON from a Starlark value, in the order of the value.
//
// Dicts (with string keys) and structs become objects; lists, tuples, sets, ranges and other iterables arrays. A float
// keeps its fraction ("1.0"), so that Decode returns a float again. Bytes, functions, NaN, infinities and values that
// contain themselves are refused; the error has the path to them.
//
// The text may be maxBytes long and maxDepth levels deep. Every value takes at least one byte, so maxBytes bounds the
// work too, however often a value shares its parts.
func Encode(v starlark.Value, maxBytes int64, maxDepth int) ([]byte, error) {
	return encodeOn(nil, 1, v, maxBytes, maxDepth)
}

// EncodeIn is Encode on the budget of the run of t, which is charged while the text is written, so that also work that
// ends in an error is paid for.
func EncodeIn(t *starlark.Thread, v starlark.Value, maxDepth int) ([]byte, error) {
	return encodeOn(Of(t), encodedPerStep, v, math.MaxInt64, maxDepth)
}

// EncodeResult is Encode on the budget of the run that ends with v. It happens once, within the limit on output, so it
// takes few steps.
func EncodeResult(b *Budget, v starlark.Value, maxBytes int64, maxDepth int) ([]byte, error) {
	return encodeOn(b, bytesPerStep, v, maxBytes, maxDepth)
}

// encodeOn is Encode on a budget, which may be nil; one step is charged for perStep bytes.
func encodeOn(b *Budget, perStep int64, v starlark.Value, maxBytes int64, maxDepth int) ([]byte, error) {
	e := encoder{maxBytes: maxBytes, depth: maxDepth, maxDepth: maxDepth, budget: b, perStep: perStep}
	err := e.value(v)
	if paid := e.pay(0); err == nil {
		err = paid
	}
	switch {
	case err != nil:
		return nil, err
	case int64(len(e.buf)) > maxBytes:
		return nil, e.tooLong()
	}
	return e.buf, nil
}

// The cost of a byte of JSON: a buffer that grows has allocated up to four times its length, and eight bytes are
// written for one step.
const (
	encodedWeight  = 4
	encodedPerStep = 8
	// encodedPortion is how many bytes are written between two charges.
	encodedPortion = 32 << 10
)

type encoder struct {
	buf             []byte
	maxBytes        int64
	depth, maxDepth int
	open            []starlark.Value // the lists and dicts around the present value
	budget          *Budget
	perStep         int64
	paid            int // how much of buf is charged
}

// pay charges for the text that was written since the last charge, and for n bytes more.
func (e *encoder) pay(n int) error {
	n += len(e.buf) - e.paid
	if e.budget == nil || n <= 0 {
		return nil
	}
	e.paid += n
	if err := e.budget.Charge(encodedWeight * int64(n)); err != nil {
		return err
	}
	return e.budget.Work(int64(n) / e.perStep)
}

// more must be called before the next n bytes are written.
func (e *encoder) more(n int) error {
	if int64(len(e.buf)+n) > e.maxBytes {
		return e.tooLong()
	}
	if len(e.buf)+n-e.paid < encodedPortion {
		return nil
	}
	return e.pay(n)
}

func (e *encoder) value(v starlark.Value) error {
	if err := e.more(0); err != nil {
		return err
	}
	switch v := v.(type) {
	case starlark.NoneType:
		e.buf = append(e.buf, "null"...)
	case starlark.Bool:
		e.buf = strconv.AppendBool(e.buf, bool(v))
	case starlark.Int:
		return e.integer(v)
	case starlark.Float:
		return e.float(float64(v))
	case starlark.String:
		return e.string(string(v))
	case starlark.Bytes:
		return &pathError{msg: "bytes cannot be written as JSON; want a string"}
	case *starlark.List:
		return e.list(v)
	case starlark.Tuple:
		return e.tuple(v)
	case *starlark.Dict:
		return e.dict(v)
	case *starlarkstruct.Struct:
		return e.structure(v)
	case starlark.IterableMapping:
		return e.mapping(v)
	case starlark.Iterable:
		return e.iterable(v)
	default:
		return &pathError{msg: fmt.Sprintf("%s cannot be written as JSON", v.Type())}
	}
	return nil
}

func (e *encoder) integer(i starlark.Int) error {
	if small, ok := i.Int64(); ok {
		e.buf = strconv.AppendInt(e.buf, small, 10)
		return nil
	}
	// An integer of n bits has at least (n-1)*log10(2) digits. One that may have few enough
	// is written, and counted as Decode counts it.
	n, start := (i.BigInt().BitLen()-1)*30102/100_000, len(e.buf)
	if n <= maxDigits {
		e.buf = i.BigInt().Append(e.buf, 10)
		n = len(e.buf) - start
	}
	if n > maxDigits {
		return &pathError{msg: fmt.Sprintf("int of about %d digits, at most %d can be written", n, maxDigits)}
	}
	return nil
}

// float writes f in the shortest form that parses to the same value, as JavaScript would, but never as an integer.
func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return &pathError{msg: fmt.Sprintf("float %v cannot be written as JSON", f)}
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		e.buf = strconv.AppendFloat(e.buf, f, 'e', -1, 64)
		return nil
	}
	e.buf = strconv.AppendFloat(e.buf, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		e.buf = append(e.buf, '.', '0')
	}
	return nil
}

const hexDigits = "0123456789abcdef"

// string writes a text in pieces: each may become six times as long.
func (e *encoder) string(s string) error {
	if int64(len(e.buf)+len(s)) > e.maxBytes {
		return e.tooLong()
	}
	e.buf = append(e.buf, '"')
	for s != "" {
		n := pieceOf(s)
		if err := e.more(n); err != nil {
			return err
		}
		e.piece(s[:n])
		s = s[n:]
	}
	e.buf = append(e.buf, '"')
	return nil
}

// pieceOf returns how much of s is written at once, without splitting a character.
func pieceOf(s string) int {
	if len(s) <= encodedPortion {
		return len(s)
	}
	for n := encodedPortion; n > encodedPortion-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return encodedPortion
}

func (e *encoder) piece(s string) {
	buf := e.buf
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				buf = append(buf, s[start:i]...)
				buf = append(buf, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		buf = append(buf, s[start:i]...)
		buf = appendEscape(buf, c)
		i++
		start = i
	}
	e.buf = append(buf, s[start:]...)
}

func appendEscape(buf []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(buf, '\\', c)
	case '\n':
		return append(buf, '\\', 'n')
	case '\r':
		return append(buf, '\\', 'r')
	case '\t':
		return append(buf, '\\', 't')
	}
	return append(buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

func (e *encoder) list(l *starlark.List) error {
	if err := e.enter(l); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '[')
	for i := range l.Len() {
		if err := e.element(i, l.Index(i)); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) tuple(t starlark.Tuple) error {
	if err := e.enter(nil); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '[')
	for i, v := range t {
		if err := e.element(i, v); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) iterable(v starlark.Iterable) error {
	if err := e.enter(nil); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '[')
	i := 0
	for elem := range starlark.Elements(v) {
		if err := e.element(i, elem); err != nil {
			return err
		}
		i++
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) element(i int, v starlark.Value) error {
	if i > 0 {
		e.buf = append(e.buf, ',')
	}
	if err := e.value(v); err != nil {
		return under(err, "["+strconv.Itoa(i)+"]")
	}
	return nil
}

func (e *encoder) dict(d *starlark.Dict) error {
	if err := e.enter(d); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '{')
	first := true
	for k, v := range d.Entries() {
		if err := e.member(first, k, v); err != nil {
			return err
		}
		first = false
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) mapping(m starlark.IterableMapping) error {
	if err := e.enter(nil); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '{')
	for i, item := range m.Items() {
		if err := e.member(i == 0, item[0], item[1]); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) structure(s *starlarkstruct.Struct) error {
	if err := e.enter(s); err != nil {
		return err
	}
	defer e.leave()
	e.buf = append(e.buf, '{')
	names := s.AttrNames()
	if err := e.more(len(names)); err != nil { // each writes more, and the list has been made
		return err
	}
	for i, name := range names {
		v, err := s.Attr(name)
		if err != nil {
			return err
		}
		if err := e.member(i == 0, starlark.String(name), v); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) member(first bool, k, v starlark.Value) error {
	key, ok := k.(starlark.String)
	if !ok {
		return &pathError{msg: fmt.Sprintf("key of type %s; keys of JSON objects are strings", k.Type())}
	}
	if !first {
		e.buf = append(e.buf, ',')
	}
	if err := e.string(string(key)); err != nil {
		return err
	}
	e.buf = append(e.buf, ':')
	if err := e.value(v); err != nil {
		return under(err, member(string(key)))
	}
	return nil
}

// enter opens an array or an object for v; v is nil where it cannot contain itself without a list, dict or struct in
// between.
func (e *encoder) enter(v starlark.Value) error {
	e.depth--
	if e.depth < 0 {
		return e.tooDeep()
	}
	e.open = append(e.open, v)
	return nil
}

func (e *encoder) leave() {
	e.depth++
	e.open = e.open[:len(e.open)-1]
}

// tooDeep returns the error for a value that is nested too deeply or contains itself. Every value that contains itself
// is found here, and other values have no cost for the check.
func (e *encoder) tooDeep() error {
	for i, v := range e.open {
		if v == nil {
			continue
		}
		if j := slices.Index(e.open[i+1:], v); j >= 0 {
			return &pathError{msg: fmt.Sprintf("%s contains itself", v.Type()), keep: i + j + 1}
		}
	}
	return &pathError{msg: fmt.Sprintf("nested more than %d deep", e.maxDepth), keep: 8, more: "…"}
}

func (e *encoder) tooLong() error { return &TooLongError{e.maxBytes} }

// TooLongError says that the JSON text of a value is longer than its bound.
type TooLongError struct{ Max int64 }

func (e *TooLongError) Error() string {
	return "JSON text of more than " + limits.Bytes(e.Max).String()
}

// pathError is an error about a part of a value.
type pathError struct {
	path []string // innermost first
	msg  string
	keep int    // outermost elements of the path to show, if not 0
	more string // shown instead of the rest of the path
}

func (e *pathError) Error() string {
	path := slices.Clone(e.path)
	slices.Reverse(path)
	if e.keep > 0 && len(path) > e.keep {
		path = path[:e.keep]
		if e.more != "" {
			path = append(path, e.more)
		}
	}
	return "$" + strings.Join(path, "") + ": " + e.msg
}

// under adds elem to the path of err.
func under(err error, elem string) error {
	if e, ok := err.(*pathError); ok {
		e.path = append(e.path, elem)
	}
	return err
}

// member returns a key as an element of a path.
func member(key string) string {
	plain := key != ""
	for i := range len(key) {
		c := key[i]
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			plain = false
		}
	}
	if plain {
		return "." + key
	}
	return "[" + strconv.Quote(display.ClipText(key, 40)) + "]"
}
