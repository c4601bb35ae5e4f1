package yamlfile

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// splice replaces the bytes from start to end with text.
type splice struct {
	start, end int
	text       string
}

// edit returns the file with value at p. It tries several ways to write the value, the most
// readable first, and returns the first one whose text parses to the expected documents: an
// edit makes exactly the requested change, or is refused.
func (s *source) edit(p *place, value *node) ([]byte, error) {
	change := s.replacements
	if p.node == nil {
		if value = wrap(p.rest[1:], value); value == nil || !accepts(p) {
			return nil, p.missing()
		}
		change = s.insertions
	}
	want := s.expected(p, value)
	for _, c := range change(p, value) {
		text := s.apply(c)
		if got, err := parse(text, s.doc); err == nil && sameDocs(got.docs, want) && s.keepsComments(got, c) {
			return text, nil
		}
	}
	return nil, toolserver.Errorf(BadValue, "%s: this value cannot be written there without touching the rest of the file", pathText(append(slices.Clone(p.done), p.rest...)))
}

// wrap returns value inside of mappings and lists for the missing steps; nil when one of them is an index
// other than 0.
func wrap(steps []step, value *node) *node {
	for _, st := range slices.Backward(steps) {
		switch {
		case st.index > 0:
			return nil
		case st.index == 0:
			value = &node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*node{value}}
		default:
			value = &node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*node{keyNode(st.key), value}}
		}
	}
	return value
}

func keyNode(key string) *node { return &node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key} }

func (s *source) apply(c splice) []byte {
	text := c.text
	if i := bytes.IndexByte(s.text, '\n'); i > 0 && s.text[i-1] == '\r' {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return slices.Concat(s.text[:c.start], []byte(text), s.text[c.end:])
}

// levelOf is the level of the children of the last of parents.
func levelOf(parents []*node) level {
	c := level{indent: -1}
	for _, n := range parents {
		c = c.inside(n)
	}
	return c
}

// replacements are the ways to replace p.node by value.
func (s *source) replacements(p *place, value *node) []splice {
	n, c := p.node, levelOf(p.parents)
	start, end := s.body(n), s.end(n, c)
	block := !c.flow && !isFlow(n) && len(n.Content) > 0
	if block { // the comment after the last line is replaced, too
		end += len(bytes.TrimRight(s.text[end:end+lineLength(s.text[end:])], spaces))
	}
	switch {
	case len(value.Content) > 0 && block:
		return []splice{
			{start, end, blockFrom(value, n.Column-1, n.Column-1)},
			{start, end, blockFrom(value, n.Column-1, c.indent+2)}, // a list may have the indentation of its key, a mapping not
			{start, end, flowText(value)},
		}
	case block:
		return []splice{{s.afterMark(start), end, " " + flowText(value)}, {start, end, flowText(value)}}
	case isEmpty(n):
		return s.fillings(p, value)
	case len(value.Content) > 0 || value.Kind != yaml.ScalarNode:
		return s.orUntagged(n, splice{start, end, flowText(value)})
	}
	out := s.orUntagged(n, splice{start, end, scalarText(value, n.Style, c.flow)})
	if text, ok := literal(n, value, c); ok {
		out = append([]splice{{start, end, text}}, out...)
	}
	return out
}

// blockFrom writes a value in block style: lines indented by n, the first one beginning at column.
func blockFrom(value *node, column, n int) string {
	text := strings.Join(indent(blockLines(value), n), "\n")
	return text[min(column, n):]
}

// orUntagged adds the splice that removes the tag before a scalar, such as !!int before a string.
func (s *source) orUntagged(n *node, c splice) []splice {
	return []splice{c, {s.offset(n), c.end, c.text}}
}

// afterMark is the offset after the ":" or "-" that start belongs to, start itself when
// there is a comment in between.
func (s *source) afterMark(start int) int {
	before := bytes.TrimRight(s.text[:start], spaces)
	if i := bytes.LastIndexByte(before, '\n') + 1; bytes.Contains(before[i:], []byte(" #")) {
		return start
	}
	return len(before)
}

// fillings are the ways to write a value after a ":" or "-" that has none.
func (s *source) fillings(p *place, value *node) []splice {
	at := s.offset(p.node)
	c := levelOf(p.parents)
	out := []splice{{at, at, " " + flowText(value)}, {at, at, flowText(value)}}
	if len(value.Content) > 0 && !c.flow && len(p.parents) > 0 {
		line := at + lineLength(s.text[at:])
		lines := indent(blockLines(value), c.indent+2)
		out = append([]splice{{line, line, "\n" + strings.Join(lines, "\n")}}, out...)
	}
	return out
}

// literal writes a text of several lines as a | block where there was one.
func literal(n, value *node, c level) (string, bool) {
	text, ok := strings.CutSuffix(value.Value, "\n")
	head := "|"
	if !ok {
		head = "|-"
	}
	if n.Style&yaml.LiteralStyle == 0 || c.flow || value.Tag != "!!str" || !strings.Contains(value.Value, "\n") {
		return "", false
	}
	lines := indent(strings.Split(text, "\n"), max(c.indent, 0)+2)
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return head + "\n" + strings.Join(lines, "\n"), true
}

// insertions are the ways to add a missing key or element.
func (s *source) insertions(p *place, value *node) []splice {
	if len(p.parents) == 0 {
		return []splice{s.appended(len(s.text), blockLines(wrap(p.rest[:1], value)))}
	}
	parent, st := p.parents[len(p.parents)-1], p.rest[0]
	if parent.Kind == yaml.ScalarNode {
		up := &place{node: parent, parents: p.parents[:len(p.parents)-1]}
		return s.replacements(up, wrap([]step{st}, value))
	}
	c := levelOf(p.parents[:len(p.parents)-1])
	end := s.end(parent, c)
	if isFlow(parent) {
		return s.flowInsertion(parent, end-1, st, value)
	}
	entry := wrap([]step{{key: st.key, index: min(st.index, 0)}}, value)
	line := min(end+lineLength(s.text[end:])+1, len(s.text))
	return []splice{s.appended(line, indent(blockLines(entry), parent.Column-1))}
}

// accepts reports whether the missing step can be added to the parent: any key to a mapping, the
// next element to a list, and either to a null.
func accepts(p *place) bool {
	if len(p.parents) == 0 {
		return p.rest[0].index <= 0
	}
	parent, st := p.parents[len(p.parents)-1], p.rest[0]
	switch parent.Kind {
	case yaml.MappingNode:
		return st.index < 0
	case yaml.SequenceNode:
		return st.index == len(parent.Content)
	}
	return parent.ShortTag() == "!!null" && st.index <= 0
}

// appended puts whole lines at the start of a line, or at the end of the file.
func (s *source) appended(at int, lines []string) splice {
	text := strings.Join(lines, "\n")
	if at > 0 && s.text[at-1] != '\n' && at > len(bom(s.text)) {
		return splice{at, at, "\n" + text}
	}
	return splice{at, at, text + "\n"}
}

func (s *source) flowInsertion(parent *node, at int, st step, value *node) []splice {
	text := flowText(value)
	if parent.Kind == yaml.MappingNode {
		text = scalarText(keyNode(st.key), 0, true) + ": " + text
	}
	if len(parent.Content) == 0 {
		return []splice{{at, at, text}}
	}
	last := parent.Content[len(parent.Content)-1]
	end := s.end(last, level{flow: true})
	return []splice{{end, end, ", " + text}, {at, at, text}}
}

// expected are the documents after the edit.
func (s *source) expected(p *place, value *node) []*node {
	swap := map[*node]*node{}
	switch {
	case p.node != nil:
		swap[p.node] = withProperties(value, p.node)
	case len(p.parents) == 0:
		return []*node{{Kind: yaml.DocumentNode, Content: []*node{wrap(p.rest[:1], value)}}}
	default:
		parent := p.parents[len(p.parents)-1]
		swap[parent] = grown(parent, p.rest[0], value)
	}
	out := make([]*node, len(s.docs))
	for i, d := range s.docs {
		out[i] = swapped(d, swap)
	}
	return out
}

// withProperties returns value with the anchor of the value that it replaces, and with its tag when that is
// a local one, such as !Ref, and the new value is of the same kind.
func withProperties(value, old *node) *node {
	n := *value
	n.Anchor = old.Anchor
	own := strings.HasPrefix(old.Tag, "!") && !strings.HasPrefix(old.Tag, "!!")
	if own && old.Kind == value.Kind && value.Tag != "" {
		n.Tag = old.Tag
	}
	return &n
}

func grown(parent *node, st step, value *node) *node {
	n := *parent
	switch {
	case n.Kind == yaml.ScalarNode:
		return withProperties(wrap([]step{st}, value), parent)
	case n.Kind == yaml.MappingNode:
		n.Content = append(slices.Clone(n.Content), keyNode(st.key), value)
	default:
		n.Content = append(slices.Clone(n.Content), value)
	}
	return &n
}

func swapped(n *node, swap map[*node]*node) *node {
	if to, ok := swap[n]; ok {
		return to
	}
	if len(n.Content) == 0 {
		return n
	}
	out := *n
	out.Content = make([]*node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = swapped(c, swap)
	}
	return &out
}

func sameDocs(got, want []*node) bool { return slices.EqualFunc(got, want, same) }

// same compares values, not how they are written.
func same(a, b *node) bool {
	return a.Kind == b.Kind && a.Anchor == b.Anchor && a.ShortTag() == b.ShortTag() &&
		(a.Value == b.Value || isNull(a) && isNull(b)) && slices.EqualFunc(a.Content, b.Content, same)
}

func isNull(n *node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// keepsComments reports whether the comments of the new text are those outside of the bytes that were
// replaced.
func (s *source) keepsComments(got *source, c splice) bool {
	if len(s.docs) == 0 || bytes.Contains(s.text[c.start:c.end], []byte("#")) {
		return true // there are no nodes with comments yet, or a collection is replaced with its comments
	}
	return slices.Equal(comments(s.docs), comments(got.docs))
}

func comments(nodes []*node) []string {
	var out []string
	for _, n := range nodes {
		for _, c := range []string{n.HeadComment, n.LineComment, n.FootComment} {
			out = append(out, strings.Fields(c)...)
		}
		out = append(out, comments(n.Content)...)
	}
	slices.Sort(out)
	return out
}
