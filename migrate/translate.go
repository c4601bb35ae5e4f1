package migrate

import (
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Translate writes a definition as a script. The error is diag.Problems with all mistakes for which
// the legacy engine would have refused the definition, when it loaded the file or when it started.
func Translate(def *Definition, o Options) (*Script, error) {
	w, noted, err := readDefinition(def, o.Fix)
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
		return nil, diag.Problems{{Pos: def.Pos, Code: codeMigrate, Message: err.Error()}}
	}
	s := &Script{
		Name: w.Name, Description: w.Description, Source: source, Pos: def.Pos,
		Timeout: w.Timeout, Unchecked: o.Style != Clean && !o.Checked,
		Tools: toolsOf(w),
		Notes: append(noted, notes...), Undeclared: w.Undeclared,
	}
	sortNotes(s.Notes)
	if o.Style != Clean {
		if s.Timeout == 0 {
			s.Timeout = defaultTimeout
		}
		s.Deadline = s.Timeout
		s.Timeout += timeoutSlack
	}
	if !w.Parameters.IsNull() {
		s.Parameters = w.Parameters.Json()
	}
	if w.Output != nil {
		s.Output = outputSchema(w.Output, o.Style != Clean && o.Checked)
	}
	if w.Annotations != nil {
		s.Annotations = w.Annotations.Json()
	}
	return s, nil
}

// toolsOf lists the tools that steps call.
func toolsOf(w *workflow) (list []Tool) {
	for _, s := range w.Steps {
		if s.Kind == forEachStep {
			s = s.Inner
		}
		tool := Tool{Name: s.Tool, Path: member(s.Path, "tool")}
		known := slices.ContainsFunc(list, func(t Tool) bool { return t.Name == s.Tool })
		if s.Kind != elicitationStep && !known {
			list = append(list, tool)
		}
	}
	return list
}

// outputSchema is the outputSchema of the tool. With nulls it is one that the results are checked with: in the engine null
// was a list and an object, as in Go, and nothing checked the results.
func outputSchema(o *output, nulls bool) json.RawMessage {
	m := propertiesSchema(o.Properties, nulls)
	if len(o.Required) > 0 {
		m["required"] = o.Required
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has only strings
	}
	return data
}

func propertiesSchema(list []*property, nulls bool) map[string]any {
	properties := map[string]any{}
	for _, p := range list {
		s := map[string]any{"type": p.Kind}
		switch {
		case p.Properties != nil:
			s = propertiesSchema(p.Properties, nulls)
		case nulls && (p.Kind == "array" || p.Kind == "object"):
			s["type"] = []string{p.Kind, "null"}
		}
		s["description"] = p.Description
		if p.Description == "" {
			s["description"] = p.Name
		}
		properties[p.Name] = s
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
