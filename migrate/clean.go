package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// clean writes scripts the way a person would have.
type clean struct {
	*emitter
}

func (c *clean) write() error {
	if slices.ContainsFunc(c.w.steps, (*step).skips) {
		return c.byLevel(c.w.levels())
	}
	if err := c.sequence(c.w.steps); err != nil {
		return err
	}
	return c.result()
}

// needs returns the steps of the set that s has to wait for: those it depends on, and
// those its templates name.
func (c *clean) needs(s *step, set []*step) (list []*step) {
	for _, other := range set {
		if other != s && (slices.Contains(s.dependsOn, other.id) || slices.Contains(c.known[s], other)) {
			list = append(list, other)
		}
	}
	return list
}

// sequence writes steps so that each waits for what it needs and for little else:
// chains that have nothing to do with each other run side by side.
func (c *clean) sequence(set []*step) error {
	for len(set) > 0 {
		chains := c.chains(set)
		if len(chains) > 1 {
			return c.sideBySide(chains)
		}
		var first, rest []*step
		for _, s := range set {
			if len(c.needs(s, set)) == 0 {
				first = append(first, s)
			} else {
				rest = append(rest, s)
			}
		}
		if len(first) == 0 {
			first, rest = set[:1], set[1:] // only the first time, when not all is known
		}
		if err := c.oneLevel(first); err != nil {
			return err
		}
		set = rest
	}
	return nil
}

// chains divides steps into groups that do not need each other.
func (c *clean) chains(set []*step) (chains [][]*step) {
	group := map[*step]int{}
	for i, s := range set {
		group[s] = i
	}
	for _, s := range set {
		for _, other := range c.needs(s, set) {
			from, to := group[s], group[other]
			for _, x := range set {
				if group[x] == from {
					group[x] = to
				}
			}
		}
	}
	seen := map[int]int{}
	for _, s := range set {
		i, ok := seen[group[s]]
		if !ok {
			i = len(chains)
			seen[group[s]] = i
			chains = append(chains, nil)
		}
		chains[i] = append(chains[i], s)
	}
	return chains
}

// sideBySide writes chains as the branches of a parallel.
func (c *clean) sideBySide(chains [][]*step) error {
	var branches, targets []string
	used := false
	for _, chain := range chains {
		branch, target, err := c.branch(chain)
		if err != nil {
			return err
		}
		branches, targets = append(branches, branch), append(targets, target)
		used = used || target != "_"
	}
	args := []string{gotmpl.ListOf(branches)}
	call := gotmpl.Call("parallel", args...)
	if used {
		call = strings.Join(targets, ", ") + " = " + call
	}
	c.code.line("%s", call)
	return nil
}

// branch writes a chain as a function, and the variables that it returns.
func (c *clean) branch(chain []*step) (fn, target string, err error) {
	var results []string
	for _, s := range chain {
		if c.usedOutside(s, chain) {
			results = append(results, c.produces(s)...)
		}
	}
	target = "_"
	switch {
	case len(results) == 1:
		target = results[0]
	case len(results) > 1:
		target = "(" + strings.Join(results, ", ") + ")"
	}
	if len(chain) == 1 && c.simple(chain[0]) {
		expr, err := c.core(chain[0])
		return "lambda: " + expr, target, err
	}
	fn = c.names.fresh("do_" + chain[len(chain)-1].id)
	c.code.line("def %s():", fn)
	c.code.block(func() {
		if err = c.sequence(chain); err == nil && len(results) > 0 {
			c.code.line("return %s", strings.Join(results, ", "))
		}
	})
	c.code.line("")
	return fn, target, err
}

// simple reports whether a step is one expression.
func (c *clean) simple(s *step) bool {
	return s.condition == nil && s.kind == toolStep && !c.isCaught(s)
}

// usedOutside reports whether something outside of a chain needs a step.
func (c *clean) usedOutside(s *step, chain []*step) bool {
	if !c.isUsed(s) {
		return false
	}
	if slices.Contains(c.known[nil], s) || c.w.output == nil && c.lastStep() == s {
		return true
	}
	for other, refs := range c.known {
		if other != nil && !slices.Contains(chain, other) && slices.Contains(refs, s) {
			return true
		}
	}
	return false
}

// oneLevel writes steps that do not need each other.
func (c *clean) oneLevel(level []*step) error {
	if len(level) == 1 {
		return c.alone(level[0])
	}
	var chains [][]*step
	for _, s := range level {
		chains = append(chains, []*step{s})
	}
	return c.sideBySide(chains)
}

// isUsed reports whether something needs a step, and needsOutput whether it is its output.
func (c *clean) isUsed(s *step) bool      { return *c.used[s] != facets{} }
func (c *clean) needsOutput(s *step) bool { return c.used[s].output || c.used[s].content }

// needsTried reports whether something needs to know how a call that may fail went.
func (c *clean) needsTried(s *step) bool {
	return c.isCaught(s) && (c.used[s].status || c.used[s].error)
}

// produces lists the variables of a step that something needs.
func (c *clean) produces(s *step) (list []string) {
	if c.needsOutput(s) {
		list = append(list, c.vars[s])
	}
	if c.needsTried(s) {
		list = append(list, c.tried(s))
	}
	if s.condition != nil && c.used[s].status {
		list = append(list, c.ran(s))
	}
	return list
}

// assume gives the variables of a step the values of one that is skipped.
func (c *clean) assume(s *step) {
	c.assumeOutcome(s)
	if s.condition != nil && c.used[s].status {
		c.code.line("%s = False", c.ran(s))
	}
}

// assumeOutcome is assume but for the variable that tells whether the step has run.
func (c *clean) assumeOutcome(s *step) {
	if c.needsOutput(s) {
		c.code.line("%s = %s", c.vars[s], c.skippedValue(s))
	}
	if c.needsTried(s) {
		c.code.line("%s = struct(ok = False, output = None, error = None)", c.tried(s))
	}
}

// isCaught reports whether a failure of the step's tool does not end the workflow.
func (c *clean) isCaught(s *step) bool { return c.goesOn(s) && s.kind == toolStep }

// alone writes one step as statements.
func (c *clean) alone(s *step) error {
	if s.condition == nil {
		return c.perform(s)
	}
	cond, err := c.condition(s)
	if err != nil {
		return err
	}
	c.assumeOutcome(s)
	if ran := c.ran(s); c.used[s].status {
		c.code.line("%s = %s", ran, cond)
		cond = ran
	}
	c.code.line("if %s:", cond)
	c.code.block(func() { err = c.perform(s) })
	return err
}

// ran is the variable that tells whether a step with a condition has run.
func (c *clean) ran(s *step) string { return c.vars[s] + "_ran" }

// tried is the variable that has all of a call that may fail.
func (c *clean) tried(s *step) string { return c.vars[s] + "_result" }

// perform writes what a step does.
func (c *clean) perform(s *step) error {
	expr, err := c.core(s)
	if err != nil {
		return err
	}
	switch {
	case c.isCaught(s) && c.needsOutput(s):
		c.code.line("%s = %s", c.tried(s), expr)
		c.code.line("%s = %s.output if %s.ok else %s", c.vars[s], c.tried(s), c.tried(s), c.skippedValue(s))
	case c.needsTried(s):
		c.code.line("%s = %s", c.tried(s), expr)
	case c.needsOutput(s) || s.kind == elicitationStep && !c.answersAlike(s):
		c.code.line("%s = %s", c.vars[s], expr)
	default:
		c.code.line("%s", expr)
	}
	if s.kind == elicitationStep {
		c.refusals(s)
	}
	return nil
}

// answersAlike reports whether it does not matter what the user answers.
func (c *clean) answersAlike(s *step) bool {
	return s.onDecline == actionContinue && s.onCancel == actionContinue
}

// refusals ends the workflow when the user refused and nothing else is wanted.
func (c *clean) refusals(s *step) {
	ends := func(handler string) bool { return handler == "" || handler == actionAbort }
	action := c.vars[s] + ".action"
	switch {
	case ends(s.onDecline) && ends(s.onCancel):
		c.code.line(`if %s != "accept":`, action)
	case ends(s.onDecline):
		c.code.line(`if %s == "decline":`, action)
	case ends(s.onCancel):
		c.code.line(`if %s == "cancel":`, action)
	default:
		return
	}
	c.code.block(func() { c.code.line("fail(%s)", gotmpl.Quote(s.id+": not accepted by the user")) })
}

// skipped is the condition under which an answer ended the workflow.
func (c *clean) skipped(s *step) string {
	action := c.vars[s] + ".action"
	switch {
	case s.onDecline == actionSkip && s.onCancel == actionSkip:
		return action + ` != "accept"`
	case s.onDecline == actionSkip:
		return action + ` == "decline"`
	}
	return action + ` == "cancel"`
}

// early writes the return after such an answer.
func (c *clean) early(level []*step) {
	for _, s := range level {
		if s.skips() {
			c.code.line(`return {"action": %s.action, "skipped": True}`, c.vars[s])
			return
		}
	}
}

// skippedValue is what the variable of a step holds when it did not run.
func (c *clean) skippedValue(s *step) string {
	if s.defaults != nil {
		return literal(s.defaults)
	}
	if s.kind == elicitationStep {
		return `struct(action = "skipped", content = {})`
	}
	return "{}"
}

// condition writes the condition of a step.
func (c *clean) condition(s *step) (string, error) {
	t := s.condition
	if t.parsed == nil {
		return "", c.misplaced(t, t.err)
	}
	if word, plain := t.parsed.Plain(); plain {
		switch word {
		case "true", "True", "TRUE":
			return "True", nil
		case "false", "False", "FALSE":
			return "False", nil
		}
		return "", c.misplaced(t, fmt.Errorf("want true or false, have %q", word))
	}
	sc := &scope{e: c.emitter, step: s}
	e, ok, err := t.parsed.Value(sc, c.style)
	if err != nil {
		return "", c.misplaced(t, err)
	}
	if ok && e.Kind != gotmpl.Text {
		if e.Kind != gotmpl.Bool {
			sc.Differ("is true for every value that is not empty")
		}
		c.differs(t, sc)
		return e.Code, nil
	}
	text, err := c.translate(t, sc, s.id+"_condition")
	return text.Operand() + ` in ("true", "True", "TRUE")`, err
}

// core writes what a step does as an expression.
func (c *clean) core(s *step) (string, error) {
	switch s.kind {
	case elicitationStep:
		return c.elicitation(s)
	case forEachStep:
		return c.forEach(s)
	}
	return c.call(s, &scope{e: c.emitter, step: s}, c.isCaught(s), s.timeout != 0)
}

// call writes the call of a tool.
func (c *clean) call(s *step, sc *scope, caught, timed bool) (string, error) {
	fn := "call_tool"
	if caught {
		fn = "try_call_tool"
	}
	args := []string{gotmpl.Quote(s.tool)}
	if s.arguments != nil && len(s.arguments.mapping().keys) > 0 {
		arguments, err := c.templated(s.arguments, s, sc)
		if err != nil {
			return "", err
		}
		args = append(args, arguments)
	}
	if timed {
		args = append(args, keywordText("timeout", durationText(s.timeout)))
	}
	call := gotmpl.Call(fn, args...)
	if s.retries() == 0 {
		return call, nil
	}
	args = []string{"lambda: " + call, keyword("max_attempts", strconv.Itoa(s.retries()+1))}
	if d := s.onError.retryDelay; d != 0 && d != defaultRetryDelay {
		args = append(args, keywordText("delay", durationText(d)))
	}
	return gotmpl.Call("retry", args...), nil
}

// templated writes a value whose texts are templates.
func (c *clean) templated(v *value, s *step, sc *scope) (string, error) {
	if v == nil {
		return "None", nil
	}
	switch d := v.data.(type) {
	case string:
		t := s.templates[v]
		if t.parsed == nil {
			return "", c.misplaced(t, t.err)
		}
		if plain, ok := t.parsed.Plain(); ok && looksTyped(plain) {
			sc.Differ("is sent as the text that it is, also when the tool wants a number or a boolean")
		}
		e, err := c.translate(t, sc, "text")
		return e.Code, err
	case []*value:
		var items []string
		for _, e := range d {
			item, err := c.templated(e, s, sc)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return gotmpl.ListOf(items), nil
	case *mapping:
		var entries []string
		for _, k := range d.keys {
			e, err := c.templated(d.values[k], s, sc)
			if err != nil {
				return "", err
			}
			entries = append(entries, gotmpl.Quote(k)+": "+e)
		}
		return gotmpl.Dict(entries), nil
	}
	return literal(v.whole()), nil
}

// looksTyped reports whether the legacy engine could have made a number or a boolean of a text.
func looksTyped(s string) bool {
	_, noNumber := strconv.ParseFloat(s, 64)
	_, noBool := strconv.ParseBool(s)
	return noNumber == nil || noBool == nil
}

func (c *clean) elicitation(s *step) (string, error) {
	if s.message.parsed == nil {
		return "", c.misplaced(s.message, s.message.err)
	}
	message, err := c.translate(s.message, &scope{e: c.emitter, step: s}, s.id+"_message")
	if err != nil {
		return "", err
	}
	form, err := c.form(s)
	if err != nil {
		return "", err
	}
	args := []string{message.Code, keyword("schema", literal(form.whole()))}
	if message.Kind != gotmpl.Text {
		args[0] = gotmpl.Call("str", message.Code)
	}
	if s.timeout != 0 {
		args = append(args, keywordText("timeout", durationText(min(s.timeout, maxElicitTimeout))))
	}
	return gotmpl.Call("elicit", args...), nil
}

// forEach writes a loop as a parallel over the elements.
func (c *clean) forEach(s *step) (string, error) {
	t := s.collection
	if t.parsed == nil {
		return "", c.misplaced(t, t.err)
	}
	sc := &scope{e: c.emitter, step: s}
	items, ok, err := t.parsed.Encoded(sc, c.style)
	if err != nil {
		return "", c.misplaced(t, err)
	}
	if !ok {
		text, err := c.translate(t, sc, s.id+"_items")
		if err != nil {
			return "", err
		}
		items = gotmpl.Expr{Code: gotmpl.Call("json.decode", text.Code)}
		if v, err := parseJSONText(text.Text); text.Literal && err == nil {
			items = gotmpl.Expr{Code: literal(v)}
		}
	} else if items.Maybe {
		items.Code += " or []"
	}
	return c.loop(s, items.Code)
}

// loop writes the function for one element, and its use.
func (c *clean) loop(s *step, items string) (string, error) {
	fn := c.names.fresh(s.id + "_each")
	item, idx := c.names.fresh(s.itemName()), c.names.fresh("i")
	before := c.code.String()
	indent := c.code.indent
	inner := *s.inner
	inner.level = s.level
	c.code = code{indent: indent + 1}
	call, err := c.call(&inner, &scope{e: c.emitter, step: s, item: item, index: idx}, s.mayFail(), false)
	body := c.code.String()
	c.code = code{indent: indent}
	c.code.WriteString(before)
	if err != nil {
		return "", err
	}
	counted := usesName(call+body, idx)
	if counted {
		pair := c.names.fresh("pair")
		c.code.line("def %s(%s):", fn, pair)
		c.code.block(func() { c.code.line("%s, %s = %s", idx, item, pair) })
		items = gotmpl.Call("enumerate", items)
	} else {
		c.code.line("def %s(%s):", fn, item)
	}
	c.code.WriteString(body)
	c.code.block(func() { c.code.line("return %s", call) })
	c.code.line("")
	if n := s.maxIterations; n != 0 {
		c.notes = append(c.notes, Note{Pos: s.pos, Path: member(s.path, "maxIterations"), Msg: "not checked: the limits of the run hold instead"})
	}
	args := []string{fn, items}
	if s.maxParallel != 0 {
		args = append(args, keyword("max_concurrency", strconv.Itoa(s.maxParallel)))
	}
	return gotmpl.Call("parallel", args...), nil
}

// usesName reports whether code has the name as a word of its own.
func usesName(code, name string) bool {
	return slices.Contains(strings.FieldsFunc(code, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}), name)
}

// params returns an argument: one that is required, or has a default, is there.
func (c *clean) params(names []string) (gotmpl.Expr, int) {
	if len(names) == 1 {
		return gotmpl.Expr{Code: "params", Kind: gotmpl.Map}, 1
	}
	schema := c.w.parameters.mapping()
	p := schema.get("properties").mapping().get(names[1])
	_, hasDefault := schemaDefault(p.mapping())
	there := hasDefault || schema == nil
	for _, r := range schema.get("required").list() {
		there = there || r.text() == names[1]
	}
	kind := kinds[p.mapping().get("type").text()]
	if there {
		return gotmpl.Expr{Code: "params[" + gotmpl.Quote(names[1]) + "]", Kind: kind}, 2
	}
	return gotmpl.Expr{Code: "params.get(" + gotmpl.Quote(names[1]) + ")", Kind: kind, Maybe: true}, 2
}

// kinds are the types of JSON Schema.
var kinds = map[string]gotmpl.Kind{
	"string": gotmpl.Text, "boolean": gotmpl.Bool, "object": gotmpl.Map, "array": gotmpl.List,
}

func (c *clean) nothing() gotmpl.Expr { return gotmpl.Expr{Code: "{}", Kind: gotmpl.Map} }

func (c *clean) timestamp() gotmpl.Expr {
	return gotmpl.Expr{Code: "str(time.now())", Kind: gotmpl.Text}
}

// stepField returns a part of a step that has ended.
func (c *clean) stepField(s *step, names []string) (gotmpl.Expr, int) {
	c.see(s, names)
	if len(names) == 2 {
		status, _ := c.stepField(s, append(names, "status"))
		output, _ := c.stepField(s, append(names, "output"))
		return gotmpl.Expr{Code: gotmpl.Dict([]string{`"status": ` + status.Code, `"output": ` + output.Code}), Kind: gotmpl.Map}, 2
	}
	switch names[2] {
	case "output", "content":
		return c.outputField(s, names)
	case "status":
		return c.status(s), 3
	case "error":
		if c.isCaught(s) {
			return gotmpl.Expr{Code: c.tried(s) + ".error", Kind: gotmpl.Text, Maybe: true}, 3
		}
	}
	return gotmpl.None, len(names)
}

// status is how a step went.
func (c *clean) status(s *step) gotmpl.Expr {
	ran, ok := c.ran(s), c.tried(s)+".ok"
	choice := func(cond, no string) gotmpl.Expr {
		return gotmpl.Expr{
			Code: fmt.Sprintf(`("completed" if %s else "%s")`, cond, no), Kind: gotmpl.Text,
			Choice: &gotmpl.Choice{Cond: cond, Yes: "completed", No: no},
		}
	}
	switch {
	case c.isCaught(s) && s.condition != nil:
		code := fmt.Sprintf(`("skipped" if not %s else "completed" if %s else "failed")`, ran, ok)
		return gotmpl.Expr{Code: code, Kind: gotmpl.Text}
	case c.isCaught(s):
		return choice(ok, "failed")
	case s.condition != nil:
		return choice(ran, "skipped")
	}
	return gotmpl.String("completed")
}

// outputField returns a part of an output.
func (c *clean) outputField(s *step, names []string) (gotmpl.Expr, int) {
	switch s.kind {
	case elicitationStep:
		return c.answerField(s, names)
	case forEachStep:
		return c.loopField(s, names)
	}
	output := gotmpl.Expr{Code: c.vars[s], Kind: gotmpl.Map}
	if len(names) > 3 && (c.mayBeSkipped(s) || c.goesOn(s)) && s.defaults.mapping().get(names[3]) == nil {
		return gotmpl.Expr{Code: output.Code + ".get(" + gotmpl.Quote(names[3]) + ")", Maybe: true}, 4
	}
	return output, 3
}

// answerField returns a part of what the user answered.
func (c *clean) answerField(s *step, names []string) (gotmpl.Expr, int) {
	v := c.vars[s]
	switch {
	case len(names) > 3 && names[3] == "action":
		return gotmpl.Expr{Code: v + ".action", Kind: gotmpl.Text}, 4
	case len(names) > 4 && names[3] == "content" && (s.onDecline != "" || s.onCancel != ""):
		return gotmpl.Expr{Code: fmt.Sprintf("(%s.content or {}).get(%s)", v, gotmpl.Quote(names[4])), Maybe: true}, 5
	case len(names) > 3 && names[3] == "content":
		return gotmpl.Expr{Code: v + ".content", Kind: gotmpl.Map}, 4
	}
	return gotmpl.Expr{Code: fmt.Sprintf(`{"action": %s.action, "content": %s.content}`, v, v), Kind: gotmpl.Map}, 3
}

// loopField returns a part of what a loop returned: the list of the outputs.
func (c *clean) loopField(s *step, names []string) (gotmpl.Expr, int) {
	v := c.vars[s]
	done := "len(" + v + ")"
	failed := "0"
	if s.mayFail() {
		done = fmt.Sprintf("len([r for r in %s if r.ok])", v)
		failed = fmt.Sprintf("len([r for r in %s if not r.ok])", v)
	}
	if len(names) > 3 {
		switch names[3] {
		case "count":
			return gotmpl.Expr{Code: "len(" + v + ")", Kind: gotmpl.Int}, 4
		case "completed":
			return gotmpl.Expr{Code: done, Kind: gotmpl.Int}, 4
		case "failed":
			return gotmpl.Expr{Code: failed, Kind: gotmpl.Int}, 4
		case "iterations":
			return gotmpl.Expr{Code: c.iterations(s), Kind: gotmpl.List}, 4
		}
	}
	return gotmpl.Expr{Code: gotmpl.Dict([]string{
		`"iterations": ` + c.iterations(s), `"count": len(` + v + ")", `"completed": ` + done, `"failed": ` + failed,
	}), Kind: gotmpl.Map}, 3
}

func (c *clean) iterations(s *step) string {
	entry := `{"index": i, "status": "completed", "output": r}`
	if s.mayFail() {
		entry = `{"index": i, "status": "completed" if r.ok else "failed", "output": r.output}`
	}
	return fmt.Sprintf("[%s for i, r in enumerate(%s)]", entry, c.vars[s])
}

// lastStep is the step whose output is the result when none is declared.
func (c *clean) lastStep() *step {
	levels := c.w.levels()
	last := levels[len(levels)-1]
	return last[len(last)-1]
}

// result writes the return of the result.
func (c *clean) result() error {
	if c.w.output == nil {
		s := c.lastStep()
		e, _ := c.stepField(s, []string{"steps", s.id, "output"})
		if levels := c.w.levels(); len(levels[len(levels)-1]) > 1 {
			c.notes = append(c.notes, Note{Pos: c.w.pos, Msg: "the result is the output of step " + s.id + ", not of whichever step ends last"})
		}
		c.code.line("return %s", e.Code)
		return nil
	}
	entries, err := c.properties(c.w.output.properties)
	if err != nil {
		return err
	}
	c.code.line("return %s", gotmpl.Dict(entries))
	return nil
}

func (c *clean) properties(list []*property) (entries []string, err error) {
	for _, p := range list {
		var e string
		if p.properties != nil {
			inner, err := c.properties(p.properties)
			if err != nil {
				return nil, err
			}
			e = gotmpl.Dict(inner)
		} else if e, err = c.property(p); err != nil {
			return nil, err
		}
		entries = append(entries, gotmpl.Quote(p.name)+": "+e)
	}
	return entries, nil
}

// property writes one value of the result.
func (c *clean) property(p *property) (string, error) {
	t := p.value
	if t.parsed == nil {
		return "", c.misplaced(t, t.err)
	}
	sc := &scope{e: c.emitter}
	e, encoded, err := t.parsed.Encoded(sc, c.style)
	if err != nil {
		return "", c.misplaced(t, err)
	}
	if !encoded || p.kind == "string" {
		if e, err = c.translate(t, sc, p.name+"_text"); err != nil {
			return "", err
		}
	}
	code, err := c.typed(p, e)
	d, ok := p.usable()
	if err != nil || !ok || e.Literal {
		return code, err
	}
	if plain, ok := strings.CutSuffix(code, ")"); ok && strings.Contains(plain, ".get(") && !strings.Contains(plain, " ") {
		return plain + ", " + literalOf(d) + ")", nil
	}
	if base, key, ok := lastSubscript(code); ok {
		return base + ".get(" + key + ", " + literalOf(d) + ")", nil
	}
	if e.Rank != gotmpl.Atom {
		return code, nil
	}
	return fmt.Sprintf("%s or %s", code, literalOf(d)), nil
}

// lastSubscript splits x["a"] into x and "a".
func lastSubscript(code string) (base, key string, ok bool) {
	if !strings.HasSuffix(code, `"]`) || strings.Contains(code, " ") {
		return "", "", false
	}
	i := strings.LastIndexByte(code, '[')
	return code[:i], code[i+1 : len(code)-1], i > 0
}

// typed writes a value as the type of a property.
func (c *clean) typed(p *property, e gotmpl.Expr) (string, error) {
	if e.Literal {
		return c.typedLiteral(p, e)
	}
	switch {
	case e.Kind == gotmpl.Text && p.kind == "integer":
		return gotmpl.Call("int", e.Code), nil
	case e.Kind == gotmpl.Text && p.kind == "number":
		return gotmpl.Call("float", e.Code), nil
	case e.Kind == gotmpl.Text && p.kind == "boolean":
		return e.Operand() + ` == "true"`, nil
	case e.Kind == gotmpl.Text && (p.kind == "object" || p.kind == "array"):
		return gotmpl.Call("json.decode", e.Code), nil
	case p.kind == "string" && e.Kind != gotmpl.Text && e.Kind != gotmpl.Any:
		return gotmpl.Call("str", e.Code), nil
	}
	return e.Code, nil
}

// typedLiteral writes a value that is no template.
func (c *clean) typedLiteral(p *property, e gotmpl.Expr) (string, error) {
	if p.kind == "string" {
		return e.Code, nil
	}
	constant := &property{kind: p.kind, fallback: &value{data: e.Text}}
	if p.kind == "boolean" {
		if b, err := strconv.ParseBool(e.Text); err == nil {
			return literalOf(b), nil
		}
	}
	v, err := constant.coerced()
	if err != nil {
		if p.fallback == nil {
			return "", c.misplaced(p.value, err)
		}
		v, err = p.coerced()
	}
	return literalOf(v), err
}
