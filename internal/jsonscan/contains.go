package jsonscan

import (
	"bytes"
	"strings"
)

// Contains is bytes.Contains for a text with a rare part, which it searches for first:
// bytes.Contains is slow for a text whose first byte is frequent in json.
func Contains(json []byte, text, rare string) bool {
	begin, rest := text[:strings.Index(text, rare)], []byte(text[strings.Index(text, rare):])
	for {
		i := bytes.Index(json, rest)
		if i < 0 {
			return false
		}
		if bytes.HasSuffix(json[:i], []byte(begin)) {
			return true
		}
		json = json[i+1:]
	}
}
