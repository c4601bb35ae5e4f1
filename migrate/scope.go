package migrate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// facets are the parts of a step that templates use.
type facets struct {
	output, status, content, error bool
	parts                          []string // of the output; "" is all of it
}

func (f *facets) any() bool { return f.output || f.status || f.content || f.error }

// scope is the context of the templates of one field.
type scope struct {
	e     *exact
	step  *step  // that the template belongs to; nil for the output
	place string // for errors
	item  string // names of the variables of a forEach; "" outside
	index string
}

// Place, Fresh and Load implement gotmpl.Scope, with Field and Root.
func (s *scope) Place() string            { return s.place }
func (s *scope) Fresh(hint string) string { return s.e.names.fresh(hint) }
func (s *scope) Load(name string)         { s.e.loads[name] = true }

// Field returns the expression of the longest known prefix of a path, and its length.
func (s *scope) Field(names []string) (gotmpl.Expr, int) {
	switch names[0] {
	case "params":
		return s.e.params(names)
	case "steps":
		return s.steps(names)
	case "workflow":
		return s.workflow(names)
	case "forEach":
		return s.forEach(names)
	case "vars":
		if len(names) == 1 {
			return gotmpl.Expr{Code: "{}", Kind: gotmpl.Map}, 1
		}
	case "timestamp":
		if s.e.fix {
			return s.e.timestamp(), 1
		}
	}
	return gotmpl.None, len(names)
}

// Root returns the whole context.
func (s *scope) Root() gotmpl.Expr {
	entries := []string{}
	for _, name := range roots {
		if name == "forEach" && s.item == "" {
			continue
		}
		e, _ := s.Field([]string{name})
		entries = append(entries, gotmpl.Quote(name)+": "+e.Code)
	}
	return gotmpl.Expr{Code: gotmpl.Dict(entries), Kind: gotmpl.Map}
}

// begun reports whether a step has begun when the template is rendered.
func (s *scope) begun(other *step) bool {
	return s.step == nil || other.Level < s.step.Level
}

// steps returns a part of a step.
func (s *scope) steps(names []string) (gotmpl.Expr, int) {
	if len(names) == 1 {
		entries := []string{}
		for _, other := range s.e.w.Steps {
			if s.begun(other) || other == s.step {
				e, _ := s.steps([]string{"steps", other.Id})
				entries = append(entries, gotmpl.Quote(other.Id)+": "+e.Code)
			}
		}
		return gotmpl.Expr{Code: gotmpl.Dict(entries), Kind: gotmpl.Map}, 1
	}
	i := slices.IndexFunc(s.e.w.Steps, func(other *step) bool { return other.Id == names[1] })
	if i < 0 {
		return gotmpl.None, len(names)
	}
	other := s.e.w.Steps[i]
	if s.e.fix && len(names) > 2 && other.Kind == elicitationStep && (names[2] == "action" || names[2] == "content") {
		e, used := s.steps(slices.Insert(slices.Clone(names), 2, "output"))
		return e, used - 1
	}
	switch {
	case other == s.step:
		return s.running(names)
	case !s.begun(other):
		return gotmpl.None, len(names)
	}
	if !slices.Contains(s.e.refs[s.step], other) {
		s.e.refs[s.step] = append(s.e.refs[s.step], other)
	}
	return s.e.stepField(other, names)
}

// running returns a part of the step that is running, for its own templates.
func (s *scope) running(names []string) (gotmpl.Expr, int) {
	nothing := s.e.nothing()
	if len(names) == 2 {
		return gotmpl.Expr{
			Code: gotmpl.Dict([]string{`"status": "running"`, `"output": ` + nothing.Code, `"content": ` + nothing.Code}),
			Kind: gotmpl.Map,
		}, 2
	}
	switch names[2] {
	case "status":
		return gotmpl.String("running"), 3
	case "output", "content":
		if len(names) == 3 {
			return nothing, 3
		}
	}
	return gotmpl.None, len(names)
}

// workflow returns a part of .workflow: the id, the start and the counters of the run.
func (s *scope) workflow(names []string) (gotmpl.Expr, int) {
	s.Load("workflow")
	all := "workflow()"
	if s.step == nil {
		all = "workflow(done = True)"
	}
	if len(names) == 1 {
		return gotmpl.Expr{Code: all, Kind: gotmpl.Map}, 1
	}
	part := func(kind gotmpl.Kind) (gotmpl.Expr, int) {
		return gotmpl.Expr{Code: all + "[" + gotmpl.Quote(names[1]) + "]", Kind: kind}, 2
	}
	switch names[1] {
	case "id", "start_time", "status":
		return part(gotmpl.Text)
	case "duration_ms", "step_count":
		return part(gotmpl.Int)
	}
	return gotmpl.None, len(names)
}

// forEach returns the element, or its index.
func (s *scope) forEach(names []string) (gotmpl.Expr, int) {
	if s.item == "" {
		return gotmpl.None, len(names)
	}
	item := s.step.ItemName()
	if len(names) == 1 {
		return gotmpl.Expr{
			Code: gotmpl.Dict([]string{gotmpl.Quote(item) + ": " + s.item, `"index": ` + s.index}),
			Kind: gotmpl.Map,
		}, 1
	}
	switch names[1] {
	case item:
		return gotmpl.Expr{Code: s.item, Maybe: true}, 2
	case forEachIndex:
		return gotmpl.Expr{Code: s.index, Kind: gotmpl.Int}, 2
	}
	return gotmpl.None, len(names)
}

// segment writes one name of a place.
func segment(name string) string {
	if name == "output" || name == "" || strings.ContainsAny(name, ".:[]\" ") {
		return strconv.Quote(name)
	}
	return name
}
