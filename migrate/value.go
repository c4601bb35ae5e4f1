package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// value is a value of a file: nil, bool, int, uint64, float64, string, []*value or *mapping.
type value struct {
	pos  diag.Pos
	path string
	data any
	raw  string // of a scalar: its text in the file
}

// mapping is an object with its keys in the order of the file.
type mapping struct {
	keys   []string
	values map[string]*value
	places map[string]diag.Pos
}

func (m *mapping) get(key string) *value {
	if m == nil {
		return nil
	}
	return m.values[key]
}

// isNull reports whether there is no value.
func (v *value) isNull() bool { return v == nil || v.data == nil }

func (v *value) mapping() *mapping {
	if v == nil {
		return nil
	}
	m, _ := v.data.(*mapping)
	return m
}

func (v *value) list() []*value {
	if v == nil {
		return nil
	}
	l, _ := v.data.([]*value)
	return l
}

// below is the value that a JSON pointer leads to, or the last one on the way.
func (v *value) below(pointer []string) *value {
	for _, token := range pointer {
		next := v.mapping().get(token)
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v.list()) {
			next = v.list()[i]
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

func (v *value) text() string {
	if v == nil {
		return ""
	}
	s, _ := v.data.(string)
	return s
}

// kind names the type of a value for a reader.
func (v *value) kind() string {
	if v == nil {
		return "nothing"
	}
	switch d := v.data.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprintf("the boolean %v", d)
	case int, uint64, float64:
		return fmt.Sprintf("the number %v", d)
	case string:
		return fmt.Sprintf("the text %q", d)
	case []*value:
		return "a list"
	}
	return "a mapping"
}

// json writes the value, keys in the order of the file.
func (v *value) json() json.RawMessage {
	var b bytes.Buffer
	v.appendJSON(&b)
	return b.Bytes()
}

func (v *value) appendJSON(b *bytes.Buffer) {
	if v == nil {
		b.WriteString("null")
		return
	}
	switch d := v.data.(type) {
	case []*value:
		b.WriteByte('[')
		for i, e := range d {
			if i > 0 {
				b.WriteByte(',')
			}
			e.appendJSON(b)
		}
		b.WriteByte(']')
	case *mapping:
		b.WriteByte('{')
		for i, k := range d.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, k)
			b.WriteByte(':')
			d.values[k].appendJSON(b)
		}
		b.WriteByte('}')
	default:
		writeJSON(b, d)
	}
}

func writeJSON(b *bytes.Buffer, v any) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		b.WriteString("null") // infinities and the like, which are no JSON
		return
	}
	b.Truncate(b.Len() - 1)
}

// reader makes values of YAML nodes.
type reader struct {
	file     string
	at       *diag.Pos // where everything is, when the text itself is in no file
	crd      bool      // numbers went through JSON and back
	problems diag.Problems
	budget   int // nodes that may still be read: aliases can make many of few
}

const maxNodes = 200_000

func (r *reader) pos(n *yaml.Node) diag.Pos {
	if r.at != nil {
		return *r.at
	}
	return diag.Pos{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) fail(pos diag.Pos, path, format string, args ...any) {
	r.problems = append(r.problems, diag.Problem{Pos: pos, Path: path, Code: compositeCode, Message: fmt.Sprintf(format, args...)})
}

// read makes a value of a node.
func (r *reader) read(n *yaml.Node, path string, depth int) *value {
	r.budget--
	if depth > 200 || r.budget < 0 {
		if r.budget != -1_000_000 {
			r.fail(r.pos(n), path, "nested too deep, or too large")
		}
		r.budget = -1_000_000
		return nil
	}
	v := &value{pos: r.pos(n), path: path}
	switch n.Kind {
	case yaml.AliasNode:
		target := r.read(n.Alias, path, depth+1)
		if target == nil {
			return nil
		}
		target.pos = v.pos
		return target
	case yaml.MappingNode:
		v.data = r.mapping(n, path, depth)
	case yaml.SequenceNode:
		list := make([]*value, 0, len(n.Content))
		for i, e := range n.Content {
			list = append(list, r.read(e, index(path, i), depth+1))
		}
		v.data = list
	default:
		v.data, v.raw = r.scalar(n, path), n.Value
	}
	return v
}

func (r *reader) mapping(n *yaml.Node, path string, depth int) *mapping {
	m := &mapping{values: map[string]*value{}, places: map[string]diag.Pos{}}
	var merged []*mapping
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
			merged = append(merged, r.merge(val, path, depth)...)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		name := key.Value
		if key.Kind != yaml.ScalarNode {
			r.fail(r.pos(key), path, "want a text as the key, have a list or a mapping")
			continue
		}
		if _, twice := m.values[name]; twice {
			r.fail(r.pos(key), member(path, name), "is there twice, first in line %d", m.places[name].Line)
			continue
		}
		m.keys = append(m.keys, name)
		m.places[name] = r.pos(key)
		m.values[name] = r.read(val, member(path, name), depth+1)
	}
	for _, from := range merged {
		m.add(from)
	}
	return m
}

// add takes over the keys that m does not have.
func (m *mapping) add(from *mapping) {
	for _, k := range from.keys {
		if _, ok := m.values[k]; !ok {
			m.keys = append(m.keys, k)
			m.values[k], m.places[k] = from.values[k], from.places[k]
		}
	}
}

// merge reads what a merge key names: a mapping or several.
func (r *reader) merge(n *yaml.Node, path string, depth int) []*mapping {
	v := r.read(n, path, depth+1)
	if m := v.mapping(); m != nil {
		return []*mapping{m}
	}
	var all []*mapping
	for _, e := range v.list() {
		if m := e.mapping(); m != nil {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		r.fail(r.pos(n), path, "<<: want a mapping to merge")
	}
	return all
}

func (r *reader) scalar(n *yaml.Node, path string) any {
	var v any
	if err := n.Decode(&v); err != nil {
		r.fail(r.pos(n), path, "%v", err)
		return nil
	}
	switch d := v.(type) {
	case int64:
		v = int(d)
	case time.Time:
		return n.Value
	case []byte:
		return string(d)
	case float64:
		if math.IsNaN(d) || math.IsInf(d, 0) {
			r.fail(r.pos(n), path, "want a number that JSON can have, have %s", n.Value)
			return nil
		}
	}
	if r.crd {
		return throughJSON(v)
	}
	return v
}

// throughJSON is what becomes of a number of a Kubernetes resource: it is a float in
// JSON, and the YAML that is made of that has an exponent from a million on.
func throughJSON(v any) any {
	var f float64
	switch d := v.(type) {
	case int:
		f = float64(d)
	case uint64:
		f = float64(d)
	case float64:
		f = d
	default:
		return v
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e6 {
		return int(f)
	}
	return f
}

// index is the path of an element, member that of a field.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func member(path, name string) string {
	if !plainName(name) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// plainName reports whether a name needs no quotes in a path.
func plainName(s string) bool {
	for i, c := range s {
		if c != '_' && c != '-' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// only returns a mapping with the keys that keep wants, and the names of the others.
func (v *value) only(keep func(string, *value) bool) (kept *value, without []string) {
	m := &mapping{values: map[string]*value{}, places: map[string]diag.Pos{}}
	for _, k := range v.mapping().keys {
		if !keep(k, v.mapping().values[k]) {
			without = append(without, k)
			continue
		}
		m.keys, m.values[k] = append(m.keys, k), v.mapping().values[k]
	}
	return &value{pos: v.pos, path: v.path, data: m}, without
}

// compositeCode is the code of problems: why a definition is refused.
const compositeCode = "composite"
