// Package jsonscan finds and edits members of JSON texts without decoding them: bytes that are
// not edited are unchanged.
//
// There are two kinds of functions. Check, Valid, Each, Get, Set and the like check the grammar of
// every value that they read. Scanner, Editor and the Skim functions track strings and brackets
// only, which is several times faster and enough to find the end of a value; they are for texts
// whose writer is trusted to send valid JSON, and for texts that are received in pieces. Scanner
// uses the type blocks, with assembly for amd64.
//
// All functions accept text that nests up to MaxDepth.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of a value.
const MaxDepth = 512

// Check returns why b is not one JSON value of bounded depth in valid UTF-8.
func Check(b []byte) error {
	end, err := skipValue(b, skipSpace(b, 0))
	if end = skipSpace(b, end); err == nil && end != len(b) {
		err = syntaxError(b, end)
	}
	if err == nil && !utf8.Valid(b) {
		err = errors.New("the text is not UTF-8")
	}
	return err
}

// Valid reports whether b is one JSON value of bounded depth in valid UTF-8.
func Valid(b []byte) bool {
	end, err := skipValue(b, skipSpace(b, 0))
	return err == nil && skipSpace(b, end) == len(b) && utf8.Valid(b)
}

// Kind returns the kind of a JSON value for an error text, with an article.
func Kind(v []byte) string {
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

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x80 {
			b, _ := json.Marshal(s)
			return b
		}
	}
	b := make([]byte, 0, len(s)+2)
	return append(append(append(b, '"'), s...), '"')
}

// Text returns the text of a JSON string; "" for other values.
func Text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(unescape(v))
}

// unescape returns the text of a quoted JSON string.
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

// Compact returns a JSON value without white space between its tokens.
func Compact(v []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, v) != nil {
		return v
	}
	return out.Bytes()
}

// EachText calls visit for every string in a valid JSON value, including the keys of
// objects, with its escapes resolved.
func EachText(v []byte, visit func(text string)) {
	if len(v) == 0 {
		return
	}
	switch v[0] {
	case '"':
		visit(Text(v))
	case '{':
		Each(v, func(key, value []byte) bool {
			visit(string(key))
			EachText(value, visit)
			return true
		})
	case '[':
		Elements(v, func(value []byte) bool {
			EachText(value, visit)
			return true
		})
	}
}

// PlainText reports whether a JSON value has ASCII characters only, also in its
// escapes.
func PlainText(v []byte) bool {
	for _, c := range v {
		if c >= 0x7f {
			return false
		}
	}
	return !bytes.Contains(v, []byte(`\u`)) && !bytes.Contains(v, []byte(`\b`)) && !bytes.Contains(v, []byte(`\f`))
}
