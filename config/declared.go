package config

import (
	"bytes"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Declared makes a scripted tool of fields that a script file declares about itself: a
// JSON object with the fields of a scriptedTools entry. They are held to the same rules,
// and the general limits complete them. Problems stand at pos; their paths name the
// declared fields.
func (c *Config) Declared(pos diag.Pos, fields []byte) (*ScriptedTool, error) {
	d := newDecoder(pos.File)
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(fields)).Decode(&doc); err != nil {
		return nil, diag.Problems{{Pos: pos, Code: DeclarationCode, Message: "not JSON: " + err.Error()}}
	}
	t := &ScriptedTool{}
	d.value(doc.Content[0], declaredAt, 0, reflect.ValueOf(t).Elem())
	v := &validator{decoder: d}
	v.ownName(map[string]string{}, declaredAt, t.Name)
	v.scripted(t, declaredAt)
	for i := range d.problems {
		d.problems[i].Pos, d.problems[i].Code = pos, DeclarationCode
	}
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	t.complete(c.Limits.Run)
	return t, nil
}

// DeclarationCode is the code of problems with what a file declares about itself.
const DeclarationCode = "tool-declaration"

// declaredAt is the path of what tool(...) declares.
const declaredAt = "tool"
