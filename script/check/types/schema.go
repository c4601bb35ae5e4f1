package types

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// Schema is a JSON Schema, as far as checks understand it.
type Schema struct {
	Type Type
	// Constraints on values of their types; nil for none.
	Min, Max, Above, Below *big.Float
	MinLength, MaxLength   *int
	MinItems, MaxItems     *int
	Enum                   []any // literals; nil if it has other members
	Props                  []Prop
	Closed                 bool // no other properties
	Items                  *Schema
	Alternatives           []*Schema // of anyOf or oneOf
	Known                  bool      // it is an object with declared properties
}

// Prop is one property.
type Prop struct {
	Name     string
	Schema   *Schema
	Required bool
	Default  bool
}

// Prop returns a property by name.
func (s *Schema) Prop(name string) (Prop, bool) {
	for _, p := range s.Props {
		if p.Name == name {
			return p, true
		}
	}
	return Prop{}, false
}

// Names returns the names of the properties.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Props))
	for i, p := range s.Props {
		names[i] = p.Name
	}
	return names
}

const (
	maxDepth = 8    // of recursive references
	maxNodes = 4000 // of one schema with its references expanded
)

// reader parses one schema.
type reader struct {
	root json.RawMessage
	refs map[string]int
	left int
	role Role
	name string
}

// Read parses a schema. Parts that it does not understand are ignored; role and name are those of the dicts that the
// schema describes.
func Read(raw json.RawMessage, role Role, name string) *Schema {
	r := &reader{root: raw, refs: map[string]int{}, left: maxNodes, role: role, name: name}
	return r.read(raw)
}

// members returns the members of an object in their order; nil for other values.
func members(raw json.RawMessage) (names []string, values map[string]json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil
	}
	values = map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			return nil, nil
		}
		if _, twice := values[name]; !twice {
			names = append(names, name)
		}
		values[name] = v
	}
	return names, values
}

func (r *reader) read(raw json.RawMessage) *Schema {
	r.left--
	_, m := members(raw)
	if m == nil || r.left < 0 {
		return &Schema{Type: Any}
	}
	if ref := text(m["$ref"]); ref != "" {
		return r.reference(ref)
	}
	s := &Schema{}
	r.object(s, m)
	r.numbers(s, m)
	if items, ok := m["items"]; ok {
		s.Items = r.read(items)
	}
	s.Type = r.typeOf(s, m)
	r.alternatives(s, m)
	return s
}

// reference follows a reference into the schema itself.
func (r *reader) reference(ref string) *Schema {
	if r.refs[ref] >= maxDepth || !strings.HasPrefix(ref, "#") {
		return &Schema{Type: Any}
	}
	at := r.root
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		_, m := members(at)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	if at == nil && ref != "#" {
		return &Schema{Type: Any}
	}
	r.refs[ref]++
	defer func() { r.refs[ref]-- }()
	return r.read(at)
}

func (r *reader) object(s *Schema, m map[string]json.RawMessage) {
	names, props := members(m["properties"])
	var required []string
	_ = json.Unmarshal(m["required"], &required) // invalid values are ignored
	for _, name := range names {
		p := Prop{Name: name, Schema: r.read(props[name]), Required: slices.Contains(required, name)}
		_, one := members(props[name])
		_, p.Default = one["default"]
		s.Props = append(s.Props, p)
	}
	for _, name := range required {
		if _, ok := s.Prop(name); !ok {
			s.Props = append(s.Props, Prop{Name: name, Schema: &Schema{Type: Any}, Required: true})
		}
	}
	s.Closed = string(m["additionalProperties"]) == "false" && m["patternProperties"] == nil
	s.Known = len(names) > 0
}

func (r *reader) numbers(s *Schema, m map[string]json.RawMessage) {
	s.Min, s.Max = float(m["minimum"]), float(m["maximum"])
	s.Above, s.Below = float(m["exclusiveMinimum"]), float(m["exclusiveMaximum"])
	s.MinLength, s.MaxLength = count(m["minLength"]), count(m["maxLength"])
	s.MinItems, s.MaxItems = count(m["minItems"]), count(m["maxItems"])
}

func float(raw json.RawMessage) *big.Float {
	if len(raw) == 0 || len(raw) > 64 {
		return nil
	}
	f, _, err := big.ParseFloat(string(raw), 10, 256, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return f
}

func count(raw json.RawMessage) *int {
	var n int
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return &n
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // other values are not strings
	return s
}

// typeOf returns the type that type, enum and const describe.
func (r *reader) typeOf(s *Schema, m map[string]json.RawMessage) Type {
	if c, ok := m["const"]; ok {
		return r.literals(s, []json.RawMessage{c})
	}
	if e, ok := m["enum"]; ok {
		var list []json.RawMessage
		if json.Unmarshal(e, &list) == nil && len(list) > 0 {
			return r.literals(s, list)
		}
		return Any
	}
	var kinds []string
	if one := text(m["type"]); one != "" {
		kinds = []string{one}
	} else if json.Unmarshal(m["type"], &kinds) != nil || len(kinds) == 0 {
		if len(s.Props) > 0 && s.Known && (r.role == Output || r.role == Params) {
			kinds = []string{"object"}
		} else {
			return Any
		}
	}
	t := Never
	for _, k := range kinds {
		t = Join(t, r.kind(s, m, k))
	}
	return t
}

func (r *reader) kind(s *Schema, m map[string]json.RawMessage, kind string) Type {
	switch kind {
	case "null":
		return Kinds(None)
	case "boolean":
		return Kinds(boolKind)
	case "integer":
		return Kinds(Int)
	case "number":
		return Kinds(Int, floatKind)
	case "string":
		return Kinds(Text)
	case "array":
		if s.Items == nil || m["prefixItems"] != nil {
			return listOf(Any)
		}
		return listOf(s.Items.Type)
	case "object":
		return Of(r.record(s, m))
	}
	return Any
}

func (r *reader) record(s *Schema, m map[string]json.RawMessage) *Atom {
	a := &Atom{Kind: Dict, Open: !s.Closed, Elem: Any, Role: r.role, Name: r.name}
	if add := m["additionalProperties"]; len(add) > 0 && add[0] == '{' {
		a.Elem = r.read(add).Type
	}
	if !s.Known && (m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil || m["patternProperties"] != nil) {
		return &Atom{Kind: Dict, Open: true, Elem: Any}
	}
	wide := m["additionalProperties"] != nil && !s.Closed || m["patternProperties"] != nil // other fields are expected
	missing := Optional
	if m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil || m["if"] != nil || m["dependentSchemas"] != nil || m["dependentRequired"] != nil || m["dependencies"] != nil {
		wide, missing = true, maybe // which fields are present depends on others
	}
	for _, p := range s.Props {
		f := Field{Name: p.Name, Type: p.Schema.Type}
		if !p.Required && !(r.role == Params && p.Default) && !(r.role == contentRole && p.Default) {
			f.Presence = missing
		}
		a.Fields = append(a.Fields, f)
	}
	a.Declared = len(a.Fields) > 0 && !wide && r.role != Plain
	return a
}

// literals returns the union of the values of an enum.
func (r *reader) literals(s *Schema, list []json.RawMessage) Type {
	t := Never
	for _, raw := range list {
		v := literal(raw)
		if v == nil {
			if string(bytes.TrimSpace(raw)) != "null" {
				s.Enum = nil
				return Any
			}
			t = Join(t, Kinds(None))
			continue
		}
		s.Enum = append(s.Enum, v)
	}
	for _, v := range s.Enum {
		a := Literal(v).atoms[0]
		a.Set, a.Role = s.Enum, r.role
		t = Join(t, Of(a))
	}
	return t
}

func literal(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	switch v := v.(type) {
	case string, bool:
		return v
	case json.Number:
		if n, ok := new(big.Int).SetString(string(v), 10); ok && len(v) < 100 {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return nil
}

// alternatives parses anyOf, oneOf and allOf.
func (r *reader) alternatives(s *Schema, m map[string]json.RawMessage) {
	for _, key := range []string{"anyOf", "oneOf"} {
		var list []json.RawMessage
		if m[key] == nil || json.Unmarshal(m[key], &list) != nil {
			continue
		}
		t := Never
		for _, raw := range list {
			alt := r.read(raw)
			s.Alternatives = append(s.Alternatives, alt)
			t = Join(t, alt.Type)
		}
		if s.Type.IsAny() {
			s.Type = t
		}
	}
	if m["allOf"] == nil && m["not"] == nil && m["if"] == nil {
		return
	}
	var list []json.RawMessage
	_ = json.Unmarshal(m["allOf"], &list) // invalid values are ignored
	if len(list) == 1 && len(s.Props) == 0 && s.Type.IsAny() {
		*s = *r.read(list[0])
		return
	}
	if s.Type.IsAny() || len(list) > 0 {
		s.Type, s.Closed, s.Known = Any, false, false
	}
}
