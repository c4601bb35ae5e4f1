package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// emitter writes one script. It writes twice: the first time to learn what of each step
// is used, the second time for good.
type emitter struct {
	w       *workflow
	fix     bool
	checked bool
	style   gotmpl.Style
	dialect dialect
	used    map[*step]*facets // from the first time
	seen    map[*step]*facets

	refs  map[*step][]*step // the steps that a step's templates name; nil is the output
	known map[*step][]*step // refs of the first time

	names *names
	loads map[string]bool
	vars  map[*step]string
	code  code
	notes []Note
}

// dialect is what differs between the styles.
type dialect interface {
	// write writes the body of run.
	write() error
	// oneLevel writes the steps of a level.
	oneLevel(level []*step) error
	// assume gives the variables of a step the values of one that is skipped.
	assume(s *step)
	// skipped is the condition under which the answer to a step ended the workflow, and
	// early writes the return after that.
	skipped(s *step) string
	early(level []*step)
	// result writes the return of the result.
	result() error
	// params returns the beginning of a path below the arguments.
	params(names []string) (gotmpl.Expr, int)
	// stepField returns the beginning of a path below a step that has ended.
	stepField(s *step, names []string) (gotmpl.Expr, int)
	// nothing is the output of a step that has none.
	nothing() gotmpl.Expr
	// timestamp is the time of the call.
	timestamp() gotmpl.Expr
}

func newEmitter(w *workflow, style gotmpl.Style, o Options) *emitter {
	e := &emitter{w: w, fix: o.Fix, checked: o.Checked, style: style, used: map[*step]*facets{}}
	if style == gotmpl.Clean {
		e.dialect = &clean{emitter: e}
	} else {
		e.dialect = &exact{emitter: e}
	}
	return e
}

// source writes the script.
func (e *emitter) source(notes []Note) (string, []Note, error) {
	for range 2 {
		e.seen = map[*step]*facets{}
		for _, s := range e.w.steps {
			e.seen[s] = &facets{}
			if e.used[s] == nil {
				e.used[s] = &facets{true, true, true, true}
			}
		}
		e.names, e.loads, e.vars, e.notes = newNames(nil), map[string]bool{}, map[*step]string{}, nil
		for _, name := range Module {
			e.names.taken[name] = true
		}
		for _, s := range e.w.steps {
			e.vars[s] = e.names.step(s.id)
		}
		e.known, e.refs = e.refs, map[*step][]*step{}
		e.code = code{}
		e.code.indent = 1
		if err := e.dialect.write(); err != nil {
			return "", nil, err
		}
		e.used = e.seen
	}
	notes = append(notes, e.notes...)
	sortNotes(notes)
	source, err := format(e.head(notes) + "def run(params):\n" + e.code.String())
	return source, notes, err
}

// head is what stands above run.
func (e *emitter) head(notes []Note) string {
	var b strings.Builder
	b.WriteString(comment(e.w.description))
	b.WriteString(remarks(notes))
	if len(e.loads) > 0 {
		var quoted []string
		for _, name := range Module {
			if e.loads[name] {
				quoted = append(quoted, gotmpl.Quote(name))
			}
		}
		fmt.Fprintf(&b, "\nload(\"legacy\", %s)\n", strings.Join(quoted, ", "))
	}
	b.WriteString("\n")
	return b.String()
}

// remarks writes the notes as comments, those that say the same together.
func remarks(notes []Note) string {
	if len(notes) == 0 {
		return ""
	}
	var order []string
	places := map[string][]string{}
	for _, n := range notes {
		place := fmt.Sprintf("%d:%d", n.Pos.Line, n.Pos.Column)
		if places[n.Msg] == nil {
			order = append(order, n.Msg)
			place = n.Pos.String()
		}
		if !slices.Contains(places[n.Msg], place) {
			places[n.Msg] = append(places[n.Msg], place)
		}
	}
	b := "#\n# Notes of the migration:\n"
	for _, msg := range order {
		b += fmt.Sprintf("# - %s: %s\n", strings.Join(places[msg], ", "), msg)
	}
	return b
}

// Module lists the names that scripts may load from the module "legacy".
var Module = strings.Fields(`NOTHING answer arguments as_array as_boolean as_integer as_map as_number as_object as_record
	as_string ask attempt broken_template call call_value condition deadline eq field for_each from_json ge gt
	html_escape index items js_escape latest le length lt ne pairs printf quote retry skipped slice sprint
	sprintln string template_error text timestamp to_json url_query workflow`)

// translate writes a template in a scope; the functions that it needs go before.
func (e *emitter) translate(t *tmpl, s *scope, hint string) (gotmpl.Expr, error) {
	c, err := t.parsed.Translate(s, e.style, hint)
	if err != nil {
		return gotmpl.Expr{}, e.misplaced(t, err)
	}
	e.differs(t, s)
	for _, def := range c.Defs {
		e.code.line("%s", strings.TrimRight(def, "\n"))
		e.code.line("")
	}
	return c.Expr, nil
}

// differs notes where the clean style may do something else.
func (e *emitter) differs(t *tmpl, s *scope) {
	if len(s.reasons) == 0 || e.style == gotmpl.Exact {
		return
	}
	e.notes = append(e.notes, Note{Pos: t.value.pos, Path: t.value.path, Msg: strings.Join(s.reasons, "; ")})
	s.reasons = nil
}

// misplaced gives an error of a translation its place in the file.
func (e *emitter) misplaced(t *tmpl, err error) error {
	return Errors{{Pos: t.value.pos, Path: t.value.path, Msg: "template: " + err.Error()}}
}

// see notes that a part of a step is used.
func (e *emitter) see(s *step, names []string) {
	f := e.seen[s]
	if len(names) < 3 {
		*f = facets{true, true, true, true}
		return
	}
	switch names[2] {
	case "output":
		f.output = true
	case "status":
		f.status = true
	case "content":
		f.content = true
	case "error":
		f.error = true
	}
}

// levels returns the steps by level, each in the order of the file.
func (w *workflow) levels() (levels [][]*step) {
	for _, s := range w.steps {
		for len(levels) <= s.level {
			levels = append(levels, nil)
		}
		levels[s.level] = append(levels[s.level], s)
	}
	return levels
}

// goesOn reports whether the workflow goes on when the step has failed.
func (e *emitter) goesOn(s *step) bool {
	return s.mayFail() || e.w.goOn
}

// skips reports whether the user's answer to a step may end the workflow early.
func (s *step) skips() bool {
	return s.kind == elicitationStep && (s.onDecline == actionSkip || s.onCancel == actionSkip)
}

// mayBeSkipped reports whether templates may see a step that did not run.
func (e *emitter) mayBeSkipped(s *step) bool {
	if s.condition != nil {
		return true
	}
	return e.w.output != nil && slices.ContainsFunc(e.w.steps, func(other *step) bool { return other.skips() && other.level < s.level })
}
