package catalog

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// The rules of the kinds of definitions.
var (
	icons = elements(needs("src", members(map[string]rule{
		"src": text, "mimeType": text, "sizes": elements(text), "theme": oneOf("light", "dark"),
	})))
	toolHints = members(map[string]rule{
		"title": text, "readOnlyHint": truth, "destructiveHint": truth, "idempotentHint": truth, "openWorldHint": truth,
	})
	resourceHints = members(map[string]rule{
		"audience": elements(oneOf("user", "assistant")), "priority": number(0, 1), "lastModified": instant,
	})

	legacyTool = members(map[string]rule{
		"title": text, "description": text, "icons": icons, "annotations": toolHints, "_meta": object,
		"execution":   members(map[string]rule{"taskSupport": oneOf("required", "optional", "forbidden")}),
		"inputSchema": legacyInput, "outputSchema": legacyOutput,
	})
	modernTool = members(map[string]rule{
		"title": text, "description": text, "icons": icons, "annotations": toolHints, "_meta": object,
		"inputSchema":  ofObjects(members(map[string]rule{"$schema": text})),
		"outputSchema": members(map[string]rule{"$schema": text}),
	})
	promptRule = members(map[string]rule{
		"title": text, "description": text, "icons": icons, "_meta": object,
		"arguments": elements(needs("name", members(map[string]rule{"description": text, "required": truth}))),
	})
	resourceRule = members(map[string]rule{
		"title": text, "description": text, "mimeType": text, "icons": icons, "_meta": object,
		"size": number(-math.MaxFloat64, math.MaxFloat64), "annotations": resourceHints,
	})
	templateRule = members(map[string]rule{
		"title": text, "description": text, "mimeType": text, "icons": icons, "_meta": object, "annotations": resourceHints,
	})
)

// The schemas of a tool. Before 2026-07-28 both must have the type "object".
var (
	legacyInput  = ofObjects(legacySchema)
	legacyOutput = func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if len(v) > 0 && v[0] == '{' && !meansObject(v) {
			r.note(at, `its type is %.40s, clients before 2026-07-28 know "object" only; left out`, jsonscan.Get(v, "type"))
			return nil
		}
		out := legacyInput(r, at, v)
		if out == nil {
			return nil
		}
		if err := compiles(out); err != nil {
			r.note(at, "%v; left out", err)
			return nil
		}
		return out
	}
	legacySchema = members(map[string]rule{"$schema": text, "properties": properties, "required": elements(text)})
)

// ofObjects sets the type of a schema to "object".
func ofObjects(next rule) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if len(v) == 0 || v[0] != '{' {
			return r.leaveOut(at, "an object", v)
		}
		out := v
		if kind := jsonscan.Get(v, "type"); !isText(kind) || jsonscan.Text(kind) != "object" {
			r.note(at, `its type is %.60s; narrowed to "object"`, show(kind))
			out = jsonscan.Set(out, "type", jsonscan.Quote("object"))
		}
		return next(r, at, out)
	}
}

func show(v []byte) []byte {
	if len(v) == 0 {
		return []byte("not given")
	}
	return v
}

// meansObject reports whether a schema's type allows objects: it is "object", a list with
// "object", or absent.
func meansObject(v json.RawMessage) bool {
	kind := jsonscan.Get(v, "type")
	if jsonscan.Kind(kind) != "an array" {
		return len(kind) == 0 || kind[0] == 'n' || jsonscan.Text(kind) == "object"
	}
	has := false
	jsonscan.Elements(kind, func(e []byte) bool {
		has = isText(e) && jsonscan.Text(e) == "object"
		return !has
	})
	return has
}

// properties checks schemas, which clients accept as objects only. true and false are
// replaced by {} and {"not":{}}, which mean the same, without a note.
func properties(r *repair, at string, v json.RawMessage) json.RawMessage {
	if len(v) == 0 || v[0] != '{' {
		return r.leaveOut(at, "an object", v)
	}
	return jsonscan.Map(v, func(key string, value json.RawMessage) json.RawMessage {
		return property(r, join(at, key), value)
	})
}

func property(r *repair, at string, v json.RawMessage) json.RawMessage {
	switch {
	case v[0] == '{' && allFinite(v):
		return v
	case v[0] == '{':
		r.note(at, "it has a number out of the range of a double; made {}")
	case v[0] == 'f':
		return json.RawMessage(`{"not":{}}`)
	case v[0] == 't':
		return json.RawMessage("{}")
	default:
		r.note(at, "want a schema, have %s; made {}", jsonscan.Kind(v))
	}
	return json.RawMessage("{}")
}

// allFinite reports whether every number in v is in the range of a double.
func allFinite(v []byte) bool {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(v) && bytes.IndexByte([]byte("+-.0123456789eE"), v[end]) >= 0 {
				end++
			}
			if _, err := strconv.ParseFloat(string(v[i:end]), 64); err != nil {
				return false
			}
			i = end - 1
		}
	}
	return true
}
