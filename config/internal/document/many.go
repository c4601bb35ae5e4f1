package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Many parses a file of at most max bytes with any number of YAML documents and returns a Document for
// each, not decoded yet. Empty documents are skipped. The problems are those of documents that could not
// be parsed.
func Many(file string, data []byte, max int64, rules Rules) ([]*Document, diag.Problems) {
	first := New(file, rules)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if !first.readable(data, max) {
		return nil, first.Problems
	}
	lines := strings.Split(string(data), "\n")
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var all []*Document
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return all, first.Problems
		case err != nil:
			first.syntax(data, err)
			return all, first.Problems
		}
		d := New(file, rules)
		d.lines = lines
		d.top = doc.Content[0]
		if isNull(d.top) {
			continue
		}
		if d.endless(d.top, nil) {
			first.Problems = append(first.Problems, d.Problems...)
			continue
		}
		d.Places[""] = d.pos(d.top)
		all = append(all, d)
	}
}

// One parses JSON as a Document that is not decoded yet.
func One(file string, data []byte, rules Rules) (*Document, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	top, err := jsonNode(dec, 0)
	if err != nil {
		return nil, err
	}
	d := New(file, rules)
	d.top = top
	d.Places[""] = d.pos(d.top)
	return d, nil
}

// jsonNode parses one JSON value as a node. The YAML parser is not used because JSON allows characters that
// YAML does not.
func jsonNode(dec *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, nil
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if t == '{' {
			n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		for dec.More() {
			item, err := jsonNode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err := dec.Token() // the end
		return n, err
	case string:
		return scalar("!!str", t)
	case bool:
		return scalar("!!bool", strconv.FormatBool(t))
	case json.Number:
		if strings.ContainsAny(t.String(), ".eE") {
			return scalar("!!float", t.String())
		}
		return scalar("!!int", t.String())
	}
	return scalar("!!null", "null")
}

// IsMapping reports whether the document is a mapping.
func (d *Document) IsMapping() bool { return d.top.Kind == yaml.MappingNode }

// member is the member of the document with a name; nil if there is none or it is null.
func (d *Document) member(name string) *yaml.Node {
	if !d.IsMapping() {
		return nil
	}
	for i := 0; i+1 < len(d.top.Content); i += 2 {
		if d.top.Content[i].Value == name && !isNull(d.top.Content[i+1]) {
			return d.top.Content[i+1]
		}
	}
	return nil
}

// Members are the names of the members of the document, in their order.
func (d *Document) Members() (names []string) {
	if !d.IsMapping() {
		return nil
	}
	for i := 0; i+1 < len(d.top.Content); i += 2 {
		if name := d.top.Content[i].Value; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// MemberJSON is a member of the document as JSON; nil if there is none. It records the positions of its values.
func (d *Document) MemberJSON(name string) json.RawMessage {
	n := d.member(name)
	if n == nil {
		return nil
	}
	return d.json(n, KeyPath("", name), 0)
}

// DecodeMember decodes a member of the document into the value that into points to; false if there is none.
func (d *Document) DecodeMember(name string, into any) bool {
	n := d.member(name)
	if n == nil {
		return false
	}
	d.value(n, KeyPath("", name), 0, reflect.ValueOf(into).Elem())
	return true
}

// Items are the entries of a member that is a list, each as a document.
func (d *Document) Items(name string) (items []*Document) {
	list := d.member(name)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, n := range list.Content {
		one := New("", d.rules)
		one.File, one.lines, one.top = d.File, d.lines, n
		one.Places[""] = one.pos(n)
		items = append(items, one)
	}
	return items
}
