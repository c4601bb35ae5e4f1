package document

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

const (
	maxDepth = 100     // nesting of one file
	maxNodes = 1 << 18 // values of one file with its aliases expanded
)

func (d *Document) pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: d.File, Line: max(n.Line, 1), Column: max(n.Column, 1)}
}

// wrong reports a problem of the value at path.
func (d *Document) wrong(n *yaml.Node, path, format string, args ...any) {
	d.broken[path] = true
	d.Problems = append(d.Problems, diag.Problem{Pos: d.pos(n), Code: d.rules.Code, Path: path}.Says(fmt.Sprintf(format, args...)))
}

// value decodes n into v, which is settable.
func (d *Document) value(n *yaml.Node, path string, depth int, v reflect.Value) {
	n, ok := d.enter(n, path, depth)
	if !ok {
		return
	}
	if isNull(n) {
		delete(d.Places, path) // treated like an absent field
		d.nulls[path] = d.pos(n)
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *Raw:
		p.JSON = d.json(n, path, depth)
		return
	case *Definition:
		d.definition(n, path, depth, p)
		return
	case encoding.TextUnmarshaler:
		d.text(n, path, v, p)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, depth, v.Elem())
	case reflect.Struct:
		d.structure(n, path, depth, v)
	case reflect.Slice:
		d.list(n, path, depth, v)
	case reflect.Map:
		d.mapping(n, path, depth, v)
	case reflect.String:
		if d.scalar(n, path, "!!str", "a string") {
			v.SetString(n.Value)
			d.note(n, path)
		}
	case reflect.Bool:
		if d.scalar(n, path, "!!bool", "a boolean") {
			v.SetBool(strings.EqualFold(n.Value, "true"))
		}
	case reflect.Int, reflect.Int64:
		d.integer(n, path, v)
	default:
		panic("document: a field of type " + v.Type().String())
	}
}

// enter resolves an alias, counts the node and records its position.
func (d *Document) enter(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	d.Places[path] = d.pos(n)
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.wrong(n, path, "the file expands to more than %d values through its aliases", maxNodes)
		}
		return n, false
	}
	if depth > maxDepth {
		d.wrong(n, path, "nested deeper than %d levels", maxDepth)
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, true
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// scalar reports whether n is a scalar of the tag; if not, it reports a problem.
func (d *Document) scalar(n *yaml.Node, path, tag, want string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tag {
		return true
	}
	hint := ""
	if tag == "!!str" && n.Kind == yaml.ScalarNode {
		hint = "; put it in quotes"
	}
	d.wrong(n, path, "want %s, have %s%s", want, describe(n), hint)
	return false
}

// describe is the type of a node for a message. It does not show the value, which may be a secret.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tag := n.ShortTag(); tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!str":
		return "a string"
	case "!!timestamp":
		return "a date"
	default:
		return "a value tagged " + tag
	}
}

func (d *Document) text(n *yaml.Node, path string, v reflect.Value, u encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, path, "want %s, have %s", wantText(v.Type()), describe(n))
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.wrong(n, path, "%v", err)
		return
	}
	switch {
	case d.zero && v.Int() < 0:
		d.wrong(n, path, "want 0s or more, have %s", n.Value)
	case !d.zero && v.Int() <= 0:
		d.wrong(n, path, "want more than 0, have %s", n.Value)
	}
}

func wantText(t reflect.Type) string {
	if t == reflect.TypeFor[limits.Bytes]() {
		return `a size such as "256MB"`
	}
	return `a duration such as "30s"`
}

// integer decodes a count; every number of a configuration is at least 1.
func (d *Document) integer(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!float" {
		d.wrong(n, path, "want a whole number below 2^63, have %s", n.Value)
		return
	}
	if !d.scalar(n, path, "!!int", "a whole number") {
		return
	}
	var i int64
	if err := n.Decode(&i); err != nil || v.OverflowInt(i) {
		d.wrong(n, path, "the number %s is too large", n.Value)
		return
	}
	if i <= 0 {
		d.wrong(n, path, "want a positive number, have %s", n.Value)
		return
	}
	v.SetInt(i)
}

func (d *Document) list(n *yaml.Node, path string, depth int, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "want a list, have %s", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := IndexPath(path, i)
		if isNull(item) {
			d.wrong(item, at, "an empty entry; remove the dash")
		}
		d.value(item, at, depth+1, v.Index(i))
	}
}

func (d *Document) mapping(n *yaml.Node, path string, depth int, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.entries(n, path, depth) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, e.path, depth+1, item)
		v.SetMapIndex(reflect.ValueOf(e.key), item)
	}
}

func (d *Document) structure(n *yaml.Node, path string, depth int, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "want a mapping with fields such as %s, have %s", d.fields(v.Type())[0].Name, describe(n))
		return
	}
	seen := map[string]bool{}
	for _, e := range d.entries(n, path, depth) {
		f, ok := d.fieldNamed(v.Type(), e.key)
		if !ok {
			d.unknown(e, v.Type())
			continue
		}
		seen[e.key] = !isNull(e.value)
		d.zero = f.Default == "0s"
		d.value(e.value, e.path, depth+1, v.FieldByIndex(f.Index))
		d.oneOf(e, f, v.FieldByIndex(f.Index))
	}
	d.required(n, path, v.Type(), seen)
}

// oneOf checks a field with a fixed set of values.
func (d *Document) oneOf(e entry, f Field, v reflect.Value) {
	if len(f.Enum) == 0 || d.broken[e.path] || isNull(e.value) {
		return
	}
	for _, allowed := range f.Enum {
		if v.String() == allowed {
			return
		}
	}
	if reason := d.rules.Value(f.Name, v.String()); reason != "" {
		d.wrong(e.value, e.path, "%s", reason)
		return
	}
	d.wrong(e.value, e.path, "want %s, have %q%s", orList(f.Enum), v.String(), display.Hint(v.String(), f.Enum))
}

func (d *Document) required(n *yaml.Node, path string, t reflect.Type, seen map[string]bool) {
	for _, f := range d.fields(t) {
		if f.Required && !seen[f.Name] {
			d.wrong(n, KeyPath(path, f.Name), "missing; %s needs one", kindOf(path))
		}
	}
}

// unknown reports a field that t does not have.
func (d *Document) unknown(e entry, t reflect.Type) {
	if reason := d.rules.Field(t, e.key); reason != "" {
		d.wrong(e.keyNode, e.path, "%s", reason)
		return
	}
	names := make([]string, 0, len(d.fields(t)))
	for _, f := range d.fields(t) {
		names = append(names, f.Name)
	}
	hint := display.Hint(e.key, names)
	if hint == "" {
		hint = "; known here: " + strings.Join(names, ", ")
	}
	d.wrong(e.keyNode, e.path, "unknown field%s", hint)
}

func (d *Document) definition(n *yaml.Node, path string, depth int, c *Definition) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "want a mapping with the fields name and steps, have %s", describe(n))
		return
	}
	c.Pos = d.pos(n)
	c.Raw.JSON = d.json(n, path, depth)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			d.value(n.Content[i+1], KeyPath(path, "name"), depth+1, reflect.ValueOf(&c.Name).Elem())
		}
	}
	if c.Name == "" && !d.broken[KeyPath(path, "name")] {
		d.wrong(n, KeyPath(path, "name"), "missing; %s needs one", kindOf(path))
	}
}
