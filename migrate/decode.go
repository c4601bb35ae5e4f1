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
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// decoder understands the fields of a definition. It goes on after a problem.
type decoder struct {
	decoding decoding
	fix      bool
	problems diag.Problems
	notes    []note
}

// understand reads a definition and checks it. The error is diag.Problems, in the order of the
// file; the notes say what was mended, if fix allows it, and what is odd.
func understand(def *Definition, fix bool) (*workflow, []note, error) {
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
	d.problems = append(d.problems, diag.Problem{Pos: pos, Path: path, Code: compositeCode, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) note(pos diag.Pos, path, format string, args ...any) {
	d.notes = append(d.notes, note{Pos: pos, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// fixed reports whether a mistake may be mended, and notes how; else it is a problem.
func (d *decoder) fixed(pos diag.Pos, path, problem, mended string) bool {
	if d.fix {
		d.note(pos, path, "%s", mended)
		return true
	}
	d.wrong(pos, path, "%s; --fix would do this: %s", problem, mended)
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

// object returns the mapping of v and deals with fields that it may not have. special
// gets those that are no fields, but that people use.
func (d *decoder) object(v *value, known []string, special map[string]func(*value)) *mapping {
	if v.isNull() {
		return nil
	}
	m := v.mapping()
	if m == nil {
		d.wrong(v.pos, v.path, "want a mapping, have %s", v.kind())
		return nil
	}
	for _, k := range m.keys {
		if slices.Contains(known, k) {
			continue
		}
		if f := special[k]; f != nil {
			f(m.values[k])
			continue
		}
		d.unknown(m.places[k], member(v.path, k), k, known)
	}
	return m
}

func (d *decoder) unknown(pos diag.Pos, path, name string, known []string) {
	hint := ""
	if k := spell.Nearest(name, known); k != "" {
		hint = fmt.Sprintf(", did you mean %s?", k)
	}
	switch {
	case d.decoding == asFile:
		d.wrong(pos, path, "there is no such field%s; known here: %s", hint, strings.Join(known, ", "))
	case d.decoding == asResource:
		d.note(pos, path, "there is no such field%s: the cluster drops it without a word", hint)
	}
}

// text reads a text; in files a number or a boolean is one too.
func (d *decoder) text(v *value) string {
	if v.isNull() {
		return ""
	}
	switch v.data.(type) {
	case string:
		return v.text()
	case []*value, *mapping:
	default:
		if d.decoding != asResource {
			return v.raw
		}
	}
	d.wrong(v.pos, v.path, "want a text, have %s", v.kind())
	return ""
}

func (d *decoder) integer(v *value) int {
	if v.isNull() {
		return 0
	}
	switch n := v.data.(type) {
	case int:
		return n
	case float64:
		if n == float64(int(n)) {
			return int(n)
		}
	}
	d.wrong(v.pos, v.path, "want a whole number, have %s", v.kind())
	return 0
}

func (d *decoder) texts(v *value) (out []string) {
	if v.isNull() {
		return nil
	}
	if _, ok := v.data.([]*value); !ok {
		d.wrong(v.pos, v.path, "want a list of texts, have %s", v.kind())
		return nil
	}
	for _, e := range v.list() {
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
		d.wrong(v.pos, v.path, `want a duration such as "300ms", "5m" or "1h30m", have %q`, s)
	}
	return t
}

// template reads a text that is a template. early says that the legacy engine parsed it
// when it loaded the definition.
func (d *decoder) template(v *value, early bool) *tmpl {
	if v.isNull() {
		return nil
	}
	t := &tmpl{value: v, text: d.text(v)}
	t.parsed, t.err = gotmpl.Parse(t.text)
	if t.err == nil {
		return t
	}
	if repaired, how := repair(t.text); repaired != "" {
		if d.fixed(v.pos, v.path, "not a template: "+t.err.Error(), how) {
			t.text = repaired
			t.parsed, t.err = gotmpl.Parse(repaired)
		}
		return t
	}
	if early {
		d.wrong(v.pos, v.path, "not a template: %s; functions are %s", t.err, "those of Go's text/template, json, quote and fromJson")
	} else {
		d.note(v.pos, v.path, "not a template, which fails when the workflow comes here: %s", t.err)
	}
	return t
}

// workflow reads a whole definition.
func (d *decoder) workflow(def *Definition) *workflow {
	w := &workflow{pos: def.Pos}
	m := d.object(def.root, toolFields, map[string]func(*value){"failureMode": func(v *value) { d.failureMode(v, w) }})
	w.name, w.description = d.text(m.get("name")), d.text(m.get("description"))
	w.timeout = d.duration(m.get("timeout"))
	w.parameters = d.parameters(m.get("parameters"))
	w.annotations = d.annotations(m.get("annotations"))
	if steps := m.get("steps"); !steps.isNull() {
		if _, ok := steps.data.([]*value); !ok {
			d.wrong(steps.pos, steps.path, "want a list of steps, have %s", steps.kind())
		}
		for _, s := range steps.list() {
			w.steps = append(w.steps, d.step(s, false))
		}
	}
	w.output = d.output(m.get("output"))
	return w
}

// failureMode is a field of the documentation that no version has had.
func (d *decoder) failureMode(v *value, w *workflow) {
	mode := v.text()
	if d.decoding == asResource && !d.fix {
		d.note(v.pos, v.path, "there is no failureMode: the cluster drops it without a word, and a failing step ends the workflow; --fix would keep what it means")
		return
	}
	mended := "the field is dropped: a step that fails ends the workflow unless its onError says otherwise"
	if mode == actionContinue {
		mended = "every step goes on after a failure"
	}
	if d.decoding == asLax || d.fixed(v.pos, v.path, "there is no failureMode; what happens after a failure is each step's onError", mended) {
		w.goOn = mode == actionContinue
	}
}

// parameters returns the schema; with fix, that of the old form too.
func (d *decoder) parameters(v *value) *value {
	m := v.mapping()
	if m == nil || m.get("type") != nil || len(m.keys) == 0 {
		return v
	}
	for _, k := range m.keys {
		if m.values[k].mapping() == nil {
			return v
		}
	}
	if !d.fix {
		return v
	}
	d.note(v.pos, v.path, "the old form, names with their types, is written as a JSON Schema of an object")
	return d.oldParameters(v, m)
}

// oldParameters writes names with types as a JSON Schema.
func (d *decoder) oldParameters(v *value, m *mapping) *value {
	object := func(keys []string, values ...*value) *mapping {
		out := &mapping{values: map[string]*value{}, places: map[string]diag.Pos{}}
		for i, k := range keys {
			out.keys = append(out.keys, k)
			out.values[k], out.places[k] = values[i], v.pos
		}
		return out
	}
	at := func(data any) *value { return &value{pos: v.pos, path: v.path, data: data} }
	properties := object(nil)
	var required []*value
	for _, name := range m.keys {
		from := m.values[name].mapping()
		p := object(nil)
		for _, k := range from.keys {
			if b, ok := from.values[k].data.(bool); ok && k == "required" {
				if b {
					required = append(required, at(name))
				}
				continue
			}
			p.keys, p.values[k], p.places[k] = append(p.keys, k), from.values[k], from.places[k]
		}
		properties.keys = append(properties.keys, name)
		properties.values[name], properties.places[name] = &value{pos: m.values[name].pos, path: m.values[name].path, data: p}, m.places[name]
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
	kept := &mapping{values: m.values, places: m.places}
	for _, k := range hintFields {
		e := m.get(k)
		if e.isNull() {
			continue
		}
		kept.keys = append(kept.keys, k)
		if _, ok := e.data.(bool); !ok && k != "title" {
			d.wrong(e.pos, e.path, "want true or false, have %s", e.kind())
		}
		if k == "title" {
			d.text(e)
		}
	}
	return &value{pos: v.pos, path: v.path, data: kept}
}

// step reads a step, or the inner step of a forEach.
func (d *decoder) step(v *value, inner bool) *step {
	s := &step{pos: v.pos, path: v.path}
	m := d.object(v, stepFields, map[string]func(*value){"defaultResponse": d.defaultResponse})
	if m == nil && v.isNull() {
		d.wrong(s.pos, s.path, "want a step, have nothing")
	}
	s.fields = m
	s.id, s.kind, s.tool = d.text(m.get("id")), d.text(m.get("type")), d.text(m.get("tool"))
	if s.kind == "" {
		s.kind = toolStep
	}
	s.arguments = d.arguments(m.get("arguments"), s)
	s.condition = d.template(m.get("condition"), true)
	if s.condition != nil && s.condition.text == "" {
		s.condition = nil
	}
	s.dependsOn = d.texts(m.get("dependsOn"))
	s.timeout = max(d.duration(m.get("timeout")), 0)
	s.defaults = d.mappingOf(m.get("defaultResults"))
	s.onError = d.onError(m.get("onError"))
	s.message, s.schema = d.template(m.get("message"), true), d.mappingOf(m.get("schema"))
	s.onDecline, s.onCancel = d.handler(m.get("onDecline")), d.handler(m.get("onCancel"))
	s.collection = d.template(m.get("collection"), true)
	s.itemVar = d.text(m.get("itemVar"))
	s.maxParallel, s.maxIterations = d.integer(m.get("maxParallel")), d.integer(m.get("maxIterations"))
	if in := m.get("step"); !in.isNull() {
		if inner {
			d.note(in.pos, in.path, "the inner step of an inner step has no effect")
		} else {
			s.inner = d.step(in, true)
		}
	}
	return s
}

func (d *decoder) defaultResponse(v *value) {
	if d.decoding != asFile {
		d.note(v.pos, v.path, "there is no defaultResponse: it has no effect; see onDecline and onCancel")
		return
	}
	d.fixed(v.pos, v.path, "there is no defaultResponse; what follows a refusal is onDecline and onCancel", "the field is dropped: it never had an effect")
}

// mappingOf returns v when it is a mapping.
func (d *decoder) mappingOf(v *value) *value {
	if v.isNull() {
		return nil
	}
	if v.mapping() == nil {
		d.wrong(v.pos, v.path, "want a mapping, have %s", v.kind())
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
	s.templates = map[*value]*tmpl{}
	for _, k := range v.mapping().keys {
		e := v.mapping().values[k]
		d.expand(e, s, true)
	}
	return v
}

func (d *decoder) expand(v *value, s *step, top bool) {
	if v == nil {
		return
	}
	switch data := v.data.(type) {
	case string:
		s.templates[v] = d.template(v, top)
	case []*value:
		for _, e := range data {
			d.expand(e, s, false)
		}
	case *mapping:
		for _, k := range data.keys {
			d.expand(data.values[k], s, false)
		}
	}
}

func (d *decoder) onError(v *value) onError {
	e := onError{}
	var wanted *value
	m := d.object(v, onErrorFields, map[string]func(*value){"maxRetries": func(n *value) { wanted = n }})
	e.action, e.retryCount, e.retryDelay = d.text(m.get("action")), d.integer(m.get("retryCount")), d.duration(m.get("retryDelay"))
	if wanted != nil {
		d.maxRetries(wanted, &e)
	}
	return e
}

// maxRetries is a field of the examples that no version has had.
func (d *decoder) maxRetries(v *value, e *onError) {
	n := d.integer(v)
	if d.decoding == asResource && !d.fix && e.action != actionRetry {
		d.note(v.pos, v.path, "there is no maxRetries: the cluster drops it without a word, and nothing is retried; --fix would retry %d times", n)
		return
	}
	mended := fmt.Sprintf("retries %d times, as action: retry with retryCount: %d does", n, n)
	if n < 1 || e.action == actionContinue {
		mended = "the field is dropped"
	}
	if !d.fixed(v.pos, v.path, "there is no maxRetries; want action: retry with retryCount: "+strconv.Itoa(max(n, 1)), mended) {
		if e.action == actionRetry && e.retryCount == 0 {
			e.retryCount = n // one problem is enough
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
	action := d.text(m.get("action"))
	if !slices.Contains([]string{actionAbort, actionContinue, actionSkip}, action) {
		d.wrong(v.pos, member(v.path, "action"), "want abort, continue or skip_remaining, have %q", action)
		return actionAbort
	}
	return action
}

func (d *decoder) output(v *value) *output {
	if v.isNull() {
		return nil
	}
	o := &output{pos: v.pos, path: v.path}
	m := d.object(v, outputFields, nil)
	o.required = d.texts(m.get("required"))
	o.properties = d.properties(m.get("properties"))
	return o
}

func (d *decoder) properties(v *value) (list []*property) {
	v = d.mappingOf(v)
	if v == nil {
		return nil
	}
	for _, name := range v.mapping().keys {
		p := v.mapping().values[name]
		list = append(list, d.property(name, p))
	}
	return list
}

func (d *decoder) property(name string, v *value) *property {
	p := &property{pos: v.pos, path: v.path, name: name}
	m := d.object(v, propertyFields, nil)
	p.fields = m
	p.kind, p.description = d.text(m.get("type")), d.text(m.get("description"))
	p.value = d.template(m.get("value"), true)
	if p.value != nil && p.value.text == "" {
		p.value = nil
	}
	p.properties = d.properties(m.get("properties"))
	if p.properties == nil && m.get("properties") != nil {
		p.properties = []*property{}
	}
	if f := m.get("default"); f.counts() {
		p.fallback = f
	}
	return p
}

// counts reports whether a default is set: empty lists and mappings are not.
func (v *value) counts() bool {
	if v.isNull() {
		return false
	}
	switch d := v.data.(type) {
	case []*value:
		return len(d) > 0
	case *mapping:
		return len(d.keys) > 0
	}
	return true
}

// comparison is what people write who know other template languages.
var comparison = regexp.MustCompile(`\{\{\s*(\.[A-Za-z_][\w.]*)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)")\s*\}\}`)

// repair returns the template that a text was meant to be, and what was done; "" when
// that is not plain.
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
