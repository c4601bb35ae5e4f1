package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The schemas that the protocol allows in elicitation/create.
var (
	formKeywords  = []string{"$schema", "type", "properties", "required"}
	fieldKeywords = map[string][]string{
		"string":  {"minLength", "maxLength", "pattern", "format", "enum", "enumNames", "oneOf"},
		"number":  {"minimum", "maximum"},
		"integer": {"minimum", "maximum"},
		"boolean": {},
		"array":   {"minItems", "maxItems", "items"},
	}
	fieldFormats = []string{"email", "uri", "date", "date-time"}
)

// form returns the schema of a question without the keywords that elicit does not allow. The legacy
// engine sent any schema; elicit sends only flat forms.
func (c *clean) form(s *step) (*value, error) {
	path := member(s.Path, "schema")
	refuse := func(v *value, format string, args ...any) error {
		return diag.Problems{{Pos: v.Pos, Path: v.Path, Code: codeMigrate, Message: "clients show only flat forms: " + fmt.Sprintf(format, args...) +
			"; the exact style sends the schema unchanged"}}
	}
	if kind := s.Schema.Mapping().Get("type"); kind.Text() != "object" {
		return nil, refuse(s.Schema, "want type: object")
	}
	properties := s.Schema.Mapping().Get("properties")
	fields := &mapping{Values: map[string]*value{}, Places: map[string]Pos{}}
	if !properties.IsNull() && properties.Mapping() == nil {
		return nil, refuse(properties, "want a mapping of names to schemas")
	}
	var dropped []string
	for _, name := range keysIn(properties) {
		v := properties.Mapping().Values[name]
		kind := v.Mapping().Get("type").Text()
		allowed, ok := fieldKeywords[kind]
		if !ok || v.Mapping() == nil {
			return nil, refuse(v, "want a string, number, integer, boolean, or array of choices")
		}
		if items := v.Mapping().Get("items").Mapping(); kind == "array" && len(items.Get("enum").List())+len(items.Get("anyOf").List()) == 0 {
			return nil, refuse(v, "want the choices of the array as items")
		}
		allowed = append([]string{"type", "title", "description", "default"}, allowed...)
		kept, without := v.Only(func(k string, e *value) bool {
			return slices.Contains(allowed, k) && (k != "format" || slices.Contains(fieldFormats, e.Text()))
		})
		fields.Keys, fields.Values[name] = append(fields.Keys, name), kept
		for _, k := range without {
			dropped = append(dropped, name+"."+k)
		}
	}
	form, without := s.Schema.Only(func(k string, _ *value) bool { return slices.Contains(formKeywords, k) })
	if dropped = append(without, dropped...); len(dropped) > 0 {
		c.notes = append(c.notes, Note{Pos: s.At("schema"), Path: path, Msg: "not part of a form, left out: " + strings.Join(dropped, ", ")})
	}
	if form.Mapping().Get("properties") != nil {
		form.Mapping().Values["properties"] = &value{Data: fields}
	}
	return form, nil
}

func keysIn(v *value) []string {
	if m := v.Mapping(); m != nil {
		return m.Keys
	}
	return nil
}
