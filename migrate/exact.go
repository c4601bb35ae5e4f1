package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// exact writes scripts that do what the legacy engine did.
type exact struct {
	*emitter
	code       code
	usesParams bool // in the templates written so far
	needParams bool // usesParams after the first pass
}

// exactSource writes the script of a workflow in the exact style.
func exactSource(w *workflow, o Options) (source string, notes []Note, err error) {
	x := &exact{emitter: newEmitter(w, o)}
	if err := x.twice(Module, x.write); err != nil {
		return "", nil, err
	}
	source, err = format(x.above() + "def run(params):\n" + x.code.String())
	return source, x.notes, err
}

// above returns the text before the function run.
func (x *exact) above() string {
	var b strings.Builder
	b.WriteString(comment(x.w.Description))
	var quoted []string
	for _, name := range x.loaded() {
		quoted = append(quoted, gotmpl.Quote(name))
	}
	if len(quoted) > 0 {
		fmt.Fprintf(&b, "\nload(\"legacy\", %s)\n", strings.Join(quoted, ", "))
	}
	b.WriteString("\n")
	return b.String()
}

// translate writes a template in a scope, with the functions that it needs before it.
func (x *exact) translate(t *template, s *scope, hint string) (gotmpl.Expr, error) {
	c, err := t.Parsed.Translate(s, hint)
	if err != nil {
		return gotmpl.Expr{}, x.misplaced(t, err)
	}
	for _, def := range c.Defs {
		x.code.line("%s", strings.TrimRight(def, "\n"))
		x.code.line("")
	}
	return c.Expr, nil
}

func (x *exact) write() error {
	x.code = code{}
	x.code.indent = 1
	x.needParams, x.usesParams = x.usesParams || x.needParams, false
	x.head()
	if err := x.byLevel(x.w.Levels()); err != nil {
		return err
	}
	x.needParams = x.usesParams
	return nil
}

// head writes the statements before the first step.
func (x *exact) head() {
	if x.w.Timeout != 0 && x.w.Timeout != defaultTimeout {
		x.loads["deadline"] = true
		x.code.line("%s", gotmpl.Call("deadline", gotmpl.Quote(durationText(x.w.Timeout))))
	}
	if !x.needParams {
		return
	}
	x.loads["arguments"] = true
	args := []string{"params"}
	if d := x.defaults(); d != "" {
		args = append(args, d)
		if x.checked {
			args = append(args, keyword("filled", "True"))
		}
	}
	x.code.line("params = %s", gotmpl.Call("arguments", args...))
}

// defaults returns the defaults of the parameters as a dict, "" without any.
func (x *exact) defaults() string {
	properties := x.w.Parameters.Mapping().Get("properties").Mapping()
	if properties == nil {
		return ""
	}
	var entries []string
	for _, name := range properties.Keys {
		schema := properties.Values[name].Mapping()
		if d, ok := schemaDefault(schema); ok {
			entries = append(entries, gotmpl.Quote(name)+": "+literal(d))
		}
	}
	if len(entries) == 0 {
		return ""
	}
	return gotmpl.Dict(entries)
}

func schemaDefault(schema *mapping) (*value, bool) {
	if schema == nil {
		return nil, false
	}
	d, ok := schema.Values["default"]
	return d, ok
}

// skipped is the condition that an answer ended the workflow.
func (x *exact) skipped(s *step) string {
	x.seen[s].output = true
	return x.outputOf(s) + `.get("skipped")`
}

// oneLevel writes the steps of a level: in parallel when there are several.
func (x *exact) oneLevel(level []*step) error {
	if len(level) == 1 {
		return x.alone(level[0])
	}
	var branches, targets []string
	used := false
	for _, s := range level {
		b, err := x.branch(s)
		if err != nil {
			return err
		}
		branches = append(branches, b)
		if x.isUsed(s) {
			used = true
			targets = append(targets, x.vars[s])
		} else {
			targets = append(targets, "_")
		}
	}
	fn, args := "parallel", []string{gotmpl.ListOf(branches)}
	if slices.ContainsFunc(level, (*step).Skips) {
		fn, args = "gated", append(args, gotmpl.ListOf(x.skippedValues(level)))
		x.loads[fn] = true
	}
	if len(level) > maxConcurrent {
		args = append(args, keyword("max_concurrency", strconv.Itoa(maxConcurrent)))
	}
	call := gotmpl.Call(fn, args...)
	if used {
		call = strings.Join(targets, ", ") + " = " + call
	}
	x.code.line("%s", call)
	return nil
}

// skippedValues are the values of the steps of a level that were cut off.
func (x *exact) skippedValues(level []*step) (list []string) {
	for _, s := range level {
		if x.isUsed(s) {
			list = append(list, x.skippedValue(s))
		} else {
			list = append(list, "None")
		}
	}
	return list
}

// isUsed reports whether a template uses the step.
func (x *exact) isUsed(s *step) bool { return x.used[s].any() }

// isRecord reports whether the variable of a step is its record, not only its output.
func (x *exact) isRecord(s *step) bool {
	u := x.used[s]
	return u.content || x.continuesOnError(s) && (u.status || u.error) || u.status && x.mayBeSkipped(s)
}

// branch writes a step as a function without arguments, for parallel.
func (x *exact) branch(s *step) (string, error) {
	if s.Condition == nil || x.continuesOnError(s) {
		expr, err := x.expression(s)
		if err != nil {
			return "", err
		}
		return "lambda: " + expr, nil
	}
	return x.function(s)
}

// function writes a step with its condition as a function.
func (x *exact) function(s *step) (string, error) {
	name := x.names.fresh("run_" + s.Id)
	var err error
	x.code.line("def %s():", name)
	x.code.block(func() { err = x.returning(s) })
	x.code.line("")
	return name, err
}

// returning writes the body of function.
func (x *exact) returning(s *step) error {
	err := x.underCondition(s, func(expr string) { x.code.line("return %s", expr) })
	x.code.line("return %s", x.skippedValue(s))
	return err
}

// underCondition writes an if with the condition of a step; use writes its body, with the step's
// expression.
func (x *exact) underCondition(s *step, use func(expr string)) error {
	cond, err := x.condition(s)
	if err != nil {
		return err
	}
	x.code.line("if %s:", cond)
	x.code.block(func() {
		var expr string
		if expr, err = x.core(s); err == nil {
			use(expr)
		}
	})
	return err
}

// alone writes a step that is the only one of its level.
func (x *exact) alone(s *step) error {
	if s.Condition != nil && !x.continuesOnError(s) {
		return x.conditional(s)
	}
	expr, err := x.expression(s)
	if err != nil {
		return err
	}
	x.assign(s, expr)
	return nil
}

func (x *exact) assign(s *step, expr string) {
	if x.isUsed(s) {
		x.code.line("%s = %s", x.vars[s], expr)
		return
	}
	x.code.line("%s", expr)
}

// conditional writes a step with a condition as an if.
func (x *exact) conditional(s *step) error {
	err := x.underCondition(s, func(expr string) { x.assign(s, expr) })
	if err == nil && x.isUsed(s) {
		x.code.line("else:")
		x.code.block(func() { x.code.line("%s = %s", x.vars[s], x.skippedValue(s)) })
	}
	return err
}

// skippedValue is the value of the variable of a step that did not run.
func (x *exact) skippedValue(s *step) string {
	if x.isRecord(s) {
		x.loads["skipped"] = true
		if s.Defaults == nil {
			return "skipped()"
		}
		return gotmpl.Call("skipped", literal(s.Defaults))
	}
	return x.defaultOutput(s)
}

func (x *exact) defaultOutput(s *step) string {
	if s.Defaults != nil {
		return literal(s.Defaults)
	}
	return x.nothing().Code
}

// expression writes a step as one expression; a step that may fail is attempted.
func (x *exact) expression(s *step) (string, error) {
	if !x.continuesOnError(s) {
		return x.core(s)
	}
	var body string
	var err error
	if s.Condition == nil {
		body, err = x.core(s)
		body = "lambda: " + body
	} else {
		body, err = x.function(s)
	}
	if err != nil {
		return "", err
	}
	x.loads["attempt"] = true
	args := []string{body}
	if s.Defaults != nil && s.MayFail() {
		args = append(args, keyword("defaults", literal(s.Defaults)))
	}
	call := gotmpl.Call("attempt", args...)
	if !x.isRecord(s) && x.isUsed(s) {
		call += ".output"
	}
	return call, nil
}

// condition writes the condition of a step.
func (x *exact) condition(s *step) (string, error) {
	place := segment(s.Id) + ".condition"
	t := s.Condition
	if t.Parsed == nil {
		return x.broken(t, place), nil
	}
	if word, plain := t.Parsed.Plain(); plain {
		switch word {
		case "true", "True", "TRUE":
			return "True", nil
		case "false", "False", "FALSE":
			return "False", nil
		}
	}
	if b, ok, err := x.boolean(t, s, place); ok || err != nil {
		return b, err
	}
	text, err := x.translate(t, &scope{e: x, step: s, place: place}, s.Id+"_condition")
	if err != nil {
		return "", err
	}
	x.loads["condition"] = true
	return gotmpl.Call("condition", text.Code, keywordText("step", s.Id)), nil
}

// boolean writes a condition that is a single comparison as one, without rendering a text.
func (x *exact) boolean(t *template, s *step, place string) (string, bool, error) {
	e, ok, err := t.Parsed.Value(&scope{e: x, step: s, place: place})
	if err != nil {
		return "", false, x.misplaced(t, err)
	}
	return e.Code, ok && e.Kind == gotmpl.Bool, nil
}

// byLevel writes the steps level by level, and then the result. An answer of the user
// that ends the workflow early returns, or skips the rest where the result is made of more
// than the last output.
func (x *exact) byLevel(levels [][]*step) error {
	for i, level := range levels {
		if err := x.oneLevel(level); err != nil {
			return err
		}
		ends := x.endings(level, i+1 < len(levels))
		switch {
		case ends == "":
		case x.w.Output == nil:
			x.code.line("if %s:", ends)
			x.code.block(func() { x.early(level) })
		default:
			x.assumeSkipped(levels[i+1:])
			if err := x.unless(ends, levels[i+1:]); err != nil {
				return err
			}
			return x.result()
		}
	}
	return x.result()
}

// endings is the condition that an answer in the level has ended the workflow; ""
// when none can, or when no level follows.
func (x *exact) endings(level []*step, more bool) string {
	var ends []string
	for _, s := range level {
		if s.Skips() && more {
			ends = append(ends, x.skipped(s))
		}
	}
	return strings.Join(ends, " or ")
}

// assumeSkipped writes the assignment of the values of skipped steps.
func (x *exact) assumeSkipped(levels [][]*step) {
	for _, level := range levels {
		for _, s := range level {
			x.assume(s)
		}
	}
}

// unless writes levels under the condition that no answer has ended the workflow.
func (x *exact) unless(ended string, levels [][]*step) (err error) {
	if strings.ContainsAny(ended, " ") {
		ended = "(" + ended + ")"
	}
	x.code.line("if not %s:", ended)
	x.code.block(func() {
		for i, level := range levels {
			if err = x.oneLevel(level); err != nil {
				return
			}
			if ends := x.endings(level, i+1 < len(levels)); ends != "" {
				err = x.unless(ends, levels[i+1:])
				return
			}
		}
	})
	return err
}
