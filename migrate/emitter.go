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
	style   gotmpl.Style
	dialect dialect
	used    map[*step]*facets // from the first time
	seen    map[*step]*facets

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
	// params returns the beginning of a path below the arguments.
	params(names []string) (gotmpl.Expr, int)
	// stepField returns the beginning of a path below a step that has ended.
	stepField(s *step, names []string) (gotmpl.Expr, int)
	// nothing is the output of a step that has none.
	nothing() gotmpl.Expr
	// timestamp is the time of the call.
	timestamp() gotmpl.Expr
}

func newEmitter(w *workflow, style gotmpl.Style, fix bool) *emitter {
	e := &emitter{w: w, fix: fix, style: style, used: map[*step]*facets{}}
	if style == gotmpl.Clean {
		e.dialect = &clean{emitter: e}
	} else {
		e.dialect = &exact{emitter: e}
	}
	return e
}

// source writes the script.
func (e *emitter) source() (string, error) {
	for range 2 {
		e.seen = map[*step]*facets{}
		for _, s := range e.w.steps {
			e.seen[s] = &facets{}
			if e.used[s] == nil {
				e.used[s] = &facets{true, true, true, true}
			}
		}
		e.names, e.loads, e.vars, e.notes = newNames(nil), map[string]bool{}, map[*step]string{}, nil
		for _, name := range Helpers {
			e.names.taken[name] = true
		}
		for _, s := range e.w.steps {
			e.vars[s] = e.names.fresh(s.id)
		}
		e.code = code{}
		e.code.indent = 1
		if err := e.dialect.write(); err != nil {
			return "", err
		}
		e.used = e.seen
	}
	return format(e.head() + "def run(params):\n" + e.code.String())
}

// head is what stands above run.
func (e *emitter) head() string {
	var b strings.Builder
	b.WriteString(comment(e.w.description))
	if len(e.loads) > 0 {
		var quoted []string
		for _, name := range Helpers {
			if e.loads[name] {
				quoted = append(quoted, gotmpl.Quote(name))
			}
		}
		fmt.Fprintf(&b, "\nload(\"legacy\", %s)\n", strings.Join(quoted, ", "))
	}
	b.WriteString("\n")
	return b.String()
}

// Helpers are the names that the module "legacy" has for scripts.
var Helpers = strings.Fields(`NOTHING answer arguments as_array as_boolean as_integer as_map as_number as_object as_record
	as_string attempt broken_template call call_value condition deadline elicit eq field for_each from_json ge gt
	html_escape index items js_escape latest le length lt ne pairs printf quote retry skipped slice sprint
	sprintln string template_error text timestamp to_json url_query workflow`)

// translate writes a template in a scope; the functions that it needs go before.
func (e *emitter) translate(t *tmpl, s *scope, hint string) (gotmpl.Expr, error) {
	c, err := t.parsed.Translate(s, e.style, hint)
	if err != nil {
		return gotmpl.Expr{}, e.misplaced(t, err)
	}
	for _, def := range c.Defs {
		e.code.line("%s", strings.TrimRight(def, "\n"))
		e.code.line("")
	}
	return c.Expr, nil
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
	return s.mayFail() || e.w.goOn && s.onError.action != actionRetry
}

// skips reports whether the user's answer to a step may end the workflow early.
func (s *step) skips() bool {
	return s.kind == elicitationStep && (s.onDecline == actionSkip || s.onCancel == actionSkip)
}

// mayBeSkipped reports whether it is possible that a step does not run at all.
func (e *emitter) mayBeSkipped(s *step) bool {
	if s.condition != nil {
		return true
	}
	return slices.ContainsFunc(e.w.steps, func(other *step) bool { return other.skips() && other.level < s.level })
}
