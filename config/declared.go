package config

import (
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Declared makes a scripted tool of fields that a script file declares about itself: a
// JSON object with the fields of a scriptedTools entry. They are held to the same rules,
// and the general limits complete them. Problems stand at pos; their paths name the
// declared fields.
func (c *Config) Declared(pos diag.Pos, fields []byte) (*ScriptedTool, error) {
	d, t := document.New(pos.File, strict), &ScriptedTool{}
	if err := d.DecodePart(fields, declaredAt, t); err != nil {
		return nil, diag.Problems{{Pos: pos, Code: DeclarationCode, Message: "not JSON: " + err.Error()}}
	}
	v := &validator{Document: d}
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

// DeclarationCode is the code of problems with what a file declares about itself.
const DeclarationCode = "tool-declaration"

// declaredAt is the path of what tool(...) declares.
const declaredAt = "tool"
