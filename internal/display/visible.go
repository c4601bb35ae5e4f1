package display

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This part of the package finds invisible characters: control characters for a terminal, characters
// that change the direction of a text, and characters that can hide a message for a model
// from a person who reads the text.

// VisibleText returns s with each hidden character and each invalid byte replaced by an escape
// such as \x1b or \u202e. Tabs and line feeds are kept.
func VisibleText(s string) string {
	return replace(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

// VisibleLine is Text with tabs and line feeds escaped, too.
func VisibleLine(s string) string { return replace(s, func(rune) bool { return false }) }

// Hidden returns the hidden characters of a text, each once, in the form U+202E; tabs
// and line breaks do not count.
func Hidden(s string) (names []string) {
	if plain(s) {
		return nil
	}
	seen := map[rune]bool{}
	each(s, func(r rune, size int, hidden bool) {
		if !hidden || seen[r] || r == '\n' || r == '\r' || r == '\t' || r == utf8.RuneError && size == 1 {
			return
		}
		seen[r] = true
		names = append(names, fmt.Sprintf("%U", r))
	})
	return names
}

// JSON returns a JSON text with its hidden characters escaped, which is the same value. Line
// feeds and tabs, which may be between values, are kept.
func JSON(text []byte) []byte {
	s := string(text)
	if plain(strings.ReplaceAll(s, "\n", "")) {
		return text
	}
	var b strings.Builder
	at := 0
	each(s, func(r rune, size int, hidden bool) {
		switch hi, lo := utf16.EncodeRune(r); {
		case !hidden || r == '\n' || r == '\r' || r == '\t':
			b.WriteString(s[at : at+size])
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		at += size
	})
	return []byte(b.String())
}

func replace(s string, keep func(rune) bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	at := 0
	each(s, func(r rune, size int, hidden bool) {
		text := s[at : at+size]
		at += size
		switch {
		case !hidden || keep(r):
			b.WriteString(text)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	})
	return b.String()
}

// plain reports whether s is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// each calls visit for the characters of s, with whether each is hidden.
func each(s string, visit func(r rune, size int, hidden bool)) {
	before := rune(' ')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		hidden := r == utf8.RuneError && size == 1 || isHidden(r)
		if r == zwnj || r == zwj { // they join letters of some scripts, and emoji
			after, _ := utf8.DecodeRuneInString(s[size:])
			hidden = before < utf8.RuneSelf || after < utf8.RuneSelf || after == utf8.RuneError || isHidden(before) || isHidden(after)
		}
		visit(r, size, hidden)
		before, s = r, s[size:]
	}
}

const zwnj, zwj = '\u200c', '\u200d'

// isHidden reports whether a character is a control character or invisible.
func isHidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
	case r == 0x34f, r == 0x61c, r == 0x180e, r == 0xfeff: // joiners, marks, zero width
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f: // zero width, separators, direction
	case r >= 0xfff9 && r <= 0xfffb: // annotations
	case r >= 0xe0000 && r <= 0xe0fff: // tags, more variations
	default:
		return false
	}
	return true
}
