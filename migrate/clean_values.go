package migrate

import (
	"iter"
	"maps"
	"slices"

	"github.com/bazelbuild/buildtools/build"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// kinds are the types of JSON Schema.
var kinds = map[string]star.Kind{
	"string": star.Text, "boolean": star.Bool, "object": star.Map, "array": star.List, "integer": star.Int, "number": star.Number,
}

func asText(e star.Expr) star.Expr { return gotmpl.AsText(e) }

// Fresh, Free and Helper implement gotmpl.View, with Path and Root.
func (v *view) Fresh(hint string) string  { return v.c.names.fresh(hint) }
func (v *view) Free(name string)          { v.c.names.free(name) }
func (v *view) Helper(name string) string { return v.c.helper(name) }

// Path returns the expression of the longest known prefix of a path, and its length.
func (v *view) Path(names []string) (star.Expr, int) {
	switch names[0] {
	case "params":
		return v.c.params(names)
	case "steps":
		return v.steps(names)
	case "workflow":
		return v.workflow(names)
	case "forEach":
		return v.forEach(names)
	case "vars":
		if len(names) == 1 {
			return star.Dict(), 1
		}
	case "timestamp":
		if v.c.fix {
			return star.Call("str", star.Call("time.now")).Is(star.Text), 1
		}
	}
	return star.None(), len(names)
}

// Root returns the whole context.
func (v *view) Root() star.Expr {
	var entries []star.Entry
	for _, name := range slices.Sorted(slices.Values(roots)) {
		if name == "forEach" && !v.loop {
			continue
		}
		e, _ := v.Path([]string{name})
		entries = append(entries, star.Entry{Key: name, Value: e})
	}
	return star.Dict(entries...)
}

// params returns an argument. One that is required or has a default is not missing.
func (c *clean) params(names []string) (star.Expr, int) {
	params := star.Name("params").Is(star.Map)
	if len(names) == 1 {
		return params, 1
	}
	schema := c.w.Parameters.Mapping()
	p := schema.Get("properties").Mapping().Get(names[1]).Mapping()
	_, there := schemaDefault(p)
	for _, r := range schema.Get("required").List() {
		there = there || r.Text() == names[1]
	}
	e := star.Get(params, names[1])
	if there {
		e = star.Index(params, star.Str(names[1]))
		e.Maybe, e.Risky = true, false
	}
	e.Kind = kinds[p.Get("type").Text()]
	e.Elem = kinds[p.Get("items").Mapping().Get("type").Text()]
	if there && e.Kind != star.Any {
		e.Maybe = false
	}
	return e, 2
}

// steps returns a part of a step.
func (v *view) steps(names []string) (star.Expr, int) {
	if len(names) == 1 {
		var entries []star.Entry
		for _, other := range v.c.w.Steps {
			if v.begun(other) || other == v.step {
				e, _ := v.steps([]string{"steps", other.Id})
				entries = append(entries, star.Entry{Key: other.Id, Value: e})
			}
		}
		slices.SortFunc(entries, func(a, b star.Entry) int {
			if a.Key < b.Key {
				return -1
			}
			return 1
		})
		return star.Dict(entries...), 1
	}
	i := slices.IndexFunc(v.c.w.Steps, func(other *step) bool { return other.Id == names[1] })
	if i < 0 {
		return star.None(), len(names)
	}
	other := v.c.w.Steps[i]
	if v.c.fix && other.Kind == elicitationStep && len(names) > 2 && (names[2] == "action" || names[2] == "content") {
		e, n := v.steps(slices.Concat(names[:2], []string{"output"}, names[2:]))
		return e, n - 1
	}
	if other == v.step {
		return v.running(names)
	}
	if !v.begun(other) {
		return star.None(), len(names)
	}
	if !slices.Contains(v.c.refs[v.step], other) {
		v.c.refs[v.step] = append(v.c.refs[v.step], other)
	}
	if other.Kind == elicitationStep && len(names) > 2 && names[2] == "output" && v.accepted(other) {
		v.c.see(other, names)
		return v.c.answerField(other, names, true)
	}
	return v.c.stepField(other, names)
}

// accepted reports whether a question is known to be accepted where the template is rendered: any other
// outcome has ended the run or skipped the step.
func (v *view) accepted(q *step) bool {
	return v.step != nil && v.step.Level > q.Level && q.Condition == nil && q.OnDecline != actionContinue && q.OnCancel != actionContinue
}

// begun reports whether a step has begun when the template is rendered.
func (v *view) begun(other *step) bool { return v.step == nil || other.Level < v.step.Level }

// running returns a part of the step that is running, for its own templates.
func (v *view) running(names []string) (star.Expr, int) {
	if len(names) == 2 {
		return star.Dict(star.Entry{Key: "content", Value: star.Dict()}, star.Entry{Key: "output", Value: star.Dict()},
			star.Entry{Key: "status", Value: star.Str("running")}), 2
	}
	switch names[2] {
	case "status":
		return star.Str("running"), 3
	case "output", "content":
		return star.Dict(), 3
	}
	return star.None(), len(names)
}

// stepField returns a part of a step that has ended.
func (c *clean) stepField(s *step, names []string) (star.Expr, int) {
	c.see(s, names)
	if len(names) == 2 {
		return c.whole(s), 2
	}
	record := star.Name(c.vars[s])
	switch names[2] {
	case "content":
		if s.Kind == toolStep {
			return star.Attr(record, "content").Is(star.Map), 3
		}
		return star.Dict(), 3
	case "output":
		return c.outputField(s, names)
	case "status":
		return c.status(s), 3
	case "error":
		switch {
		case c.isRecord(s) && c.isCaught(s):
			return textOrNone(star.Attr(record, "error")), 3
		case c.isCaught(s):
			return textOrNone(star.Attr(star.Name(c.tried(s)), "error")), 3
		}
	}
	return star.None(), len(names)
}

func textOrNone(e star.Expr) star.Expr {
	e = e.Optional()
	e.Kind = star.Text
	return e
}

// whole returns a step with all its parts.
func (c *clean) whole(s *step) star.Expr {
	var entries []star.Entry
	for _, part := range []string{"content", "error", "output", "status"} {
		e, _ := c.stepField(s, []string{"steps", s.Id, part})
		if e.Kind != star.Nothing {
			entries = append(entries, star.Entry{Key: part, Value: e})
		}
	}
	return withoutNone(entries)
}

// status returns the status of a step: completed, failed or skipped.
func (c *clean) status(s *step) star.Expr {
	if c.isRecord(s) {
		return star.Attr(star.Name(c.vars[s]), "status").Is(star.Text)
	}
	ran, ok := star.Name(c.ran(s)), star.Attr(star.Name(c.tried(s)), "ok")
	mayBeSkipped := s.Condition != nil || c.gated(s)
	ran, ok = ran.Is(star.Bool), ok.Is(star.Bool)
	choice := func(cond star.Expr, no string) star.Expr {
		e := star.If(cond, star.Str("completed"), star.Str(no)).Is(star.Text)
		e.Cases = []star.Case{{Text: "completed", When: cond}, {Text: no, When: star.Not(cond)}}
		return e
	}
	switch {
	case c.isCaught(s) && mayBeSkipped:
		completed := star.If(ok, star.Str("completed"), star.Str("failed")).Bare()
		e := star.If(ran, completed, star.Str("skipped")).Is(star.Text)
		e.Cases = []star.Case{ // for a step that did not run, ok is false
			{Text: "completed", When: ok}, {Text: "failed", When: star.Op("and", ran, star.Not(ok)).Is(star.Bool)}, {Text: "skipped", When: star.Not(ran)},
		}
		return e
	case c.isCaught(s):
		return choice(ok, "failed")
	case mayBeSkipped:
		return choice(ran, "skipped")
	}
	return star.Str("completed")
}

// outputField returns a part of an output.
func (c *clean) outputField(s *step, names []string) (star.Expr, int) {
	switch {
	case s.Kind == elicitationStep:
		return c.answerField(s, names, false)
	case s.Kind == forEachStep:
		return c.loopField(s, names)
	case c.isRecord(s):
		return star.Attr(star.Name(c.vars[s]), "output").Is(star.Map), 3
	}
	return star.Name(c.vars[s]).Is(star.Map), 3
}

// workflow returns a part of .workflow: the id, the start and the counters of the run.
func (v *view) workflow(names []string) (star.Expr, int) {
	if len(names) > 1 {
		switch {
		case names[1] == "status" && v.step == nil:
			return star.Str("completed"), 2
		case names[1] == "status":
			return star.Str("pending"), 2
		case names[1] == "step_count" && v.step == nil:
			return v.c.completed(), 2
		case names[1] == "step_count" || names[1] == "duration_ms" && v.step != nil:
			return star.Integer(0), 2
		}
	}
	v.c.loads["workflow"] = true
	all := star.Call("workflow").Is(star.Map)
	if v.step == nil {
		all = star.Call("workflow", star.Arg("done", star.True())).Is(star.Map)
	}
	if len(names) == 1 {
		return all, 1
	}
	kind, known := map[string]star.Kind{
		"id": star.Text, "start_time": star.Text, "duration_ms": star.Int,
	}[names[1]]
	if !known {
		return star.None(), len(names)
	}
	return star.Index(all, star.Str(names[1])).Is(kind), 2
}

// completed is the number of steps that have completed.
func (c *clean) completed() star.Expr {
	var sure int64
	var sum []star.Expr
	for _, s := range c.w.Steps {
		status := c.status(s)
		switch {
		case status.Literal:
			sure++
		case status.Cases != nil:
			c.see(s, []string{"steps", s.Id, "status"})
			sum = append(sum, star.Call("int", status.Cases[0].When))
		default:
			c.see(s, []string{"steps", s.Id, "status"})
			sum = append(sum, star.Call("int", star.Op("==", status, star.Str("completed"))))
		}
		c.refs[nil] = append(c.refs[nil], s)
	}
	e := star.Integer(sure)
	for _, one := range sum {
		e = star.Op("+", e, one)
	}
	return e.Is(star.Int)
}

// forEach returns the element, or its index.
func (v *view) forEach(names []string) (star.Expr, int) {
	if !v.loop {
		return star.None(), len(names)
	}
	item := v.step.ItemName()
	if len(names) == 1 {
		*v.seen = true
		return star.Dict(star.Entry{Key: item, Value: v.item}, star.Entry{Key: "index", Value: v.index}), 1
	}
	switch names[1] {
	case item:
		return v.item, 2
	case forEachIndex:
		*v.seen = true
		return v.index, 2
	}
	return star.None(), len(names)
}

// helpers are functions that clean scripts define where the type of a value is only
// known at run time.
var helpers = map[string]string{
	"pairs": `
def pairs(x):
    """Keys or positions, each with its value."""
    if type(x) == "dict":
        return sorted(x.items())
    return enumerate([] if x == None else x)
`,
	"items": `
def items(x):
    """The elements of a list, the values of a dict by the order of its keys, or the numbers below x."""
    if type(x) == "dict":
        return [x[k] for k in sorted(x)]
    if type(x) == "int":
        return range(x)
    return [] if x == None else list(x)
`,
	"entry": `
def entry(x, key):
    """The value of a dict at a key, None without one, or of a list at a position."""
    if type(x) == "dict" and type(key) == "string":
        return x.get(key)
    return x[key]
`,
	"iteration": `
def iteration(index, item, result):
    """The record of one element of a loop that continues after a failure."""
    if result.ok:
        return {"index": index, "item": item, "output": result.output, "status": "completed"}
    return {"error": result.error, "index": index, "item": item, "output": {}, "status": "failed"}
`,
	"summary": `
def summary(iterations):
    """The records of a loop, and the number that completed and failed."""
    completed = len([i for i in iterations if i["status"] == "completed"])
    return {
        "completed": completed,
        "count": len(iterations),
        "failed": len(iterations) - completed,
        "iterations": iterations,
    }
`,
}

func helperNames() iter.Seq[string] { return maps.Keys(helpers) }

// helperDefs are the definitions of the helpers that a script uses.
func helperDefs(used map[string]bool) (defs []star.Stmt) {
	for _, name := range slices.Sorted(helperNames()) {
		if !used[name] {
			continue
		}
		f, err := build.ParseDefault(name, []byte(helpers[name]))
		if err != nil {
			panic(err) // the source is a constant
		}
		defs = append(defs, f.Stmt...)
	}
	return defs
}

// helper notes that the script uses a helper.
func (c *clean) helper(name string) string {
	c.helpers[name] = true
	return name
}
