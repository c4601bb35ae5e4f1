package star

import (
	"strings"

	"go.starlark.net/syntax"
)

// Quote writes s as a Starlark string, on several lines when it has several.
func Quote(s string) string {
	s = string([]rune(s))
	if blockable(s) {
		return `"""` + s + `"""`
	}
	return syntax.Quote(s, false)
}

func token(s string) string { return Quote(s) }

// blockable reports whether a text of several lines can be written between triple quotes without escapes.
func blockable(s string) bool {
	if n := strings.Count(strings.TrimSuffix(s, "\n"), "\n"); n < 2 || n < 3 && len(s) < 40 || strings.Contains(s, `"""`) || strings.HasSuffix(s, `"`) || strings.HasPrefix(s, `"`) {
		return false
	}
	for _, line := range strings.Split(s, "\n") {
		if strings.TrimRight(line, " ") != line {
			return false
		}
	}
	for _, r := range s {
		if r == '\\' || r == '\uFFFD' || r < ' ' && r != '\n' || r == 0x7f {
			return false
		}
	}
	return true
}
