package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Flaw is one mistake in a schema.
type Flaw struct {
	At      []string // the path from the root: member names and indices
	Message string
}

// Draft is a version of JSON Schema.
type Draft = *jsonschema.Draft

// The supported drafts.
var (
	Draft7    Draft = jsonschema.Draft7
	Draft2020 Draft = jsonschema.Draft2020
)

// Flaws returns all mistakes in a schema of the configuration, by a draft. References out of the
// schema are mistakes, too.
func Flaws(raw json.RawMessage, draft Draft) []Flaw {
	doc, err := unmarshal(raw)
	if err != nil {
		return []Flaw{{Message: err.Error()}}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(noLoader{})
	if err = c.AddResource(location, doc); err == nil {
		_, err = c.Compile(location)
	}
	var unfit *jsonschema.SchemaValidationError
	if errors.As(err, &unfit) {
		err = unfit.Err
	}
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		found := innermost(nil, invalid)
		slices.SortStableFunc(found, func(a, b Flaw) int { return slices.Compare(a.At, b.At) })
		return found
	}
	return []Flaw{{Message: strings.NewReplacer(location, "", "\n", " ").Replace(err.Error())}}
}

// innermost appends the innermost causes of a validation error.
func innermost(found []Flaw, e *jsonschema.ValidationError) []Flaw {
	for _, cause := range e.Causes {
		found = innermost(found, cause)
	}
	if len(e.Causes) > 0 {
		return found
	}
	return append(found, Flaw{At: e.InstanceLocation, Message: "not a JSON Schema: " + e.ErrorKind.LocalizedString(english)})
}
