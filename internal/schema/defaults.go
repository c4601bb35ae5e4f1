package schema

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// findDefaults records in s.defaults which schemas contain a default, at any level.
func (s *Schema) findDefaults(sch *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if sch == nil {
		return false
	}
	if seen[sch] {
		return s.defaults[sch]
	}
	seen[sch] = true
	found := false
	for _, p := range sch.Properties {
		found = s.findDefaults(p, seen) || p.Default != nil || found
	}
	for _, part := range parts(sch) {
		found = s.findDefaults(part, seen) || found
	}
	first, rest := elements(sch)
	for _, item := range append([]*jsonschema.Schema{rest, additional(sch)}, first...) {
		found = s.findDefaults(item, seen) || found
	}
	// Within a cycle the answer is not known yet: assume that there is a default.
	s.defaults[sch] = found || sch.Ref != nil && seen[sch.Ref]
	return s.defaults[sch]
}

// parts returns the schemas that apply to the same value as sch unconditionally.
func parts(sch *jsonschema.Schema) []*jsonschema.Schema {
	if sch.Ref == nil {
		return sch.AllOf
	}
	return append([]*jsonschema.Schema{sch.Ref}, sch.AllOf...)
}

func additional(sch *jsonschema.Schema) *jsonschema.Schema {
	a, _ := sch.AdditionalProperties.(*jsonschema.Schema)
	return a
}

// elements returns the schemas of the first elements of an array and of the others, by
// the keywords of 2020-12 or of earlier drafts.
func elements(sch *jsonschema.Schema) (first []*jsonschema.Schema, rest *jsonschema.Schema) {
	switch items := sch.Items.(type) {
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		rest, _ = sch.AdditionalItems.(*jsonschema.Schema)
		return items, rest
	}
	return sch.PrefixItems, sch.Items2020
}

// Defaults returns raw with the missing members that have a default added, at every level, in
// objects and in the elements of arrays. Defaults in alternatives (anyOf, oneOf, if) are not added.
func (s *Schema) Defaults(raw json.RawMessage) (json.RawMessage, error) {
	if !s.defaults[s.root] {
		return raw, nil
	}
	f := &filler{defaults: s.defaults, left: 16*len(raw) + 1<<20}
	return f.fill(s.root, raw)
}

// filler fills in the defaults of one text.
type filler struct {
	defaults map[*jsonschema.Schema]bool
	left     int // bytes that may still be read: each level of nesting is read separately
}

func (f *filler) fill(sch *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	if sch == nil || !f.defaults[sch] {
		return raw, nil
	}
	if f.left -= len(raw); f.left < 0 {
		return nil, errors.New("nested too deep to fill in defaults")
	}
	raw, err := f.fillValue(sch, raw)
	for _, part := range parts(sch) {
		if err != nil {
			return nil, err
		}
		raw, err = f.fill(part, raw)
	}
	return raw, err
}

func (f *filler) fillValue(sch *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if len(trimmed) == 0 {
		return raw, nil
	}
	switch trimmed[0] {
	case '{':
		return f.fillObject(sch, raw)
	case '[':
		return f.fillArray(sch, raw)
	}
	return raw, nil
}

// member is one member of an object.
type member struct {
	name  string
	value json.RawMessage
}

func (f *filler) fillObject(sch *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	members, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	changed := false
	for i, m := range members {
		have[m.name] = true
		p, ok := sch.Properties[m.name]
		if !ok {
			p = additional(sch)
		}
		v, err := f.fill(p, m.value)
		if err != nil {
			return nil, err
		}
		changed = changed || len(v) != len(m.value)
		members[i].value = v
	}
	for _, name := range sortedKeys(sch.Properties) {
		p := sch.Properties[name]
		if have[name] || p.Default == nil {
			continue
		}
		v, err := marshal(*p.Default)
		if err != nil {
			return nil, err
		}
		if v, err = f.fill(p, v); err != nil {
			return nil, err
		}
		members = append(members, member{name, v})
		changed = true
	}
	if !changed {
		return raw, nil
	}
	return writeObject(members)
}

func (f *filler) fillArray(sch *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	var elems []json.RawMessage
	if err := json.Unmarshal(raw, &elems); err != nil {
		return nil, err
	}
	changed := false
	first, rest := elements(sch)
	for i, e := range elems {
		item := rest
		if i < len(first) {
			item = first[i]
		}
		v, err := f.fill(item, e)
		if err != nil {
			return nil, err
		}
		changed = changed || len(v) != len(e)
		elems[i] = v
	}
	if !changed {
		return raw, nil
	}
	return json.RawMessage("[" + string(bytes.Join(raws(elems), []byte(","))) + "]"), nil
}

func raws(elems []json.RawMessage) [][]byte {
	out := make([][]byte, len(elems))
	for i, e := range elems {
		out[i] = e
	}
	return out
}

// readObject reads the members of an object in their order.
func readObject(raw json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var members []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	_, err := d.Token()
	return members, err
}

func writeObject(members []member) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
