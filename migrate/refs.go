package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// checkReferences looks at the fields that templates name: a field of a step that may
// be skipped has to have a default, and fields that nothing has are noted.
func (d *decoder) checkReferences(w *workflow) {
	needs := map[string]map[string]string{} // step, field: who refers to it
	for _, s := range w.steps {
		for _, t := range s.checked() {
			d.references(w, t, "step "+s.id, needs)
		}
		for _, t := range s.unchecked() {
			d.references(w, t, "", nil)
		}
	}
	if w.output != nil {
		d.outputReferences(w, w.output.properties, needs)
	}
	for _, s := range w.steps {
		if s.condition == nil && !s.mayFail() {
			continue
		}
		if s.kind == forEachStep {
			d.loopDefaults(s, needs[s.id])
		}
		for _, field := range slices.Sorted(maps.Keys(needs[s.id])) {
			if s.defaults.mapping().get(field) == nil {
				d.wrong(s.at("defaultResults"), member(member(s.path, "defaultResults"), field), "missing: %s uses the field, and the step may be skipped or fail", needs[s.id][field])
			}
		}
	}
}

// loopDefaults mends a loop of which templates use what every loop has: when it did not
// run, it is one without elements.
func (d *decoder) loopDefaults(s *step, needed map[string]string) {
	empty := map[string]any{"completed": 0, "count": 0, "failed": 0, "iterations": []any{}}
	missing := false
	for field := range needed {
		_, known := empty[field]
		missing = missing || known && s.defaults.mapping().get(field) == nil
	}
	if !missing || !d.fix {
		return
	}
	d.note(s.at("defaultResults"), member(s.path, "defaultResults"), "a loop that does not run counts as one without elements")
	mended := constantOfFile(s.pos, map[string]any{})
	if s.defaults != nil {
		mended.mapping().add(s.defaults.mapping())
	}
	mended.mapping().add(constantOfFile(s.pos, empty).mapping())
	s.defaults = mended
}

// checked are the templates of a step in which the legacy engine looked for references.
func (s *step) checked() (list []*tmpl) {
	list = append(list, s.condition, s.message)
	if m := s.arguments.mapping(); m != nil {
		for _, k := range m.keys {
			list = append(list, s.templates[m.values[k]])
		}
	}
	return list
}

// unchecked are the other templates of a step.
func (s *step) unchecked() (list []*tmpl) {
	list = append(list, s.collection)
	top := s.checked()
	for _, t := range s.templates {
		if !slices.Contains(top, t) {
			list = append(list, t)
		}
	}
	if s.inner != nil {
		list = append(list, slices.Collect(maps.Values(s.inner.templates))...)
	}
	return list
}

func (d *decoder) outputReferences(w *workflow, properties []*property, needs map[string]map[string]string) {
	for _, p := range properties {
		d.references(w, p.value, "the output "+p.name, needs)
		d.outputReferences(w, p.properties, needs)
	}
}

// references notes the fields of steps that a template names.
func (d *decoder) references(w *workflow, t *tmpl, who string, needs map[string]map[string]string) {
	if t == nil || t.parsed == nil {
		return
	}
	for _, path := range t.parsed.Fields() {
		if len(path) >= 4 && path[0] == "steps" && path[2] == "output" && needs != nil {
			if needs[path[1]] == nil {
				needs[path[1]] = map[string]string{}
			}
			needs[path[1]][path[3]] = who
		}
		d.strange(w, t.value, path)
	}
}

// roots are what templates can name.
var roots = []string{"params", "steps", "vars", "workflow", "forEach"}

// strange notes a path that nothing has.
func (d *decoder) strange(w *workflow, v *value, path []string) {
	full := "." + strings.Join(path, ".")
	switch {
	case path[0] == "timestamp":
		d.timestamp(v)
	case path[0] == "steps" && len(path) > 1:
		d.strangeStep(w, v, path)
	case !slices.Contains(roots, path[0]):
		d.note(v.pos, v.path, "templates see params, steps, vars, workflow and, in loops, forEach: %s is always <no value>", full)
	}
}

// strangeStep notes a part that no step has.
func (d *decoder) strangeStep(w *workflow, v *value, path []string) {
	full := "." + strings.Join(path, ".")
	i := slices.IndexFunc(w.steps, func(s *step) bool { return s.id == path[1] })
	if i < 0 {
		d.note(v.pos, v.path, "there is no step %q: %s is always <no value>", path[1], full)
		return
	}
	if len(path) < 3 {
		return
	}
	meant := ".steps." + path[1] + ".output." + strings.Join(path[2:], ".")
	asked := w.steps[i].kind == elicitationStep
	switch {
	case asked && (path[2] == "action" || path[2] == "content") && d.fix:
		d.note(v.pos, v.path, "%s is read as %s", full, meant)
	case asked && path[2] == "content":
		d.note(v.pos, v.path, "the content of an elicitation step is always empty, what the user filled in is in its output: %s?", meant)
	case !slices.Contains([]string{"status", "output", "content", "error"}, path[2]):
		d.note(v.pos, v.path, "a step has status, output, content and error: %s is always <no value>; %s?", full, meant)
	}
}

func (d *decoder) timestamp(v *value) {
	if d.fix {
		d.note(v.pos, v.path, "there is no .timestamp: the time of the call takes its place")
		return
	}
	d.note(v.pos, v.path, "there is no .timestamp: it is always <no value>; --fix would put the time of the call there")
}

// goText writes a value as the legacy engine printed it: in Go's way.
func goText(v *value) string { return fmt.Sprint(plain(v)) }

// plain makes values of Go.
func plain(v *value) any {
	if v == nil {
		return nil
	}
	switch d := v.data.(type) {
	case []*value:
		out := make([]any, len(d))
		for i, e := range d {
			out[i] = plain(e)
		}
		return out
	case *mapping:
		out := map[string]any{}
		for _, k := range d.keys {
			out[k] = plain(d.values[k])
		}
		return out
	default:
		return d
	}
}

// parseJSONText reads JSON the way that the legacy engine did: numbers are floats.
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
		return &value{data: list}
	case map[string]any:
		m := &mapping{values: map[string]*value{}, places: map[string]diag.Pos{}}
		for _, k := range slices.Sorted(maps.Keys(d)) {
			m.keys = append(m.keys, k)
			m.values[k] = fromPlain(d[k])
		}
		return &value{data: m}
	}
	return &value{data: v}
}

// whole returns the value with whole floats as integers, which are the same in JSON.
func (v *value) whole() *value {
	out := *v
	switch d := v.data.(type) {
	case float64:
		if d == float64(int(d)) {
			out.data = int(d)
		}
	case []*value:
		list := make([]*value, len(d))
		for i, e := range d {
			list[i] = e.whole()
		}
		out.data = list
	case *mapping:
		m := &mapping{keys: d.keys, places: d.places, values: map[string]*value{}}
		for k, e := range d.values {
			m.values[k] = e.whole()
		}
		out.data = m
	}
	return &out
}
