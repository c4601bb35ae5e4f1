// Package regex says what compiling a regular expression costs before it is done: the time is not bounded by the length of
// the text, since a class with case folding looks at each character of its ranges.
package regex

import (
	"strings"
	"unicode/utf8"
)

// MaxBytes bounds the text of a pattern in a script.
const MaxBytes = 4 << 10

const (
	// lastFolded is the last character that has another case.
	lastFolded = 0x1E943
	// foldedPerStep is how many characters of a range are folded in a microsecond.
	foldedPerStep = 20
	// classSteps is for a class of Unicode, such as \pL: hundreds of ranges that are sorted, copied and compiled.
	classSteps = 150
)

// Cost returns about how many microseconds it takes to compile a pattern, at most. The text may also be one that contains
// patterns, such as a JSON Schema.
func Cost(text string) int64 {
	cost := int64(len(text)) * int64(min(len(text), MaxBytes)) / MaxBytes // parentheses inside of each other
	cost += classSteps * int64(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if !folds(text) {
		return cost
	}
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "-")
		if !ok {
			return cost
		}
		last, _ := utf8.DecodeRuneInString(after)
		if last == '\\' { // \x{1E942}
			last = lastFolded
		}
		cost += int64(min(last, lastFolded)) / foldedPerStep
		rest = after
	}
}

// folds reports whether flags of a pattern may have an i.
func folds(text string) bool {
	for {
		_, flags, ok := strings.Cut(text, "(?")
		if !ok {
			return false
		}
		end := strings.IndexFunc(flags, func(r rune) bool { return r != '-' && (r < 'A' || r > 'z') })
		if end < 0 {
			end = len(flags)
		}
		if strings.Contains(flags[:end], "i") {
			return true
		}
		text = flags
	}
}
