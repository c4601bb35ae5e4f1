package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// What the schema of a question may say, by the protocol.
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

// form returns the schema of a question without what clients cannot show. The legacy
// engine sent any schema; elicit sends only forms.
func (c *clean) form(s *step) (*value, error) {
	path := member(s.path, "schema")
	refuse := func(v *value, format string, args ...any) error {
		return diag.Problems{{Pos: v.pos, Path: v.path, Code: compositeCode, Message: "clients show a flat form only: " + fmt.Sprintf(format, args...) +
			"; the exact style sends the schema as it is"}}
	}
	if kind := s.schema.mapping().get("type"); kind.text() != "object" {
		return nil, refuse(s.schema, "want type: object")
	}
	properties := s.schema.mapping().get("properties")
	fields := &mapping{values: map[string]*value{}, places: map[string]Pos{}}
	if !properties.isNull() && properties.mapping() == nil {
		return nil, refuse(properties, "want a mapping of names to schemas")
	}
	var dropped []string
	for _, name := range keysIn(properties) {
		v := properties.mapping().values[name]
		kind := v.mapping().get("type").text()
		allowed, ok := fieldKeywords[kind]
		if !ok || v.mapping() == nil {
			return nil, refuse(v, "want a string, number, integer, boolean, or array of choices")
		}
		if items := v.mapping().get("items").mapping(); kind == "array" && len(items.get("enum").list())+len(items.get("anyOf").list()) == 0 {
			return nil, refuse(v, "want the choices of the array as items")
		}
		allowed = append([]string{"type", "title", "description", "default"}, allowed...)
		kept, without := v.only(func(k string, e *value) bool {
			return slices.Contains(allowed, k) && (k != "format" || slices.Contains(fieldFormats, e.text()))
		})
		fields.keys, fields.values[name] = append(fields.keys, name), kept
		for _, k := range without {
			dropped = append(dropped, name+"."+k)
		}
	}
	form, without := s.schema.only(func(k string, _ *value) bool { return slices.Contains(formKeywords, k) })
	if dropped = append(without, dropped...); len(dropped) > 0 {
		c.notes = append(c.notes, Note{Pos: s.at("schema"), Path: path, Msg: "not part of a form, left out: " + strings.Join(dropped, ", ")})
	}
	if form.mapping().get("properties") != nil {
		form.mapping().values["properties"] = &value{data: fields}
	}
	return form, nil
}

func keysIn(v *value) []string {
	if m := v.mapping(); m != nil {
		return m.keys
	}
	return nil
}
