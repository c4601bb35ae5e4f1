package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// validate reports the mistakes that the legacy engine would have refused, when it loaded the
// configuration or when its server started.
func (d *decoder) validate(w *workflow) {
	if w.Name == "" {
		d.wrong(w.Pos, "name", "missing: clients call the workflow by it")
	}
	if w.Description == "" {
		d.wrong(w.Pos, "description", "missing: it is shown to clients")
	}
	if w.Timeout < 0 {
		d.wrong(w.Pos, "timeout", "want a duration that is not negative, have %s", w.Timeout)
	}
	d.checkParameters(w)
	switch n := len(w.Steps); {
	case n == 0:
		d.wrong(w.Pos, "steps", "want at least one step")
	case n > maxSteps:
		d.wrong(w.Pos, "steps", "want at most %d steps, have %d", maxSteps, n)
	}
	for _, s := range w.Steps {
		d.checkStep(s)
	}
	d.checkGraph(w)
	d.checkOutput(w.Output)
	d.checkReferences(w)
}

func (d *decoder) checkParameters(w *workflow) {
	v := w.Parameters
	if v.IsNull() {
		return
	}
	m := v.Mapping()
	if m == nil {
		d.wrong(v.Pos, "parameters", "want a JSON Schema of an object, have %s", v.kind())
		return
	}
	if len(m.Keys) == 0 {
		w.Parameters = nil
		return
	}
	switch kind := m.Get("type"); {
	case kind == nil:
		d.wrong(v.Pos, "parameters", "want a JSON Schema with type: object; the old form, names with their types, is not read (--fix writes it as a schema)")
		return
	case kind.Text() != "object":
		d.wrong(kind.Pos, kind.Path, "want object, have %s", kind.kind())
	}
	if p := m.Get("properties"); !p.IsNull() && p.Mapping() == nil {
		d.wrong(p.Pos, p.Path, "want a mapping of names to schemas, have %s", p.kind())
	}
	if r := m.Get("required"); !r.IsNull() {
		if _, ok := r.Data.([]*value); !ok {
			d.wrong(r.Pos, r.Path, "want a list of names, have %s", r.kind())
		}
	}
	d.checkSchema(v)
}

// checkSchema reports an invalid schema, at the position of the mistake.
func (d *decoder) checkSchema(v *value) {
	flaws := schema.Flaws(v.Json(), schema.Draft7)
	for i, flaw := range flaws {
		if i > 0 && slices.Equal(flaw.At, flaws[i-1].At) {
			continue // of another alternative
		}
		at := v.below(flaw.At)
		d.wrong(at.Pos, at.Path, "%s", flaw.Message)
	}
}

// toolName matches the names of tools that the legacy engine accepted.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func (d *decoder) checkStep(s *step) {
	if s.Id == "" {
		d.wrong(s.At("id"), member(s.Path, "id"), "missing: every step needs one")
	}
	switch s.Kind {
	case toolStep:
		d.checkTool(s)
	case elicitationStep:
		d.checkElicitation(s)
	case forEachStep:
		d.checkForEach(s)
	default:
		d.wrong(s.At("type"), member(s.Path, "type"), "want tool, elicitation or forEach, have %q", s.Kind)
	}
	d.checkOnError(s)
}

func (d *decoder) checkTool(s *step) {
	switch {
	case s.Tool == "":
		d.wrong(s.At("tool"), member(s.Path, "tool"), "missing: the tool to call, as backend_tool or backend.tool")
	case !toolName.MatchString(s.Tool):
		d.wrong(s.At("tool"), member(s.Path, "tool"), "want the name of a tool (letters, digits, '.', '_' and '-'), have %q", s.Tool)
	}
}

func (d *decoder) checkElicitation(s *step) {
	if s.Message == nil || s.Message.text == "" {
		d.wrong(s.At("message"), member(s.Path, "message"), "missing: what to ask")
	}
	if s.Schema == nil || len(s.Schema.Mapping().Keys) == 0 {
		if d.fixed(s.At("schema"), member(s.Path, "schema"), "missing: the JSON Schema of the answer", "the form has no fields: it is accepted or declined") {
			s.Schema = constantOfFile(s.pos, map[string]any{"type": "object", "properties": map[string]any{}})
		}
		return
	}
	d.checkSchema(s.Schema)
}

// constantOfFile returns a value for a field that is missing in the file.
func constantOfFile(pos diag.Pos, v any) *value {
	out := fromPlain(v)
	out.Pos = pos
	return out
}

// variableName matches the names of a loop's variable that the legacy engine accepted, among them keywords of
// Go.
var variableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (d *decoder) checkForEach(s *step) {
	if s.Collection == nil || s.Collection.text == "" {
		d.wrong(s.At("collection"), member(s.Path, "collection"), "missing: a template that renders to a JSON list, such as {{json .params.items}}")
	}
	if s.Tool != "" {
		d.wrong(s.At("tool"), member(s.Path, "tool"), "a forEach step calls the tool of its inner step")
	}
	if s.Message != nil && s.Message.text != "" {
		d.wrong(s.At("message"), member(s.Path, "message"), "a forEach step has no message: it asks no question")
	}
	if s.itemVar != "" && (!variableName.MatchString(s.itemVar) || s.itemVar == forEachIndex) {
		d.wrong(s.At("itemVar"), member(s.Path, "itemVar"), "want a name of letters, digits and '_' other than index, have %q", s.itemVar)
	}
	d.checkRange(s, "maxParallel", s.MaxParallel, maxParallel)
	d.checkRange(s, "maxIterations", s.MaxIterations, maxIterations)
	d.checkInner(s)
}

func (d *decoder) checkRange(s *step, name string, n, most int) {
	if n < 0 || n > most {
		d.wrong(s.At(name), member(s.Path, name), "want 0 to %d, have %d", most, n)
	}
}

func (d *decoder) checkInner(s *step) {
	in := s.Inner
	if in == nil {
		d.wrong(s.At("step"), member(s.Path, "step"), "missing: what to do for each element")
		return
	}
	if in.Kind != toolStep {
		d.wrong(in.At("type"), member(in.Path, "type"), "want tool: only tools can be called for each element, have %q", in.Kind)
		return
	}
	d.checkTool(in)
	if in.Id == "" {
		d.fixed(in.At("id"), member(in.Path, "id"), "missing: the server does not start without the id of an inner step, though nothing uses it",
			"an inner step needs no id")
	}
	d.checkOnError(in)
	for _, ignored := range []struct {
		name string
		is   bool
	}{
		{"condition", in.Condition != nil}, {"dependsOn", len(in.DependsOn) > 0}, {"timeout", in.Timeout != 0},
		{"defaultResults", in.Defaults != nil}, {"onError", in.OnError.action == actionContinue},
	} {
		if ignored.is {
			d.note(in.At(ignored.name), member(in.Path, ignored.name), "has no effect in an inner step")
		}
	}
	if s.OnError.action == actionRetry {
		d.note(s.At("onError"), member(s.Path, "onError"), "retry has no effect on a forEach step; set it on its inner step")
	}
}

func (d *decoder) checkOnError(s *step) {
	switch s.OnError.action {
	case "", actionAbort, actionContinue:
	case actionRetry:
		if s.OnError.retryCount < 1 {
			d.wrong(s.At("onError"), member(s.Path, "onError")+".retryCount", "want at least 1 with action: retry, have %d", s.OnError.retryCount)
		}
		if s.OnError.retryCount > maxRetries {
			d.note(s.At("onError"), member(s.Path, "onError")+".retryCount", "%d is more than the %d times that a step is retried at most", s.OnError.retryCount, maxRetries)
		}
		d.note(s.At("onError"), member(s.Path, "onError"), "where the connection is lost in the middle of a call, the step is retried only if its tool has readOnlyHint or idempotentHint, or repeatable: true in the configuration; the legacy engine retried any")
	default:
		d.wrong(s.At("onError"), member(s.Path, "onError")+".action", "want abort, continue or retry, have %q", s.OnError.action)
	}
}

// checkGraph reports duplicate ids, references to unknown ids and cycles, and sets the levels of
// the steps.
func (d *decoder) checkGraph(w *workflow) {
	ids := map[string]*step{}
	for _, s := range w.Steps {
		if first := ids[s.Id]; first != nil && s.Id != "" {
			d.wrong(s.At("id"), member(s.Path, "id"), "duplicate id %q, which %s has already", s.Id, first.Path)
			continue
		}
		ids[s.Id] = s
	}
	sound := true
	for _, s := range w.Steps {
		for i, dep := range s.DependsOn {
			if ids[dep] != nil {
				continue
			}
			sound = false
			d.wrong(s.At("dependsOn"), index(member(s.Path, "dependsOn"), i), "there is no step %q%s", dep, display.Hint(dep, w.ids()))
		}
	}
	if sound {
		d.level(w, ids)
	}
}

// ids lists the ids of the steps.
func (w *workflow) ids() (list []string) {
	for _, s := range w.Steps {
		list = append(list, s.Id)
	}
	return list
}

// level sets the level of every step to one above those of the steps that it depends on.
func (d *decoder) level(w *workflow, ids map[string]*step) {
	const open, done = 1, 2
	state := map[*step]int{}
	var chain []string
	var visit func(s *step) bool
	visit = func(s *step) bool {
		switch state[s] {
		case done:
			return true
		case open:
			from := slices.Index(chain, s.Id)
			d.wrong(s.At("dependsOn"), member(s.Path, "dependsOn"), "cycle: %s", strings.Join(append(chain[from:len(chain):len(chain)], s.Id), " → "))
			return false
		}
		state[s] = open
		chain = append(chain, s.Id)
		for _, dep := range s.DependsOn {
			if !visit(ids[dep]) {
				return false
			}
			s.Level = max(s.Level, ids[dep].Level+1)
		}
		chain = chain[:len(chain)-1]
		state[s] = done
		return true
	}
	for _, s := range w.Steps {
		if !visit(s) {
			return
		}
	}
}

// propertyTypes that a property of the output may have.
var propertyTypes = []string{"string", "integer", "number", "boolean", "object", "array"}

func (d *decoder) checkOutput(o *output) {
	if o == nil {
		return
	}
	if len(o.Properties) == 0 {
		d.wrong(o.pos, member(o.path, "properties"), "want at least one property")
	}
	names := map[string]bool{}
	for _, p := range o.Properties {
		names[p.Name] = true
		d.checkProperty(p, 1)
	}
	for i, name := range o.Required {
		if !names[name] {
			d.wrong(o.pos, index(member(o.path, "required"), i), "there is no property %q", name)
		}
	}
}

func (d *decoder) checkProperty(p *property, depth int) {
	if depth > maxOutput {
		d.wrong(p.pos, p.path, "nested more than %d deep", maxOutput)
		return
	}
	if !slices.Contains(propertyTypes, p.Kind) {
		d.wrong(p.at("type"), member(p.path, "type"), "want one of %s, have %q", strings.Join(propertyTypes, ", "), p.Kind)
	}
	if p.Description == "" {
		d.fixed(p.at("description"), member(p.path, "description"), "missing: the server does not start without the description of an output property",
			"its name is used as the description")
	}
	switch {
	case p.Value != nil && p.Properties != nil:
		d.wrong(p.pos, p.path, "want value or properties, not both")
	case p.Value == nil && p.Properties == nil:
		d.wrong(p.pos, p.path, "want value, a template%s", map[bool]string{true: ", or properties"}[p.Kind == "object"])
	case p.Properties != nil && p.Kind != "object":
		d.wrong(p.at("properties"), member(p.path, "properties"), "only an object has properties, this is %q", p.Kind)
	case p.Properties != nil && len(p.Properties) == 0:
		d.wrong(p.at("properties"), member(p.path, "properties"), "want at least one property")
	}
	if p.Value != nil && !balanced(p.Value.text) {
		d.wrong(p.Value.Value.Pos, p.Value.Value.Path, "unbalanced {{ }}: a literal }} next to a template is counted too")
	}
	d.checkDefault(p)
	for _, in := range p.Properties {
		d.checkProperty(in, depth+1)
	}
}

// balanced is the legacy engine's check of the value of a property.
func balanced(s string) bool {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "{{":
			depth++
			i++
		case "}}":
			if depth--; depth < 0 {
				return false
			}
			i++
		}
	}
	return depth == 0
}

// checkDefault checks that a default can be converted to the type of its property.
func (d *decoder) checkDefault(p *property) {
	if p.Fallback == nil {
		return
	}
	_, err := p.Coerced()
	if err == nil {
		return
	}
	if _, isText := p.Fallback.Data.(string); isText && p.Kind != "string" {
		d.note(p.Fallback.Pos, p.Fallback.Path, "this default is never used: %v", err)
		return
	}
	d.wrong(p.Fallback.Pos, p.Fallback.Path, "%v", err)
}

// Usable returns the default as a value of the property's type; false where it cannot be converted.
func (p *property) Usable() (any, bool) {
	if p.Fallback == nil {
		return nil, false
	}
	v, err := p.Coerced()
	return v, err == nil
}

// Coerced returns the default as a value of the property's type.
func (p *property) Coerced() (any, error) {
	v := p.Fallback
	want := func() (any, error) { return nil, fmt.Errorf("want a default of type %s, have %s", p.Kind, v.kind()) }
	switch p.Kind {
	case "string":
		return goText(v), nil
	case "integer":
		switch n := v.Data.(type) {
		case int, uint64:
			return n, nil
		case float64:
			return int(n), nil
		case string:
			if i, err := strconv.Atoi(n); err == nil {
				return i, nil
			}
		}
		return want()
	case "number":
		switch n := v.Data.(type) {
		case int:
			return float64(n), nil
		case uint64:
			return float64(n), nil
		case float64:
			return n, nil
		case string:
			if f, err := strconv.ParseFloat(n, 64); err == nil {
				return f, nil
			}
		}
		return want()
	case "boolean":
		return p.coercedBool(want)
	}
	return p.coercedJSON(want)
}

func (p *property) coercedBool(want func() (any, error)) (any, error) {
	switch b := p.Fallback.Data.(type) {
	case bool:
		return b, nil
	case int:
		return b == 1, nil
	case float64:
		return b == 1, nil
	case string:
		switch b {
		case "true", "True", "TRUE", "1":
			return true, nil
		case "false", "False", "FALSE", "0":
			return false, nil
		}
	}
	return want()
}

// coercedJSON returns the default of an object or a list: the value itself, or decoded from its JSON text.
func (p *property) coercedJSON(want func() (any, error)) (any, error) {
	v := p.Fallback
	if s, ok := v.Data.(string); ok {
		parsed, err := parseJSONText(s)
		if err != nil {
			return nil, fmt.Errorf("want JSON, have %q: %v", s, err)
		}
		v = parsed
	}
	_, isList := v.Data.([]*value)
	if p.Kind == "object" && v.Mapping() == nil || p.Kind == "array" && !isList {
		return want()
	}
	return v, nil
}
