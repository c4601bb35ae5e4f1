package config

import (
	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Declared makes a scripted tool of the fields that a script declares with tool(...), given as
// a JSON object with the fields of a scriptedTools entry. The same rules apply, and the
// general limits are its defaults. The position of problems is pos, and their paths are those
// of the declared fields.
func (c *Config) Declared(pos diag.Pos, fields []byte) (*ScriptedTool, error) {
	d, t := document.New(pos.File, strict), &ScriptedTool{}
	if err := d.DecodePart(fields, declaredAt, t); err != nil {
		return nil, diag.Problems{{Pos: pos, Code: DeclarationCode, Message: "not JSON: " + err.Error()}}
	}
	v := &validator{Validator{Document: d}}
	v.ownName(map[string]string{}, declaredAt, t.Name)
	v.scripted(t, declaredAt)
	for i := range d.Problems {
		d.Problems[i].Pos, d.Problems[i].Code = pos, DeclarationCode
	}
	if len(d.Problems) > 0 {
		return nil, d.Problems
	}
	t.complete(c)
	return t, nil
}

// DeclarationCode is the code of problems of tool(...) declarations.
const DeclarationCode = "tool-declaration"

// declaredAt is the path of the fields that tool(...) declares.
const declaredAt = "tool"
