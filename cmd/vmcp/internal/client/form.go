package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// field is one property of the form of an elicitation request.
type field struct {
	name     string
	kind     string // its JSON type
	about    string // its description
	choices  []choice
	required bool
	fallback json.RawMessage // the default; nil: none
	check    *schema.Schema
}

// choice is one of the values that a field may have, and its title.
type choice struct{ value, title string }

// fieldsOf reads the properties of a form, in the order of the text.
func fieldsOf(form json.RawMessage) (fields []*field, err error) {
	required := map[string]bool{}
	jsonscan.Elements(jsonscan.Get(form, "required"), func(name []byte) bool {
		required[jsonscan.Text(name)] = true
		return true
	})
	jsonscan.Each(jsonscan.Get(form, "properties"), func(name, raw []byte) bool {
		f := &field{
			name: string(name), kind: jsonscan.GetString(raw, "type"), choices: choicesOf(raw), required: required[string(name)],
			about: cmp.Or(jsonscan.GetString(raw, "description"), jsonscan.GetString(raw, "title")), fallback: jsonscan.Get(raw, "default"),
		}
		if f.check, err = schema.CompileForeign(raw); err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
		fields = append(fields, f)
		return err == nil
	})
	return fields, err
}

// choicesOf reads the values of a field with a fixed set of them, of which one or several can be chosen.
func choicesOf(raw json.RawMessage) (all []choice) {
	if items := jsonscan.Get(raw, "items"); items != nil {
		return choicesOf(items)
	}
	var titles []string
	jsonscan.Elements(jsonscan.Get(raw, "enumNames"), func(title []byte) bool {
		titles = append(titles, jsonscan.Text(title))
		return true
	})
	jsonscan.Elements(jsonscan.Get(raw, "enum"), func(value []byte) bool {
		c := choice{value: shown(value)}
		if len(titles) > len(all) {
			c.title = titles[len(all)]
		}
		all = append(all, c)
		return true
	})
	for _, key := range []string{"oneOf", "anyOf"} {
		jsonscan.Elements(jsonscan.Get(raw, key), func(option []byte) bool {
			if value := jsonscan.Get(option, "const"); value != nil {
				all = append(all, choice{shown(value), jsonscan.GetString(option, "title")})
			}
			return true
		})
	}
	return all
}

// shown is a value as text for a person: a string without its quotes.
func shown(value []byte) string {
	if len(value) > 0 && value[0] == '"' {
		return jsonscan.Text(value)
	}
	return string(value)
}

// prompt is the text that asks for the field: name, description, choices and default.
func (f *field) prompt() string {
	text := f.name
	if f.about != "" {
		text += ", " + f.about
	}
	var options []string
	for _, c := range f.choices {
		options = append(options, strings.TrimSuffix(fmt.Sprintf("%s: %s", c.value, c.title), ": "))
	}
	if f.kind == "boolean" {
		options = []string{"yes", "no"}
	}
	if options != nil {
		text += " (" + strings.Join(options, ", ") + ")"
	}
	switch {
	case f.fallback != nil:
		text += " [" + shown(f.fallback) + "]"
	case !f.required:
		text += " [none]"
	}
	return text + ": "
}

// read turns an answer into a value and checks it by the field's schema.
func (f *field) read(a answer) (json.RawMessage, error) {
	value := a.raw
	if value == nil {
		var err error
		if value, err = f.parse(strings.TrimSpace(a.text)); err != nil {
			return nil, err
		}
	}
	if err := f.check.Validate(value); err != nil {
		if len(f.choices) > 0 {
			return nil, fmt.Errorf("want one of %s", f.values())
		}
		return nil, err
	}
	return value, nil
}

func (f *field) values() string {
	var values []string
	for _, c := range f.choices {
		values = append(values, c.value)
	}
	return strings.Join(values, ", ")
}

// parse turns typed text into a value of the field's type.
func (f *field) parse(text string) (json.RawMessage, error) {
	switch f.kind {
	case "integer", "number":
		var n json.Number
		if err := json.Unmarshal([]byte(text), &n); err != nil || strings.HasPrefix(text, `"`) || n == "" {
			return nil, errors.New("want a number")
		}
		return json.RawMessage(text), nil
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, errors.New("want yes or no")
	case "array":
		return f.list(text), nil
	}
	return jsonscan.Quote(f.choose(text)), nil
}

// list reads the values of a multiple choice: a JSON array, or texts separated by commas.
func (f *field) list(text string) json.RawMessage {
	if json.Valid([]byte(text)) && strings.HasPrefix(text, "[") {
		return json.RawMessage(text)
	}
	values := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, f.choose(part))
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return raw
}

// choose returns the value of the choice with this title, or else the text itself.
func (f *field) choose(text string) string {
	for _, c := range f.choices {
		if c.title != "" && strings.EqualFold(c.title, text) {
			return c.value
		}
	}
	return text
}
