package migrate

import (
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Translate writes a definition as a script. The error is diag.Problems with everything that
// the legacy engine would have refused, when it loaded the file or when it started.
func Translate(def *Definition, o Options) (*Script, error) {
	w, noted, err := understand(def, o.Fix)
	if err != nil {
		return nil, err
	}
	write := exactSource
	if o.Style == Clean {
		write = cleanSource
	}
	source, notes, err := write(w, o)
	if err != nil {
		var problems diag.Problems
		if errors.As(err, &problems) {
			return nil, problems
		}
		return nil, diag.Problems{{Pos: def.Pos, Code: compositeCode, Message: err.Error()}}
	}
	s := &Script{
		Name: w.name, Description: w.description, Source: source, Pos: def.Pos,
		Timeout: w.timeout, Unchecked: o.Style != Clean && !o.Checked,
		Tools: toolsOf(w),
		Notes: append(noted, notes...),
	}
	sortNotes(s.Notes)
	if o.Style != Clean {
		if s.Timeout == 0 {
			s.Timeout = defaultTimeout
		}
		s.Deadline = s.Timeout
		s.Timeout += timeoutSlack
	}
	if !w.parameters.isNull() {
		s.Parameters = w.parameters.json()
	}
	if w.output != nil {
		s.Output = outputSchema(w.output)
	}
	if w.annotations != nil {
		s.Annotations = w.annotations.json()
	}
	return s, nil
}

// toolsOf lists the tools that steps call.
func toolsOf(w *workflow) (list []Tool) {
	for _, s := range w.steps {
		if s.kind == forEachStep {
			s = s.inner
		}
		tool := Tool{Name: s.tool, Path: member(s.path, "tool")}
		known := slices.ContainsFunc(list, func(t Tool) bool { return t.Name == s.tool })
		if s.kind != elicitationStep && !known {
			list = append(list, tool)
		}
	}
	return list
}

// outputSchema is what clients see.
func outputSchema(o *output) json.RawMessage {
	m := propertiesSchema(o.properties)
	if len(o.required) > 0 {
		m["required"] = o.required
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // only texts in there
	}
	return data
}

func propertiesSchema(list []*property) map[string]any {
	properties := map[string]any{}
	for _, p := range list {
		s := map[string]any{}
		if p.properties != nil {
			s = propertiesSchema(p.properties)
		}
		s["type"] = p.kind
		s["description"] = p.description
		if p.description == "" {
			s["description"] = p.name
		}
		properties[p.name] = s
	}
	return map[string]any{"type": "object", "properties": properties}
}

func sortNotes(list []Note) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Pos != b.Pos {
			return a.Pos.Line < b.Pos.Line || a.Pos.Line == b.Pos.Line && a.Pos.Column < b.Pos.Column
		}
		return a.Msg < b.Msg
	})
}
