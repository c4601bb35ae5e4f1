package jsonscan

import (
	"bytes"
	"strings"
)

// Contains is bytes.Contains for a text that has a rare byte: results are full of the
// bytes that both texts begin with, which makes the search slow.
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
