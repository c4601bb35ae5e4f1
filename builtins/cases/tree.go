package cases

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// A node is a JSON value that can be modified: the members of objects in order, numbers as they are written.
type node struct {
	object, array bool
	names         []string // of the members of an object
	parts         []*node  // members or elements
	scalar        json.RawMessage
	text          string // of a string
	isText        bool
	secret        bool // to be replaced
}

// parseTree parses a value.
func parseTree(raw json.RawMessage) (*node, error) {
	if err := jsonscan.Check(raw); err != nil { // also bounds the depth
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return readNode(d)
}

func readNode(d *json.Decoder) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &node{object: t == '{', array: t == '['}
		for d.More() {
			if n.object {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				n.names = append(n.names, name.(string))
			}
			part, err := readNode(d)
			if err != nil {
				return nil, err
			}
			n.parts = append(n.parts, part)
		}
		_, err := d.Token()
		return n, err
	case string:
		return &node{isText: true, text: t}, nil
	case json.Number:
		return &node{scalar: json.RawMessage(t)}, nil
	case bool:
		return &node{scalar: json.RawMessage(fmt.Sprint(t))}, nil
	}
	return &node{scalar: json.RawMessage("null")}, nil
}

// appendJSON appends the JSON of the value.
func (n *node) appendJSON(out []byte) []byte {
	switch {
	case n.object:
		out = append(out, '{')
		for i, part := range n.parts {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, quote(n.names[i])...), ':')
			out = part.appendJSON(out)
		}
		return append(out, '}')
	case n.array:
		out = append(out, '[')
		for i, part := range n.parts {
			if i > 0 {
				out = append(out, ',')
			}
			out = part.appendJSON(out)
		}
		return append(out, ']')
	case n.isText:
		return append(out, quote(n.text)...)
	}
	return append(out, n.scalar...)
}

// quote returns a string as readable JSON.
func quote(s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings never fail
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// isNumber reports whether a scalar is a number.
func (n *node) isNumber() bool {
	return len(n.scalar) > 0 && (n.scalar[0] == '-' || n.scalar[0] >= '0' && n.scalar[0] <= '9')
}

func (n *node) isNull() bool { return string(n.scalar) == "null" }

// member returns a member of an object, or nil.
func (n *node) member(name string) *node {
	if n == nil || !n.object {
		return nil
	}
	for i, have := range n.names {
		if have == name {
			return n.parts[i]
		}
	}
	return nil
}
