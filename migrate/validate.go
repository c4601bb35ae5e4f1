package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/spell"
)

// validate finds what the legacy engine would have refused, when it loaded the
// configuration or when its server started.
func (d *decoder) validate(w *workflow) {
	if w.name == "" {
		d.wrong(w.pos, "name", "missing: clients call the workflow by it")
	}
	if w.description == "" {
		d.wrong(w.pos, "description", "missing: clients are shown it")
	}
	if w.timeout < 0 {
		d.wrong(w.pos, "timeout", "want a duration that is not negative, have %s", w.timeout)
	}
	d.checkParameters(w)
	switch n := len(w.steps); {
	case n == 0:
		d.wrong(w.pos, "steps", "want at least one step")
	case n > maxSteps:
		d.wrong(w.pos, "steps", "want at most %d steps, have %d", maxSteps, n)
	}
	for _, s := range w.steps {
		d.checkStep(s)
	}
	d.checkGraph(w)
	d.checkOutput(w.output)
	d.checkReferences(w)
}

func (d *decoder) checkParameters(w *workflow) {
	v := w.parameters
	if v.isNull() {
		return
	}
	m := v.mapping()
	if m == nil {
		d.wrong(v.pos, "parameters", "want a JSON Schema of an object, have %s", v.kind())
		return
	}
	if len(m.keys) == 0 {
		w.parameters = nil
		return
	}
	switch kind := m.get("type"); {
	case kind == nil:
		d.wrong(v.pos, "parameters", "want a JSON Schema with type: object; the old form, names with their types, is not read (--fix writes it as a schema)")
		return
	case kind.text() != "object":
		d.wrong(kind.pos, kind.path, "want object, have %s", kind.kind())
	}
	if p := m.get("properties"); !p.isNull() && p.mapping() == nil {
		d.wrong(p.pos, p.path, "want a mapping of names to schemas, have %s", p.kind())
	}
	if r := m.get("required"); !r.isNull() {
		if _, ok := r.data.([]*value); !ok {
			d.wrong(r.pos, r.path, "want a list of names, have %s", r.kind())
		}
	}
	d.checkSchema(v)
}

// checkSchema reports a schema that is none, at what is wrong in it.
func (d *decoder) checkSchema(v *value) {
	flaws := schema.Flaws(v.json(), schema.Draft7)
	for i, flaw := range flaws {
		if i > 0 && slices.Equal(flaw.At, flaws[i-1].At) {
			continue // what another alternative wants
		}
		at := v.below(flaw.At)
		d.wrong(at.pos, at.path, "%s", flaw.Message)
	}
}

// toolName is what the legacy engine took for the name of a tool.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func (d *decoder) checkStep(s *step) {
	if s.id == "" {
		d.wrong(s.at("id"), member(s.path, "id"), "missing: every step needs one")
	}
	switch s.kind {
	case toolStep:
		d.checkTool(s)
	case elicitationStep:
		d.checkElicitation(s)
	case forEachStep:
		d.checkForEach(s)
	default:
		d.wrong(s.at("type"), member(s.path, "type"), "want tool, elicitation or forEach, have %q", s.kind)
	}
	d.checkOnError(s)
}

func (d *decoder) checkTool(s *step) {
	switch {
	case s.tool == "":
		d.wrong(s.at("tool"), member(s.path, "tool"), "missing: the tool to call, as backend_tool or backend.tool")
	case !toolName.MatchString(s.tool):
		d.wrong(s.at("tool"), member(s.path, "tool"), "want the name of a tool (letters, digits, '.', '_' and '-'), have %q", s.tool)
	}
}

func (d *decoder) checkElicitation(s *step) {
	if s.message == nil || s.message.text == "" {
		d.wrong(s.at("message"), member(s.path, "message"), "missing: what to ask")
	}
	if s.schema == nil || len(s.schema.mapping().keys) == 0 {
		if d.fixed(s.at("schema"), member(s.path, "schema"), "missing: the JSON Schema of the answer", "the form has no fields: it is accepted or declined") {
			s.schema = constantOfFile(s.pos, map[string]any{"type": "object", "properties": map[string]any{}})
		}
		return
	}
	d.checkSchema(s.schema)
}

// constantOfFile is a value that a file should have had.
func constantOfFile(pos diag.Pos, v any) *value {
	out := fromPlain(v)
	out.pos = pos
	return out
}

// variableName is what the legacy engine took for the name of a loop's variable: words of
// Go are among them.
var variableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (d *decoder) checkForEach(s *step) {
	if s.collection == nil || s.collection.text == "" {
		d.wrong(s.at("collection"), member(s.path, "collection"), "missing: a template that renders to a JSON list, such as {{json .params.items}}")
	}
	if s.tool != "" {
		d.wrong(s.at("tool"), member(s.path, "tool"), "a forEach step calls the tool of its inner step")
	}
	if s.message != nil && s.message.text != "" {
		d.wrong(s.at("message"), member(s.path, "message"), "a forEach step asks nothing")
	}
	if s.itemVar != "" && (!variableName.MatchString(s.itemVar) || s.itemVar == forEachIndex) {
		d.wrong(s.at("itemVar"), member(s.path, "itemVar"), "want a name of letters, digits and '_' other than index, have %q", s.itemVar)
	}
	d.checkRange(s, "maxParallel", s.maxParallel, maxParallel)
	d.checkRange(s, "maxIterations", s.maxIterations, maxIterations)
	d.checkInner(s)
}

func (d *decoder) checkRange(s *step, name string, n, most int) {
	if n < 0 || n > most {
		d.wrong(s.at(name), member(s.path, name), "want 0 to %d, have %d", most, n)
	}
}

func (d *decoder) checkInner(s *step) {
	in := s.inner
	if in == nil {
		d.wrong(s.at("step"), member(s.path, "step"), "missing: what to do for each element")
		return
	}
	if in.kind != toolStep {
		d.wrong(in.at("type"), member(in.path, "type"), "want tool: only tools can be called for each element, have %q", in.kind)
		return
	}
	d.checkTool(in)
	if in.id == "" {
		d.fixed(in.at("id"), member(in.path, "id"), "missing: the server does not start without the id of an inner step, though nothing uses it",
			"an inner step needs no id")
	}
	d.checkOnError(in)
	for _, ignored := range []struct {
		name string
		is   bool
	}{
		{"condition", in.condition != nil}, {"dependsOn", len(in.dependsOn) > 0}, {"timeout", in.timeout != 0},
		{"defaultResults", in.defaults != nil}, {"onError", in.onError.action == actionContinue},
	} {
		if ignored.is {
			d.note(in.at(ignored.name), member(in.path, ignored.name), "has no effect in an inner step")
		}
	}
	if s.onError.action == actionRetry {
		d.note(s.at("onError"), member(s.path, "onError"), "retry has no effect on a forEach step; on its inner step it has")
	}
}

func (d *decoder) checkOnError(s *step) {
	switch s.onError.action {
	case "", actionAbort, actionContinue:
	case actionRetry:
		if s.onError.retryCount < 1 {
			d.wrong(s.at("onError"), member(s.path, "onError")+".retryCount", "want at least 1 with action: retry, have %d", s.onError.retryCount)
		}
		if s.onError.retryCount > maxRetries {
			d.note(s.at("onError"), member(s.path, "onError")+".retryCount", "%d is more than the %d times that a step is retried at most", s.onError.retryCount, maxRetries)
		}
		d.note(s.at("onError"), member(s.path, "onError"), "where the connection is lost in the middle of a call, the step is retried only if its tool has readOnlyHint or idempotentHint, or repeatable: true in the configuration; the legacy engine retried any")
	default:
		d.wrong(s.at("onError"), member(s.path, "onError")+".action", "want abort, continue or retry, have %q", s.onError.action)
	}
}

// checkGraph finds ids that are there twice or not at all, and cycles; it gives the
// steps their levels.
func (d *decoder) checkGraph(w *workflow) {
	ids := map[string]*step{}
	for _, s := range w.steps {
		if first := ids[s.id]; first != nil && s.id != "" {
			d.wrong(s.at("id"), member(s.path, "id"), "%q is the id of another step already, of %s", s.id, first.path)
			continue
		}
		ids[s.id] = s
	}
	sound := true
	for _, s := range w.steps {
		for i, dep := range s.dependsOn {
			if ids[dep] != nil {
				continue
			}
			sound = false
			hint := ""
			if near := spell.Nearest(dep, w.ids()); near != "" {
				hint = fmt.Sprintf(", did you mean %s?", near)
			}
			d.wrong(s.at("dependsOn"), index(member(s.path, "dependsOn"), i), "there is no step %q%s", dep, hint)
		}
	}
	if sound {
		d.level(w, ids)
	}
}

// ids lists the ids of the steps.
func (w *workflow) ids() (list []string) {
	for _, s := range w.steps {
		list = append(list, s.id)
	}
	return list
}

// level puts every step after all that it depends on.
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
			from := slices.Index(chain, s.id)
			d.wrong(s.at("dependsOn"), member(s.path, "dependsOn"), "cycle: %s", strings.Join(append(chain[from:len(chain):len(chain)], s.id), " → "))
			return false
		}
		state[s] = open
		chain = append(chain, s.id)
		for _, dep := range s.dependsOn {
			if !visit(ids[dep]) {
				return false
			}
			s.level = max(s.level, ids[dep].level+1)
		}
		chain = chain[:len(chain)-1]
		state[s] = done
		return true
	}
	for _, s := range w.steps {
		if !visit(s) {
			return
		}
	}
}

// Types that a property of the output may have.
var propertyTypes = []string{"string", "integer", "number", "boolean", "object", "array"}

func (d *decoder) checkOutput(o *output) {
	if o == nil {
		return
	}
	if len(o.properties) == 0 {
		d.wrong(o.pos, member(o.path, "properties"), "want at least one property")
	}
	names := map[string]bool{}
	for _, p := range o.properties {
		names[p.name] = true
		d.checkProperty(p, 1)
	}
	for i, name := range o.required {
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
	if !slices.Contains(propertyTypes, p.kind) {
		d.wrong(p.at("type"), member(p.path, "type"), "want one of %s, have %q", strings.Join(propertyTypes, ", "), p.kind)
	}
	if p.description == "" {
		d.fixed(p.at("description"), member(p.path, "description"), "missing: the server does not start without the description of an output property",
			"the property is described by its name")
	}
	switch {
	case p.value != nil && p.properties != nil:
		d.wrong(p.pos, p.path, "want value or properties, not both")
	case p.value == nil && p.properties == nil:
		d.wrong(p.pos, p.path, "want value, a template%s", map[bool]string{true: ", or properties"}[p.kind == "object"])
	case p.properties != nil && p.kind != "object":
		d.wrong(p.at("properties"), member(p.path, "properties"), "only an object has properties, this is %q", p.kind)
	case p.properties != nil && len(p.properties) == 0:
		d.wrong(p.at("properties"), member(p.path, "properties"), "want at least one property")
	}
	if p.value != nil && !balanced(p.value.text) {
		d.wrong(p.value.value.pos, p.value.value.path, "unbalanced {{ }}: a literal }} next to a template is counted too")
	}
	d.checkDefault(p)
	for _, in := range p.properties {
		d.checkProperty(in, depth+1)
	}
}

// balanced is the check that the legacy engine made of the value of a property.
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

// checkDefault wants a default from which a value of the type can be made.
func (d *decoder) checkDefault(p *property) {
	if p.fallback == nil {
		return
	}
	_, err := p.coerced()
	if err == nil {
		return
	}
	if _, isText := p.fallback.data.(string); isText && p.kind != "string" {
		d.note(p.fallback.pos, p.fallback.path, "never takes the place of a value: %v", err)
		return
	}
	d.wrong(p.fallback.pos, p.fallback.path, "%v", err)
}

// usable returns the default as a value of the property's type; a text that is none has no use.
func (p *property) usable() (any, bool) {
	if p.fallback == nil {
		return nil, false
	}
	v, err := p.coerced()
	return v, err == nil
}

// coerced returns the default as a value of the property's type.
func (p *property) coerced() (any, error) {
	v := p.fallback
	want := func() (any, error) { return nil, fmt.Errorf("want a default of type %s, have %s", p.kind, v.kind()) }
	switch p.kind {
	case "string":
		return goText(v), nil
	case "integer":
		switch n := v.data.(type) {
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
		switch n := v.data.(type) {
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
	switch b := p.fallback.data.(type) {
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

// coercedJSON returns the default of an object or a list: as it is, or of its JSON text.
func (p *property) coercedJSON(want func() (any, error)) (any, error) {
	v := p.fallback
	if s, ok := v.data.(string); ok {
		parsed, err := parseJSONText(s)
		if err != nil {
			return nil, fmt.Errorf("want JSON, have %q: %v", s, err)
		}
		v = parsed
	}
	_, isList := v.data.([]*value)
	if p.kind == "object" && v.mapping() == nil || p.kind == "array" && !isList {
		return want()
	}
	return v, nil
}
