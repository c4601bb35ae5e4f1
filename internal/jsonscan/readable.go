package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Readable encodes v as JSON for people: <, > and & are not escaped, also in json.RawMessage values within v. The
// result must not be embedded in HTML.
func Readable(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return unescapeHTML(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

// unescapeHTML replaces the escapes of <, > and & in place.
func unescapeHTML(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	out := text[:0]
	for len(text) > 0 {
		switch {
		case text[0] != '\\':
			out, text = append(out, text[0]), text[1:]
		case htmlEscape(text) != 0:
			out, text = append(out, htmlEscape(text)), text[len(`\u003c`):]
		default:
			out, text = append(out, text[:2]...), text[2:]
		}
	}
	return out
}

// htmlEscape returns <, > or & if text starts with its escape, else 0.
func htmlEscape(text []byte) byte {
	if len(text) < len(`\u003c`) {
		return 0
	}
	switch string(bytes.ToLower(text[:len(`\u003c`)])) {
	case `\u003c`:
		return '<'
	case `\u003e`:
		return '>'
	case `\u0026`:
		return '&'
	}
	return 0
}
