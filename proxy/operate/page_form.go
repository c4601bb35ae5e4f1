package operate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// maxFields bounds a form: a schema may have any number of properties.
const maxFields = 200

// field is a form field for one property of an object schema.
type field struct {
	Name, ID    string
	Kind        string // string, text, number, boolean, choice or json: how the page's script converts the value to JSON
	Type        string // the schema's type, for display
	Description string
	Required    bool
	Value       string // initial value
	Checked     bool
	Always      bool // it is sent even if it is empty
	Placeholder string
	Options     []option
	Facts       string // bounds, for display
}

// option is one of the values of a choice.
type option struct {
	Value  string // JSON
	Label  string
	Chosen bool
}

// property is the part of a property's schema that a form uses.
type property struct {
	Type        json.RawMessage   `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	Const       json.RawMessage   `json:"const"`
	OneOf       []constant        `json:"oneOf"`
	AnyOf       []constant        `json:"anyOf"`
	Format      string            `json:"format"`
	MaxLength   *json.Number      `json:"maxLength"`
	MinLength   *json.Number      `json:"minLength"`
	Minimum     *json.Number      `json:"minimum"`
	Maximum     *json.Number      `json:"maximum"`
	Pattern     string            `json:"pattern"`
}

type constant struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// fieldsOf returns the form fields for a schema, in its order; their ids begin with prefix.
func fieldsOf(schema json.RawMessage, prefix string) (fields []field) {
	required := map[string]bool{}
	jsonscan.Elements(jsonscan.Get(schema, "required"), func(v []byte) bool {
		required[jsonscan.Text(v)] = true
		return true
	})
	jsonscan.Each(jsonscan.Get(schema, "properties"), func(key, value []byte) bool {
		name := string(key)
		fields = append(fields, fieldOf(name, fmt.Sprintf("%s-%d", prefix, len(fields)), value, required[name]))
		return len(fields) < maxFields
	})
	return fields
}

func fieldOf(name, id string, schema json.RawMessage, required bool) field {
	var p property
	_ = json.Unmarshal(schema, &p) // an unusual schema gets a field for JSON
	kind, kinds := typeOf(p.Type)
	f := field{Name: name, ID: id, Type: kinds, Description: p.Description, Required: required, Always: required}
	if f.Description == "" {
		f.Description = p.Title
	}
	value := jsonscan.Text(p.Default)
	switch {
	case f.choose(&p):
	case kind == "boolean":
		f.Kind, f.Checked = "boolean", string(p.Default) == "true"
		f.Always = required || f.Checked
	case kind == "integer" || kind == "number":
		f.Kind, f.Value = "number", string(p.Default)
	case kind == "string" && long(name, &p):
		f.Kind, f.Value = "text", value
	case kind == "string":
		f.Kind, f.Value, f.Placeholder = "string", value, p.Format
	default:
		f.Kind, f.Value = "json", string(p.Default)
		f.Placeholder = map[string]string{"array": "[…]", "object": "{…}"}[kind]
	}
	f.Facts = facts(&p)
	return f
}

// typeOf is the one type of a property apart from null; "" for several. all is for display.
func typeOf(raw json.RawMessage) (one, all string) {
	if text := jsonscan.Text(raw); len(raw) > 0 && raw[0] == '"' {
		return text, text
	}
	var names []string
	jsonscan.Elements(raw, func(v []byte) bool {
		names = append(names, jsonscan.Text(v))
		return true
	})
	for _, n := range names {
		switch {
		case n == "null":
		case one != "":
			return "", strings.Join(names, " or ")
		default:
			one = n
		}
	}
	return one, strings.Join(names, " or ")
}

// choose makes the field a choice if the property is an enumeration; false otherwise.
func (f *field) choose(p *property) bool {
	for i, v := range p.Enum {
		label := labelOf(v)
		if i < len(p.EnumNames) {
			label = p.EnumNames[i]
		}
		f.Options = append(f.Options, option{Value: string(v), Label: label})
	}
	for _, c := range append(p.OneOf, p.AnyOf...) {
		if c.Const == nil {
			f.Options = nil
			return false
		}
		label := c.Title
		if label == "" {
			label = labelOf(c.Const)
		}
		f.Options = append(f.Options, option{Value: string(c.Const), Label: label})
	}
	if p.Const != nil {
		f.Options = []option{{Value: string(p.Const), Label: labelOf(p.Const)}}
	}
	if len(f.Options) == 0 || len(f.Options) > 500 {
		f.Options = nil
		return false
	}
	for i := range f.Options {
		f.Options[i].Chosen = p.Default != nil && f.Options[i].Value == string(p.Default)
	}
	f.Kind, f.Always = "choice", false
	return true
}

// labelOf is a value for display: a string without quotes.
func labelOf(v json.RawMessage) string {
	if len(v) > 0 && v[0] == '"' {
		return jsonscan.Text(v)
	}
	return string(v)
}

// long reports whether a text is likely to have several lines.
func long(name string, p *property) bool {
	if p.MaxLength != nil {
		if n, err := p.MaxLength.Int64(); err == nil && n > 200 {
			return p.Format == "" && len(p.Pattern) == 0
		}
	}
	switch strings.ToLower(name) {
	case "content", "contents", "body", "text", "sql", "query", "code", "script", "prompt", "message", "markdown":
		return p.Format == ""
	}
	return false
}

// facts are the bounds of a property, for display.
func facts(p *property) string {
	var all []string
	say := func(text string, n *json.Number) {
		if n != nil {
			all = append(all, text+" "+n.String())
		}
	}
	say("at least", p.Minimum)
	say("at most", p.Maximum)
	say("length from", p.MinLength)
	say("length to", p.MaxLength)
	if p.Format != "" {
		all = append(all, p.Format)
	}
	if p.Pattern != "" {
		all = append(all, "matches "+p.Pattern)
	}
	return strings.Join(all, ", ")
}

// asked is a question as a form.
type asked struct {
	Key, Message string
	Fields       []field
	Question     status.Question
	Answerable   bool // a person can answer it on this page
	URL          string
}

func askedOf(q status.Question, i int) asked {
	return asked{
		Key: q.Key, Message: q.Message, Question: q, Fields: fieldsOf(q.Schema, fmt.Sprintf("q%d", i)), Answerable: q.Method == "elicitation/create",
	}
}
