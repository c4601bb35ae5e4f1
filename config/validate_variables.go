package config

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Expand replaces ${NAME} in s by the value in the environment, ${NAME:-default} by the default
// if the variable is unset or empty, and $${ by ${. A default is not expanded again.
// Messages name the variable, never its value. The values are recorded as secrets.
func (v *Validator) Expand(path, s string) string {
	return v.expandWith(path, s, func(name, value string) {
		v.NoteSecret(path, name, value)
	})
}

// ExpandPlain is Expand for values that are seldom secrets: it does not warn of short ones.
func (v *Validator) ExpandPlain(path, s string) string {
	return v.expandWith(path, s, v.noteVariable)
}

// ExpandPublic is Expand for values that are not secrets, such as addresses.
func (v *Validator) ExpandPublic(path, s string) string {
	return v.expandWith(path, s, func(string, string) {})
}

func (v *Validator) expandWith(path, s string, note func(name, value string)) string {
	if v.InObject() {
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
		if !ok || !isName(name) || strings.Contains(fallback, "${") {
			v.Report(path, "${ begins a variable such as ${TOKEN} or ${LEVEL:-info}; write $${ for the characters themselves")
			return ""
		}
		value, ok := v.Env(name)
		switch {
		case value != "":
			note(name, value)
		case hasFallback:
			value = fallback
		case !ok && !v.Lenient:
			v.Report(path, "the environment has no variable %s", name)
		case ok:
			v.Warn(path, EmptyVariable+"%s; write ${%s:-} if that is intended", name, name)
		}
		b.WriteString(value)
		s = after
	}
}

// EmptyVariable is the beginning of the warning about a variable that is set to an empty string.
const EmptyVariable = "the value is empty because of the empty variable "

// everyChild are variables that every child process has, and that are no secrets.
var everyChild = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "HOSTNAME"}

// NoteSecret records the value of a variable in the value at path as a secret.
func (v *Validator) NoteSecret(path, name, value string) {
	v.noteVariable(name, value)
	if !slices.Contains(everyChild, name) {
		v.TooShort(path, value)
	}
}

// noteVariable records the value of a variable in any field.
func (v *Validator) noteVariable(name, value string) {
	if !slices.Contains(everyChild, name) && value != "" {
		v.Secrets = append(v.Secrets, value)
		if v.Named == nil {
			v.Named = map[string]string{}
		}
		v.Named[value] = name
	}
}

// TooShort warns of a secret that is too short to be redacted.
func (v *Validator) TooShort(path, value string) {
	if value != "" && len(strings.TrimSpace(value)) < secret.Shortest {
		v.Warn(path, "a secret of fewer than %d characters is not redacted in errors and logs, where such a short string may occur by chance", secret.Shortest)
	}
}
