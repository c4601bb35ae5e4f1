package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// decoder reads the fields of a definition. It continues after a problem, to report all of them.
type decoder struct {
	decoding decoding
	fix      bool
	problems diag.Problems
	notes    []Note
}

// readDefinition reads a definition and checks it. The error is diag.Problems, in the order of the
// file; the notes are the repairs, if fix allows them, and remarks about fields without effect.
func readDefinition(def *Definition, fix bool) (*workflow, []Note, error) {
	d := &decoder{decoding: def.decoding, fix: fix}
	d.problems = append(d.problems, def.problems...)
	w := d.workflow(def)
	d.validate(w)
	if len(d.problems) > 0 {
		sort.SliceStable(d.problems, func(i, j int) bool { return before(d.problems[i].Pos, d.problems[j].Pos) })
		return nil, nil, d.problems
	}
	return w, d.notes, nil
}

func before(p, o diag.Pos) bool {
	if p.Line != o.Line {
		return p.Line < o.Line
	}
	return p.Column < o.Column
}

func (d *decoder) wrong(pos diag.Pos, path, format string, args ...any) {
	d.problems = append(d.problems, diag.Problem{Pos: pos, Path: path, Code: codeMigrate}.Says(fmt.Sprintf(format, args...)))
}

func (d *decoder) note(pos diag.Pos, path, format string, args ...any) {
	d.notes = append(d.notes, Note{Pos: pos, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// fixed reports whether a mistake may be repaired, and adds a note about the repair; else it reports a problem.
func (d *decoder) fixed(pos diag.Pos, path, problem, mended string) bool {
	if d.fix {
		d.note(pos, path, "%s", mended)
		return true
	}
	d.wrong(pos, path, "%s; with --fix: %s", problem, mended)
	return false
}

// Fields of the parts of a definition.
var (
	toolFields = []string{"name", "description", "parameters", "timeout", "steps", "output", "annotations"}
	stepFields = []string{"id", "type", "tool", "arguments", "condition", "dependsOn", "onError", "message", "schema",
		"timeout", "onDecline", "onCancel", "defaultResults", "collection", "itemVar", "maxParallel", "maxIterations", "step"}
	onErrorFields  = []string{"action", "retryCount", "retryDelay"}
	handlerFields  = []string{"action"}
	outputFields   = []string{"properties", "required"}
	propertyFields = []string{"type", "description", "value", "properties", "default"}
	hintFields     = []string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
)

// object returns the mapping of v, and reports unknown fields. special has functions for
// common fields that do not exist.
func (d *decoder) object(v *value, known []string, special map[string]func(*value)) *mapping {
	if v.IsNull() {
		return nil
	}
	m := v.Mapping()
	if m == nil {
		d.wrong(v.Pos, v.Path, "want a mapping, have %s", v.kind())
		return nil
	}
	for _, k := range m.Keys {
		if slices.Contains(known, k) {
			continue
		}
		if f := special[k]; f != nil {
			f(m.Values[k])
			continue
		}
		d.unknown(m.Places[k], member(v.Path, k), k, known)
	}
	return m
}

func (d *decoder) unknown(pos diag.Pos, path, name string, known []string) {
	hint := display.Hint(name, known)
	switch {
	case d.decoding == asResource:
		d.note(pos, path, "there is no such field: the cluster drops it silently%s", hint)
	case d.decoding != asFile:
	case hint == "":
		d.wrong(pos, path, "there is no such field; known here: %s", strings.Join(known, ", "))
	default:
		d.wrong(pos, path, "there is no such field%s", hint)
	}
}

// text reads a text; in a file a number or a boolean is accepted as its text.
func (d *decoder) text(v *value) string {
	if v.IsNull() {
		return ""
	}
	switch v.Data.(type) {
	case string:
		return v.Text()
	case []*value, *mapping:
	default:
		if d.decoding != asResource {
			return v.raw
		}
	}
	d.wrong(v.Pos, v.Path, "want a string, have %s", v.kind())
	return ""
}

func (d *decoder) integer(v *value) int {
	if v.IsNull() {
		return 0
	}
	switch n := v.Data.(type) {
	case int:
		return n
	case float64:
		if n == float64(int(n)) {
			return int(n)
		}
	}
	d.wrong(v.Pos, v.Path, "want a whole number, have %s", v.kind())
	return 0
}

func (d *decoder) texts(v *value) (out []string) {
	if v.IsNull() {
		return nil
	}
	if _, ok := v.Data.([]*value); !ok {
		d.wrong(v.Pos, v.Path, "want a list of strings, have %s", v.kind())
		return nil
	}
	for _, e := range v.List() {
		out = append(out, d.text(e))
	}
	return out
}

func (d *decoder) duration(v *value) time.Duration {
	s := d.text(v)
	if s == "" || s == "0" {
		return 0
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		d.wrong(v.Pos, v.Path, `want a duration such as "300ms", "5m" or "1h30m", have %q`, s)
	}
	return t
}

// template reads a text that is a template. early says that the legacy engine parsed it
// when it loaded the definition, so that a mistake is an error at load.
func (d *decoder) template(v *value, early bool) *template {
	if v.IsNull() {
		return nil
	}
	t := &template{Value: v, text: d.text(v)}
	t.Parsed, t.Err = gotmpl.Parse(t.text)
	if t.Err == nil {
		return t
	}
	if repaired, how := repair(t.text); repaired != "" {
		if d.fixed(v.Pos, v.Path, "not a template: "+t.Err.Error(), how) {
			t.text = repaired
			t.Parsed, t.Err = gotmpl.Parse(repaired)
		}
		return t
	}
	if early {
		d.wrong(v.Pos, v.Path, "not a template: %s; functions are %s", t.Err, "those of Go's text/template, json, quote and fromJson")
	} else {
		d.note(v.Pos, v.Path, "not a template: the workflow fails when it is rendered: %s", t.Err)
	}
	return t
}

// workflow reads a whole definition.
func (d *decoder) workflow(def *Definition) *workflow {
	w := &workflow{Pos: def.Pos}
	m := d.object(def.root, toolFields, map[string]func(*value){"failureMode": func(v *value) { d.failureMode(v, w) }})
	w.Name, w.Description = d.text(m.Get("name")), d.text(m.Get("description"))
	w.Timeout = d.duration(m.Get("timeout"))
	w.Parameters = d.parameters(m.Get("parameters"))
	w.Annotations = d.annotations(m.Get("annotations"))
	if steps := m.Get("steps"); !steps.IsNull() {
		if _, ok := steps.Data.([]*value); !ok {
			d.wrong(steps.Pos, steps.Path, "want a list of steps, have %s", steps.kind())
		}
		for _, s := range steps.List() {
			w.Steps = append(w.Steps, d.step(s, false))
		}
	}
	w.Output = d.output(m.Get("output"))
	return w
}

// failureMode reads a field of the documentation that no version has had.
func (d *decoder) failureMode(v *value, w *workflow) {
	mode := v.Text()
	if d.decoding == asResource && !d.fix {
		d.note(v.Pos, v.Path, "there is no failureMode: the cluster drops it silently, and a failing step ends the workflow; --fix translates it")
		return
	}
	mended := "the field is dropped: a step that fails ends the workflow unless its onError says otherwise"
	if mode == actionContinue {
		mended = "the workflow continues after the failure of any step"
	}
	if d.decoding == asLax || d.fixed(v.Pos, v.Path, "there is no failureMode; want onError at each step", mended) {
		w.GoOn = mode == actionContinue
	}
}

// parameters returns the schema; with fix, also of parameters in the old form.
func (d *decoder) parameters(v *value) *value {
	m := v.Mapping()
	if m == nil || m.Get("type") != nil || len(m.Keys) == 0 {
		return v
	}
	for _, k := range m.Keys {
		if m.Values[k].Mapping() == nil {
			return v
		}
	}
	if !d.fix {
		return v
	}
	d.note(v.Pos, v.Path, "the old form, names with their types, is written as a JSON Schema of an object")
	return d.oldParameters(v, m)
}

// oldParameters converts names with types into a JSON Schema.
func (d *decoder) oldParameters(v *value, m *mapping) *value {
	object := func(keys []string, values ...*value) *mapping {
		out := &mapping{Values: map[string]*value{}, Places: map[string]diag.Pos{}}
		for i, k := range keys {
			out.Keys = append(out.Keys, k)
			out.Values[k], out.Places[k] = values[i], v.Pos
		}
		return out
	}
	at := func(data any) *value { return &value{Pos: v.Pos, Path: v.Path, Data: data} }
	properties := object(nil)
	var required []*value
	for _, name := range m.Keys {
		from := m.Values[name].Mapping()
		p := object(nil)
		for _, k := range from.Keys {
			if b, ok := from.Values[k].Data.(bool); ok && k == "required" {
				if b {
					required = append(required, at(name))
				}
				continue
			}
			p.Keys, p.Values[k], p.Places[k] = append(p.Keys, k), from.Values[k], from.Places[k]
		}
		properties.Keys = append(properties.Keys, name)
		properties.Values[name], properties.Places[name] = &value{Pos: m.Values[name].Pos, Path: m.Values[name].Path, Data: p}, m.Places[name]
	}
	if required == nil {
		return at(object([]string{"type", "properties"}, at("object"), at(properties)))
	}
	return at(object([]string{"type", "properties", "required"}, at("object"), at(properties), at(required)))
}

func (d *decoder) annotations(v *value) *value {
	m := d.object(v, hintFields, nil)
	if m == nil {
		return nil
	}
	kept := &mapping{Values: m.Values, Places: m.Places}
	for _, k := range hintFields {
		e := m.Get(k)
		if e.IsNull() {
			continue
		}
		kept.Keys = append(kept.Keys, k)
		if _, ok := e.Data.(bool); !ok && k != "title" {
			d.wrong(e.Pos, e.Path, "want a boolean, have %s", e.kind())
		}
		if k == "title" {
			d.text(e)
		}
	}
	return &value{Pos: v.Pos, Path: v.Path, Data: kept}
}

// step reads a step, or the inner step of a forEach.
func (d *decoder) step(v *value, inner bool) *step {
	s := &step{pos: v.Pos, Path: v.Path}
	m := d.object(v, stepFields, map[string]func(*value){"defaultResponse": d.defaultResponse})
	if m == nil && v.IsNull() {
		d.wrong(s.pos, s.Path, "want a step, have nothing")
	}
	s.fields = m
	s.Id, s.Kind, s.Tool = d.text(m.Get("id")), d.text(m.Get("type")), d.text(m.Get("tool"))
	if s.Kind == "" {
		s.Kind = toolStep
	}
	s.Arguments = d.arguments(m.Get("arguments"), s)
	s.Condition = d.template(m.Get("condition"), true)
	if s.Condition != nil && s.Condition.text == "" {
		s.Condition = nil
	}
	s.DependsOn = d.texts(m.Get("dependsOn"))
	s.Timeout = max(d.duration(m.Get("timeout")), 0)
	s.Defaults = d.mappingOf(m.Get("defaultResults"))
	s.OnError = d.onError(m.Get("onError"))
	s.Message, s.Schema = d.template(m.Get("message"), true), d.mappingOf(m.Get("schema"))
	s.OnDecline, s.OnCancel = d.handler(m.Get("onDecline")), d.handler(m.Get("onCancel"))
	s.Collection = d.template(m.Get("collection"), true)
	s.itemVar = d.text(m.Get("itemVar"))
	s.MaxParallel, s.MaxIterations = d.integer(m.Get("maxParallel")), d.integer(m.Get("maxIterations"))
	if in := m.Get("step"); !in.IsNull() {
		if inner {
			d.note(in.Pos, in.Path, "the inner step of an inner step has no effect")
		} else {
			s.Inner = d.step(in, true)
		}
	}
	return s
}

func (d *decoder) defaultResponse(v *value) {
	if d.decoding != asFile {
		d.note(v.Pos, v.Path, "there is no defaultResponse: it has no effect; see onDecline and onCancel")
		return
	}
	d.fixed(v.Pos, v.Path, "there is no defaultResponse; want onDecline and onCancel", "the field is dropped: it never had an effect")
}

// mappingOf returns v when it is a mapping.
func (d *decoder) mappingOf(v *value) *value {
	if v.IsNull() {
		return nil
	}
	if v.Mapping() == nil {
		d.wrong(v.Pos, v.Path, "want a mapping, have %s", v.kind())
		return nil
	}
	return v
}

// arguments parses the templates in arguments, at any depth.
func (d *decoder) arguments(v *value, s *step) *value {
	v = d.mappingOf(v)
	if v == nil {
		return nil
	}
	s.Templates = map[*value]*template{}
	for _, k := range v.Mapping().Keys {
		e := v.Mapping().Values[k]
		d.expand(e, s, true)
	}
	return v
}

func (d *decoder) expand(v *value, s *step, top bool) {
	if v == nil {
		return
	}
	switch data := v.Data.(type) {
	case string:
		s.Templates[v] = d.template(v, top)
	case []*value:
		for _, e := range data {
			d.expand(e, s, false)
		}
	case *mapping:
		for _, k := range data.Keys {
			d.expand(data.Values[k], s, false)
		}
	}
}

func (d *decoder) onError(v *value) onError {
	e := onError{}
	var wanted *value
	m := d.object(v, onErrorFields, map[string]func(*value){"maxRetries": func(n *value) { wanted = n }})
	e.action, e.retryCount, e.RetryDelay = d.text(m.Get("action")), d.integer(m.Get("retryCount")), d.duration(m.Get("retryDelay"))
	if wanted != nil {
		d.maxRetries(wanted, &e)
	}
	return e
}

// maxRetries reads a field of the examples that no version has had.
func (d *decoder) maxRetries(v *value, e *onError) {
	n := d.integer(v)
	if d.decoding == asResource && !d.fix && e.action != actionRetry {
		d.note(v.Pos, v.Path, "there is no maxRetries: the cluster drops it silently, and nothing is retried; --fix translates it to %d retries", n)
		return
	}
	mended := fmt.Sprintf("retries %d times, as action: retry with retryCount: %d does", n, n)
	if n < 1 || e.action == actionContinue {
		mended = "the field is dropped"
	}
	if !d.fixed(v.Pos, v.Path, "there is no maxRetries; want action: retry with retryCount: "+strconv.Itoa(max(n, 1)), mended) {
		if e.action == actionRetry && e.retryCount == 0 {
			e.retryCount = n // avoids a second problem
		}
		return
	}
	if n >= 1 && e.action != actionContinue && e.retryCount == 0 {
		e.action, e.retryCount = actionRetry, n
	}
}

func (d *decoder) handler(v *value) string {
	m := d.object(v, handlerFields, nil)
	if m == nil {
		return ""
	}
	action := d.text(m.Get("action"))
	if !slices.Contains([]string{actionAbort, actionContinue, actionSkip}, action) {
		d.wrong(v.Pos, member(v.Path, "action"), "want abort, continue or skip_remaining, have %q", action)
		return actionAbort
	}
	return action
}

func (d *decoder) output(v *value) *output {
	if v.IsNull() {
		return nil
	}
	o := &output{pos: v.Pos, path: v.Path}
	m := d.object(v, outputFields, nil)
	o.Required = d.texts(m.Get("required"))
	o.Properties = d.properties(m.Get("properties"))
	return o
}

func (d *decoder) properties(v *value) (list []*property) {
	v = d.mappingOf(v)
	if v == nil {
		return nil
	}
	for _, name := range v.Mapping().Keys {
		p := v.Mapping().Values[name]
		list = append(list, d.property(name, p))
	}
	return list
}

func (d *decoder) property(name string, v *value) *property {
	p := &property{pos: v.Pos, path: v.Path, Name: name}
	m := d.object(v, propertyFields, nil)
	p.fields = m
	p.Kind, p.Description = d.text(m.Get("type")), d.text(m.Get("description"))
	p.Value = d.template(m.Get("value"), true)
	if p.Value != nil && p.Value.text == "" {
		p.Value = nil
	}
	p.Properties = d.properties(m.Get("properties"))
	if p.Properties == nil && m.Get("properties") != nil {
		p.Properties = []*property{}
	}
	if f := m.Get("default"); f.counts() {
		p.Fallback = f
	}
	return p
}

// counts reports whether a default is set: empty lists and mappings are not.
func (v *value) counts() bool {
	if v.IsNull() {
		return false
	}
	switch d := v.Data.(type) {
	case []*value:
		return len(d) > 0
	case *mapping:
		return len(d.Keys) > 0
	}
	return true
}

// comparison matches {{.a == 'b'}}, the syntax of other template languages.
var comparison = regexp.MustCompile(`\{\{\s*(\.[A-Za-z_][\w.]*)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)")\s*\}\}`)

// repair returns the template that was meant by a text, and a description of the repair; "" when
// it is not unambiguous.
func repair(text string) (repaired, how string) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	function := map[string]string{"==": "eq", "!=": "ne"}
	repaired = comparison.ReplaceAllStringFunc(text, func(s string) string {
		m := comparison.FindStringSubmatch(s)
		return fmt.Sprintf("{{%s %s %s}}", function[m[2]], m[1], strconv.Quote(m[3]+m[4]))
	})
	return repaired, fmt.Sprintf("%s is read as the function %s", m[0], function[m[2]])
}
