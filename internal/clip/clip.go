// Package clip cuts text that is too long to show. Whatever is cut stays valid: no character
// is halved. Secrets are to be hidden before: half of one would not be found any more.
package clip

import (
	"fmt"
	"unicode/utf8"
)

// Mark stands behind what was cut.
const Mark = "…"

// Bytes is the beginning of s, of at most n bytes.
func Bytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// Text is Bytes with the mark behind, if something was cut.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Bytes(s, n) + Mark
}

// Counted is Text that says how long the text was.
func Counted(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s (%d bytes)", Text(s, n), len(s))
}

// Line is a text of at most n characters, the mark included: a line of a table.
func Line(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + Mark
}

// Share is how many bytes each text may have so that all of them fit into room: what
// short ones leave is for the long ones.
func Share(texts []string, room int) int {
	for share := 0; ; {
		used, longer, shortest := 0, 0, room
		for _, t := range texts {
			used += min(len(t), share)
			if len(t) > share {
				longer++
				shortest = min(shortest, len(t)-share)
			}
		}
		if longer == 0 || room-used < longer {
			return share
		}
		share += min(shortest, (room-used)/longer)
	}
}
