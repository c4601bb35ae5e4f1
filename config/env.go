package config

import (
	"regexp"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} in s by what the environment has, and $${ by ${. Messages
// name the variable, never a value.
func (v *validator) expand(path, s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		if !ok {
			return b.String() + s
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString(before + "{")
			s = rest
			continue
		}
		b.WriteString(before)
		name, after, ok := strings.Cut(rest, "}")
		if !ok || !envName.MatchString(name) {
			v.report(path, "${ begins a variable such as ${TOKEN}; write $${ for the characters themselves")
			return ""
		}
		value, ok := v.env(name)
		if !ok {
			v.report(path, "the environment has no variable %s", name)
		}
		v.expandedSecret(path, name, value)
		b.WriteString(value)
		s = after
	}
}
