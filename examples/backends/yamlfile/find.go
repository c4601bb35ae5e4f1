package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

type node = yaml.Node

// source is a parsed file: its bytes, and its nodes, which have positions in them.
type source struct {
	text  []byte
	lines []int   // offsets at which lines start
	docs  []*node // all documents
	doc   int     // index of the document in use
}

func parse(text []byte, document int) (*source, error) {
	if !utf8.Valid(text) {
		return nil, toolserver.Errorf(Malformed, "not UTF-8")
	}
	s := &source{text: text, lines: lineStarts(text), doc: document}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, toolserver.Errorf(Malformed, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		s.docs = append(s.docs, &n)
	}
	if document < 0 || document >= max(len(s.docs), 1) {
		return nil, toolserver.Errorf(NotFound, "no document %d: the file has %d", document, len(s.docs))
	}
	return s, nil
}

// lineStarts returns the offsets of lines, by the line breaks of YAML 1.1, as the parser counts them.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		i += n
		switch r {
		case '\r':
			if i < len(text) && text[i] == '\n' {
				i++
			}
			starts = append(starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			starts = append(starts, i)
		}
	}
	return starts
}

// offset is the offset at which a node starts. Columns count characters, from 1. An implicit
// null can be on a line after the last.
func (s *source) offset(n *node) int {
	if n.Line > len(s.lines) {
		return len(s.text)
	}
	i := s.lines[n.Line-1]
	if n.Line == 1 {
		i += len(bom(s.text))
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(s.text[i:])
		i += size
	}
	return i
}

func bom(text []byte) []byte {
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return text[:3]
	}
	return nil
}

// root is the top value of the document, nil for an empty file.
func (s *source) root() *node {
	if len(s.docs) == 0 {
		return nil
	}
	return s.docs[s.doc].Content[0]
}

// place is the result of following a path: a node, or the parent that does not have the first step of rest.
type place struct {
	node    *node
	parents []*node // from the document's top to the parent of node
	done    []step
	rest    []step // empty when node is set
}

// Whether find follows aliases and merge keys. For a change it must not, which would change
// the other uses of the anchor, too.
const (
	follow = true
	stay   = false
)

// find follows steps as far as they exist.
func (s *source) find(steps []step, through bool) (*place, error) {
	p := &place{node: s.root()}
	for i, st := range steps {
		if p.node == nil {
			p.rest = steps
			return p, nil
		}
		here, err := p.resolve(through)
		if err != nil {
			return nil, err
		}
		next, err := child(here, st, through)
		if err != nil {
			return nil, err
		}
		p.parents = append(p.parents, here)
		if next == nil {
			p.node, p.rest = nil, steps[i:]
			return p, nil
		}
		p.node, p.done = next, steps[:i+1]
	}
	return p, nil
}

func (p *place) resolve(through bool) (*node, error) {
	if p.node.Kind != yaml.AliasNode {
		return p.node, nil
	}
	if !through {
		return nil, toolserver.Errorf(BadPath, "%s is an alias: set the value where &%s is", pathText(p.done), p.node.Value)
	}
	return p.node.Alias, nil
}

// child returns the value of one step, nil when there is none.
func child(n *node, st step, through bool) (*node, error) {
	switch {
	case n.Kind == yaml.SequenceNode && st.index >= 0:
		if st.index < len(n.Content) {
			return n.Content[st.index], nil
		}
		return nil, nil
	case n.Kind == yaml.MappingNode && st.index < 0:
		v, err := valueOf(n, st.key)
		if v == nil && err == nil && through {
			return merged(n, st.key, map[*node]bool{})
		}
		return v, err
	}
	return nil, nil
}

func valueOf(n *node, key string) (*node, error) {
	var found, where *node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Value != key {
			continue
		}
		if found != nil {
			return nil, toolserver.Errorf(Malformed, "duplicate key %q, on lines %d and %d", key, where.Line, k.Line)
		}
		found, where = n.Content[i+1], k
	}
	return found, nil
}

// merged finds a key in the mappings that << names, each visited once: they can form a cycle.
func merged(n *node, key string, seen map[*node]bool) (*node, error) {
	for _, m := range merges(n) {
		if seen[m] {
			continue
		}
		seen[m] = true
		v, err := valueOf(m, key)
		if v == nil && err == nil {
			v, err = merged(m, key, seen)
		}
		if v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// merges returns the mappings that the merge key of n names, the first wins.
func merges(n *node) []*node {
	var out []*node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		from := []*node{target(n.Content[i+1])}
		if from[0].Kind == yaml.SequenceNode {
			from = from[0].Content
		}
		for _, m := range from {
			if m = target(m); m.Kind == yaml.MappingNode {
				out = append(out, m)
			}
		}
	}
	return out
}

func target(n *node) *node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// missing is the error of a path that does not exist: how far it exists, and what is there.
func (p *place) missing() error {
	if len(p.parents) == 0 {
		return toolserver.Errorf(NotFound, "no %s: the document is empty", pathText(p.rest))
	}
	parent, st := p.parents[len(p.parents)-1], p.rest[0]
	where := pathText(p.done)
	if where == "" {
		where = "the document"
	}
	full := pathText(append(append([]step{}, p.done...), p.rest...))
	return toolserver.Errorf(NotFound, "no %s: %s %s", full, where, lacks(parent, st))
}

func lacks(parent *node, st step) string {
	switch {
	case parent.Kind == yaml.MappingNode && st.index < 0:
		return fmt.Sprintf("has no key %q, but %s", st.key, keys(parent))
	case parent.Kind == yaml.MappingNode:
		return "is a mapping, not a list"
	case parent.Kind == yaml.SequenceNode && st.index < 0:
		return fmt.Sprintf("is a list of %d, not a mapping", len(parent.Content))
	case parent.Kind == yaml.SequenceNode:
		return fmt.Sprintf("has %d elements", len(parent.Content))
	}
	return "is a single value"
}

func keys(n *node) string {
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		if len(out) == 10 {
			return strings.Join(out, ", ") + ", ..."
		}
		out = append(out, n.Content[i].Value)
	}
	if len(out) == 0 {
		return "none at all"
	}
	return strings.Join(out, ", ")
}
