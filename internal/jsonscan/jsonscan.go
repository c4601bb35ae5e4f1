// Package jsonscan finds and edits in JSON text without decoding it: what is not looked for
// is passed over, what is not edited keeps its bytes.
//
// There are two ways through a text. The functions that check (Check, Valid, Each, Get, Set and
// their like) follow the grammar of every value that they pass. Scanner, Editor and the Skim
// functions follow strings and brackets only, which is several times faster and enough to know
// where a value ends; they are for what a peer is trusted to have written, and what comes in
// pieces. Below Scanner is one type, blocks, with an assembly for amd64.
//
// All of it takes text that nests up to MaxDepth.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// MaxDepth is how deep a value may nest.
const MaxDepth = 512

// Check says why b is not one JSON value of bounded depth in valid UTF-8.
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

// Kind names the kind of a JSON value for an error text.
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

// Quote is s as a JSON string.
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

// Text is the text of a JSON string value; "" when v is none.
func Text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(unescape(v))
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

// Compact is a JSON value without the space between its tokens.
func Compact(v []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, v) != nil {
		return v
	}
	return out.Bytes()
}

// EachText visits every text in a valid JSON value, the keys of objects included, with
// its escapes resolved.
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

// PlainText reports whether a JSON value has no characters beyond ASCII, neither
// written nor escaped.
func PlainText(v []byte) bool {
	for _, c := range v {
		if c >= 0x7f {
			return false
		}
	}
	return !bytes.Contains(v, []byte(`\u`)) && !bytes.Contains(v, []byte(`\b`)) && !bytes.Contains(v, []byte(`\f`))
}
