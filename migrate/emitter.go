package migrate

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// emitter is the common part of the styles. A script is written in two passes: the first one
// finds which parts of each step are used, the second one writes the script.
type emitter struct {
	w       *workflow
	fix     bool
	checked bool
	used    map[*step]*facets // found in the first pass
	seen    map[*step]*facets

	refs  map[*step][]*step // the steps that a step's templates name; nil is the output
	known map[*step][]*step // refs of the first pass

	names *names
	loads map[string]bool // functions of the legacy module that are used
	vars  map[*step]string
	notes []Note
}

func newEmitter(w *workflow, o Options) *emitter {
	return &emitter{w: w, fix: o.Fix, checked: o.Checked, used: map[*step]*facets{}}
}

// twice runs the two passes: it calls write twice, and resets all state between them but used and
// known. Nothing in a script may have one of the names in taken.
func (e *emitter) twice(taken []string, write func() error) error {
	for range 2 {
		e.seen = map[*step]*facets{}
		for _, s := range e.w.Steps {
			e.seen[s] = &facets{}
			if e.used[s] == nil {
				e.used[s] = &facets{true, true, true, true, []string{""}}
			}
		}
		e.names, e.loads, e.vars, e.notes = newNames(taken), map[string]bool{}, map[*step]string{}, nil
		for _, s := range e.w.Steps {
			e.vars[s] = e.names.step(s.Id)
		}
		e.known, e.refs = e.refs, map[*step][]*step{}
		if err := write(); err != nil {
			return err
		}
		e.used = e.seen
	}
	return nil
}

// loaded lists the functions of the legacy module that are used.
func (e *emitter) loaded() (list []string) {
	for _, name := range Module {
		if e.loads[name] {
			list = append(list, name)
		}
	}
	return list
}

// Module lists the names that scripts may load from the module "legacy".
var Module = strings.Fields(`NOTHING answer arguments as_array as_boolean as_integer as_map as_number as_object as_record
	as_string ask attempt broken_template call call_value condition deadline eq field for_each from_json gated ge gt
	html_escape index items js_escape latest le length lt ne pairs printf quote retry skipped slice sprint
	sprintln string template_error text timestamp to_json url_query workflow`)

// misplaced adds the position in the file to an error of a translation.
func (e *emitter) misplaced(t *template, err error) error {
	return diag.Problems{{Pos: t.Value.Pos, Path: t.Value.Path, Code: codeMigrate, Message: "template: " + err.Error()}}
}

// see notes that a part of a step is used.
func (e *emitter) see(s *step, names []string) {
	f := e.seen[s]
	if len(names) < 3 {
		*f = facets{true, true, true, true, append(f.parts, "")}
		return
	}
	switch names[2] {
	case "output":
		f.output = true
		part := ""
		if len(names) > 3 {
			part = names[3]
		}
		if !slices.Contains(f.parts, part) {
			f.parts = append(f.parts, part)
		}
	case "status":
		f.status = true
	case "content":
		f.content = true
	case "error":
		f.error = true
	}
}

// continuesOnError reports whether the workflow continues when the step has failed.
func (e *emitter) continuesOnError(s *step) bool {
	return s.MayFail() || e.w.GoOn
}

// mayBeSkipped reports whether templates may see a step that did not run.
func (e *emitter) mayBeSkipped(s *step) bool {
	if s.Condition != nil {
		return true
	}
	return e.w.Output != nil && slices.ContainsFunc(e.w.Steps, func(other *step) bool { return other != s && other.Skips() && other.Level <= s.Level })
}
