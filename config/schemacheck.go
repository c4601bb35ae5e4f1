package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schema checks a JSON Schema of a tool: draft 2020-12, an object at the root, no
// references out of the document.
func (v *validator) schema(path string, raw Raw) {
	if raw.IsZero() || v.brokenBelow(path) {
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw.JSON))
	if err != nil {
		v.report(path, "not JSON: %v", err)
		return
	}
	root, ok := doc.(map[string]any)
	if !ok {
		v.report(path, "want a JSON Schema with type: object")
		return
	}
	if t := root["type"]; t != "object" {
		v.report(path, "want type: object at the root of the schema%s", haveType(t))
	}
	if draft, ok := root["$schema"]; ok && draft != jsonschema.Draft2020.String() {
		v.report(path+".$schema", "want draft 2020-12, %s, or nothing", jsonschema.Draft2020)
		return
	}
	v.compile(path, doc)
}

func haveType(t any) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(", have %v", t)
}

func (v *validator) brokenBelow(path string) bool {
	for p := range v.broken {
		if strings.HasPrefix(p, path) {
			return true
		}
	}
	return false
}

// noNetwork refuses every reference that is not in the schema itself.
type noNetwork struct{}

var errOutside = errors.New("a reference out of the schema; put the definition under $defs")

func (noNetwork) Load(string) (any, error) { return nil, errOutside }

func (v *validator) compile(path string, doc any) {
	const id = "mem:///schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noNetwork{})
	if err := c.AddResource(id, doc); err != nil {
		v.report(path, "%s", plainText(err))
		return
	}
	_, err := c.Compile(id)
	var unfit *jsonschema.SchemaValidationError
	if errors.As(err, &unfit) {
		err = unfit.Err
	}
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
	case errors.Is(err, errOutside):
		v.report(path, "%v", errOutside)
	case errors.As(err, &invalid):
		v.violations(path, invalid)
	default:
		v.report(path, "%s", plainText(err))
	}
}

// violations reports the innermost reasons of a schema that is none.
func (v *validator) violations(path string, e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		v.violations(path, cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	for _, token := range e.InstanceLocation {
		path = v.member(path, token)
	}
	v.report(path, "not a JSON Schema: %s", e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}

// member is the path of a member or, for a list, an entry.
func (v *validator) member(path, token string) string {
	if entry := path + "[" + token + "]"; v.set(entry) {
		return entry
	}
	return keyPath(path, token)
}

// plainText is the message without the name that the compiler knows the schema by.
func plainText(err error) string {
	return strings.NewReplacer("mem:///schema", "", "\n", " ").Replace(err.Error())
}
