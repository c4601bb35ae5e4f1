package yamlfile

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The parser has the start of a node, but not its end. The functions of this file find the
// end from the text and the value that the parser has read. They need not be
// right for all of YAML: an edit is parsed again before it is used.

const spaces = " \t\r\n"

// level is the context on which the end of a node depends.
type level struct {
	flow   bool // inside of [] or {}
	indent int  // of the block collection around, -1 at the top
}

// inside is the level of the children of n.
func (c level) inside(n *node) level {
	return level{flow: c.flow || isFlow(n), indent: n.Column - 1}
}

func isFlow(n *node) bool { return n.Style&yaml.FlowStyle != 0 }

// body is where the value of n starts, after its anchor and tag.
func (s *source) body(n *node) int {
	i := s.offset(n)
	for i < len(s.text) && (s.text[i] == '&' || s.text[i] == '!') && n.Kind != yaml.AliasNode {
		i += word(s.text[i:])
		i += len(s.text[i:]) - len(bytes.TrimLeft(s.text[i:], spaces))
	}
	return i
}

func word(text []byte) int {
	if i := bytes.IndexAny(text, spaces+",[]{}"); i >= 0 {
		return i
	}
	return len(text)
}

// end is the offset after the last byte of n, without a comment or line break after it.
func (s *source) end(n *node, c level) int {
	switch n.Kind {
	case yaml.SequenceNode, yaml.MappingNode:
		return s.endCollection(n, c)
	case yaml.AliasNode:
		i := s.offset(n)
		return i + word(s.text[i:])
	}
	if isEmpty(n) {
		return s.offset(n)
	}
	i := s.body(n)
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return endDouble(s.text, i)
	case n.Style&yaml.SingleQuotedStyle != 0:
		return endSingle(s.text, i)
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return endBlock(s.text, i, c.indent)
	}
	return endPlain(s.text, i, n.Value, c.flow)
}

// isEmpty reports whether n is an implicit null.
func isEmpty(n *node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Tag == "!!null" && n.Anchor == ""
}

func (s *source) endCollection(n *node, c level) int {
	inside := c.inside(n)
	i := s.body(n)
	if isFlow(n) {
		i++
	}
	if len(n.Content) > 0 {
		i = s.end(n.Content[len(n.Content)-1], inside)
	}
	if isFlow(n) {
		i = closing(s.text, i) + 1
	}
	return i
}

// closing is the offset of the bracket that ends a flow collection whose last element
// ends at i.
func closing(text []byte, i int) int {
	for i < len(text)-1 {
		switch text[i] {
		case ']', '}':
			return i
		case '#':
			i += lineLength(text[i:])
		default:
			i++
		}
	}
	return len(text) - 1
}

func lineLength(text []byte) int {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

func endDouble(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func endSingle(text []byte, i int) int {
	for i++; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		if i+1 == len(text) || text[i+1] != '\'' {
			return i + 1
		}
		i++
	}
	return len(text)
}

// endBlock is the end of a | or > scalar: the last line with the indentation of the first,
// and with + in its header the empty lines after it.
func endBlock(text []byte, i, indent int) int {
	head := text[i : i+lineLength(text[i:])]
	keep := bytes.ContainsRune(bytes.SplitN(head, []byte("#"), 2)[0], '+')
	end := i + len(bytes.TrimRight(head, spaces))
	for at := i + len(head) + 1; at < len(text); {
		line := text[at : at+lineLength(text[at:])]
		body := bytes.TrimRight(line, spaces)
		left := len(line) - len(bytes.TrimLeft(line, " "))
		if len(body) > 0 && left <= indent {
			break
		}
		if len(body) > 0 || keep {
			end = at + len(body)
		}
		at += len(line) + 1
	}
	return end
}

// endPlain is the end of a plain scalar: it adds lines until the folded text is the value that was read.
func endPlain(text []byte, i int, value string, flow bool) int {
	var folded string
	blank := 0
	for at := i; at < len(text); {
		size := lineLength(text[at:])
		n := plainLength(text[at:at+size], flow)
		part := strings.Trim(string(text[at:at+n]), spaces)
		switch {
		case part == "":
			blank++
		case folded == "":
			folded = part
		case blank > 0:
			folded, blank = folded+strings.Repeat("\n", blank)+part, 0
		default:
			folded += " " + part
		}
		if folded == value {
			return at + len(bytes.TrimRight(text[at:at+n], spaces))
		}
		at += size + 1
	}
	return i
}

// plainLength is the length of the part of a line that belongs to a plain scalar.
func plainLength(line []byte, flow bool) int {
	for i, c := range line {
		last := i+1 == len(line)
		switch {
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return i
		case c == ':' && (last || strings.IndexByte(spaces, line[i+1]) >= 0):
			return i
		case flow && strings.IndexByte(",[]{}", c) >= 0:
			return i
		case flow && c == ':' && strings.IndexByte(",[]{}", line[i+1]) >= 0:
			return i
		}
	}
	return len(line)
}
