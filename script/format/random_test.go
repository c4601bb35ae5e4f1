package format

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// author generates random scripts, in any layout that the language allows.
type author struct {
	*rand.Rand
	b      strings.Builder
	indent string
	open   int // brackets
	left   int // how much more may be nested
}

func (a *author) one(of ...string) string { return of[a.IntN(len(of))] }

// space writes random space between two tokens: inside of brackets line breaks and comments, too.
func (a *author) space() {
	switch n := a.IntN(30); {
	case n < 12:
		a.b.WriteByte(' ')
	case n == 12:
		a.b.WriteString("\t  ")
	case n == 13:
		a.b.WriteString(" \\\n" + a.one("", " ", "\t", "        "))
	case n < 18 && a.open > 0:
		a.b.WriteString(a.one("\n", "\n    ", "\n\n  ", " # while b'' in a comment\n", "\n# alone\n", "  # c\n   # d\n"))
	}
}

// words writes tokens with random space between them; words are always separated.
func (a *author) words(tokens ...string) {
	for _, t := range tokens {
		a.b.WriteString(t)
		if isWord := strings.TrimFunc(t, func(r rune) bool { return r >= 'a' && r <= 'z' }) == ""; isWord {
			a.b.WriteByte(' ')
		}
		a.space()
	}
}

func (a *author) name() string {
	return a.one("a", "b", "while_true", "x1", "_y", "größe", "type", "awhile", "bb", "r", "load_", "print", "self")
}

func (a *author) literal() string {
	return a.one("0", "1", "0x1F", "0o17", "0b101", "1.5", ".5", "5.", "1e9", "1.e-3", "123456789012345678901234567890",
		`""`, `''`, `"while x:"`, `'while'`, `b""`, `b"while"`, `b'\x00'`, `rb"\d"`, `r'\d"'`, `r"a\"b"`, `'it\'s'`, `'say "x"'`, `'\\'`, `"\u00e9\x41\101"`,
		`"""doc"""`, "'''while\n  b'' # no comment\n'''", "b\"\"\"two\nlines\"\"\"", "r'''\\\n'''", "\"a\\\nb\"", `"#"`, `"\t\""`, `'é☃'`, `"""a "quoted" word"""`, `'''it's'''`, `"\n"`)
}

func (a *author) list(n int, item func()) {
	for i := range n {
		if i > 0 {
			a.words(",")
		}
		item()
	}
	if n > 0 && a.IntN(5) == 0 {
		a.words(",")
	}
}

func (a *author) bracket(open, end string, inner func()) {
	a.b.WriteString(open)
	a.open++
	a.space()
	inner()
	a.open--
	a.b.WriteString(end)
}

func (a *author) expr() {
	a.left--
	defer func() { a.left++ }()
	if a.left < 0 {
		a.atom()
		return
	}
	switch a.IntN(16) {
	case 0, 1, 2:
		a.atom()
	case 3, 4:
		a.operand()
		a.words(" " + a.one("+", "-", "*", "//", "/", "%", "|", "&", "^", "<<", ">>"))
		a.operand()
	case 5:
		a.operand()
		a.words(" "+a.one("and", "or", "in", "not in"), "")
		a.b.WriteByte(' ')
		a.operand()
	case 6:
		a.b.WriteString(a.one("not ", "-", "+", "~", "not not ", "- -"))
		a.operand()
	case 7:
		a.bracket("(", ")", func() {
			a.operand()
			a.b.WriteString(" if ")
			a.operand()
			a.b.WriteString(" else ")
			a.expr()
		})
	case 8:
		a.bracket("[", "]", func() { a.list(a.IntN(4), a.expr) })
	case 9:
		a.bracket("{", "}", func() { a.list(a.IntN(4), func() { a.operand(); a.words(":"); a.expr() }) })
	case 10:
		a.bracket("(", ")", func() { a.list(a.IntN(4), a.expr) })
	case 11:
		a.comprehension()
	case 12:
		a.bracket("(", ")", func() { a.words("lambda", a.params(), ":"); a.expr() })
	case 13:
		a.operand()
		a.b.WriteString(" " + a.one("==", "<", "!=", ">=") + " ")
		a.operand()
	default:
		a.suffixed()
	}
}

func (a *author) comprehension() {
	open, end := "[", "]"
	if a.IntN(3) == 0 {
		open, end = "{", "}"
	}
	a.bracket(open, end, func() {
		a.operand()
		if open == "{" {
			a.words(":")
			a.operand()
		}
		for range 1 + a.IntN(2) {
			a.words(" for", a.name(), " in")
			a.b.WriteByte(' ')
			a.operand()
			if a.IntN(2) == 0 {
				a.words(" if")
				a.b.WriteByte(' ')
				a.operand()
			}
		}
	})
}

// operand writes an expression that is allowed anywhere.
func (a *author) operand() {
	if a.IntN(3) == 0 && a.left > 0 {
		a.bracket("(", ")", a.expr)
		return
	}
	a.suffixed()
}

func (a *author) suffixed() {
	a.atom()
	for range a.IntN(3) {
		switch a.IntN(5) {
		case 0:
			a.b.WriteString(" ." + a.name())
		case 1:
			a.bracket("[", "]", func() { a.expr() })
		case 2:
			a.bracket("[", "]", func() { a.b.WriteString(a.one(":", "1:", ":2", "::", "1:2:3", "a:-1", "::-1", " : ")) })
		default:
			a.bracket("(", ")", a.args)
		}
	}
}

func (a *author) args() {
	n := a.IntN(4)
	a.list(n, func() {
		if a.left > 0 {
			a.expr()
		} else {
			a.atom()
		}
	})
	if n == 0 && a.IntN(2) == 0 {
		a.list(1+a.IntN(2), func() { a.words(a.name()+fmt.Sprint(a.IntN(1000)), "="); a.atom() })
	}
}

func (a *author) atom() {
	if a.IntN(2) == 0 {
		a.b.WriteString(a.name() + a.one("", "", " "))
		return
	}
	a.b.WriteString(a.literal() + " ")
}

func (a *author) params() string {
	return a.one("", "a", "a, b", "a, b=1", "*args", "a, *, b", "**kw", "a,  b = 'x' , *c, **d", "a,\tb")
}

func (a *author) block() {
	if a.IntN(6) == 0 {
		a.b.WriteString(" " + a.one("pass", "x = 1", "a; b", "f(x)") + a.end())
		return
	}
	a.b.WriteString(a.end())
	outer := a.indent
	a.indent += a.one("  ", "    ", "\t", " ", "        ")
	for range 1 + a.IntN(3) {
		a.statement()
	}
	a.indent = outer
}

// end ends a line, perhaps with a comment.
func (a *author) end() string {
	return a.one("", "", " ", "  # why while", " #x") + a.one("\n", "\n", "\n", "\n\n", "\n\n\n", "\r\n", "\n"+a.indent+"# while: a line\n", "\n# at the start\n", "\n   \n")
}

func (a *author) statement() {
	a.left--
	defer func() { a.left++ }()
	a.b.WriteString(a.indent)
	n := a.IntN(14)
	if a.left < 0 {
		n %= 6
	}
	switch n {
	case 0, 1:
		a.b.WriteString(a.one("a", "a, b", "(a, b)", "[a, b]", "a[0]", "a.b", "a[1], (b, c.d)"))
		a.words(" " + a.one("=", "=", "+=", "-=", "//=", "<<=", "|="))
		a.expr()
	case 2, 3:
		a.expr()
	case 4:
		a.b.WriteString(a.one("pass", "x = 1; y = 2", "x = 1; y = 2;", "a", `"""doc"""`, "'''while\n  doc'''"))
	case 5:
		a.b.WriteString(a.one(`load("m.star", "x")`, `load('b.star', c='d', e="f")`, "load(\n'z.star',\n 'g') # why", `load("a.star", "h",)`))
	case 6, 7, 8:
		a.words("while")
		a.condition()
		a.b.WriteByte(':')
		a.block()
		return
	case 9:
		a.words("for", a.one("a", "a, b", "(a, b)", "[a]"), " in")
		a.expr()
		a.b.WriteByte(':')
		a.block()
		return
	case 10, 11:
		a.choice()
		return
	case 12:
		a.b.WriteString("def " + a.name() + "(" + a.params() + ")")
		a.words(":")
		a.block()
		return
	case 13:
		a.b.WriteString(a.one("def f():\n"+a.indent+"  return 1, 2", "def f(\n a,\n  b = 2):\n"+a.indent+" return (a)", "def g(): return"))
	}
	a.b.WriteString(a.end())
}

func (a *author) choice() {
	a.words("if")
	a.condition()
	a.b.WriteByte(':')
	a.block()
	for range a.IntN(3) {
		a.b.WriteString(a.indent)
		a.words("elif")
		a.condition()
		a.b.WriteByte(':')
		a.block()
	}
	if a.IntN(2) == 0 {
		a.b.WriteString(a.indent + "else:")
		a.block()
	}
}

// condition writes a condition that is often longer than a line.
func (a *author) condition() {
	a.operand()
	for range a.IntN(3) {
		a.b.WriteString(a.one(" and ", " or ", " and \\\n   ", " or\\\n", " == ") + " ")
		a.operand()
	}
}

// randomScript returns a script, which is nearly always valid.
func randomScript(seed uint64) []byte {
	a := &author{Rand: rand.New(rand.NewPCG(seed, 1)), left: 4}
	for range 1 + a.IntN(8) {
		a.statement()
	}
	return []byte(a.b.String())
}

// TestRandomScripts formats random scripts in random layouts: Format compares trees and
// comments, and formatting twice changes nothing.
func TestRandomScripts(t *testing.T) {
	n := testmode.Count(100, 20_000)
	valid, unplaced := 0, 0
	for seed := range uint64(n) {
		src := randomScript(seed)
		if _, err := script.Parse(script.File{Name: "random.star", Source: src}, script.Limits{}); err != nil {
			continue
		}
		valid++
		if _, err := Format(script.File{Name: "random.star", Source: src}); err != nil && strings.Contains(err.Error(), "this comment") {
			unplaced++
			continue
		}
		if format1(t, fmt.Sprintf("seed %d", seed), src); t.Failed() {
			return
		}
	}
	t.Logf("%d of %d texts are scripts, %d have a comment with no place", valid, n, unplaced)
	if valid < n/4 || unplaced > valid/6 {
		t.Errorf("only %d of %d texts are scripts, or too many of them, %d, have a comment with no place", valid, n, unplaced)
	}
}
