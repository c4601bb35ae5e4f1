package display

import (
	"fmt"
	"unicode/utf8"
)

// This part of the package cuts texts that are too long to show, between characters, so that they stay valid
// UTF-8. Secrets must be hidden before: a part of one would not be recognized.

// Mark is appended to a text that was cut.
const Mark = "…"

// Bytes returns the beginning of s, of at most n bytes.
func Bytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// ClipText is Bytes with Mark appended if s was cut.
func ClipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Bytes(s, n) + Mark
}

// Counted is Text with the original length if s was cut.
func Counted(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s (%d bytes)", ClipText(s, n), len(s))
}

// ClipLine returns a text of at most n characters, including the mark, for a line of a table.
func ClipLine(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + Mark
}

// Share returns the number of bytes to which each text is to be cut so that all fit into
// room. Long texts get the bytes that short ones leave.
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
