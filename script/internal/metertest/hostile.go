package metertest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"go.starlark.net/starlark"
)

// hostile generates programs that apply every operation to every kind of value, from a string of choices.
type hostile struct {
	choices []byte
	out     strings.Builder
	indent  int
	depth   int
}

var hostileVars = []string{"a", "b", "c", "d", "e"}

// Program generates a program that applies every operation to every kind of value, from a string of choices.
func Program(choices []byte) string { return (&hostile{choices: choices}).program() }

// program generates a program of small functions; attempt() calls one, and returns the old value when it fails, so
// that the program continues after its many errors.
func (h *hostile) program() string {
	n := 6 + h.choose(16)
	h.out.WriteString("def f(x, y = 1, *args, **kwargs):\n    return [x, y, args, kwargs]\n")
	for i := range n {
		fmt.Fprintf(&h.out, "def s%d(a, b, c, d, e):\n", i)
		h.indent = 1
		for range 1 + h.choose(3) {
			h.stmt()
		}
		h.line("return %s", h.name())
	}
	h.out.WriteString("def run(params):\n")
	for i, v := range hostileVars {
		h.line("%s = %s", v, hostileStarts[(h.choose(len(hostileStarts))+i)%len(hostileStarts)])
	}
	for range []int{1, 1, 3}[h.choose(3)] {
		for i := range n {
			v := h.name()
			h.line("%s = attempt(lambda: s%d(a, b, c, d, e), %s)", v, i, v)
		}
	}
	h.line("return 1")
	return h.out.String()
}

func (h *hostile) choose(n int) int {
	if len(h.choices) == 0 {
		return 0
	}
	c := int(h.choices[0])
	h.choices = h.choices[1:]
	return c % n
}

func (h *hostile) line(format string, args ...any) {
	h.out.WriteString(strings.Repeat("    ", h.indent))
	fmt.Fprintf(&h.out, format, args...)
	h.out.WriteByte('\n')
}

var hostileStarts = []string{
	`"ab" * 3000`, `[1, "x", [2]] * 500`, `list(range(3000))`, `{i: [i] for i in range(300)}`, `(1, 2, (3, 4)) * 100`,
	`set(range(1000))`, `1 << 400`, `"é b\n" * 700`, `range(5000)`, `bytes("xyz" * 900)`, `{"k%d" % i: i for i in range(400)}`,
	`""`, `[]`, `{}`, `-7`, `2.5`, `None`, `"a"`, `lambda x: x`, `"x y ".elems()`, `"é".codepoints()`, `1000000007`, `[[[]]]`, `"{} {0} %s %d"`, `struct(a = 1)`,
}

func (h *hostile) name() string { return hostileVars[h.choose(len(hostileVars))] }

func (h *hostile) stmt() {
	if h.indent > 4 {
		h.line("%s = %s", h.name(), h.expr())
		return
	}
	switch h.choose(13) {
	case 0, 1, 2:
		h.line("%s = %s", h.name(), h.expr())
	case 3:
		ops := []string{"+", "-", "*", "|", "&", "^", "%", "//", "<<", "/", ">>"}
		h.line("%s %s= %s", h.name(), ops[h.choose(len(ops))], h.expr())
	case 4:
		h.line("%s[%s] = %s", h.name(), h.expr(), h.expr())
	case 5:
		h.line("%s[%s] += %s", h.name(), h.expr(), h.expr())
	case 6:
		h.block("for i in " + h.expr() + ":")
	case 7:
		h.block(fmt.Sprintf("for i in range(%d):", []int{2, 10, 40, 100000}[h.choose(4)]))
	case 8:
		h.block("while " + h.expr() + ":")
	case 9:
		h.block("if " + h.expr() + ":")
	case 10:
		h.line("%s, %s = %s, %s", h.name(), h.name(), h.expr(), h.expr())
	case 11:
		n := h.name()
		h.line("%s = [%s, %s]", n, n, n)
	default:
		h.line("%s", h.call())
	}
}

func (h *hostile) block(head string) {
	h.line("%s", head)
	h.indent++
	for range 1 + h.choose(3) {
		h.stmt()
	}
	h.indent--
}

func (h *hostile) expr() string {
	h.depth++
	defer func() { h.depth-- }()
	if h.depth > 4 {
		return h.name()
	}
	switch h.choose(16) {
	case 0, 1, 2, 3:
		return h.name()
	case 4:
		lits := []string{"0", "1", "-1", "7", "1000", "2147483647", "4611686018427387904", `""`, `"a"`, `"%s"`, `","`, "None", "1e300", "[]", "()", "{}"}
		return lits[h.choose(len(lits))]
	case 5, 6:
		ops := []string{"+", "*", "-", "%", "|", "&", "^", "//", "<<", ">>", "/", "==", "<", "in", "not in", "!=", ">=", "and", "or"}
		return fmt.Sprintf("(%s %s %s)", h.expr(), ops[h.choose(len(ops))], h.expr())
	case 7:
		return fmt.Sprintf("%s[%s]", h.name(), h.expr())
	case 8:
		return fmt.Sprintf("%s[%s:%s:%s]", h.name(), h.bound(), h.bound(), h.bound())
	case 9:
		return fmt.Sprintf("[%s for i in %s]", h.expr(), h.name())
	case 10:
		return fmt.Sprintf("{%s: %s for i in %s}", h.expr(), h.expr(), h.name())
	case 11:
		kinds := []string{"[%s, %s]", "(%s, %s)", "{%s: %s}", "[[], [], %s, {}, %s]", "(%s, (), lambda: %s)"}
		return fmt.Sprintf(kinds[h.choose(len(kinds))], h.expr(), h.expr())
	case 12:
		return fmt.Sprintf("%s%s", []string{"-", "~", "not ", "+"}[h.choose(4)], h.name())
	default:
		return h.call()
	}
}

func (h *hostile) bound() string {
	return []string{"", "1", "-1", "2", "1000", "-3"}[h.choose(6)]
}

func (h *hostile) call() string {
	if h.choose(2) == 0 {
		methods := []starlark.HasAttrs{starlark.String(""), new(starlark.List), new(starlark.Dict), new(starlark.Set), starlark.Bytes("")}
		names := methods[h.choose(len(methods))].AttrNames()
		return fmt.Sprintf("%s.%s(%s)", h.name(), names[h.choose(len(names))], h.args())
	}
	names := append(starlark.Universe.Keys()[3:], "f", "json.encode", "json.decode", "json.indent", "getattr", "struct", h.name())
	return fmt.Sprintf("%s(%s)", names[h.choose(len(names))], h.args())
}

func (h *hostile) args() string {
	switch h.choose(8) {
	case 0:
		return ""
	case 1, 2, 3:
		return h.expr()
	case 4, 5:
		return h.expr() + ", " + h.expr()
	case 6:
		return "*" + h.expr()
	}
	return h.expr() + ", **" + h.name()
}

// Choices returns random choices for Program.
func Choices(random *rand.Rand) []byte {
	choices := make([]byte, 50+random.IntN(300))
	for i := range choices {
		choices[i] = byte(random.Uint32())
	}
	return choices
}
