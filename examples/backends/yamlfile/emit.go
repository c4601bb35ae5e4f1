package yamlfile

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// plainText matches text that needs no quotes in block style: without an indicator
// character at the start, without ": " and " #", and without a space at the end.
var plainText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN_/.~+(-](?:[\pL\pN_/.~+()@%=*&!?;$<>^|\\-]|[:,'"\[\]{}][^\s]|[ ][^\s#:])*$`)
})

// oldScalar matches text that YAML 1.1 parsers read as a boolean or a number of base 60.
var oldScalar = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

func isPlain(s string, flow bool) bool {
	if !plainText().MatchString(s) || flow && strings.ContainsAny(s, ",[]{}") {
		return false
	}
	if strings.HasPrefix(s, "- ") || strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") || s == "-" {
		return false
	}
	return !oldScalar.MatchString(s) && (&node{Kind: yaml.ScalarNode, Value: s}).ShortTag() == "!!str"
}

// scalarText writes a scalar on one line; a string with the quotes of the style like, if it has some.
func scalarText(n *node, like yaml.Style, flow bool) string {
	switch {
	case n.Tag != "!!str":
		return n.Value
	case like&yaml.DoubleQuotedStyle != 0 || !isPrintable(n.Value):
		return doubleQuoted(n.Value)
	case like&yaml.SingleQuotedStyle != 0 || !isPlain(n.Value, flow):
		return "'" + strings.ReplaceAll(n.Value, "'", "''") + "'"
	}
	return n.Value
}

// isPrintable reports whether s can be written on one line without escapes.
func isPrintable(s string) bool {
	return !slices.ContainsFunc([]rune(s), func(r rune) bool { return r != ' ' && !unicode.IsGraphic(r) || unicode.In(r, unicode.Zl, unicode.Zp) })
}

// doubleQuoted writes a string as JSON, which YAML reads in the same way, and escapes the characters that
// only YAML forbids.
func doubleQuoted(s string) string {
	var b strings.Builder
	for _, r := range string(appendString(nil, s)) {
		if r >= 0x7f && r <= 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte("0123456789abcdef"[r>>shift&15])
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// flowText writes any value on one line.
func flowText(n *node) string {
	var parts []string
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			parts = append(parts, flowText(c))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			parts = append(parts, scalarText(n.Content[i], 0, true)+": "+flowText(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return scalarText(n, 0, true)
}

// blockLines writes a value as lines, without indentation and without the last break.
func blockLines(n *node) []string {
	if len(n.Content) == 0 {
		if n.Kind == yaml.ScalarNode {
			return []string{scalarText(n, 0, false)}
		}
		return []string{flowText(n)}
	}
	var lines []string
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			sub := indent(blockLines(c), 2)
			sub[0] = "- " + sub[0][2:]
			lines = append(lines, sub...)
		}
		return lines
	}
	for i := 0; i < len(n.Content); i += 2 {
		lines = append(lines, entryLines(n.Content[i], n.Content[i+1])...)
	}
	return lines
}

// entryLines writes one key and its value.
func entryLines(key, value *node) []string {
	k := scalarText(key, 0, false) + ":"
	lines := blockLines(value)
	if len(value.Content) == 0 {
		return []string{k + " " + lines[0]}
	}
	return append([]string{k}, indent(lines, 2)...)
}

func indent(lines []string, n int) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.Repeat(" ", n) + l
	}
	return out
}
