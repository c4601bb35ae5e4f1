package document

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// json converts a node to JSON: keys keep their order, and a number in the syntax of JSON keeps its
// digits, whatever its size.
func (d *Document) json(n *yaml.Node, path string, depth int) json.RawMessage {
	var b bytes.Buffer
	d.writeJSON(&b, n, path, depth)
	return b.Bytes()
}

func (d *Document) writeJSON(b *bytes.Buffer, n *yaml.Node, path string, depth int) {
	n, ok := d.enter(n, path, depth)
	if !ok {
		b.WriteString("null")
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, e := range d.entries(n, path, depth) {
			comma(b, i)
			writeText(b, e.key)
			b.WriteByte(':')
			d.writeJSON(b, e.value, e.path, depth+1)
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			comma(b, i)
			d.writeJSON(b, item, IndexPath(path, i), depth+1)
		}
		b.WriteByte(']')
	default:
		d.writeScalar(b, n, path)
	}
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

func (d *Document) writeScalar(b *bytes.Buffer, n *yaml.Node, path string) {
	switch n.ShortTag() {
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		var v bool
		_ = n.Decode(&v) // the tag says that it is one
		b.WriteString(strconv.FormatBool(v))
	case "!!int", "!!float":
		d.writeNumber(b, n, path)
	case "!!str", "!!timestamp":
		writeText(b, n.Value)
	default:
		d.wrong(n, path, "want JSON values, have %s", describe(n))
		b.WriteString("null")
	}
}

// writeNumber writes the number's own digits where JSON allows them: 0x1F, 1_000
// and .5 are YAML only.
func (d *Document) writeNumber(b *bytes.Buffer, n *yaml.Node, path string) {
	if json.Valid([]byte(n.Value)) {
		b.WriteString(n.Value)
		return
	}
	var i int64
	if n.ShortTag() == "!!int" && n.Decode(&i) == nil {
		b.WriteString(strconv.FormatInt(i, 10))
		return
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		d.wrong(n, path, "JSON has no number %s", n.Value)
		f = 0
	}
	b.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
}

// writeText writes s as JSON without escaping <, > and &.
func writeText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // text always encodes
	b.Truncate(b.Len() - 1) // the encoder's newline
}
