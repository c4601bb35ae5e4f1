// Package schema validates JSON texts against JSON Schemas (draft 2020-12) and adds
// their defaults.
//
//	s, err := schema.Compile(raw)
//	args, err = s.Defaults(args)
//	err = s.Validate(args) // schema.Violations, each with its path
//
// Nothing is fetched: a $ref must point into the schema itself or to a metaschema.
// Texts are bytes in and out: order, large numbers and unknown members are kept.
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

	"github.com/vmcp-dev/vmcp/internal/regex"
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	root     *jsonschema.Schema
	defaults map[*jsonschema.Schema]bool // schemas that contain a default at any level
}

// Compile compiles a schema of the configuration strictly: formats are checked, and every mistake is an
// error.
func Compile(raw json.RawMessage) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return compile(raw, c)
}

// CompileForeign compiles a schema of others, such as a backend's tool, leniently: formats
// are not checked, and a pattern in another dialect of regular expressions matches any
// string.
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

// location is the URL of the schema within the compiler.
const location = "schema:///schema"

// schemaError returns the error of a schema in the form of Violations.
func schemaError(err error) error {
	var bad *jsonschema.SchemaValidationError
	var why *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &why) {
		return fmt.Errorf("schema: %w", violations(why))
	}
	text := strings.ReplaceAll(err.Error(), location, "")
	return fmt.Errorf("schema: %s", text)
}

// noLoader refuses to load the target of a $ref.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a $ref must point into the schema itself")
}

type anything string

func (a anything) MatchString(string) bool { return true }
func (a anything) String() string          { return string(a) }

// maxPatternCost bounds compiling a pattern, in microseconds.
const maxPatternCost = 100_000

// lenientRegexp compiles a pattern. One that is in another syntax, or takes too long to compile, matches anything.
func lenientRegexp(pattern string) (jsonschema.Regexp, error) {
	if regex.Cost(pattern) > maxPatternCost {
		return anything(pattern), nil
	}
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

// unmarshal decodes a JSON text and refuses numbers that are slow to compare.
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
		return fmt.Errorf("a number with %d digits, want at most %d", len(n), maxDigits)
	}
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		exp, err := strconv.Atoi(strings.TrimPrefix(n[i+1:], "+"))
		if err != nil || exp > maxExponent || exp < -maxExponent {
			return fmt.Errorf("the number %s: want an exponent of at most %d", n, maxExponent)
		}
	}
	return nil
}
