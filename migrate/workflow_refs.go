package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// checkReferences checks the fields that templates name: a field of a step that may
// be skipped has to have a default, and fields that do not exist are noted.
func (d *decoder) checkReferences(w *workflow) {
	needs := map[string]map[string]string{} // step, field: who refers to it
	for _, s := range w.Steps {
		for _, t := range s.checked() {
			d.references(w, t, "step "+s.Id, needs)
		}
		for _, t := range s.unchecked() {
			d.references(w, t, "", nil)
		}
	}
	if w.Output != nil {
		d.outputReferences(w, w.Output.Properties, needs)
	}
	for _, s := range w.Steps {
		if s.Condition == nil && !s.MayFail() {
			continue
		}
		if s.Kind == forEachStep {
			d.loopDefaults(s, needs[s.Id])
		}
		for _, field := range slices.Sorted(maps.Keys(needs[s.Id])) {
			if s.Defaults.Mapping().Get(field) == nil {
				d.wrong(s.At("defaultResults"), member(member(s.Path, "defaultResults"), field), "missing: %s uses the field, and the step may be skipped or fail", needs[s.Id][field])
			}
		}
	}
}

// loopDefaults adds missing defaults to a loop whose fields templates use: those of a loop without
// elements.
func (d *decoder) loopDefaults(s *step, needed map[string]string) {
	empty := map[string]any{"completed": 0, "count": 0, "failed": 0, "iterations": []any{}}
	missing := false
	for field := range needed {
		_, known := empty[field]
		missing = missing || known && s.Defaults.Mapping().Get(field) == nil
	}
	if !missing || !d.fix {
		return
	}
	d.note(s.At("defaultResults"), member(s.Path, "defaultResults"), "a loop that does not run counts as one without elements")
	mended := constantOfFile(s.pos, map[string]any{})
	if s.Defaults != nil {
		mended.Mapping().add(s.Defaults.Mapping())
	}
	mended.Mapping().add(constantOfFile(s.pos, empty).Mapping())
	s.Defaults = mended
}

// checked are the templates of a step whose references the legacy engine checked.
func (s *step) checked() (list []*template) {
	list = append(list, s.Condition, s.Message)
	if m := s.Arguments.Mapping(); m != nil {
		for _, k := range m.Keys {
			list = append(list, s.Templates[m.Values[k]])
		}
	}
	return list
}

// unchecked are the other templates of a step.
func (s *step) unchecked() (list []*template) {
	list = append(list, s.Collection)
	top := s.checked()
	for _, t := range s.Templates {
		if !slices.Contains(top, t) {
			list = append(list, t)
		}
	}
	if s.Inner != nil {
		list = append(list, slices.Collect(maps.Values(s.Inner.Templates))...)
	}
	return list
}

func (d *decoder) outputReferences(w *workflow, properties []*property, needs map[string]map[string]string) {
	for _, p := range properties {
		d.references(w, p.Value, "the output "+p.Name, needs)
		d.outputReferences(w, p.Properties, needs)
	}
}

// references notes the fields of steps that a template names.
func (d *decoder) references(w *workflow, t *template, who string, needs map[string]map[string]string) {
	if t == nil || t.Parsed == nil {
		return
	}
	for _, path := range t.Parsed.Fields() {
		if len(path) >= 4 && path[0] == "steps" && path[2] == "output" && needs != nil {
			if needs[path[1]] == nil {
				needs[path[1]] = map[string]string{}
			}
			needs[path[1]][path[3]] = who
		}
		d.strange(w, t.Value, path)
	}
}

// roots are the first names of the paths that templates can name.
var roots = []string{"params", "steps", "vars", "workflow", "forEach"}

// strange notes a path that does not exist.
func (d *decoder) strange(w *workflow, v *value, path []string) {
	full := "." + strings.Join(path, ".")
	switch {
	case path[0] == "timestamp":
		d.timestamp(v)
	case path[0] == "params":
		d.undeclared(w, v, path, 1, w.Parameters)
	case path[0] == "steps" && len(path) > 1:
		d.strangeStep(w, v, path)
	case !slices.Contains(roots, path[0]):
		d.note(v.Pos, v.Path, "templates see params, steps, vars, workflow and, in loops, forEach: %s is always <no value>", full)
	}
}

// undeclared notes a name in a path, at the index from or after it, that a schema with properties does not have. Clients
// may send it nevertheless, unless the schema forbids that.
func (d *decoder) undeclared(w *workflow, v *value, path []string, from int, schema *value) {
	for i := from; i < len(path); i++ {
		m := schema.Mapping()
		properties := m.Get("properties").Mapping()
		if properties == nil || len(properties.Keys) == 0 || m.Get("additionalProperties") != nil || m.Get("patternProperties") != nil {
			return
		}
		if schema = properties.Get(path[i]); schema == nil {
			w.Undeclared = true
			full := "." + strings.Join(path, ".")
			d.note(v.Pos, v.Path, "%s is <no value> unless it is sent all the same: the schema has no property %q%s", full, path[i], display.Hint(path[i], properties.Keys))
			return
		}
	}
}

// strangeStep notes a part of a step that does not exist.
func (d *decoder) strangeStep(w *workflow, v *value, path []string) {
	full := "." + strings.Join(path, ".")
	i := slices.IndexFunc(w.Steps, func(s *step) bool { return s.Id == path[1] })
	if i < 0 {
		d.note(v.Pos, v.Path, "there is no step %q: %s is always <no value>", path[1], full)
		return
	}
	if len(path) < 3 {
		return
	}
	meant := ".steps." + path[1] + ".output." + strings.Join(path[2:], ".")
	asked := w.Steps[i].Kind == elicitationStep
	switch {
	case asked && len(path) > 4 && path[2] == "output" && path[3] == "content":
		d.undeclared(w, v, path, 4, w.Steps[i].Schema)
	case asked && (path[2] == "action" || path[2] == "content") && d.fix:
		d.note(v.Pos, v.Path, "%s is read as %s", full, meant)
	case asked && path[2] == "content":
		d.note(v.Pos, v.Path, "the content of an elicitation step is always empty, what the user filled in is in its output: %s?", meant)
	case !slices.Contains([]string{"status", "output", "content", "error"}, path[2]):
		d.note(v.Pos, v.Path, "a step has status, output, content and error: %s is always <no value>; %s?", full, meant)
	}
}

func (d *decoder) timestamp(v *value) {
	if d.fix {
		d.note(v.Pos, v.Path, "there is no .timestamp: the time of the call takes its place")
		return
	}
	d.note(v.Pos, v.Path, "there is no .timestamp: it is always <no value>; --fix would put the time of the call there")
}

// goText writes a value as the legacy engine printed it: in the format of fmt.
func goText(v *value) string { return fmt.Sprint(plain(v)) }

// plain converts a value into one of Go.
func plain(v *value) any {
	if v == nil {
		return nil
	}
	switch d := v.Data.(type) {
	case []*value:
		out := make([]any, len(d))
		for i, e := range d {
			out[i] = plain(e)
		}
		return out
	case *mapping:
		out := map[string]any{}
		for _, k := range d.Keys {
			out[k] = plain(d.Values[k])
		}
		return out
	default:
		return d
	}
}

// parseJSONText parses JSON as the legacy engine did: numbers are floats.
func parseJSONText(s string) (*value, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return fromPlain(v), nil
}

func fromPlain(v any) *value {
	switch d := v.(type) {
	case []any:
		list := make([]*value, len(d))
		for i, e := range d {
			list[i] = fromPlain(e)
		}
		return &value{Data: list}
	case map[string]any:
		m := &mapping{Values: map[string]*value{}, Places: map[string]diag.Pos{}}
		for _, k := range slices.Sorted(maps.Keys(d)) {
			m.Keys = append(m.Keys, k)
			m.Values[k] = fromPlain(d[k])
		}
		return &value{Data: m}
	}
	return &value{Data: v}
}

// Whole returns the value with whole floats as integers, which are the same in JSON.
func (v *value) Whole() *value {
	out := *v
	switch d := v.Data.(type) {
	case float64:
		if d == float64(int(d)) {
			out.Data = int(d)
		}
	case []*value:
		list := make([]*value, len(d))
		for i, e := range d {
			list[i] = e.Whole()
		}
		out.Data = list
	case *mapping:
		m := &mapping{Keys: d.Keys, Places: d.Places, Values: map[string]*value{}}
		for k, e := range d.Values {
			m.Values[k] = e.Whole()
		}
		out.Data = m
	}
	return &out
}
