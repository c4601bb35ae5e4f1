package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxExampleDepth bounds the nesting of an example, because a schema may be recursive.
	maxExampleDepth = 12
	// maxExample bounds the text of an example, in bytes, and minLength of its strings.
	maxExample = 16 << 10
	// maxAlternatives bounds the members of an anyOf or oneOf that are tried.
	maxAlternatives = 8
)

// Example returns a valid value of a schema, with the required members only; for an object that requires none, with
// the first one. Formats are respected. ok is false when no valid value was found.
func Example(raw json.RawMessage) (example json.RawMessage, ok bool) {
	s, err := Compile(raw)
	if err != nil {
		if s, err = CompileForeign(raw); err != nil {
			return nil, false
		}
	}
	root, err := unmarshal(raw)
	if err != nil {
		return nil, false
	}
	for choice := range maxAlternatives {
		for _, optional := range []bool{true, false} {
			m := &maker{root: root, choice: choice, optional: optional}
			v, made := m.value(root, 0)
			if made && v.Len() <= maxExample && s.Validate(v.Bytes()) == nil {
				return bytes.Clone(v.Bytes()), true
			}
		}
	}
	return nil, false
}

// maker makes one attempt.
type maker struct {
	root     any
	choice   int  // which member of an anyOf or oneOf is used
	optional bool // objects that require nothing get their first member
	steps    int
}

type text = bytes.Buffer

// value makes a value for a schema; false when it would be nested too deep.
func (m *maker) value(schema any, depth int) (*text, bool) {
	if m.steps++; depth > maxExampleDepth || m.steps > 2000 {
		return nil, false
	}
	s, isObject := schema.(map[string]any)
	if !isObject {
		return quote(map[string]any{}), schema != false
	}
	if s = m.resolve(s, 0); s == nil {
		return nil, false
	}
	for _, key := range []string{"const", "default"} {
		if v, has := s[key]; has {
			return quote(v), true
		}
	}
	for _, key := range []string{"examples", "enum"} {
		if list, _ := s[key].([]any); len(list) > 0 {
			return quote(list[m.choice%len(list)]), true
		}
	}
	switch m.typeOf(s) {
	case "string":
		return quote(m.words(s)), true
	case "integer", "number":
		return quote(number(s)), true
	case "boolean":
		return quote(true), true
	case "null":
		return quote(nil), true
	case "array":
		return m.array(s, depth)
	}
	return m.object(s, depth)
}

// resolve merges a schema with those of its $ref, allOf and one of its alternatives; nil when that fails.
func (m *maker) resolve(s map[string]any, depth int) map[string]any {
	if depth > maxExampleDepth {
		return nil
	}
	out := map[string]any{}
	for key, v := range s {
		out[key] = v
	}
	join := func(part any) bool {
		p, ok := part.(map[string]any)
		if !ok {
			return part != false
		}
		if p = m.resolve(p, depth+1); p == nil {
			return false
		}
		merge(out, p)
		return true
	}
	if ref, ok := s["$ref"].(string); ok && !join(m.find(ref)) {
		return nil
	}
	for _, part := range items(s["allOf"]) {
		if !join(part) {
			return nil
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if all, _ := s[key].([]any); len(all) > 0 && !join(all[m.choice%len(all)]) {
			return nil
		}
	}
	return out
}

func items(v any) []any {
	all, _ := v.([]any)
	return all
}

// merge adds the keywords of another schema for the same value.
func merge(s, more map[string]any) {
	for key, v := range more {
		switch have := s[key].(type) {
		case map[string]any:
			if add, ok := v.(map[string]any); ok && key == "properties" {
				both := map[string]any{}
				for name, of := range add {
					both[name] = of
				}
				for name, of := range have {
					both[name] = of
				}
				s[key] = both
			}
		case []any:
			if key == "required" {
				s[key] = slices.Concat(have, items(v))
			}
		case nil:
			s[key] = v
		}
	}
}

// find returns the target of a $ref; false, the schema without valid values, when it is not in the schema.
func (m *maker) find(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return false
	}
	at := m.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at, ok = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if ok = err == nil && i >= 0 && i < len(v); ok {
				at = v[i]
			}
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return at
}

// typeOf returns the type of the value to make, inferred from keywords where the schema has no type.
func (m *maker) typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if name, ok := t[m.choice%max(1, len(t))].(string); ok && len(t) > 0 {
			return name
		}
	}
	for key, name := range map[string]string{"items": "array", "prefixItems": "array", "minItems": "array", "minLength": "string", "pattern": "string", "format": "string", "minimum": "number", "exclusiveMinimum": "number", "multipleOf": "number"} {
		if _, has := s[key]; has {
			return name
		}
	}
	return "object"
}

func (m *maker) object(s map[string]any, depth int) (*text, bool) {
	properties, _ := s["properties"].(map[string]any)
	var names []string
	for _, n := range items(s["required"]) {
		if name, ok := n.(string); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && m.optional && depth == 0 && len(properties) > 0 {
		names = sortedKeys(properties)[:1]
	}
	for _, name := range sortedKeys(properties) {
		if len(names) < whole(s["minProperties"]) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := len(names); i < min(whole(s["minProperties"]), 50); i++ {
		names = append(names, "key"+strconv.Itoa(i+1))
	}
	out := bytes.NewBufferString("{")
	for i, name := range names {
		of, known := properties[name]
		if !known {
			if of, known = s["additionalProperties"]; !known || of == true {
				of = map[string]any{"type": "string"}
			}
		}
		v, ok := m.value(of, depth+1)
		if !ok || out.Len() > maxExample {
			return nil, false
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(name).Bytes())
		out.WriteByte(':')
		out.Write(v.Bytes())
	}
	out.WriteByte('}')
	return out, true
}

func (m *maker) array(s map[string]any, depth int) (*text, bool) {
	first := items(s["prefixItems"])
	if old, ok := s["items"].([]any); ok {
		first = old
	}
	n := whole(s["minItems"])
	if s["contains"] != nil {
		n = max(n, 1)
	}
	if n == 0 && depth <= 2 && s["maxItems"] == nil && s["items"] != nil {
		n = 1 // shows an element, unless it is nested too deep
	}
	out := bytes.NewBufferString("[")
	for i := range min(n, 100) {
		of := s["items"]
		switch {
		case i < len(first):
			of = first[i]
		case i == len(first) && s["contains"] != nil:
			of = s["contains"]
		case of == nil:
			of = map[string]any{"type": "string"}
		}
		each := *m
		if s["uniqueItems"] == true {
			each.choice += i
		}
		v, ok := each.value(of, depth+1)
		m.steps = each.steps
		if !ok && whole(s["minItems"]) == 0 {
			return bytes.NewBufferString("[]"), true
		}
		if !ok || out.Len() > maxExample {
			return nil, false
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(v.Bytes())
	}
	out.WriteByte(']')
	return out, true
}

// formats has an example of each format.
var formats = map[string]string{
	"date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z", "duration": "PT1H", "email": "someone@example.com", "idn-email": "someone@example.com",
	"hostname": "example.com", "idn-hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "iri": "https://example.com/",
	"uri-reference": "/a", "iri-reference": "/a", "uri-template": "/{id}", "url": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
	"json-pointer": "/a", "relative-json-pointer": "0/a", "regex": "^a", "byte": "YQ==",
}

// words returns a string for a schema.
func (m *maker) words(s map[string]any) string {
	format, _ := s["format"].(string)
	if t, ok := formats[format]; ok {
		return t
	}
	out := "text"
	if pattern, ok := s["pattern"].(string); ok {
		if re, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			out = matching(re.Simplify(), 0)
		}
	}
	if m.choice > 0 && s["pattern"] == nil {
		out += strconv.Itoa(m.choice + 1)
	}
	if most, has := s["maxLength"]; has && s["pattern"] == nil {
		out = out[:min(len(out), whole(most))]
	}
	if least := min(whole(s["minLength"]), maxExample); len(out) < least {
		last := "x"
		if out != "" {
			last = out[len(out)-1:]
		}
		out += strings.Repeat(last, least-len(out))
	}
	return out
}

// matching returns a short string that a regular expression matches.
func matching(re *syntax.Regexp, depth int) string {
	if depth > 50 {
		return ""
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(character(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus:
		return matching(re.Sub[0], depth+1)
	case syntax.OpRepeat:
		return strings.Repeat(matching(re.Sub[0], depth+1), min(re.Min, 1000))
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(matching(sub, depth+1))
		}
		return b.String()
	case syntax.OpAlternate:
		return matching(re.Sub[0], depth+1)
	}
	return "" // a star, a question mark, an anchor
}

// character returns a character of a class, a letter or digit if there is one.
func character(ranges []rune) rune {
	for _, want := range "aA0" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= want && want <= ranges[i+1] {
				return want
			}
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}

// number returns a number for a schema.
func number(s map[string]any) json.Number {
	least, most := math.Inf(-1), math.Inf(1)
	step := 1.0
	for key, of := range map[string]*float64{"minimum": &least, "maximum": &most, "multipleOf": &step} {
		if f, ok := float(s[key]); ok {
			*of = f
		}
	}
	if f, ok := float(s["exclusiveMinimum"]); ok {
		least = math.Max(least, math.Nextafter(f, math.Inf(1)))
	}
	if f, ok := float(s["exclusiveMaximum"]); ok {
		most = math.Min(most, math.Nextafter(f, math.Inf(-1)))
	}
	if step <= 0 {
		step = 1
	}
	n := step
	if n < least || n > most {
		n = math.Ceil(least/step) * step
	}
	if math.IsInf(n, 0) || math.IsNaN(n) || n > most {
		n = math.Floor(most/step) * step
	}
	if n < least && s["type"] == "number" && !math.IsInf(least, 0) && !math.IsInf(most, 0) {
		n = (least + most) / 2
	}
	if math.IsInf(n, 0) || math.IsNaN(n) {
		n = 0
	}
	return json.Number(strconv.FormatFloat(n, 'f', -1, 64))
}

func float(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// whole returns a keyword's value as a count; 0 for none.
func whole(v any) int {
	f, _ := float(v)
	return int(math.Max(0, math.Min(f, 1<<20)))
}

// quote returns a value as JSON.
func quote(v any) *text {
	out := &text{}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail: v was decoded from JSON
	out.Truncate(max(0, out.Len()-1))
	return out
}
