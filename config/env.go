package config

import (
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/envfile"
)

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

// expandPublic is expand for texts that are no secrets at all, and are shown: addresses.
func (v *validator) expandPublic(path, s string) string {
	return v.expandWith(path, s, func(string, string) {})
}

func (v *validator) expandWith(path, s string, note func(name, value string)) string {
	if v.inObject() {
		return s
	}
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
		if !ok || !envfile.IsName(name) || strings.Contains(fallback, "${") {
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
		case ok:
			v.warn(path, EmptyVariable+"%s; write ${%s:-} if that is meant", name, name)
		}
		b.WriteString(value)
		s = after
	}
}

// EmptyVariable is what a warning begins with about a variable that is set to nothing.
const EmptyVariable = "the value is empty of variable "

// EnvFile is the file beside a configuration that holds variables for it: lines of NAME=value. The
// environment of the process wins.
const EnvFile = "vmcp.env"

// ReadVariables reads a file of variables, lines of NAME=value. The error is diag.Problems when it is
// none.
func ReadVariables(name string) (map[string]string, error) {
	variables, problems, err := envfile.Read(name, code)
	if err != nil {
		return nil, err
	}
	return variables, problems.Err()
}
