package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// compiles returns why clients on the TypeScript SDK v1 cannot compile an output schema. They
// compile the schema of every tool of a list, and drop the list if one fails. Their validator
// is Ajv with its default vocabulary (draft-07) and without validation against the metaschema:
// it ignores keywords of other drafts.
func compiles(schema json.RawMessage) error {
	c := definitionCompiler{root: schema, seen: map[string]bool{}, left: maxWork}
	return c.schema("#", schema)
}

// A compiler checks the parts of a schema that Ajv compiles.
type definitionCompiler struct {
	root json.RawMessage
	seen map[string]bool // references that were checked
	left int             // bytes that may still be read, of maxWork
}

// maxWork bounds the bytes read for one schema: a part is read once for each schema that
// contains it, and the whole schema for each reference.
const maxWork = 32 << 20

// spend subtracts n bytes from the work left; the error means that none is left.
func (c *definitionCompiler) spend(n int) error {
	if c.left -= n; c.left < 0 {
		return fmt.Errorf("it is too large, or has too many references, to be checked")
	}
	return nil
}

// takes are the kinds of value that Ajv accepts for a keyword, by their first letters:
// number, string, boolean, array and object.
var takes = map[string]string{
	"multipleOf": "n", "maximum": "n", "minimum": "n", "exclusiveMaximum": "n", "exclusiveMinimum": "n",
	"maxLength": "n", "minLength": "n", "maxProperties": "n", "minProperties": "n", "maxItems": "n", "minItems": "n",
	"pattern": "s", "format": "s", "required": "a", "uniqueItems": "b", "enum": "a", "nullable": "b", "type": "sa",
	"not": "ob", "if": "ob", "then": "ob", "else": "ob", "contains": "ob", "propertyNames": "ob",
	"additionalProperties": "ob", "additionalItems": "ob", "items": "oba",
	"anyOf": "a", "oneOf": "a", "allOf": "a", "properties": "o", "patternProperties": "o", "dependencies": "o", "$ref": "s",
}

// kindLetter returns the letter of a value's kind in takes, "-" for null.
func kindLetter(v []byte) string {
	switch jsonscan.Kind(v) {
	case "a number":
		return "n"
	case "a string":
		return "s"
	case "a boolean":
		return "b"
	case "an array":
		return "a"
	case "an object":
		return "o"
	}
	return "-"
}

// schema checks one schema; at is its path.
func (c *definitionCompiler) schema(at string, s json.RawMessage) (err error) {
	switch kindLetter(s) {
	case "o":
	case "b", "n", "s": // has no keywords
		return nil
	default:
		return fmt.Errorf("%s: want a schema, have %s", at, jsonscan.Kind(s))
	}
	if err := c.spend(len(s)); err != nil {
		return err
	}
	jsonscan.Each(s, func(k, v []byte) bool {
		err = c.keyword(at, string(k), v)
		return err == nil
	})
	if err != nil {
		return err
	}
	return checkTypes(at, s)
}

func (c *definitionCompiler) keyword(at, key string, v json.RawMessage) error {
	at += "/" + key
	if want, known := takes[key]; known && !strings.Contains(want, kindLetter(v)) {
		return fmt.Errorf("%s cannot be %s", at, jsonscan.Kind(v))
	}
	switch key {
	case "id":
		return fmt.Errorf(`%s: this keyword exists in draft-04 only`, at)
	case "$id":
		if !isText(v) {
			return fmt.Errorf("%s cannot be %s", at, jsonscan.Kind(v))
		}
	case "$ref":
		return c.reference(at, jsonscan.Text(v))
	case "pattern":
		return ecmaRegexp(at, jsonscan.Text(v))
	case "enum":
		if string(jsonscan.Compact(v)) == "[]" {
			return fmt.Errorf("%s: want values, have none", at)
		}
	case "properties", "patternProperties", "dependencies":
		return c.named(at, key, v)
	case "anyOf", "oneOf", "allOf":
		return c.all(at, v)
	case "items":
		if v[0] == '[' {
			return c.all(at, v)
		}
		return c.schema(at, v)
	case "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems":
		return c.schema(at, v)
	}
	return nil
}

// named checks the schemas of an object's members.
func (c *definitionCompiler) named(at, key string, v json.RawMessage) (err error) {
	jsonscan.Each(v, func(k, part []byte) bool {
		where := at + "/" + string(k)
		if key == "patternProperties" && part[0] == '{' && !bytes.Equal(jsonscan.Compact(part), []byte("{}")) {
			err = ecmaRegexp(at, string(k))
		}
		if err == nil && !(key == "dependencies" && part[0] == '[') {
			err = c.schema(where, part)
		}
		return err == nil
	})
	return err
}

func (c *definitionCompiler) all(at string, v json.RawMessage) (err error) {
	n := 0
	jsonscan.Elements(v, func(part []byte) bool {
		err = c.schema(at+"/"+strconv.Itoa(n), part)
		n++
		return err == nil
	})
	return err
}

// reference checks the target of a $ref, once.
func (c *definitionCompiler) reference(at, ref string) error {
	if c.seen[ref] {
		return nil
	}
	c.seen[ref] = true
	target, local := strings.CutPrefix(ref, "#")
	if id := jsonscan.GetString(c.root, "$id"); !local && id != "" {
		target, local = strings.CutPrefix(ref, strings.TrimSuffix(id, "#")+"#")
	}
	if !local {
		if strings.TrimSuffix(ref, "#") == "http://json-schema.org/draft-07/schema" {
			return nil
		}
		return fmt.Errorf("%s: %.100q is not in the schema", at, ref)
	}
	if err := c.spend(len(c.root)); err != nil {
		return err
	}
	found := c.find(target)
	if found == nil {
		return fmt.Errorf("%s: there is no %.100q", at, ref)
	}
	circular, err := c.circular(found)
	if circular {
		err = fmt.Errorf("%s: %.100q is circular", at, ref)
	}
	if err != nil {
		return err
	}
	return c.schema("#"+target, found)
}

// circular reports whether a chain of references has no end.
func (c *definitionCompiler) circular(s json.RawMessage) (bool, error) {
	for range maxReferences {
		next, local := strings.CutPrefix(jsonscan.GetString(s, "$ref"), "#")
		if !local {
			return false, nil
		}
		if err := c.spend(len(c.root)); err != nil {
			return false, err
		}
		if s = c.find(next); s == nil {
			return false, nil
		}
	}
	return true, nil
}

// maxReferences is longer than the chains of references in real schemas.
const maxReferences = 100

// find returns the value at a JSON pointer in a fragment, or that of an anchor; nil for none.
func (c *definitionCompiler) find(fragment string) json.RawMessage {
	if fragment == "" {
		return c.root
	}
	path, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if path[0] != '/' {
		return anchor(c.root, path)
	}
	v := c.root
	for part := range strings.SplitSeq(path[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if v = child(v, part); v == nil {
			return nil
		}
	}
	return v
}

func child(v json.RawMessage, key string) json.RawMessage {
	if v[0] != '[' {
		return jsonscan.Get(v, key)
	}
	index, err := strconv.Atoi(key)
	if err != nil {
		return nil
	}
	var found json.RawMessage
	n := 0
	jsonscan.Elements(v, func(e []byte) bool {
		if n == index {
			found = e
		}
		n++
		return found == nil
	})
	return found
}

// anchor returns the schema with an $anchor or $dynamicAnchor; nil for none.
func anchor(v json.RawMessage, name string) (found json.RawMessage) {
	look := func(e []byte) bool {
		found = anchor(e, name)
		return found == nil
	}
	switch {
	case v[0] == '{' && (jsonscan.GetString(v, "$anchor") == name || jsonscan.GetString(v, "$dynamicAnchor") == name):
		return v
	case v[0] == '{':
		jsonscan.Each(v, func(_, e []byte) bool { return look(e) })
	case v[0] == '[':
		jsonscan.Elements(v, look)
	}
	return found
}

var typeNames = []string{"string", "number", "integer", "boolean", "null", "object", "array"}

// checkTypes checks the names of types, and nullable, which needs a type.
func checkTypes(at string, s json.RawMessage) (err error) {
	kind := jsonscan.Get(s, "type")
	var names []string
	add := func(e []byte) bool {
		names = append(names, jsonscan.Text(e))
		if !isText(e) || !slices.Contains(typeNames, jsonscan.Text(e)) {
			err = fmt.Errorf("%s/type: %.60s is not a type", at, e)
		}
		return err == nil
	}
	if len(kind) > 0 && kind[0] == '[' {
		jsonscan.Elements(kind, add)
	} else if isText(kind) && jsonscan.Text(kind) != "" {
		add(kind)
	}
	nullable := jsonscan.Get(s, "nullable")
	switch {
	case err != nil || nullable == nil:
	case slices.Contains(names, "null") && nullable[0] == 'f':
		err = fmt.Errorf("%s/nullable: false, and the type has null", at)
	case len(names) == 0:
		err = fmt.Errorf("%s/nullable: needs a type", at)
	}
	return err
}
