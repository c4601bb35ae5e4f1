package migrate

import (
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// exact writes scripts that do what the legacy engine did.
type exact struct {
	*emitter
	usesParams bool // in the templates written so far
	needParams bool // as found the first time
}

func (x *exact) write() error {
	x.needParams, x.usesParams = x.usesParams || x.needParams, false
	x.head()
	if err := x.byLevel(x.w.levels()); err != nil {
		return err
	}
	x.needParams = x.usesParams
	return nil
}

// head writes what comes before the first step.
func (x *exact) head() {
	if x.w.timeout != 0 && x.w.timeout != defaultTimeout {
		x.loads["deadline"] = true
		x.code.line("%s", gotmpl.Call("deadline", gotmpl.Quote(durationText(x.w.timeout))))
	}
	if !x.needParams {
		return
	}
	x.loads["arguments"] = true
	args := []string{"params"}
	if d := x.defaults(); d != "" {
		args = append(args, d)
	}
	x.code.line("params = %s", gotmpl.Call("arguments", args...))
}

// defaults returns the defaults of the parameters as a dict, "" without any.
func (x *exact) defaults() string {
	properties := x.w.parameters.mapping().get("properties").mapping()
	if properties == nil {
		return ""
	}
	var entries []string
	for _, name := range properties.keys {
		schema := properties.values[name].mapping()
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
	d, ok := schema.values["default"]
	return d, ok
}

// skipped is the expression that tells whether an answer ended the workflow.
func (x *exact) skipped(s *step) string {
	x.seen[s].output = true
	return x.outputOf(s) + `.get("skipped")`
}

// oneLevel writes the steps of a level: side by side when there are several.
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
	args := []string{gotmpl.ListOf(branches)}
	if len(level) > maxConcurrent {
		args = append(args, keyword("max_concurrency", strconv.Itoa(maxConcurrent)))
	}
	call := gotmpl.Call("parallel", args...)
	if used {
		call = strings.Join(targets, ", ") + " = " + call
	}
	x.code.line("%s", call)
	return nil
}

// isUsed reports whether some template needs the step.
func (x *exact) isUsed(s *step) bool { return *x.used[s] != facets{} }

// isRecord reports whether the variable of a step holds more than its output.
func (x *exact) isRecord(s *step) bool {
	u := x.used[s]
	return u.content || x.goesOn(s) && (u.status || u.error) || u.status && x.mayBeSkipped(s)
}

// branch writes a step as a function without arguments, for parallel.
func (x *exact) branch(s *step) (string, error) {
	if s.condition == nil || x.goesOn(s) {
		expr, err := x.expression(s)
		if err != nil {
			return "", err
		}
		return "lambda: " + expr, nil
	}
	return x.function(s)
}

// function writes a step with its condition as a function of its own.
func (x *exact) function(s *step) (string, error) {
	name := x.names.fresh("run_" + s.id)
	var err error
	x.code.line("def %s():", name)
	x.code.block(func() { err = x.returning(s) })
	x.code.line("")
	return name, err
}

// returning writes the body of function.
func (x *exact) returning(s *step) error {
	cond, err := x.condition(s)
	if err != nil {
		return err
	}
	x.code.line("if %s:", cond)
	x.code.block(func() {
		var expr string
		if expr, err = x.core(s); err == nil {
			x.code.line("return %s", expr)
		}
	})
	x.code.line("return %s", x.skippedValue(s))
	return err
}

// alone writes a step that is the only one of its level.
func (x *exact) alone(s *step) error {
	if s.condition != nil && !x.goesOn(s) {
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
	cond, err := x.condition(s)
	if err != nil {
		return err
	}
	x.code.line("if %s:", cond)
	x.code.block(func() {
		var expr string
		if expr, err = x.core(s); err == nil {
			x.assign(s, expr)
		}
	})
	if err == nil && x.isUsed(s) {
		x.code.line("else:")
		x.code.block(func() { x.code.line("%s = %s", x.vars[s], x.skippedValue(s)) })
	}
	return err
}

// skippedValue is what the variable of a step holds when it did not run.
func (x *exact) skippedValue(s *step) string {
	if x.isRecord(s) {
		x.loads["skipped"] = true
		if s.defaults == nil {
			return "skipped()"
		}
		return gotmpl.Call("skipped", literal(s.defaults))
	}
	return x.defaultOutput(s)
}

func (x *exact) defaultOutput(s *step) string {
	if s.defaults != nil {
		return literal(s.defaults)
	}
	return x.nothing().Code
}

// expression writes a step as one expression; a step that may fail is attempted.
func (x *exact) expression(s *step) (string, error) {
	if !x.goesOn(s) {
		return x.core(s)
	}
	var body string
	var err error
	if s.condition == nil {
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
	if s.defaults != nil && s.mayFail() {
		args = append(args, keyword("defaults", literal(s.defaults)))
	}
	call := gotmpl.Call("attempt", args...)
	if !x.isRecord(s) && x.isUsed(s) {
		call += ".output"
	}
	return call, nil
}

// condition writes the condition of a step.
func (x *exact) condition(s *step) (string, error) {
	place := segment(s.id) + ".condition"
	t := s.condition
	if t.parsed == nil {
		return x.broken(t, place), nil
	}
	if word, plain := t.parsed.Plain(); plain {
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
	text, err := x.translate(t, &scope{e: x.emitter, step: s, place: place}, s.id+"_condition")
	if err != nil {
		return "", err
	}
	x.loads["condition"] = true
	return gotmpl.Call("condition", text.Code, keywordText("step", s.id)), nil
}

// boolean writes a condition that is one comparison as just that.
func (x *exact) boolean(t *tmpl, s *step, place string) (string, bool, error) {
	e, ok, err := t.parsed.Value(&scope{e: x.emitter, step: s, place: place}, x.style)
	if err != nil {
		return "", false, x.misplaced(t, err)
	}
	return e.Code, ok && e.Kind == gotmpl.Bool, nil
}

// broken writes a text that is no template: it fails when the workflow comes there.
func (x *exact) broken(t *tmpl, place string) string {
	x.loads["broken_template"] = true
	return gotmpl.Call("broken_template", gotmpl.Quote(t.err.Error()), keywordText("at", place))
}

// core writes what a step does, without its condition.
func (x *exact) core(s *step) (string, error) {
	switch s.kind {
	case elicitationStep:
		return x.elicitation(s)
	case forEachStep:
		return x.forEach(s)
	}
	return x.call(s, s.id, &scope{e: x.emitter, step: s}, segment(s.id)+".arguments")
}

// call writes the call of a tool; id is "" for an inner step.
func (x *exact) call(s *step, id string, sc *scope, place string) (string, error) {
	x.loads["call"] = true
	args := []string{gotmpl.Quote(s.tool)}
	arguments, err := x.arguments(s, sc, place)
	if err != nil {
		return "", err
	}
	retries := s.retries()
	if retries > 0 && strings.Contains(arguments, "at = ") {
		name := x.names.fresh(s.id + "_args")
		x.code.line("%s = %s", name, arguments)
		arguments = name
	}
	if arguments != "" {
		args = append(args, arguments)
	}
	if id != "" {
		args = append(args, keywordText("step", id))
	}
	if s.timeout != 0 && id != "" && retries == 0 && s.timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.timeout)))
	}
	if id != "" && x.isRecord(s) && (x.used[s].content || !x.goesOn(s)) {
		args = append(args, keyword("record", "True"))
	}
	call := gotmpl.Call("call", args...)
	if retries == 0 {
		return call, nil
	}
	return x.retry(s, call, id), nil
}

func (x *exact) retry(s *step, call, id string) string {
	x.loads["retry"] = true
	args := []string{"lambda: " + call, keyword("attempts", strconv.Itoa(s.retries()+1))}
	if d := s.onError.retryDelay; d != 0 && d != defaultRetryDelay {
		args = append(args, keywordText("delay", durationText(d)))
	}
	if s.timeout != 0 && id != "" && s.timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.timeout)))
	}
	return gotmpl.Call("retry", args...)
}

// arguments writes the arguments of a call; "" for none.
func (x *exact) arguments(s *step, sc *scope, place string) (string, error) {
	if s.arguments == nil {
		return "", nil
	}
	return x.templated(s.arguments, s, sc, place)
}

// templated writes a value whose texts are templates.
func (x *exact) templated(v *value, s *step, sc *scope, place string) (string, error) {
	if v == nil {
		return "None", nil
	}
	switch d := v.data.(type) {
	case string:
		return x.argument(s.templates[v], sc, place)
	case []*value:
		var items []string
		for i, e := range d {
			item, err := x.templated(e, s, sc, index(place, i))
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return gotmpl.ListOf(items), nil
	case *mapping:
		var entries []string
		for _, k := range d.keys {
			e, err := x.templated(d.values[k], s, sc, place+"."+segment(k))
			if err != nil {
				return "", err
			}
			entries = append(entries, gotmpl.Quote(k)+": "+e)
		}
		return gotmpl.Dict(entries), nil
	}
	return literal(v), nil
}

// argument writes one text.
func (x *exact) argument(t *tmpl, sc *scope, place string) (string, error) {
	if t.parsed == nil {
		return x.broken(t, place), nil
	}
	sc.place = place
	e, err := x.translate(t, sc, place[strings.LastIndexByte(place, '.')+1:]+"_text")
	return e.Code, err
}

// elicitation writes a question.
func (x *exact) elicitation(s *step) (string, error) {
	x.loads["ask"] = true
	message, err := x.argument(s.message, &scope{e: x.emitter, step: s}, segment(s.id)+".message")
	if err != nil {
		return "", err
	}
	args := []string{message, literal(s.schema), keywordText("step", s.id)}
	if s.timeout != 0 && s.timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.timeout)))
	}
	if s.onDecline != "" && s.onDecline != actionAbort {
		args = append(args, keywordText("on_decline", s.onDecline))
	}
	if s.onCancel != "" {
		args = append(args, keywordText("on_cancel", s.onCancel))
	}
	return x.recorded(s, gotmpl.Call("ask", args...)), nil
}

// recorded wraps the output of a step that is no call where its record is needed.
func (x *exact) recorded(s *step, output string) string {
	if !x.isRecord(s) {
		return output
	}
	x.loads["as_record"] = true
	return gotmpl.Call("as_record", output)
}

// forEach writes a loop: a function for one element, and its use.
func (x *exact) forEach(s *step) (string, error) {
	x.loads["for_each"] = true
	fn, err := x.loopFunction(s)
	if err != nil {
		return "", err
	}
	over, err := x.collection(s)
	if err != nil {
		return "", err
	}
	args := []string{fn, over, keywordText("step", s.id)}
	if s.maxParallel != 0 && s.maxParallel != defaultParallel {
		args = append(args, keyword("max_parallel", strconv.Itoa(s.maxParallel)))
	}
	if s.maxIterations != 0 && s.maxIterations != defaultIterations {
		args = append(args, keyword("max_iterations", strconv.Itoa(s.maxIterations)))
	}
	if s.mayFail() {
		args = append(args, keyword("keep_going", "True"))
	}
	if s.timeout != 0 && s.timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.timeout)))
	}
	return x.recorded(s, gotmpl.Call("for_each", args...)), nil
}

// loopFunction writes the function that is called for each element.
func (x *exact) loopFunction(s *step) (string, error) {
	fn := x.names.fresh(s.id + "_each")
	item, idx := x.names.fresh(s.itemName()), x.names.fresh("i")
	x.code.line("def %s(%s, %s):", fn, item, idx)
	var err error
	x.code.block(func() {
		var call string
		inner := *s.inner
		inner.level = s.level
		sc := &scope{e: x.emitter, step: s, item: item, index: idx}
		if call, err = x.call(&inner, "", sc, segment(s.id)+".step.arguments"); err == nil {
			x.code.line("return %s", call)
		}
	})
	x.code.line("")
	return fn, err
}

// collection writes what a loop goes through: the value itself where the template is
// {{json value}}, else the text.
func (x *exact) collection(s *step) (string, error) {
	place := segment(s.id) + ".collection"
	t := s.collection
	if t.parsed == nil {
		return keyword("text", x.broken(t, place)), nil
	}
	if text, plain := t.parsed.Plain(); plain {
		if list, err := parseJSONText(text); err == nil && list.list() != nil {
			return literal(list.whole()), nil
		}
	}
	sc := &scope{e: x.emitter, step: s, place: place}
	e, ok, err := t.parsed.Encoded(sc, x.style)
	if err != nil {
		return "", x.misplaced(t, err)
	}
	if ok {
		return e.Code, nil
	}
	text, err := x.translate(t, sc, s.id+"_items")
	return keyword("text", text.Code), err
}

// params returns the arguments.
func (x *exact) params([]string) (gotmpl.Expr, int) {
	x.usesParams = true
	return gotmpl.Expr{Code: "params", Kind: gotmpl.Map}, 1
}

func (x *exact) nothing() gotmpl.Expr {
	x.loads["NOTHING"] = true
	return gotmpl.Expr{Code: "NOTHING", Kind: gotmpl.Map}
}

func (x *exact) timestamp() gotmpl.Expr {
	x.loads["timestamp"] = true
	return gotmpl.Expr{Code: "timestamp()", Kind: gotmpl.Text}
}

// outputOf is the expression of the output of a step.
func (x *exact) outputOf(s *step) string {
	if x.isRecord(s) {
		return x.vars[s] + ".output"
	}
	return x.vars[s]
}

// stepField returns a part of a step that has ended.
func (x *exact) stepField(s *step, names []string) (gotmpl.Expr, int) {
	x.see(s, names)
	if len(names) == 2 {
		return x.whole(s), 2
	}
	switch names[2] {
	case "output":
		return x.outputField(s, names)
	case "status":
		if x.isRecord(s) {
			return gotmpl.Expr{Code: x.vars[s] + ".status", Kind: gotmpl.Text}, 3
		}
		return gotmpl.String("completed"), 3
	case "content":
		return gotmpl.Expr{Code: x.vars[s] + ".content", Kind: gotmpl.Map}, 3
	case "error":
		if x.goesOn(s) && x.isRecord(s) {
			return gotmpl.Expr{Code: x.vars[s] + ".error", Kind: gotmpl.Text, Maybe: true}, 3
		}
	}
	return gotmpl.None, len(names)
}

// whole is a step with all its parts.
func (x *exact) whole(s *step) gotmpl.Expr {
	if x.isRecord(s) {
		x.loads["as_map"] = true
		return gotmpl.Expr{Code: gotmpl.Call("as_map", x.vars[s]), Kind: gotmpl.Map}
	}
	return gotmpl.Expr{Code: gotmpl.Dict([]string{`"status": "completed"`, `"output": ` + x.vars[s], `"content": {}`}), Kind: gotmpl.Map}
}

// outputField returns a part of an output of which more is known than that it is a map.
func (x *exact) outputField(s *step, names []string) (gotmpl.Expr, int) {
	output := gotmpl.Expr{Code: x.outputOf(s), Kind: gotmpl.Map}
	if len(names) < 4 || x.mayBeSkipped(s) || x.goesOn(s) {
		return output, 3
	}
	part := func(kind gotmpl.Kind) (gotmpl.Expr, int) {
		return gotmpl.Expr{Code: output.Code + "[" + gotmpl.Quote(names[3]) + "]", Kind: kind}, 4
	}
	switch {
	case s.kind == elicitationStep && names[3] == "action":
		return part(gotmpl.Text)
	case s.kind == elicitationStep && names[3] == "content":
		if s.onDecline == "" && s.onCancel == "" || s.onDecline == actionAbort && s.onCancel == actionAbort {
			return part(gotmpl.Map)
		}
		return gotmpl.Expr{Code: output.Code + `.get("content")`, Kind: gotmpl.Map, Maybe: true}, 4
	case s.kind == forEachStep && (names[3] == "count" || names[3] == "completed" || names[3] == "failed"):
		return part(gotmpl.Int)
	}
	return output, 3
}

// result writes the return of the workflow's result.
func (x *exact) result() error {
	if x.w.output == nil {
		x.lastResult()
		return nil
	}
	x.loads["answer"] = true
	entries, err := x.properties(x.w.output.properties, "output", "")
	if err != nil {
		return err
	}
	x.code.line("return answer(%s)", gotmpl.Dict(entries))
	return nil
}

// assume gives the variable of a step the value of one that is skipped.
func (x *exact) assume(s *step) {
	if x.isUsed(s) {
		x.code.line("%s = %s", x.vars[s], x.skippedValue(s))
	}
}

// early writes the return after an answer that ended the workflow with a level.
func (x *exact) early(level []*step) { x.lastOf(level) }

// lastResult returns the output of the step that ended last.
func (x *exact) lastResult() {
	levels := x.w.levels()
	x.lastOf(levels[len(levels)-1])
}

func (x *exact) lastOf(level []*step) {
	x.loads["answer"] = true
	if s := level[0]; len(level) == 1 && s.condition == nil && !x.goesOn(s) {
		x.seen[s].output = true
		x.code.line("return answer(%s)", x.outputOf(s))
		return
	}
	x.loads["latest"] = true
	x.code.line("return answer(latest())")
}

// properties writes the entries of the result.
func (x *exact) properties(list []*property, place, path string) (entries []string, err error) {
	for _, p := range list {
		name := segment(p.name)
		inPlace, inPath := place+"."+name, strings.TrimPrefix(path+"."+name, ".")
		var e string
		if p.properties != nil {
			inner, err := x.properties(p.properties, inPlace, inPath)
			if err != nil {
				return nil, err
			}
			e = gotmpl.Dict(inner)
		} else if e, err = x.property(p, inPlace, inPath); err != nil {
			return nil, err
		}
		entries = append(entries, gotmpl.Quote(p.name)+": "+e)
	}
	return entries, nil
}

// property writes one value of the result.
func (x *exact) property(p *property, place, path string) (string, error) {
	before := x.code.Len()
	text, err := x.argument(p.value, &scope{e: x.emitter}, place)
	if err != nil {
		return "", err
	}
	mayFail := strings.Contains(text, "at = ") || x.code.Len() > before
	if p.kind == "string" && p.fallback == nil {
		return text, nil
	}
	_, hasDefault := p.usable()
	if hasDefault && mayFail {
		text = "lambda: " + text
	}
	args := []string{text, keywordText("name", path)}
	if d, ok := p.usable(); ok {
		args = append(args, keyword("default", literalOf(d)))
	}
	fn := "as_" + p.kind
	x.loads[fn] = true
	return gotmpl.Call(fn, args...), nil
}
