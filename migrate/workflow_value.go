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
	Pos  diag.Pos
	Path string
	Data any
	raw  string // of a scalar: its text in the file
}

// mapping is an object with its keys in the order of the file.
type mapping struct {
	Keys   []string
	Values map[string]*value
	Places map[string]diag.Pos
}

// Get returns the value of a key, nil without one.
func (m *mapping) Get(key string) *value {
	if m == nil {
		return nil
	}
	return m.Values[key]
}

// IsNull reports whether there is no value.
func (v *value) IsNull() bool { return v == nil || v.Data == nil }

// Mapping is the value as an object, nil if it is none.
func (v *value) Mapping() *mapping {
	if v == nil {
		return nil
	}
	m, _ := v.Data.(*mapping)
	return m
}

// List is the value as a list, nil if it is none.
func (v *value) List() []*value {
	if v == nil {
		return nil
	}
	l, _ := v.Data.([]*value)
	return l
}

// below returns the value at a JSON pointer, or the last one on its path that exists.
func (v *value) below(pointer []string) *value {
	for _, token := range pointer {
		next := v.Mapping().Get(token)
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v.List()) {
			next = v.List()[i]
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

// Text is the value as a text, "" if it is none.
func (v *value) Text() string {
	if v == nil {
		return ""
	}
	s, _ := v.Data.(string)
	return s
}

// kind describes a value for a message: its type, and a scalar itself.
func (v *value) kind() string {
	if v == nil {
		return "nothing"
	}
	switch d := v.Data.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprintf("the boolean %v", d)
	case int, uint64, float64:
		return fmt.Sprintf("the number %v", d)
	case string:
		return fmt.Sprintf("the string %q", d)
	case []*value:
		return "a list"
	}
	return "a mapping"
}

// Json writes the value, keys in the order of the file.
func (v *value) Json() json.RawMessage {
	var b bytes.Buffer
	v.appendJSON(&b)
	return b.Bytes()
}

func (v *value) appendJSON(b *bytes.Buffer) {
	if v == nil {
		b.WriteString("null")
		return
	}
	switch d := v.Data.(type) {
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
		for i, k := range d.Keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, k)
			b.WriteByte(':')
			d.Values[k].appendJSON(b)
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
		b.WriteString("null") // infinities and NaN have no JSON
		return
	}
	b.Truncate(b.Len() - 1)
}

// reader converts YAML nodes into values.
type reader struct {
	file     string
	at       *diag.Pos // position of all values, when the text itself is in no file
	crd      bool      // numbers were converted to JSON and back
	problems diag.Problems
	budget   int // nodes that may still be read: aliases can multiply them
}

const maxNodes = 200_000

func (r *reader) pos(n *yaml.Node) diag.Pos {
	if r.at != nil {
		return *r.at
	}
	return diag.Pos{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) fail(pos diag.Pos, path, format string, args ...any) {
	r.problems = append(r.problems, diag.Problem{Pos: pos, Path: path, Code: codeMigrate}.Says(fmt.Sprintf(format, args...)))
}

// read converts a node into a value.
func (r *reader) read(n *yaml.Node, path string, depth int) *value {
	r.budget--
	if depth > 200 || r.budget < 0 {
		if r.budget != -1_000_000 {
			r.fail(r.pos(n), path, "nested too deep, or too large")
		}
		r.budget = -1_000_000
		return nil
	}
	v := &value{Pos: r.pos(n), Path: path}
	switch n.Kind {
	case yaml.AliasNode:
		target := r.read(n.Alias, path, depth+1)
		if target == nil {
			return nil
		}
		target.Pos = v.Pos
		return target
	case yaml.MappingNode:
		v.Data = r.mapping(n, path, depth)
	case yaml.SequenceNode:
		list := make([]*value, 0, len(n.Content))
		for i, e := range n.Content {
			list = append(list, r.read(e, index(path, i), depth+1))
		}
		v.Data = list
	default:
		v.Data, v.raw = r.scalar(n, path), n.Value
	}
	return v
}

func (r *reader) mapping(n *yaml.Node, path string, depth int) *mapping {
	m := &mapping{Values: map[string]*value{}, Places: map[string]diag.Pos{}}
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
			r.fail(r.pos(key), path, "want a string as the key, have a list or a mapping")
			continue
		}
		if _, twice := m.Values[name]; twice {
			r.fail(r.pos(key), member(path, name), "duplicate key, first in line %d", m.Places[name].Line)
			continue
		}
		m.Keys = append(m.Keys, name)
		m.Places[name] = r.pos(key)
		m.Values[name] = r.read(val, member(path, name), depth+1)
	}
	for _, from := range merged {
		m.add(from)
	}
	return m
}

// add adds the keys that m does not have yet.
func (m *mapping) add(from *mapping) {
	for _, k := range from.Keys {
		if _, ok := m.Values[k]; !ok {
			m.Keys = append(m.Keys, k)
			m.Values[k], m.Places[k] = from.Values[k], from.Places[k]
		}
	}
}

// merge reads what a merge key names: a mapping or several.
func (r *reader) merge(n *yaml.Node, path string, depth int) []*mapping {
	v := r.read(n, path, depth+1)
	if m := v.Mapping(); m != nil {
		return []*mapping{m}
	}
	var all []*mapping
	for _, e := range v.List() {
		if m := e.Mapping(); m != nil {
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

// throughJSON converts a number as it was converted in a Kubernetes resource: to a float in
// JSON, and then to YAML, which has an exponent from a million on.
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

// member is the path of a field of the object at path.
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

// Only returns a mapping with the keys for which keep returns true, and the names of the others.
func (v *value) Only(keep func(string, *value) bool) (kept *value, without []string) {
	m := &mapping{Values: map[string]*value{}, Places: map[string]diag.Pos{}}
	for _, k := range v.Mapping().Keys {
		if !keep(k, v.Mapping().Values[k]) {
			without = append(without, k)
			continue
		}
		m.Keys, m.Values[k] = append(m.Keys, k), v.Mapping().Values[k]
	}
	return &value{Pos: v.Pos, Path: v.Path, Data: m}, without
}

// codeMigrate is the code of problems: why a definition is refused.
const codeMigrate = "composite"
