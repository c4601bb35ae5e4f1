package check

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// declared checks tool(...) beyond what the configuration checks.
func (c *checker) declared(f *syntax.File, s *shared) {
	all := declarations(f)
	var parts []meter.Part
	if len(all) > 1 {
		parts = meter.Parts(f)
	}
	for _, call := range all {
		for _, arg := range call.Args {
			name, x, err := keyword(arg)
			if err != nil {
				continue
			}
			switch name {
			case "parameters", "output":
				c.schemaAt(x)
			case "annotations":
				within := f.Stmts
				if len(all) > 1 {
					within = c.reachedBy(parts, call)
				}
				c.annotations(within, call, x, s)
			case "timeout":
				c.timeout(x)
			}
		}
	}
}

// reachedBy returns the statements that a declared tool reaches.
func (c *checker) reachedBy(parts []meter.Part, declaration *syntax.CallExpr) (stmts []syntax.Stmt) {
	function := script.SourceRun
	for _, arg := range declaration.Args {
		if name, x, err := keyword(arg); err == nil && name == entryArgument {
			_ = readText(c.constants, x, &function) // its errors are reported elsewhere
		}
	}
	for _, i := range meter.Reached(parts, function) {
		stmts = append(stmts, parts[i].Stmt)
	}
	return stmts
}

func (c *checker) timeout(x syntax.Expr) {
	v, ok := literalString(x)
	if !ok {
		return
	}
	if _, err := script.ParseDuration(v); err != nil {
		c.add(codeDeclaration, x, `%q is not a duration; want for example "1h30m" or "2d"`, v)
	}
}

// schemaTypes are the types of JSON Schema.
var schemaTypes = []string{"string", "number", "integer", "boolean", "array", "object", "null"}

// typeHabits are the names of these types in other languages.
var typeHabits = map[string]string{"str": "string", "text": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
	"list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null", "None": "null"}

var schemaKeywords = []string{"$schema", "$id", "$ref", "$defs", "$comment", "$anchor", "definitions", "type", "properties", "required", "additionalProperties",
	"patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "items", "prefixItems",
	"additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "enum", "const", "minimum", "maximum",
	"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema",
	"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
	"unevaluatedProperties", "unevaluatedItems"}

// schemaAt checks a JSON Schema that is written out.
func (c *checker) schemaAt(x syntax.Expr) {
	d, ok := unparenthesized(x).(*syntax.DictExpr)
	if !ok {
		return
	}
	properties := []string(nil)
	open := false
	for _, e := range d.List {
		entry := e.(*syntax.DictEntry)
		key, ok := literalString(entry.Key)
		if !ok {
			open = true
			continue
		}
		switch key {
		case "type":
			c.schemaType(entry.Value)
		case "properties", "patternProperties", "$defs", "definitions":
			names := c.schemasIn(entry.Value)
			if key == "properties" {
				properties, open = names, open || names == nil
			}
			open = open || key == "patternProperties"
		case "additionalProperties":
			c.schemaAt(entry.Value)
			id, isName := entry.Value.(*syntax.Ident)
			open = open || !isName || id.Name != "False" // others are expected
		case "items", "not", "if", "then", "else", "contains", "propertyNames":
			c.schemaAt(entry.Value)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			open = true
			if list, ok := entry.Value.(*syntax.ListExpr); ok {
				for _, el := range list.List {
					c.schemaAt(el)
				}
			}
		case "$ref", "patternProperty":
			open = true
		case "default":
			c.schemaDefault(d, entry.Value)
		default:
			c.schemaKeyword(entry.Key, key)
		}
	}
	if !open && properties != nil {
		c.requiredIn(d, properties)
	}
}

func unparenthesized(x syntax.Expr) syntax.Expr {
	if p, ok := x.(*syntax.ParenExpr); ok {
		return unparenthesized(p.X)
	}
	return x
}

// schemaKeyword reports keywords that are misspelt ones of JSON Schema: others may be extensions.
func (c *checker) schemaKeyword(at syntax.Expr, key string) {
	if slices.Contains(schemaKeywords, key) || strings.HasPrefix(key, "x-") {
		return
	}
	if near := display.Nearest(key, schemaKeywords); near != "" && len(key) > 3 {
		c.add("schema", at, "JSON Schema has no %q", key).Hint = fmt.Sprintf("did you mean %q?", near)
	}
}

func (c *checker) schemaType(x syntax.Expr) {
	if list, ok := x.(*syntax.ListExpr); ok {
		for _, el := range list.List {
			c.schemaType(el)
		}
		return
	}
	name, ok := literalString(x)
	if !ok || slices.Contains(schemaTypes, name) {
		return
	}
	p := c.add("schema", x, "no type %q in JSON Schema", name)
	if meant := typeHabits[name]; meant != "" {
		p.Hint = fmt.Sprintf("did you mean %q?", meant)
	} else if near := display.Nearest(name, schemaTypes); near != "" {
		p.Hint = fmt.Sprintf("did you mean %q?", near)
	}
}

// schemasIn checks the schemas under names, and returns the names; nil when not all are written out.
func (c *checker) schemasIn(x syntax.Expr) (names []string) {
	d, ok := unparenthesized(x).(*syntax.DictExpr)
	if !ok {
		return nil
	}
	names = []string{}
	for _, e := range d.List {
		entry := e.(*syntax.DictEntry)
		name, ok := literalString(entry.Key)
		if !ok {
			return nil
		}
		names = append(names, name)
		c.schemaAt(entry.Value)
	}
	return names
}

// requiredIn reports required names that are not properties.
func (c *checker) requiredIn(d *syntax.DictExpr, properties []string) {
	_, x := member(d, "required")
	list, ok := x.(*syntax.ListExpr)
	if !ok {
		return
	}
	for _, el := range list.List {
		name, ok := literalString(el)
		if !ok || slices.Contains(properties, name) {
			continue
		}
		p := c.add("schema", el, "%q is required, but is not a property", name)
		if near := display.Nearest(name, properties); near != "" {
			p.Hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
}

// schemaDefault reports a default that its schema does not allow.
func (c *checker) schemaDefault(d *syntax.DictExpr, x syntax.Expr) {
	raw, err := c.constants.JSON(d)
	value, valueErr := c.constants.JSON(x)
	if err != nil || valueErr != nil {
		return
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return // reported separately
	}
	if s.Validate(value) == nil {
		return
	}
	c.add("schema-default", x, "the default %s %s", value, defaultProblem(raw, value))
}

// defaultProblem returns why a default does not fit its schema.
func defaultProblem(raw, value json.RawMessage) string {
	var s struct {
		Type             any
		Minimum, Maximum *json.Number
		Enum             []any
	}
	_ = json.Unmarshal(raw, &s) // invalid parts are ignored
	n, _, err := big.ParseFloat(string(value), 10, 128, big.ToNearestEven)
	limit := func(l *json.Number) *big.Float {
		f, _, _ := big.ParseFloat(string(*l), 10, 128, big.ToNearestEven)
		return f
	}
	switch {
	case err == nil && s.Maximum != nil && n.Cmp(limit(s.Maximum)) > 0:
		return "is above the maximum " + string(*s.Maximum)
	case err == nil && s.Minimum != nil && n.Cmp(limit(s.Minimum)) < 0:
		return "is below the minimum " + string(*s.Minimum)
	case s.Enum != nil:
		return "is none of the values of enum"
	case s.Type != nil:
		return fmt.Sprintf("does not fit the type %v", s.Type)
	}
	return "does not fit its own schema"
}

// annotations warns about a tool that is declared read-only and calls one that writes.
func (c *checker) annotations(within []syntax.Stmt, declaration *syntax.CallExpr, x syntax.Expr, s *shared) {
	key, value := member(unparenthesized(x), "readOnlyHint")
	if id, ok := value.(*syntax.Ident); !ok || id.Name != "True" {
		return
	}
	for _, arg := range declaration.Args {
		if name, v, err := keyword(arg); err == nil && name == "trust_annotations" {
			if id, ok := v.(*syntax.Ident); ok && id.Name == "True" {
				return
			}
		}
	}
	reported := false
	syntax.Walk(&syntax.File{Stmts: within}, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || reported {
			return !reported
		}
		b := c.builtins.called(call)
		if b == nil || b.Tool.Name == "" {
			return true
		}
		if name, ok := literalString(b.Tool.of(call)); ok {
			c.needs.ask(name)
			if t, _ := s.tool(name); t != nil && t.Writes {
				c.warn("annotation", key, "declared as read-only, but calls %s", name)
				reported = true
			}
		}
		return true
	})
}
