package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// A Conversion is one value that Convert has replaced.
type Conversion struct {
	At string // its place, such as rows[0].id
	To string // the type of the new value
}

func (c Conversion) String() string { return c.At + " to " + c.To }

// Convert returns raw with its texts that are numbers or booleans as such, and its numbers and booleans as texts, wherever
// the schema has exactly the other type: at every level, in objects and in the elements of arrays. Nothing is lost by it:
// a text is a number only if it is how that number is written, so 42 and 9.5, but not 007 and 1e3. Places with
// alternatives (anyOf, oneOf), without a type, or with several types of scalars are left as they are, and so is a value that
// fits as a whole.
func (s *Schema) Convert(raw json.RawMessage) (json.RawMessage, []Conversion) {
	var c converter
	out := c.convert(s.root, raw, "", maxConverted)
	if len(c.made) == 0 || s.Validate(raw) == nil {
		return raw, nil
	}
	return out, c.made
}

// maxConverted bounds the nesting of the values that are converted.
const maxConverted = 32

type converter struct{ made []Conversion }

func (c *converter) convert(sch *jsonschema.Schema, raw json.RawMessage, at string, depth int) json.RawMessage {
	if sch == nil || len(raw) == 0 || depth == 0 {
		return raw
	}
	switch raw[0] {
	case '{':
		return jsonscan.Map(raw, func(key string, value json.RawMessage) json.RawMessage {
			return c.convert(propertyOf(sch, key, maxParts), value, join(at, key), depth-1)
		})
	case '[':
		return c.elements(sch, raw, at, depth)
	}
	want := wanted(sch)
	if want == "" {
		return raw
	}
	if out := as(want, raw); out != nil {
		c.made = append(c.made, Conversion{at, want})
		return out
	}
	return raw
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func (c *converter) elements(sch *jsonschema.Schema, raw json.RawMessage, at string, depth int) json.RawMessage {
	first, rest := elementsOf(sch, maxParts)
	if first == nil && rest == nil {
		return raw
	}
	var list [][]byte
	before := len(c.made)
	jsonscan.Elements(raw, func(value []byte) bool {
		item := rest
		if i := len(list); i < len(first) {
			item = first[i]
		}
		list = append(list, c.convert(item, value, at+"["+strconv.Itoa(len(list))+"]", depth-1))
		return true
	})
	if len(c.made) == before {
		return raw
	}
	return jsonscan.Array(list...)
}

// maxParts bounds how far references are followed.
const maxParts = 8

// propertyOf is the schema of a property, in sch or in a part of it; nil: none is known, or several patterns match its name.
func propertyOf(sch *jsonschema.Schema, name string, depth int) *jsonschema.Schema {
	if depth == 0 {
		return nil
	}
	if p := sch.Properties[name]; p != nil {
		return p
	}
	var matched []*jsonschema.Schema
	for pattern, p := range sch.PatternProperties {
		if pattern.MatchString(name) {
			matched = append(matched, p)
		}
	}
	switch {
	case len(matched) == 1:
		return matched[0]
	case len(matched) > 1:
		return nil
	}
	for _, part := range parts(sch) {
		if p := propertyOf(part, name, depth-1); p != nil {
			return p
		}
	}
	return additional(sch)
}

// elementsOf is elements of sch, or of a part of it.
func elementsOf(sch *jsonschema.Schema, depth int) (first []*jsonschema.Schema, rest *jsonschema.Schema) {
	if depth == 0 {
		return nil, nil
	}
	if first, rest = elements(sch); first != nil || rest != nil {
		return first, rest
	}
	for _, part := range parts(sch) {
		if first, rest = elementsOf(part, depth-1); first != nil || rest != nil {
			return first, rest
		}
	}
	return nil, nil
}

// wanted is the only type of scalars, besides null, that a schema has; "" if it has none, several, or types besides.
func wanted(sch *jsonschema.Schema) string {
	types, ok := typesOf(sch, maxParts)
	if !ok {
		return ""
	}
	types = slices.DeleteFunc(types, func(t string) bool { return t == "null" })
	if len(types) == 2 && slices.Contains(types, "integer") && slices.Contains(types, "number") {
		return "number"
	}
	if len(types) != 1 || types[0] == "object" || types[0] == "array" {
		return ""
	}
	return types[0]
}

// typesOf are the types of a schema, or of the first part of it that has any; false where it has alternatives.
func typesOf(sch *jsonschema.Schema, depth int) (types []string, ok bool) {
	if depth == 0 || len(sch.AnyOf) > 0 || len(sch.OneOf) > 0 {
		return nil, false
	}
	if sch.Types != nil {
		types = sch.Types.ToStrings()
	}
	for _, part := range parts(sch) {
		more, ok := typesOf(part, depth-1)
		if !ok {
			return nil, false
		}
		if types == nil {
			types = more
		}
	}
	return types, true
}

// as is a scalar as a value of another type, nil if it has that type already or cannot be converted without loss.
func as(want string, raw json.RawMessage) json.RawMessage {
	text := raw[0] == '"'
	switch {
	case want == "string" && !text && string(raw) != "null":
		return jsonscan.Quote(written(string(raw)))
	case want == "string" || !text:
		return nil
	}
	value := jsonscan.Text(raw)
	switch want {
	case "boolean":
		if value == "true" || value == "false" {
			return json.RawMessage(value)
		}
	case "integer":
		if isInteger(value) {
			return json.RawMessage(value)
		}
	case "number":
		if isDecimal(value) || isInteger(value) && isDouble(value) {
			return json.RawMessage(value)
		}
	}
	return nil
}

// written is how a number or boolean is written as a text: a whole number without a fraction.
func written(raw string) string {
	whole, found := strings.CutSuffix(raw, ".0")
	if found && isInteger(whole) {
		return whole
	}
	return raw
}

// Canonical reports whether a text is how a boolean or a number is written, so that Convert may make one of it.
func Canonical(text string) bool {
	return text == "true" || text == "false" || isInteger(text) || isDecimal(text)
}

// IsWritten reports whether a text is how a value of a type (integer, number or boolean) is written, so that Convert makes
// one of it.
func IsWritten(want, text string) bool { return as(want, jsonscan.Quote(text)) != nil }

// isInteger reports whether a text is how an integer is written.
func isInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '0' && s != "0" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// isDecimal reports whether a text is how a number with a fraction is written.
func isDecimal(s string) bool {
	whole := strings.TrimSuffix(s, ".0")
	if whole != s {
		return isInteger(whole) && isDouble(whole)
	}
	return strings.Contains(s, ".") && strings.Trim(s, "-0123456789.") == "" && isDouble(s)
}

// isDouble reports whether a text is how a float64 is written without an exponent.
func isDouble(s string) bool {
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && strconv.FormatFloat(f, 'f', -1, 64) == s
}

// Like returns raw with its scalars as they are in want, where Convert could have made them so: what a recorded text
// would be without knowing the schema that it was converted by.
func Like(want, raw json.RawMessage) json.RawMessage { return like(want, raw, maxConverted) }

func like(want, raw json.RawMessage, depth int) json.RawMessage {
	if len(want) == 0 || len(raw) == 0 || depth == 0 {
		return raw
	}
	switch {
	case raw[0] == '{' && want[0] == '{':
		return jsonscan.Map(raw, func(key string, value json.RawMessage) json.RawMessage {
			return like(jsonscan.Get(want, key), value, depth-1)
		})
	case raw[0] == '[' && want[0] == '[':
		var wants, list [][]byte
		jsonscan.Elements(want, func(v []byte) bool { wants = append(wants, v); return true })
		jsonscan.Elements(raw, func(v []byte) bool {
			if i := len(list); i < len(wants) {
				v = like(wants[i], v, depth-1)
			}
			list = append(list, v)
			return true
		})
		return jsonscan.Array(list...)
	}
	if raw[0] == '{' || raw[0] == '[' {
		return raw
	}
	for _, kind := range []string{"string", "boolean", "integer", "number"} {
		if out := as(kind, raw); out != nil && string(out) == string(want) {
			return out
		}
	}
	return raw
}
