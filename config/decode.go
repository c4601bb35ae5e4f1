package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

const (
	maxDepth = 100     // nesting of one file
	maxNodes = 1 << 18 // values of one file with its aliases expanded
)

// decoder fills structs from YAML nodes. It knows the fields by their JSON tags,
// goes on after a problem, and remembers where every value stands.
type decoder struct {
	file     string
	problems diag.Problems
	at       map[string]diag.Pos    // value's path → its place; the validation reports by path
	broken   map[string]bool        // paths with a problem: nothing more is said about them
	origins  map[string]diag.Origin // of the texts that stand in the file as they are
	lines    []string               // of the file
	nodes    int
	zero     bool // the field being decoded may be 0: its default is
}

func newDecoder(file string) *decoder {
	return &decoder{file: diag.File(file), at: map[string]diag.Pos{}, broken: map[string]bool{}, origins: map[string]diag.Origin{}}
}

func (d *decoder) pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: max(n.Line, 1), Column: max(n.Column, 1)}
}

// wrong reports a problem of the value at path.
func (d *decoder) wrong(n *yaml.Node, path, format string, args ...any) {
	d.broken[path] = true
	d.problems = append(d.problems, diag.Problem{Pos: d.pos(n), Code: code, Path: path, Message: fmt.Sprintf(format, args...)})
}

// value decodes n into v, which is settable.
func (d *decoder) value(n *yaml.Node, path string, depth int, v reflect.Value) {
	n, ok := d.enter(n, path, depth)
	if !ok {
		return
	}
	if isNull(n) {
		delete(d.at, path) // as if the field were not there
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *Raw:
		p.JSON = d.json(n, path, depth)
		return
	case *CompositeTool:
		d.composite(n, path, depth, p)
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
		if d.scalar(n, path, "!!str", "text") {
			v.SetString(n.Value)
			d.note(n, path)
		}
	case reflect.Bool:
		if d.scalar(n, path, "!!bool", "true or false") {
			v.SetBool(strings.EqualFold(n.Value, "true"))
		}
	case reflect.Int, reflect.Int64:
		d.integer(n, path, v)
	default:
		panic("config: a field of type " + v.Type().String())
	}
}

// enter follows an alias, counts the node and remembers its place.
func (d *decoder) enter(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	d.at[path] = d.pos(n)
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

// scalar reports whether n is a scalar of the tag, and complains otherwise.
func (d *decoder) scalar(n *yaml.Node, path, tag, want string) bool {
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

// describe names a node's type for a message. It shows no text: text may be a secret.
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
		return "text"
	case "!!timestamp":
		return "a date"
	default:
		return "a value tagged " + tag
	}
}

func (d *decoder) text(n *yaml.Node, path string, v reflect.Value, u encoding.TextUnmarshaler) {
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
	if t == reflect.TypeFor[Bytes]() {
		return `a size such as "256MB"`
	}
	return `a duration such as "30s"`
}

// integer decodes a count; every number of a configuration is at least 1.
func (d *decoder) integer(n *yaml.Node, path string, v reflect.Value) {
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

func (d *decoder) list(n *yaml.Node, path string, depth int, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "want a list, have %s", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := indexPath(path, i)
		if isNull(item) {
			d.wrong(item, at, "an empty entry; remove the dash")
		}
		d.value(item, at, depth+1, v.Index(i))
	}
}

func (d *decoder) mapping(n *yaml.Node, path string, depth int, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.entries(n, path, depth) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, e.path, depth+1, item)
		v.SetMapIndex(reflect.ValueOf(e.key), item)
	}
}

func (d *decoder) structure(n *yaml.Node, path string, depth int, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "want a mapping with fields such as %s, have %s", fieldsOf(v.Type())[0].name, describe(n))
		return
	}
	seen := map[string]bool{}
	for _, e := range d.entries(n, path, depth) {
		f, ok := fieldNamed(v.Type(), e.key)
		if !ok {
			d.unknown(e, v.Type())
			continue
		}
		seen[e.key] = !isNull(e.value)
		d.zero = f.fallback == "0s"
		d.value(e.value, e.path, depth+1, v.FieldByIndex(f.index))
		d.oneOf(e, f, v.FieldByIndex(f.index))
	}
	d.required(n, path, v.Type(), seen)
}

// oneOf checks a field with a fixed set of values.
func (d *decoder) oneOf(e entry, f field, v reflect.Value) {
	if len(f.enum) == 0 || d.broken[e.path] || isNull(e.value) {
		return
	}
	for _, allowed := range f.enum {
		if v.String() == allowed {
			return
		}
	}
	if reason := refusedValues[f.name][v.String()]; reason != "" {
		d.wrong(e.value, e.path, "%s", reason)
		return
	}
	d.wrong(e.value, e.path, "want %s, have %q%s", orList(f.enum), v.String(), didYouMean(v.String(), f.enum))
}

func (d *decoder) required(n *yaml.Node, path string, t reflect.Type, seen map[string]bool) {
	for _, f := range fieldsOf(t) {
		if f.required && !seen[f.name] {
			d.wrong(n, keyPath(path, f.name), "missing; %s needs one", kindOf(path))
		}
	}
}

// unknown reports a field that t does not have.
func (d *decoder) unknown(e entry, t reflect.Type) {
	if notYet(t, e.key) {
		d.wrong(e.keyNode, e.path, "is not supported yet; remove it")
		return
	}
	if _, ok := fieldNamed(reflect.TypeFor[Limits](), e.key); ok && t == reflect.TypeFor[limits.Run]() {
		d.wrong(e.value, e.path, "holds for all tools together; move it to limits.%s", e.key)
		return
	}
	names := make([]string, 0, len(fieldsOf(t)))
	for _, f := range fieldsOf(t) {
		names = append(names, f.name)
	}
	hint := didYouMean(e.key, names)
	if hint == "" {
		hint = "; known here: " + strings.Join(names, ", ")
	}
	d.wrong(e.keyNode, e.path, "unknown field%s", hint)
}

func (d *decoder) composite(n *yaml.Node, path string, depth int, c *CompositeTool) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "want a mapping with the fields name and steps, have %s", describe(n))
		return
	}
	c.Pos = d.pos(n)
	c.Raw.JSON = d.json(n, path, depth)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			d.value(n.Content[i+1], keyPath(path, "name"), depth+1, reflect.ValueOf(&c.Name).Elem())
		}
	}
	if c.Name == "" && !d.broken[keyPath(path, "name")] {
		d.wrong(n, keyPath(path, "name"), "missing; %s needs one", kindOf(path))
	}
}

// keyPath is the path of a member of a mapping.
func keyPath(path, key string) string {
	if !plainKey(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func plainKey(key string) bool {
	for i, c := range key {
		switch {
		case c == '_', c == '$', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && (c == '-' || '0' <= c && c <= '9'):
		default:
			return false
		}
	}
	return key != ""
}

// indexPath is the path of an entry of a list.
func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// kindOf names what stands at a path: "an entry of backends" for backends[2].
func kindOf(path string) string {
	if i := strings.LastIndexByte(path, '['); i >= 0 && strings.HasSuffix(path, "]") {
		return "an entry of " + path[:i]
	}
	return "it"
}
