package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name that every client accepts. Some refuse the whole list
// over one longer name.
const maxName = 64

// exposedName makes any text a name of 1 to 64 characters of [a-zA-Z0-9_-]. A text that
// already is one stays as it is. The result depends on the text alone.
func exposedName(text string) string {
	name := sanitise(text)
	if len(name) <= maxName && name != "" {
		return name
	}
	return hashedName(text)
}

// hashedName is exposedName with a hash of the whole text at its end, for names that
// are too long or would collide.
func hashedName(text string) string {
	tail := hashTail(text)
	name := sanitise(text)
	if room := maxName - len(tail); len(name) > room {
		name = name[:room]
	}
	return name + tail
}

// hashTail is the end of a name that cannot stay as it is.
func hashTail(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "_" + hex.EncodeToString(sum[:4])
}

func sanitise(text string) string { return strings.Map(fit, text) }

// fit is r, or what stands for it in a name.
func fit(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}
