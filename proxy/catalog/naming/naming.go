// Package naming makes names that every client accepts of any text.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Max is the longest name that every client accepts. Some refuse the whole list
// over one longer name.
const Max = 64

// Exposed makes any text a name of 1 to 64 characters of [a-zA-Z0-9_-]. A text that
// already is one stays as it is. The result depends on the text alone.
func Exposed(text string) string {
	name := Clean(text)
	if len(name) <= Max && name != "" {
		return name
	}
	return Hashed(text)
}

// Hashed is Exposed with a hash of the whole text at its end, for names that
// are too long or would collide.
func Hashed(text string) string {
	tail := Tail(text)
	name := Clean(text)
	if room := Max - len(tail); len(name) > room {
		name = name[:room]
	}
	return name + tail
}

// Tail is the end of a name that cannot stay as it is.
func Tail(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "_" + hex.EncodeToString(sum[:4])
}

// Clean replaces every character that names may not have.
func Clean(text string) string { return strings.Map(Fit, text) }

// Fit is r, or what stands for it in a name.
func Fit(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}
