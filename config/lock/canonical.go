package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// The canonical form of a JSON text: two texts with the same value have the same canonical form.
//
//   - No space between tokens.
//   - The members of an object are sorted by the code points of their names. Duplicate members
//     are kept, in their order: which of them is used depends on the reader.
//   - A string has only the escapes that JSON requires, as in RFC 8785. An unpaired surrogate,
//     which UTF-8 cannot encode, is kept as \udxxx.
//   - A number is written as in RFC 8785, but exactly: 1.0, 1e0 and 1 are the same, and
//     9007199254740993 is not changed, where RFC 8785 would round it to a double and make it
//     equal to another number. All digits are kept.

// Canonical returns the canonical form of a JSON text; an error if it is no valid JSON.
func Canonical(text []byte) ([]byte, error) { return canonical(text, nil) }

// unpinned are the members of a definition that are not pinned: the URL of an icon
// may change with every start of a server, and the content of _meta is not defined.
var unpinned = []string{"_meta", "icons"}

// Definition returns the canonical form of a definition without _meta and icons, which are not pinned.
func Definition(raw []byte) ([]byte, error) {
	if kind := jsonscan.Kind(bytes.TrimLeft(raw, " \t\r\n")); kind != "an object" {
		return nil, fmt.Errorf("want an object, have %s", kind)
	}
	return canonical(raw, unpinned)
}

// Sum is the SHA-256 of a canonical text, in the form of the file.
func Sum(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func canonical(text []byte, without []string) ([]byte, error) {
	if err := jsonscan.Check(text); err != nil {
		return nil, err
	}
	w := &writer{in: text, out: make([]byte, 0, len(text)), without: without}
	w.value(w.space(0))
	return w.out, nil
}

// A writer reads a valid JSON text once and appends its canonical form.
type writer struct {
	in, out []byte
	depth   int
	without []string // of the outermost object
}

// space returns the index of the next token at or after i.
func (w *writer) space(i int) int {
	for i < len(w.in) && (w.in[i] == ' ' || w.in[i] == '\n' || w.in[i] == '\r' || w.in[i] == '\t') {
		i++
	}
	return i
}

// value writes the value that begins at i, and returns the index after it.
func (w *writer) value(i int) int {
	switch w.in[i] {
	case '{':
		return w.object(i)
	case '[':
		return w.array(i)
	case '"':
		return w.text(i)
	case 't', 'f', 'n':
		return w.word(i)
	}
	return w.number(i)
}

func (w *writer) word(i int) int {
	end := i
	for end < len(w.in) && w.in[end] >= 'a' && w.in[end] <= 'z' {
		end++
	}
	w.out = append(w.out, w.in[i:end]...)
	return end
}

func (w *writer) array(i int) int {
	w.out = append(w.out, '[')
	w.depth++
	for i = w.space(i + 1); w.in[i] != ']'; i = w.space(i) {
		if w.in[i] == ',' {
			w.out = append(w.out, ',')
			i = w.space(i + 1)
		}
		i = w.value(i)
	}
	w.depth--
	w.out = append(w.out, ']')
	return i + 1
}

// member is a written member of an object: its name, and its range in the output.
type member struct {
	name       string
	start, end int
}

func (w *writer) object(i int) int {
	w.out = append(w.out, '{')
	w.depth++
	var members []member
	for i = w.space(i + 1); w.in[i] != '}'; i = w.space(i) {
		if w.in[i] == ',' {
			i = w.space(i + 1)
		}
		m := member{start: len(w.out)}
		i = w.text(i)
		m.name = unquoted(w.out[m.start:])
		w.out = append(w.out, ':')
		i = w.value(w.space(w.space(i) + 1))
		if w.depth == 1 && slices.Contains(w.without, m.name) {
			w.out = w.out[:m.start]
			continue
		}
		m.end = len(w.out)
		w.out = append(w.out, ',')
		members = append(members, m)
	}
	w.depth--
	w.sort(members)
	if len(members) > 0 {
		w.out = w.out[:len(w.out)-1] // the last comma
	}
	w.out = append(w.out, '}')
	return i + 1
}

// sort sorts the members that were written last.
func (w *writer) sort(members []member) {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) } // UTF-8: that of code points
	if slices.IsSortedFunc(members, byName) {
		return
	}
	first := members[0].start
	slices.SortStableFunc(members, byName)
	unsorted := bytes.Clone(w.out[first:])
	w.out = w.out[:first]
	for _, m := range members {
		w.out = append(append(w.out, unsorted[m.start-first:m.end-first]...), ',')
	}
}

// text writes the string whose opening quote is at i.
func (w *writer) text(i int) int {
	w.out = append(w.out, '"')
	for i++; ; {
		from := i
		for w.in[i] != '"' && w.in[i] != '\\' {
			i++
		}
		w.out = append(w.out, w.in[from:i]...)
		if w.in[i] == '"' {
			w.out = append(w.out, '"')
			return i + 1
		}
		i = w.escape(i)
	}
}

// escape writes the character of the escape at i.
func (w *writer) escape(i int) int {
	switch c := w.in[i+1]; c {
	case 'u':
	case '/':
		w.out = append(w.out, '/')
		return i + 2
	default: // an escape that canonical texts have, too
		w.out = append(w.out, '\\', c)
		return i + 2
	}
	r := w.unit(i)
	i += len(`\u0000`)
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if i+len(`\u0000`) <= len(w.in) && w.in[i] == '\\' && w.in[i+1] == 'u' {
			low = w.unit(i)
		}
		pair := utf16.DecodeRune(r, low)
		if pair == utf8.RuneError { // not a surrogate pair
			w.out = fmt.Appendf(w.out, `\u%04x`, r)
			return i
		}
		r, i = pair, i+len(`\u0000`)
	}
	w.rune(r)
	return i
}

// unit is the code unit of the escape \uXXXX at i.
func (w *writer) unit(i int) rune {
	n, _ := strconv.ParseUint(string(w.in[i+2:i+6]), 16, 16) // hexadecimal: it is JSON
	return rune(n)
}

// short are the characters with an escape of one letter.
var short = map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func (w *writer) rune(r rune) {
	switch c, ok := short[r]; {
	case ok:
		w.out = append(w.out, '\\', c)
	case r < ' ':
		w.out = fmt.Appendf(w.out, `\u%04x`, r)
	default:
		w.out = utf8.AppendRune(w.out, r)
	}
}

// unquoted decodes a canonical string. An unpaired surrogate becomes the three bytes that
// UTF-8 would have for it, so that the order of bytes is that of code points.
func unquoted(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var b []byte
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			b = append(b, inner[i])
			continue
		}
		i++
		if inner[i] != 'u' {
			b = append(b, plainOf(inner[i]))
			continue
		}
		n, _ := strconv.ParseUint(string(inner[i+1:i+5]), 16, 16) // written by rune and escape
		if n < ' ' {
			b = append(b, byte(n))
		} else {
			b = append(b, 0xe0|byte(n>>12), 0x80|byte(n>>6&0x3f), 0x80|byte(n&0x3f))
		}
		i += 4
	}
	return string(b)
}

// plainOf is the character of an escape of one letter.
func plainOf(letter byte) byte {
	for r, c := range short {
		if c == letter {
			return byte(r)
		}
	}
	return letter
}

// number writes the number at i.
func (w *writer) number(i int) int {
	end := i
	for end < len(w.in) && strings.IndexByte("+-.0123456789eE", w.in[end]) >= 0 {
		end++
	}
	w.out = appendNumber(w.out, string(w.in[i:end]))
	return end
}

const (
	// maxExponent bounds the digits of an exponent. A number with
	// more of them is not changed.
	maxExponent = 9
	// widest bounds the digits, with added zeros, of a number that is written without an exponent.
	widest = 21
)

// appendNumber writes a number of JSON as ECMAScript does, without rounding it.
func appendNumber(out []byte, text string) []byte {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > maxExponent {
		return append(out, strings.ToLower(text)...)
	}
	ten, _ := strconv.Atoi(exponent) // "" is 0
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	point := len(whole) + ten - (len(whole) + len(fraction) - len(digits)) // the number is 0.digits times ten to this
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return append(out, '0')
	}
	if negative {
		out = append(out, '-')
	}
	switch {
	case point > 0 && point <= max(widest, len(digits)):
		if len(digits) <= point {
			return append(append(out, digits...), strings.Repeat("0", point-len(digits))...)
		}
		return append(append(append(out, digits[:point]...), '.'), digits[point:]...)
	case point > -6 && point <= 0:
		return append(append(append(out, "0."...), strings.Repeat("0", -point)...), digits...)
	}
	out = append(out, digits[0])
	if len(digits) > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	return fmt.Appendf(out, "e%+d", point-1)
}
