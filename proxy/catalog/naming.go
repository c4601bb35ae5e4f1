package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// This part of the package converts any text to a name that every client accepts.

// mostName is the length of the longest name that every client accepts. Some clients refuse a whole list for one longer
// name.
const mostName = 64

// exposed converts a text to a name of 1 to 64 characters of [a-zA-Z0-9_-]. A text that is one already is returned
// unchanged. The result depends on the text alone.
func exposed(text string) string {
	name := clean(text)
	if len(name) <= mostName && name != "" {
		return name
	}
	return hashed(text)
}

// hashed is Exposed with a hash of the whole text at its end, for names that are too long or would collide.
func hashed(text string) string {
	tail := tail(text)
	name := clean(text)
	if room := mostName - len(tail); len(name) > room {
		name = name[:room]
	}
	return name + tail
}

// tail is the hash suffix for a name that cannot be used unchanged.
func tail(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "_" + hex.EncodeToString(sum[:4])
}

// clean replaces every character that is not allowed in names.
func clean(text string) string { return strings.Map(fit, text) }

// fit is r if names may have it, else its replacement.
func fit(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}
