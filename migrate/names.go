package migrate

import (
	"strconv"
	"strings"
	"unicode"

	"go.starlark.net/starlark"
)

// names chooses the names of a script, each once.
type names struct{ taken map[string]bool }

// reserved are keywords of Starlark and Python, and the names of builtins.
var reserved = strings.Fields(`and break continue def elif else for if in lambda load not or pass return while
	as assert async await class del except finally from global import is nonlocal raise try with yield
	run params call_tool try_call_tool retry parallel elicit log progress pages result json math time re struct
	_`)

// newNames returns names without those of reserved and of more.
func newNames(more []string) *names {
	n := &names{taken: map[string]bool{}}
	for _, word := range reserved {
		n.taken[word] = true
	}
	for word := range starlark.Universe {
		n.taken[word] = true
	}
	for _, word := range more {
		n.taken[word] = true
	}
	return n
}

// fresh returns a name like hint that is not used yet.
func (n *names) fresh(hint string) string {
	base := identifier(hint)
	name := base
	for i := 2; n.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	n.taken[name] = true
	return name
}

// free makes a name available again.
func (n *names) free(name string) { delete(n.taken, name) }

// step returns the name of the variable of a step.
func (n *names) step(id string) string {
	if n.taken[identifier(id)] {
		return n.fresh(id + "_step")
	}
	return n.fresh(id)
}

// identifier converts a name to lower case with underscores: fetchData to fetch_data.
func identifier(s string) string {
	var b strings.Builder
	last := rune('_')
	for _, c := range s {
		switch {
		case c < 128 && unicode.IsUpper(c):
			if unicode.IsLower(last) || unicode.IsDigit(last) {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(c))
		case c < 128 && (unicode.IsLower(c) || unicode.IsDigit(c)):
			b.WriteRune(c)
		case last != '_' && b.Len() > 0:
			b.WriteByte('_')
			c = '_'
		default:
			c = '_'
		}
		last = c
	}
	name := strings.Trim(b.String(), "_")
	if name == "" {
		return "step"
	}
	if unicode.IsDigit(rune(name[0])) {
		return "step_" + name
	}
	return name
}
