package config

import (
	"regexp"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} in s by what the environment has, ${NAME:-default} by the default
// where it has nothing or an empty text, and $${ by ${. A default is not expanded again.
// Messages name the variable, never a value.
func (v *validator) expand(path, s string) string {
	return v.expandWith(path, s, func(name, value string) {
		v.expandedSecret(path, name, value)
	})
}

// expandPlain is expand for texts that are seldom secrets: a short value is no reason for a
// warning there.
func (v *validator) expandPlain(path, s string) string {
	return v.expandWith(path, s, v.expandedVariable)
}

func (v *validator) expandWith(path, s string, note func(name, value string)) string {
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
		inner, after, ok := strings.Cut(rest, "}")
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !ok || !envName.MatchString(name) || strings.Contains(fallback, "${") {
			v.report(path, "${ begins a variable such as ${TOKEN} or ${LEVEL:-info}; write $${ for the characters themselves")
			return ""
		}
		value, ok := v.env(name)
		switch {
		case value != "":
			note(name, value)
		case hasFallback:
			value = fallback
		case !ok && !v.lenient:
			v.report(path, "the environment has no variable %s", name)
		}
		b.WriteString(value)
		s = after
	}
}
