package migrate

import (
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// Translate writes a definition as a script. The error is Errors with everything that
// the legacy engine would have refused, when it loaded the file or when it started.
func Translate(def *Definition, o Options) (*Script, error) {
	d := &decoder{decoding: def.decoding, fix: o.Fix}
	d.problems = append(d.problems, def.problems...)
	w := d.workflow(def)
	d.validate(w)
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		return nil, d.problems
	}
	style := gotmpl.Exact
	if o.Style == Clean {
		style = gotmpl.Clean
	}
	e := newEmitter(w, style, o)
	source, notes, err := e.source(d.notes)
	if err != nil {
		var problems Errors
		if errors.As(err, &problems) {
			return nil, problems
		}
		return nil, Errors{{Pos: def.Pos, Msg: err.Error()}}
	}
	s := &Script{
		Name: w.name, Description: w.description, Source: source, Pos: def.Pos,
		Timeout: w.timeout, Unchecked: style == gotmpl.Exact && !o.Checked,
		Tools: w.tools(),
		Notes: notes,
	}
	if style == gotmpl.Exact {
		if s.Timeout == 0 {
			s.Timeout = defaultTimeout
		}
		s.Timeout += timeoutSlack
	}
	if !w.parameters.isNull() {
		s.Parameters = w.parameters.json()
	}
	if w.output != nil {
		s.Output = w.output.schema()
	}
	if w.annotations != nil {
		s.Annotations = w.annotations.json()
	}
	return s, nil
}

// tools lists the tools that steps call.
func (w *workflow) tools() (list []string) {
	for _, s := range w.steps {
		tool := s.tool
		if s.kind == forEachStep {
			tool = s.inner.tool
		}
		if s.kind != elicitationStep && !slices.Contains(list, tool) {
			list = append(list, tool)
		}
	}
	return list
}

// schema is the output schema that clients see.
func (o *output) schema() json.RawMessage {
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

func sortProblems(list Errors) {
	sort.SliceStable(list, func(i, j int) bool { return list[i].Pos.before(list[j].Pos) })
}

func sortNotes(list []Note) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Pos != b.Pos {
			return a.Pos.before(b.Pos)
		}
		return a.Msg < b.Msg
	})
}

func (p Pos) before(o Pos) bool {
	if p.Line != o.Line {
		return p.Line < o.Line
	}
	return p.Column < o.Column
}
