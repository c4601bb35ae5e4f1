package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep a frame may nest.
const MaxDepth = 512

// Valid reports whether b is one JSON value of bounded depth in valid UTF-8.
func Valid(b []byte) bool {
	end, err := skipValue(b, skipSpace(b, 0))
	return err == nil && skipSpace(b, end) == len(b) && utf8.Valid(b)
}

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

// nesting remembers, for each open container, whether it is an object.
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

// skipValue checks the value at b[i] and returns the index just past it.
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
		// A value ended here: close what it completes, or go to the next member.
		next, done, err := skipAfter(b, i, &n)
		if err != nil || done {
			return next, err
		}
		i = next
	}
}

// skipAfter goes from the end of a value to the start of the next one; done when the
// outermost value is complete.
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

// skipKey passes `"key" :` and the space behind it.
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

// describe names the kind of a JSON value for an error text.
func describe(v []byte) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Each calls f for the members of obj in order until it returns false. key is
// unescaped; value is a slice of obj. It does nothing when obj is not an object.
// obj must be valid JSON.
func Each(obj []byte, f func(key, value []byte) bool) {
	eachMember(obj, func(m member) bool { return f(m.key, obj[m.value:m.end]) })
}

// member is one member of an object: its key and where it stands.
type member struct {
	key               []byte
	start, value, end int // of the key's quote, of the value, past the value
}

func eachMember(obj []byte, f func(member) bool) {
	i := skipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return
	}
	i = skipSpace(obj, i+1)
	for i < len(obj) && obj[i] == '"' {
		m := member{start: i}
		keyEnd, err := skipString(obj, i)
		if err != nil {
			return
		}
		m.key = unescape(obj[i:keyEnd])
		if m.value, err = skipKey(obj, i); err != nil {
			return
		}
		if m.end, err = skipValue(obj, m.value); err != nil || !f(m) {
			return
		}
		i = skipSpace(obj, m.end)
		if i >= len(obj) || obj[i] != ',' {
			return
		}
		i = skipSpace(obj, i+1)
	}
}

// unescape is the text of a quoted JSON string.
func unescape(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return inner
	}
	return []byte(s)
}

// Elements calls f for the elements of the array arr in order until it returns false.
func Elements(arr []byte, f func(value []byte) bool) {
	i := skipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return
	}
	i = skipSpace(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end, err := skipValue(arr, i)
		if err != nil || !f(arr[i:end]) {
			return
		}
		i = skipSpace(arr, end)
		if i >= len(arr) || arr[i] != ',' {
			return
		}
		i = skipSpace(arr, i+1)
	}
}

// Get returns the value of obj's member key, a slice of obj, or nil when there is none.
// Of duplicates the last wins, as it does for most decoders.
func Get(obj []byte, key string) json.RawMessage {
	var found json.RawMessage
	Each(obj, func(k, v []byte) bool {
		if string(k) == key {
			found = v
		}
		return true
	})
	return found
}

// GetPath follows keys into nested objects.
func GetPath(obj []byte, keys ...string) json.RawMessage {
	for _, k := range keys {
		if obj = Get(obj, k); obj == nil {
			return nil
		}
	}
	return obj
}

// GetString is the text of obj's member key; "" when it is absent or no string.
func GetString(obj []byte, key string) string {
	v := Get(obj, key)
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(unescape(v))
}

// Text is the text of a JSON string value; "" when v is none.
func Text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(unescape(v))
}

// Set returns a copy of obj with its member key set to value; every other byte stays.
// An absent key is added at the end. A nil or null obj counts as {}.
func Set(obj []byte, key string, value []byte) json.RawMessage {
	if len(obj) == 0 || obj[0] != '{' {
		obj = []byte("{}")
	}
	last, has := member{}, false
	eachMember(obj, func(m member) bool {
		if string(m.key) == key {
			last, has = m, true
		}
		return true
	})
	if has {
		return splice(obj, last.value, last.end, value)
	}
	return add(obj, key, value)
}

// add puts a member at the end of obj.
func add(obj []byte, key string, value []byte) json.RawMessage {
	end := bytes.LastIndexByte(obj, '}')
	out := make([]byte, 0, len(obj)+len(key)+len(value)+4)
	out = append(out, obj[:end]...)
	if i := skipSpace(obj, 1); obj[i] != '}' {
		out = append(out, ',')
	}
	out = append(append(out, Quote(key)...), ':')
	return append(append(out, value...), obj[end:]...)
}

func splice(b []byte, from, to int, with []byte) json.RawMessage {
	out := make([]byte, 0, len(b)-(to-from)+len(with))
	out = append(out, b[:from]...)
	out = append(out, with...)
	return append(out, b[to:]...)
}

// Delete returns obj without the members for which drop is true; every other member
// keeps its bytes. When nothing is dropped, it returns obj itself.
func Delete(obj []byte, drop func(key string) bool) json.RawMessage {
	var kept []member
	dropped := false
	eachMember(obj, func(m member) bool {
		if drop(string(m.key)) {
			dropped = true
		} else {
			kept = append(kept, m)
		}
		return true
	})
	if !dropped {
		return obj
	}
	out := make([]byte, 0, len(obj))
	out = append(out, '{')
	for i, m := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, obj[m.start:m.end]...)
	}
	return append(out, '}')
}

// Line returns frame without line breaks, so that it can travel on a newline-delimited
// stream. A valid frame has them only between tokens.
func Line(frame []byte) []byte {
	if bytes.IndexByte(frame, '\n') < 0 && bytes.IndexByte(frame, '\r') < 0 {
		return frame
	}
	out := bytes.ReplaceAll(frame, []byte{'\n'}, []byte{' '})
	return bytes.ReplaceAll(out, []byte{'\r'}, []byte{' '})
}

// Compact is a JSON value without the space between its tokens.
func Compact(v []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, v) != nil {
		return v
	}
	return out.Bytes()
}
