package script

import (
	"bytes"
	"encoding/json"

	"go.starlark.net/starlark"
)

// IndentIn writes a JSON text with every member on its own line, on the budget of the
// run that t belongs to.
func IndentIn(t *starlark.Thread, text, prefix, indent string) (string, error) {
	if err := Charge(t, indentSize(text, len(prefix), len(indent))); err != nil {
		return "", err
	}
	if err := Work(t, int64(len(text))/8); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), prefix, indent); err != nil {
		return "", err
	}
	return out.String(), nil
}

// indentSize is four times the length of the result: a buffer that grows has asked
// for as much.
func indentSize(text string, prefix, indent int) (size int64) {
	size = int64(len(text))
	var (
		depth  int64
		quoted bool
	)
	for i := 0; i < len(text); i++ {
		line := false
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
			line = true
		case c == ']', c == '}':
			depth--
			line = true
		case c == ',', c == ':':
			line = true
		}
		if line {
			size += 2 + int64(prefix) + max(depth, 0)*int64(indent)
		}
		if size < 0 || size > 1<<60 {
			return 1 << 60
		}
	}
	return 4 * size
}
