package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// schema checks a JSON Schema of a tool: draft 2020-12, an object at the root, no
// references out of the document.
func (v *validator) schema(path string, raw Raw) {
	if raw.IsZero() || v.BrokenBelow(v.below+path) {
		return
	}
	var root map[string]any
	if err := json.Unmarshal(raw.JSON, &root); err != nil || root == nil {
		v.report(path, "want a JSON Schema with type: object")
		return
	}
	if t := root["type"]; t != "object" {
		v.report(path, "want type: object at the root of the schema%s", haveType(t))
	}
	if draft, ok := root["$schema"]; ok && draft != schema.Draft2020.String() {
		v.report(path+".$schema", "want draft 2020-12, %s, or nothing", schema.Draft2020)
		return
	}
	for _, flaw := range schema.Flaws(raw.JSON, schema.Draft2020) {
		at := path
		for _, token := range flaw.At {
			at = v.member(at, token)
		}
		v.report(at, "%s", flaw.Message)
	}
}

func haveType(t any) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(", have %v", t)
}

// member is the path of a member or, for a list, an entry.
func (v *validator) member(path, token string) string {
	if entry := path + "[" + token + "]"; v.set(entry) {
		return entry
	}
	return document.KeyPath(path, token)
}

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of the configuration file, for editors.
func Schema() []byte { return slices.Clone(schemaJSON) }
