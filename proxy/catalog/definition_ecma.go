package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ecmaRegexp returns why a pattern is not a regular expression of ECMA-262 in Unicode mode,
// in which clients in JavaScript compile the patterns of a schema. It refuses much that other
// dialects accept: (?i), \A, \_, \w-x in a class, an unescaped brace.
func ecmaRegexp(at, pattern string) error {
	p := ecma{text: pattern, groups: countGroups(pattern)}
	p.disjunction(0)
	if p.err == "" && p.i < len(p.text) {
		p.fail("unmatched )")
	}
	for _, name := range p.asked {
		if p.err == "" && !slices.Contains(p.names, name) {
			p.fail("no group has the name " + name)
		}
	}
	if p.err != "" {
		return fmt.Errorf("%s: %.100q is not a valid pattern in JavaScript clients: %s", at, pattern, p.err)
	}
	return nil
}

// ecma parses a pattern by the grammar of ECMA-262, section 22.2.1, with +UnicodeMode.
type ecma struct {
	text         string
	i            int
	groups       int
	names, asked []string // of groups: declared, referred to
	err          string
}

// maxGroups bounds the nesting of groups.
const maxGroups = 100

func (p *ecma) fail(why string) {
	if p.err == "" {
		p.err = why
	}
	p.i = len(p.text)
}

func (p *ecma) more() bool { return p.i < len(p.text) }

func (p *ecma) peek() byte {
	if p.i < len(p.text) {
		return p.text[p.i]
	}
	return 0
}

// take skips s if it is next.
func (p *ecma) take(s string) bool {
	if strings.HasPrefix(p.text[p.i:], s) {
		p.i += len(s)
		return true
	}
	return false
}

// rune skips and returns one character.
func (p *ecma) rune() rune {
	r, n := utf8.DecodeRuneInString(p.text[p.i:])
	p.i += n
	return r
}

// countGroups counts the groups that a backreference may mean.
func countGroups(pattern string) (n int) {
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '(' && !class:
			rest := pattern[i+1:]
			if !strings.HasPrefix(rest, "?") || strings.HasPrefix(rest, "?<") && !strings.HasPrefix(rest, "?<=") && !strings.HasPrefix(rest, "?<!") {
				n++
			}
		}
	}
	return n
}

func (p *ecma) disjunction(depth int) {
	if depth > maxGroups {
		p.fail("groups nest too deep")
	}
	for p.more() && p.peek() != ')' {
		if p.take("|") {
			continue
		}
		if p.term(depth) {
			p.quantifier()
		}
	}
}

// term parses one term and reports whether a quantifier may follow.
func (p *ecma) term(depth int) bool {
	switch c := p.peek(); c {
	case '^', '$':
		p.i++
		return false
	case '(':
		return p.group(depth)
	case '[':
		p.i++
		p.class()
	case '\\':
		p.i++
		if p.peek() == 'b' || p.peek() == 'B' {
			p.i++
			return false
		}
		p.atomEscape()
	case '*', '+', '?', '{':
		p.fail("nothing to repeat")
	case ']', '}':
		p.fail("a lone " + string(c))
	default:
		p.rune()
	}
	return true
}

func (p *ecma) group(depth int) bool {
	p.i++
	assertion := false
	switch {
	case p.take("?:"):
	case p.take("?="), p.take("?!"), p.take("?<="), p.take("?<!"):
		assertion = true
	case p.take("?<"):
		name := p.name()
		if slices.Contains(p.names, name) {
			p.fail("two groups have the name " + name)
		}
		p.names = append(p.names, name)
	case p.peek() == '?':
		p.fail("an invalid group")
	}
	p.disjunction(depth + 1)
	if !p.take(")") {
		p.fail("unterminated group")
	}
	return !assertion
}

// name parses the name of a group with the > after it.
func (p *ecma) name() string {
	from := p.i
	for p.more() && p.peek() != '>' {
		if r := p.rune(); r != '_' && r != '$' && !unicode.IsLetter(r) && (p.i == from+1 || !unicode.IsDigit(r)) {
			p.fail("an invalid name of a group")
		}
	}
	name := p.text[min(from, p.i):p.i]
	if name == "" || !p.take(">") {
		p.fail("an invalid name of a group")
	}
	return name
}

func (p *ecma) quantifier() {
	switch {
	case p.take("*"), p.take("+"), p.take("?"):
	case p.take("{"):
		low, ok := p.digits()
		high := low
		if p.take(",") && p.peek() != '}' {
			var also bool
			high, also = p.digits()
			ok = ok && also
		}
		if !ok || !p.take("}") {
			p.fail("an incomplete quantifier")
		}
		if len(high) < len(low) || len(high) == len(low) && high < low {
			p.fail("a quantifier out of order")
		}
	default:
		return
	}
	p.take("?")
}

func (p *ecma) digits() (string, bool) {
	from := p.i
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.i++
	}
	return strings.TrimLeft(p.text[from:p.i], "0"), p.i > from
}

// atomEscape parses an escape outside of a class.
func (p *ecma) atomEscape() {
	switch c := p.peek(); {
	case c >= '1' && c <= '9':
		digits, _ := p.digits()
		if n, err := strconv.Atoi(digits); err != nil || n > p.groups {
			p.fail("a reference to a group that does not exist")
		}
	case p.take("k"):
		if !p.take("<") {
			p.fail("an invalid named reference")
		}
		p.asked = append(p.asked, p.name())
	default:
		p.charEscape()
	}
}

// charEscape parses an escape for a character or a set, and returns the character; -1 for a set.
func (p *ecma) charEscape() rune {
	if !p.more() {
		p.fail(`a \ at the end`)
		return 0
	}
	c := p.peek()
	p.i++
	switch {
	case strings.IndexByte("dDsSwW", c) >= 0:
		return -1
	case strings.IndexByte(`^$\.*+?()[]{}|/`, c) >= 0:
		return rune(c)
	case c == 'p' || c == 'P':
		p.property()
		return -1
	case c == '0' && !(p.peek() >= '0' && p.peek() <= '9'):
		return 0
	case c == 'c' && unicode.IsLetter(rune(p.peek())) && p.peek() < utf8.RuneSelf:
		p.i++
		return rune(p.text[p.i-1] & 31)
	case c == 'x':
		return p.hex(2)
	case c == 'u' && p.take("{"):
		end := strings.IndexByte(p.text[p.i:], '}')
		r := p.hex(end)
		if !p.take("}") || r > unicode.MaxRune {
			p.fail("an invalid escape")
		}
		return r
	case c == 'u':
		return p.unit()
	}
	if i := strings.IndexByte("fnrtv", c); i >= 0 {
		return rune("\f\n\r\t\v"[i])
	}
	p.fail(`an invalid escape \` + string(c))
	return 0
}

// unit parses the four digits of \u, and the second half of a surrogate pair.
func (p *ecma) unit() rune {
	r := p.hex(4)
	if r >= 0xD800 && r < 0xDC00 && !strings.HasPrefix(p.text[p.i:], `\u{`) && p.take(`\u`) {
		if low := p.hex(4); low >= 0xDC00 && low < 0xE000 {
			return 0x10000 + (r-0xD800)<<10 + low - 0xDC00
		}
		p.i -= len(`\u0000`)
	}
	return r
}

func (p *ecma) hex(n int) rune {
	if n <= 0 || p.i+n > len(p.text) {
		p.fail("an invalid escape")
		return 0
	}
	v, err := strconv.ParseUint(p.text[p.i:p.i+n], 16, 32)
	if err != nil {
		p.fail("an invalid escape")
		return 0
	}
	p.i += n
	return rune(min(v, unicode.MaxRune+1))
}

// binary are the binary properties of characters that patterns may use, besides categories
// and scripts.
var binary = []string{"ASCII", "ASCII_Hex_Digit", "AHex", "Alphabetic", "Alpha", "Any", "Assigned", "Emoji", "Emoji_Presentation",
	"EPres", "Extended_Pictographic", "ExtPict", "Hex_Digit", "Hex", "ID_Continue", "IDC", "ID_Start", "IDS", "Ideographic", "Ideo",
	"Lowercase", "Lower", "Uppercase", "Upper", "White_Space", "space", "XID_Continue", "XIDC", "XID_Start", "XIDS"}

var categories = []string{"Letter", "Lowercase_Letter", "Uppercase_Letter", "Titlecase_Letter", "Modifier_Letter", "Other_Letter", "Mark", "Number",
	"Decimal_Number", "Letter_Number", "Other_Number", "Punctuation", "punct", "Symbol", "Math_Symbol", "Currency_Symbol", "Separator", "Space_Separator", "Other", "Control", "Format"}

// property parses {Name} or {Name=Value} after \p.
func (p *ecma) property() {
	end := strings.IndexByte(p.text[p.i:], '}')
	if end < 1 || p.text[p.i] != '{' {
		p.fail("an invalid property")
		return
	}
	name, value, valued := strings.Cut(p.text[p.i+1:p.i+end], "=")
	p.i += end + 1
	_, category := unicode.Categories[name]
	known := category || slices.Contains(binary, name) || slices.Contains(categories, name)
	if valued {
		_, script := unicode.Scripts[value]
		_, category := unicode.Categories[value]
		general := name == "General_Category" || name == "gc"
		known = slices.Contains([]string{"Script", "sc", "Script_Extensions", "scx"}, name) && script ||
			general && (category || slices.Contains(categories, value))
	}
	if !known {
		p.fail("an unknown property")
	}
}

// class parses a class after its bracket.
func (p *ecma) class() {
	p.take("^")
	for p.more() && p.peek() != ']' {
		low := p.classAtom()
		if p.peek() != '-' || strings.HasPrefix(p.text[p.i:], "-]") {
			continue
		}
		p.i++
		if !p.more() {
			break
		}
		high := p.classAtom()
		switch {
		case p.err != "":
		case low < 0 || high < 0:
			p.fail("a set as the end of a range")
		case high < low:
			p.fail("a range out of order")
		}
	}
	if !p.take("]") {
		p.fail("an unterminated class")
	}
}

func (p *ecma) classAtom() rune {
	if !p.take(`\`) {
		return p.rune()
	}
	switch {
	case p.take("b"):
		return '\b'
	case p.take("-"):
		return '-'
	}
	return p.charEscape()
}
