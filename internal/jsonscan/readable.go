package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Readable is v as JSON for people: <, > and & stand in its texts as they are, and in JSON that is part of v, too,
// however that has them. It belongs into no page of HTML.
func Readable(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return unescapeHTML(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

// unescapeHTML writes <, > and & for their escapes, in place.
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

// htmlEscape is the character that an escape at the start of text stands for if it is one of HTML, else 0.
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
