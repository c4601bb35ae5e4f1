package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This part of the package adds backends to a vmcp.yaml and removes them. Every other byte of the file is kept:
// comments, quotes and line ends, too.
//
//	data, err = edit.Add(data, edit.Backend{Name: "files", Command: "npx", Args: args})
//	data, err = edit.Remove(data, "files") // the original bytes

// ErrNone is returned if there is no backend of that name.
var ErrNone = errors.New("there is no such backend")

// text is a vmcp.yaml with its syntax tree and the offsets of its lines.
type text struct {
	data    []byte
	newline string
	starts  []int // of the lines
	root    *yaml.Node
	key     *yaml.Node // the key backends; nil if there is none
	list    *yaml.Node
}

func editRead(data []byte) (*text, error) {
	t := &text{data: data, newline: "\n", starts: []int{0}}
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		t.newline = "\r\n"
	}
	for i, b := range data {
		if b == '\n' {
			t.starts = append(t.starts, i+1)
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return t, nil
	}
	t.root = doc.Content[0]
	if t.root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want a mapping", t.root.Line)
	}
	for i := 0; i+1 < len(t.root.Content); i += 2 {
		if t.root.Content[i].Value == "backends" {
			t.key, t.list = t.root.Content[i], t.root.Content[i+1]
		}
	}
	switch {
	case t.list == nil || t.list.Kind == yaml.SequenceNode || t.list.ShortTag() == "!!null":
		return t, nil
	case t.list.Kind == yaml.AliasNode:
		return nil, fmt.Errorf("line %d: backends is an alias; edit the anchored list", t.list.Line)
	}
	return nil, fmt.Errorf("line %d: backends is no list", t.list.Line)
}

// Names are the names of the backends in a vmcp.yaml, in its order.
func Names(data []byte) ([]string, error) {
	t, err := editRead(data)
	if err != nil {
		return nil, err
	}
	return t.names(), nil
}

func (t *text) names() (names []string) {
	if t.list == nil {
		return nil
	}
	for _, item := range t.list.Content {
		names = append(names, nameOf(item))
	}
	return names
}

func nameOf(item *yaml.Node) string {
	if item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" {
			return item.Content[i+1].Value
		}
	}
	return ""
}

// offset is the byte offset of a position. Columns of the parser count characters, from 1.
func (t *text) offset(line, column int) int {
	at := t.starts[line-1]
	if line == 1 {
		at += len(t.data) - len(bytes.TrimPrefix(t.data, []byte("\xef\xbb\xbf")))
	}
	for range column - 1 {
		if at >= len(t.data) {
			break
		}
		at++
		for at < len(t.data) && t.data[at]&0xc0 == 0x80 { // within a character
			at++
		}
	}
	return at
}

func (t *text) replaced(from, to int, with string) []byte {
	return append(append(append([]byte{}, t.data[:from]...), with...), t.data[to:]...)
}

// lineEnd is the offset after the last character of a line, before its line end.
func (t *text) lineEnd(line int) int {
	end := len(t.data)
	if line < len(t.starts) {
		end = t.starts[line] - 1
	}
	return len(bytes.TrimRight(t.data[:end], "\r"))
}

// indent is the indentation of a line; -1 for an empty line.
func (t *text) indent(line int) int {
	s := t.data[t.starts[line-1]:t.lineEnd(line)]
	rest := bytes.TrimLeft(s, " ")
	if len(bytes.TrimSpace(rest)) == 0 {
		return -1
	}
	return len(s) - len(rest)
}

// lastLine is the last line of a block that begins at a line: the following lines with a larger
// indentation belong to it. Comments and empty lines at its end do not.
func (t *text) lastLine(first, column int) int {
	last := first
	for line := first + 1; line <= len(t.starts); line++ {
		switch in := t.indent(line); {
		case in < 0:
		case in < column:
			return last
		case t.data[t.starts[line-1]+in] == '#' && !t.inValue(line):
		default:
			last = line
		}
	}
	return last
}

// inValue reports whether a line that looks like a comment is part of a block scalar: a later line
// belongs to the same value. lastLine calls it for lines with a larger indentation than the dash.
func (t *text) inValue(line int) bool {
	var inside func(n *yaml.Node) bool
	inside = func(n *yaml.Node) bool {
		if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return line > n.Line && line <= n.Line+strings.Count(n.Value, "\n")+1
		}
		for _, c := range n.Content {
			if inside(c) {
				return true
			}
		}
		return false
	}
	return t.list != nil && inside(t.list)
}
