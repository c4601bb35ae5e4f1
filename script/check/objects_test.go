package check_test

import (
	"strings"
	"testing"
)

// TestOpenObjectsStayOpen: a condition on one field of an object whose schema declares none says nothing about others, and
// the declared fields of an object are still the only ones.
func TestOpenObjectsStayOpen(t *testing.T) {
	object := func(o string) string {
		return `tool(name = "abc", description = "A.", parameters = {"type": "object", "required": ["o"], "properties": {"o": ` + o + `}})` + "\n\ndef run(params):\n    o = params[\"o\"]\n    "
	}
	bodies := []string{
		`return [r.get("name") for r in o.get("rows", []) if r.get("id")]`,
		"if o.get(\"deep\"):\n        return o.get(\"k\")",
		"if o and params[\"o\"].get(\"deep\"):\n        return params[\"o\"].get(\"k\")",
		"if \"deep\" in o:\n        return o[\"k\"]",
		"if \"deep\" not in o or not o[\"a\"]:\n        return o[\"k\"]\n    return o[\"l\"]",
		`return o["deep"] and o.get("k") or o["l"]`,
		`return o["k"] if o.get("deep") == "x" else o.get("l")`,
		"if o.get(\"deep\"):\n        o = o | {\"x\": 1}\n    return o.get(\"k\")",
		"if o.get(\"deep\"):\n        o[\"x\"] = 1\n    return o.get(\"k\")",
		"if o.get(\"deep\"):\n        log(o[\"deep\"])\n    return o.get(\"k\")",
	}
	for _, schema := range []string{`{"type": "object"}`, `{"type": "object", "additionalProperties": True}`, `{"type": "object", "additionalProperties": {}}`, `{"type": "object", "properties": {}}`} {
		for _, body := range bodies {
			if got := checkFiles(map[string]string{"abc": object(schema) + body + "\n"}); got != "" {
				t.Errorf("%s of %s:\n%s\n got %s\nwant nothing", "an object", schema, body, got)
			}
		}
	}
	declared := `{"type": "object", "properties": {"deep": {"type": "string"}}}`
	rows := object(`{"type": "array", "items": {"type": "object"}}`)
	if got := checkFiles(map[string]string{"abc": rows + "return [r.get(\"name\") for r in o if r.get(\"id\")]\n"}); got != "" {
		t.Errorf("rows of open objects: got %s, want nothing", got)
	}
	for _, body := range bodies[1:4] {
		if got := checkFiles(map[string]string{"abc": object(declared) + body + "\n"}); !strings.Contains(got, "the tool has no parameter k") {
			t.Errorf("an object of %s:\n%s\n got %s\nwant that it has no parameter k", declared, body, got)
		}
	}
}
