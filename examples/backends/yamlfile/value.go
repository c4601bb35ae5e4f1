package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// maxDepth bounds nesting, which can be infinite with aliases.
const maxDepth = 100

// maxValue bounds the JSON of one value, in bytes: with aliases, a short file can have a huge value.
const maxValue = 4 << 20

// appendJSON appends a value as JSON, keys in their order, numbers digit for digit
// where JSON can write them.
func appendJSON(b []byte, n *node) ([]byte, error) { return appendDeep(b, n, 0) }

func appendDeep(b []byte, n *node, depth int) ([]byte, error) {
	if len(b) > maxValue || depth > maxDepth {
		return nil, toolserver.Errorf(Malformed, "line %d: the value is larger than %d bytes or deeper than %d levels", n.Line, maxValue, maxDepth)
	}
	n = target(n)
	switch n.Kind {
	case yaml.SequenceNode:
		return appendList(b, n, depth)
	case yaml.MappingNode:
		return appendObject(b, n, depth)
	}
	return appendScalar(b, n), nil
}

func appendList(b []byte, n *node, depth int) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i, c := range n.Content {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendDeep(b, c, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, n *node, depth int) ([]byte, error) {
	w := objectWriter{b: append(b, '{'), keys: map[string]bool{}, seen: map[*node]bool{}, depth: depth}
	if err := w.add(n); err != nil {
		return nil, err
	}
	return append(w.b, '}'), nil
}

// objectWriter writes the entries of a mapping, then those of its merge keys, each mapping
// once.
type objectWriter struct {
	b     []byte
	keys  map[string]bool
	seen  map[*node]bool
	depth int
}

func (w *objectWriter) add(n *node) (err error) {
	if w.seen[n] {
		return nil
	}
	w.seen[n] = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), n.Content[i+1]
		if k.ShortTag() == "!!merge" || w.keys[k.Value] {
			continue
		}
		if len(w.keys) > 0 {
			w.b = append(w.b, ',')
		}
		w.keys[k.Value] = true
		w.b = append(appendString(w.b, k.Value), ':')
		if w.b, err = appendDeep(w.b, v, w.depth+1); err != nil {
			return err
		}
	}
	for _, m := range merges(n) {
		if err := w.add(m); err != nil {
			return err
		}
	}
	return nil
}

func appendScalar(b []byte, n *node) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...)
	case "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(b, n.Value...)
		}
		var v any
		if n.Decode(&v) == nil && finite(v) {
			if text, err := json.Marshal(v); err == nil {
				return append(b, text...)
			}
		}
	}
	return appendString(b, n.Value) // dates, binary and infinity are texts in JSON
}

func finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsInf(f, 0) && !math.IsNaN(f)
}

func appendString(b []byte, s string) []byte {
	var w bytes.Buffer
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string in memory always encodes
	return append(b, bytes.TrimSuffix(w.Bytes(), []byte("\n"))...)
}

// nodeOf converts JSON into a node, with keys in their order and the digits of numbers unchanged.
func nodeOf(raw json.RawMessage) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return readNode(d, 0)
}

func readNode(d *json.Decoder, depth int) (*node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("deeper than %d levels", maxDepth)
	}
	switch v := tok.(type) {
	case json.Delim:
		return readCollection(d, v, depth)
	case json.Number:
		n := &node{Kind: yaml.ScalarNode, Value: v.String()}
		if tag := n.ShortTag(); tag != "!!int" && tag != "!!float" {
			return nil, fmt.Errorf("the number %s does not fit into YAML", v)
		}
		return n, nil
	case string:
		return &node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}, nil
	case bool:
		return &node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(v)}, nil
	}
	return &node{Kind: yaml.ScalarNode, Value: "null"}, nil
}

func readCollection(d *json.Decoder, open json.Delim, depth int) (*node, error) {
	n := &node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		c, err := readNode(d, depth+1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, c)
	}
	if n.Kind == yaml.MappingNode && doubled(n) {
		return nil, errors.New("an object has the same key twice")
	}
	_, err := d.Token()
	return n, err
}

func doubled(n *node) bool {
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		if seen[n.Content[i].Value] {
			return true
		}
		seen[n.Content[i].Value] = true
	}
	return false
}
