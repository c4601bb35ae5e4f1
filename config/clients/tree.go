package clients

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// node is a value of a document in any of the three languages, with its position. Numbers keep
// their text.
type node struct {
	kind         kind
	text         string // a string, the text of a number, true or false
	members      []member
	items        []*node
	line, column int
}

// member is a member of an object; line and column are those of its name.
type member struct {
	name         string
	value        *node
	line, column int
}

// get returns the value of a member, nil if there is none. Of two with one name the last one is
// used, as in the clients.
func (n *node) get(name string) *node {
	if n == nil || n.kind != object {
		return nil
	}
	for i := len(n.members) - 1; i >= 0; i-- {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// document is a file while it is read.
type document struct {
	name  string
	nodes int
}

// Bounds of a document, for the memory and the recursion of the parsers.
const (
	maxNodes = 1_000_000
	maxDepth = 1_000
)

const code = "config"

func (d *document) problem(line, column int, format string, args ...any) error {
	return diag.Problems{{Pos: diag.Pos{File: d.name, Line: line, Column: column}, Code: code, Message: fmt.Sprintf(format, args...)}}
}

// parse reads a document in whichever of the three languages it is. JSON is tried where the
// first character is that of an object, TOML where a line begins with a table or a
// key = value; the rest is YAML.
func (d *document) parse(data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := invalid(data); at >= 0 {
		line, column := position(data, at)
		return nil, d.problem(line, column, "the file is not UTF-8 text")
	}
	first := firstLine(data)
	switch {
	case first == "":
		return &node{kind: object, line: 1, column: 1}, nil
	case strings.HasPrefix(first, "{") || strings.HasPrefix(first, "//") || strings.HasPrefix(first, "/*"):
		return d.json(data)
	case looksLikeTOML(data):
		return d.toml(data)
	}
	return d.yaml(data)
}

// firstLine is the first line with something else than white space in it.
func firstLine(data []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(data[:min(len(data), 64<<10)])), "\n")
	return strings.TrimSpace(line)
}

// looksLikeTOML decides by the first line that is not a comment; TOML and YAML have the same comments.
func looksLikeTOML(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		equals, colon := bytes.IndexByte(line, '='), bytes.IndexByte(line, ':')
		return line[0] == '[' || equals > 0 && (colon < 0 || equals < colon)
	}
	return false
}

func invalid(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// position is the line and column of an offset, both from 1; columns count characters.
func position(data []byte, offset int) (line, column int) {
	return newPlaces(data).position(offset)
}

// places converts offsets to positions, in linear time if they ascend.
type places struct {
	data         []byte
	offset       int
	line, column int // of offset
}

func newPlaces(data []byte) *places { return &places{data: data, line: 1, column: 1} }

// position is the line and column of an offset, both from 1; columns count characters.
func (p *places) position(offset int) (line, column int) {
	if offset < p.offset {
		*p = *newPlaces(p.data)
	}
	for p.offset < min(offset, len(p.data)) {
		r, size := utf8.DecodeRune(p.data[p.offset:])
		p.offset += size
		p.column++
		if r == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	return p.line, p.column
}

// deep returns the offset at which brackets are nested deeper than maxDepth, -1 if there is none.
// Brackets in strings and comments count as well, which at worst refuses an unusual file.
func deep(data []byte) int {
	depth := 0
	for i, b := range data {
		switch b {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return -1
}

// count counts a node; false if the document has too many.
func (d *document) count() bool {
	d.nodes++
	return d.nodes <= maxNodes
}

func nearest(name string, candidates []string) string { return display.Nearest(name, candidates) }
