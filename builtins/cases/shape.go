package cases

import (
	"encoding/json"
	"strings"
	"unicode"
)

// A shape is what a schema, or the format of a case, determines of a value. nil: nothing.
type shape struct {
	schemas []map[string]any // of the value
	root    map[string]any   // their root, for references

	properties map[string]*shape // of values whose form the protocol defines
	question   bool              // the value is the arguments of a question: message and form
	form       bool              // the value is a schema: its members have the names of what it describes
	result     *shape            // the value is a CallToolResult with structured content of this shape
	isResult   bool
	blocks     *shape // the value is a list of content blocks, whose texts may be JSON of this shape
	json       *shape // the value is a string that may be JSON of this shape
	isJSON     bool
}

// shapeOf returns the shape of the values of a schema.
func shapeOf(schema json.RawMessage) *shape {
	if len(schema) == 0 {
		return nil
	}
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	return (&shape{root: root}).with(root)
}

// formOf returns the shape of the answer to a question.
func formOf(args json.RawMessage) *shape {
	var q struct {
		Form json.RawMessage `json:"requestedSchema"`
	}
	if json.Unmarshal(args, &q) != nil {
		return nil
	}
	return shapeOf(q.Form)
}

// maxAlternatives bounds the schemas that are considered for one value.
const maxAlternatives = 64

// with adds a schema, and the schemas that it consists of.
func (s *shape) with(schema any) *shape {
	m, ok := schema.(map[string]any)
	if !ok || len(s.schemas) >= maxAlternatives {
		return s
	}
	s.schemas = append(s.schemas, m)
	if ref, ok := m["$ref"].(string); ok {
		s.with(s.resolve(ref))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[key].([]any)
		for _, one := range list {
			s.with(one)
		}
	}
	for _, key := range []string{"if", "then", "else"} {
		s.with(m[key])
	}
	return s
}

// resolve follows a reference within the schema.
func (s *shape) resolve(ref string) any {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if part == "" {
			continue
		}
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

// secretHere reports whether a schema marks the value as secret.
func (s *shape) secretHere() bool {
	if s == nil {
		return false
	}
	for _, m := range s.schemas {
		if m["writeOnly"] == true || m["format"] == "password" || m["x-secret"] == true {
			return true
		}
	}
	return false
}

// isForm reports whether the members of the value have names of secrets without being secret.
func (s *shape) isForm() bool { return s != nil && s.form }

// holdsJSON reports whether a string may be JSON, of a known shape or not.
func (s *shape) holdsJSON() bool { return s != nil && s.isJSON }

// below returns the shape of a member or element.
func (s *shape) below(n *node, name string) *shape {
	switch {
	case s == nil:
		return nil
	case s.form:
		return s
	case s.question:
		if name == "requestedSchema" {
			return &shape{form: true}
		}
		return nil
	case s.isResult:
		return s.ofResult(name)
	case s.blocks != nil && n.array:
		return &shape{properties: map[string]*shape{"text": {isJSON: true, json: s.blocks.json}}}
	case s.properties != nil:
		return s.properties[name]
	}
	out := &shape{root: s.root}
	for _, m := range s.schemas {
		out.describe(m, n, name)
	}
	if len(out.schemas) == 0 {
		return nil
	}
	return out
}

// ofResult returns the shape of a member of a CallToolResult.
func (s *shape) ofResult(name string) *shape {
	switch name {
	case "structuredContent":
		return s.result
	case "content":
		return &shape{blocks: &shape{json: s.result}}
	}
	return nil
}

// describe adds what a schema determines of a member or element.
func (s *shape) describe(m map[string]any, n *node, name string) {
	if n.array {
		first, _ := m["prefixItems"].([]any)
		for _, one := range first { // any of them may apply
			s.with(one)
		}
		s.with(m["items"])
		s.with(m["contains"])
		return
	}
	properties, _ := m["properties"].(map[string]any)
	if one, ok := properties[name]; ok {
		s.with(one)
		return
	}
	patterns, _ := m["patternProperties"].(map[string]any)
	for _, one := range patterns { // any that may match
		s.with(one)
	}
	s.with(m["additionalProperties"])
}

// secretWords are words in the names of secret members. Members with numbers are counts if their name has a word of
// the second list, such as max_tokens.
var (
	secretWords = map[string]bool{
		"authorization": true, "token": true, "password": true, "passwd": true, "passphrase": true, "secret": true, "cookie": true,
		"apikey": true, "credential": true, "pwd": true,
	}
	secretPlurals = map[string]bool{"tokens": true, "passwords": true, "secrets": true, "cookies": true, "apikeys": true, "credentials": true}
	secretPairs   = map[string]bool{"api key": true, "api keys": true, "private key": true, "access key": true, "secret key": true}
)

// named reports whether a member is secret by its name. Schemas of such members are not secret.
func (m *marker) named(name string, n *node) bool {
	switch {
	case n.isNull(), string(n.scalar) == "true", string(n.scalar) == "false":
		return false
	case n.object && isSchema(n):
		return false
	}
	before := ""
	for _, word := range words(name) {
		if secretWords[word] || secretPairs[before+" "+word] || secretPlurals[word] && !n.isNumber() {
			return true
		}
		before = word
	}
	return false
}

func isSchema(n *node) bool {
	switch t := n.member("type"); {
	case t == nil:
		return n.member("$ref") != nil || n.member("enum") != nil
	case t.array:
		return true
	default:
		switch t.text {
		case "string", "number", "integer", "boolean", "object", "array", "null":
			return true
		}
	}
	return false
}

// words splits a name: apiKey, api_key, API-Key.
func words(name string) (all []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			all = append(all, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]) && unicode.IsUpper(runes[i-1])):
			end()
		}
		word.WriteRune(r)
	}
	end()
	return all
}
