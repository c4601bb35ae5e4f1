package config

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// Schema checks a JSON Schema of a tool: draft 2020-12, an object at the root, no
// references out of the document.
func (v *Validator) Schema(path string, raw document.Raw) {
	if raw.IsZero() || v.Document.BrokenBelow(v.Below+path) {
		return
	}
	var root map[string]any
	if err := json.Unmarshal(raw.JSON, &root); err != nil || root == nil {
		v.Report(path, "want a JSON Schema with type: object")
		return
	}
	if t := root["type"]; t != "object" {
		v.Report(path, "want type: object at the root of the schema%s", haveType(t))
	}
	if draft, ok := root["$schema"]; ok && draft != schema.Draft2020.String() {
		v.Report(path+".$schema", "want draft 2020-12, %s, or nothing", schema.Draft2020)
		return
	}
	for _, flaw := range schema.Flaws(raw.JSON, schema.Draft2020) {
		at := path
		for _, token := range flaw.At {
			at = v.Member(at, token)
		}
		v.Report(at, "%s", flaw.Message)
	}
}

func haveType(t any) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(", have %v", t)
}
