// Package schema checks JSON texts against JSON Schemas (draft 2020-12) and fills in
// their defaults.
//
//	s, err := schema.Compile(raw)
//	args, err = s.Defaults(args)
//	err = s.Validate(args) // schema.Violations, each with its path
//
// Nothing is ever fetched: a $ref points into the schema itself or to a metaschema.
// A text goes in as bytes and comes out as bytes: order, big numbers and unknown
// members stay as they were.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema. It may be used by many goroutines.
type Schema struct {
	root     *jsonschema.Schema
	defaults map[*jsonschema.Schema]bool // those that have a default somewhere inside
}

// Compile compiles a schema that somebody here wrote: whatever is wrong with it is an error.
func Compile(raw json.RawMessage) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return compile(raw, c)
}

// CompileForeign compiles a schema that somebody else wrote, such as a backend's tool.
// Where their checks may be laxer than ours, anything goes: formats, and patterns in a
// dialect of regular expressions that cannot be run here.
func CompileForeign(raw json.RawMessage) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(lenientRegexp)
	return compile(raw, c)
}

func compile(raw json.RawMessage, c *jsonschema.Compiler) (*Schema, error) {
	doc, err := unmarshal(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	root, err := c.Compile(location)
	if err != nil {
		return nil, schemaError(err)
	}
	s := &Schema{root: root, defaults: map[*jsonschema.Schema]bool{}}
	s.findDefaults(root, map[*jsonschema.Schema]bool{})
	return s, nil
}

// location is the name of the schema to itself.
const location = "schema:///schema"

// schemaError says what is wrong with a schema, in the words of Violations.
func schemaError(err error) error {
	var bad *jsonschema.SchemaValidationError
	var why *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &why) {
		return fmt.Errorf("schema: %w", violations(why))
	}
	text := strings.ReplaceAll(err.Error(), location, "")
	return fmt.Errorf("schema: %s", text)
}

// noLoader refuses to load what a $ref points to.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a $ref must point into the schema itself")
}

type anything string

func (a anything) MatchString(string) bool { return true }
func (a anything) String() string          { return string(a) }

func lenientRegexp(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return anything(pattern), nil
	}
	return re, nil
}

// Validate checks a JSON text. The error is Violations when the text is JSON.
func (s *Schema) Validate(raw json.RawMessage) error {
	v, err := unmarshal(raw)
	if err != nil {
		return err
	}
	if err := s.root.Validate(v); err != nil {
		var why *jsonschema.ValidationError
		if errors.As(err, &why) {
			return violations(why)
		}
		return err
	}
	return nil
}

// unmarshal reads a JSON text and refuses numbers that would take long to compare.
func unmarshal(raw json.RawMessage) (any, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return v, checkNumbers(v)
}

func checkNumbers(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case json.Number:
		return checkNumber(string(v))
	}
	return nil
}

func checkNumber(n string) error {
	const maxDigits, maxExponent = 4096, 4096
	if len(n) > maxDigits {
		return fmt.Errorf("a number with %d digits: at most %d are read", len(n), maxDigits)
	}
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		exp, err := strconv.Atoi(strings.TrimPrefix(n[i+1:], "+"))
		if err != nil || exp > maxExponent || exp < -maxExponent {
			return fmt.Errorf("the number %s: exponents go up to %d", n, maxExponent)
		}
	}
	return nil
}
