package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FormSchema checks that a JSON Schema is allowed for a question to the user, and completes it. The protocol
// (elicitation) allows one flat object whose properties are strings, numbers, booleans, or choices among strings.
func FormSchema(raw json.RawMessage) (json.RawMessage, error) {
	var form map[string]json.RawMessage
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, errors.New("want an object")
	}
	if len(form) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	for _, key := range slices.Sorted(maps.Keys(form)) {
		if !slices.Contains([]string{"$schema", "type", "properties", "required"}, key) {
			return nil, fmt.Errorf("%q: a form has only type, properties and required", key)
		}
	}
	if !isText(form["type"], "object") {
		return nil, errors.New(`want {"type": "object", "properties": {...}}`)
	}
	var properties map[string]json.RawMessage
	if p, ok := form["properties"]; ok {
		if err := json.Unmarshal(p, &properties); err != nil {
			return nil, errors.New("properties: want an object")
		}
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if err := checkField(properties[name]); err != nil {
			problems = append(problems, fmt.Sprintf("properties.%s: %v", name, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	if properties == nil {
		return append(bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("}")), `,"properties":{}}`...), nil
	}
	return raw, nil
}

// fieldKeywords are the allowed keywords of a field by its type.
var fieldKeywords = map[string][]string{
	"string":  {"minLength", "maxLength", "pattern", "format", "enum", "enumNames", "oneOf"},
	"number":  {"minimum", "maximum"},
	"integer": {"minimum", "maximum"},
	"boolean": nil,
	"array":   {"minItems", "maxItems", "items"},
}

var fieldFormats = []string{"email", "uri", "date", "date-time"}

// checkField checks one property of a form.
func checkField(raw json.RawMessage) error {
	var field map[string]json.RawMessage
	if err := json.Unmarshal(raw, &field); err != nil {
		return errors.New("want an object")
	}
	var kind string
	_ = json.Unmarshal(field["type"], &kind) // anything but a string is an unknown type
	allowed, ok := fieldKeywords[kind]
	if !ok {
		return errors.New(`type: want "string", "number", "integer", "boolean", or "array" of choices`)
	}
	allowed = append([]string{"type", "title", "description", "default"}, allowed...)
	for _, key := range slices.Sorted(maps.Keys(field)) {
		if !slices.Contains(allowed, key) {
			return fmt.Errorf("%q: a %s in a form has only %s", key, kind, strings.Join(allowed, ", "))
		}
	}
	if format, ok := field["format"]; ok && !isText(format, fieldFormats...) {
		return fmt.Errorf("format: want one of %s", strings.Join(fieldFormats, ", "))
	}
	if kind == "array" {
		return checkChoices(field["items"])
	}
	return nil
}

// checkChoices checks the items of a field of several choices.
func checkChoices(raw json.RawMessage) error {
	var items struct {
		Enum  []string          `json:"enum"`
		AnyOf []json.RawMessage `json:"anyOf"`
	}
	if err := json.Unmarshal(raw, &items); err != nil || len(items.Enum)+len(items.AnyOf) == 0 {
		return errors.New(`items: want the choices, as {"type": "string", "enum": [...]} or {"anyOf": [{"const": ..., "title": ...}]}`)
	}
	return nil
}

func isText(raw json.RawMessage, any ...string) bool {
	var s string
	return json.Unmarshal(raw, &s) == nil && slices.Contains(any, s)
}
