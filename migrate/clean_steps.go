package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// isUsed reports whether a template uses a step, and needsOutput whether one uses its output.
func (c *clean) isUsed(s *step) bool { return c.used[s].any() }

func (c *clean) needsOutput(s *step) bool { return c.used[s].output }

// isRecord reports whether a step is a record of the legacy module: where templates use the content
// array by the names of its blocks, which no builtin returns.
func (c *clean) isRecord(s *step) bool {
	return s.Kind == toolStep && (c.used[s].content || slices.ContainsFunc(c.used[s].parts, blockName.MatchString))
}

var blockName = regexp.MustCompile(`^(text_[0-9]+|image_[0-9]+|resource(_[0-9]+)?)$`)

// isCaught reports whether a failure of the step's tool does not end the workflow.
func (c *clean) isCaught(s *step) bool {
	return c.continuesOnError(s) && s.Kind == toolStep
}

// needsTried reports whether a template uses the status or the error of a call that may fail.
func (c *clean) needsTried(s *step) bool {
	return c.isCaught(s) && !c.isRecord(s) && (c.used[s].status || c.used[s].error)
}

// needsRan reports whether a template depends on whether a step has run.
func (c *clean) needsRan(s *step) bool {
	return (s.Condition != nil || c.gated(s)) && c.used[s].status && !c.isRecord(s)
}

// ran is the name of the variable that says whether a step with a condition has run.
func (c *clean) ran(s *step) string { return c.vars[s] + "_ran" }

// tried is the name of the variable with the result of try_call_tool.
func (c *clean) tried(s *step) string { return c.vars[s] + "_result" }

// hasValue reports whether a step has a variable.
func (c *clean) hasValue(s *step) bool {
	switch {
	case c.isRecord(s):
		return true
	case s.Kind == elicitationStep:
		return c.needsOutput(s) || c.decides(s)
	case s.Kind == forEachStep:
		return c.loopForm(s) != loopUnused
	}
	return c.needsOutput(s)
}

// produces lists the variables of a step that are used.
func (c *clean) produces(s *step) (list []string) {
	if c.hasValue(s) {
		list = append(list, c.vars[s])
	}
	if c.needsTried(s) {
		list = append(list, c.tried(s))
	}
	if c.needsRan(s) {
		list = append(list, c.ran(s))
	}
	return list
}

// assume writes the assignment of the values of a skipped step to the variables of s.
func (c *clean) assume(s *step) {
	c.assumeOutcome(s)
	if c.needsRan(s) {
		c.emit(star.Assign(star.False(), c.ran(s)))
	}
}

// assumeOutcome is assume without the variable that says whether the step has run.
func (c *clean) assumeOutcome(s *step) {
	if c.hasValue(s) {
		c.emit(star.Assign(c.skippedValue(s), c.vars[s]))
	}
	if c.needsTried(s) {
		none := star.Call("struct", star.Arg("ok", star.False()), star.Arg("output", star.None()), star.Arg("error", star.None()))
		c.emit(star.Assign(none, c.tried(s)))
	}
}

// skippedValue is the value of the variable of a step that did not run.
func (c *clean) skippedValue(s *step) star.Expr {
	switch {
	case c.isRecord(s):
		c.loads["skipped"] = true
		return star.Call("skipped", c.defaults(s))
	case s.Kind == elicitationStep:
		return c.skippedQuestion(s)
	}
	return c.defaults(s)
}

// defaults are the default results of a step: a dict.
func (c *clean) defaults(s *step) star.Expr {
	if s.Defaults == nil {
		return star.Dict()
	}
	return constant(s.Defaults.Whole())
}

// alone writes one step as statements.
func (c *clean) alone(s *step) error {
	if s.Condition == nil {
		return c.perform(s)
	}
	cond := c.condition(s)
	if !c.assumed(s) {
		c.assumeOutcome(s)
	}
	if c.needsRan(s) {
		c.emit(star.Assign(cond, c.ran(s)))
		cond = star.Name(c.ran(s))
	}
	body, err := c.block(func() error { return c.performed(s) })
	if err == nil {
		c.emit(star.When(cond, body, nil))
	}
	return err
}

// assumed reports whether the variables of a step have the values of a skipped one already.
func (c *clean) assumed(s *step) bool {
	return c.gated(s) && c.w.Output != nil && !c.branched(s)
}

// branched reports whether a step that a question may skip is written into a function,
// which does not have the values that were assigned outside of it.
func (c *clean) branched(s *step) bool {
	return slices.ContainsFunc(c.w.Steps, func(other *step) bool { return other != s && other.Level == s.Level })
}

// perform writes the effect of a step, and sets the variable that says whether it has run.
func (c *clean) perform(s *step) error {
	err := c.performed(s)
	if err == nil && c.needsRan(s) && s.Condition == nil {
		c.emit(star.Assign(star.True(), c.ran(s)))
	}
	return err
}

// performed writes the effect of a step.
func (c *clean) performed(s *step) error {
	value, err := c.core(s)
	if err != nil {
		return err
	}
	v, tried := c.vars[s], c.tried(s)
	ok, output := star.Attr(star.Name(tried), "ok"), star.Attr(star.Name(tried), "output")
	switch {
	case c.isCaught(s) && !c.isRecord(s) && c.needsOutput(s):
		c.emit(star.Assign(value, tried))
		if s.Condition != nil || c.assumed(s) { // the defaults are in the variable already
			c.emit(star.When(ok, []star.Stmt{star.Assign(output, v)}, nil))
		} else {
			c.emit(star.Assign(star.If(ok, output, c.skippedValue(s)), v))
		}
	case c.needsTried(s):
		c.emit(star.Assign(value, tried))
	case c.hasValue(s) || s.Kind == elicitationStep && (ends(s.OnDecline) || ends(s.OnCancel)):
		c.emit(star.Assign(value, v))
	default:
		c.emit(star.Do(value))
	}
	if s.Kind == elicitationStep {
		c.refusals(s)
	}
	return nil
}

// condition writes the condition of a step.
func (c *clean) condition(s *step) star.Expr {
	t := s.Condition
	e := c.value(t, &view{c: c, step: s}, s.Id+"_condition")
	if e.Literal {
		switch e.Text {
		case "true", "True", "TRUE":
			return star.True()
		case "false", "False", "FALSE":
			return star.False()
		}
		return star.Call("fail", star.Str(fmt.Sprintf("%s: the condition is %q, neither true nor false", s.Id, e.Text)))
	}
	if when, ok := whenTrue(e); ok {
		return when
	}
	if e.Truth() {
		return e
	}
	return isTrue(e)
}

// whenTrue returns the condition under which a value that is one of two texts is "true".
func whenTrue(e star.Expr) (star.Expr, bool) {
	var when star.Expr
	found := 0
	for _, c := range e.Cases {
		switch c.Text {
		case "true", "True", "TRUE":
			when = c.When
		case "false", "False", "FALSE":
		default:
			return star.Expr{}, false
		}
		found++
	}
	if found != 2 || when.Node == nil {
		return star.Expr{}, false
	}
	if when.Kind != star.Bool || when.Maybe {
		when = star.Call("bool", when).Is(star.Bool)
	}
	return when, true
}

// isTrue compares a value with the text that a template prints for true.
func isTrue(e star.Expr) star.Expr {
	return star.Op("==", star.Method(asText(e), "lower"), star.Str("true")).Is(star.Bool)
}

// core writes the effect of a step as an expression.
func (c *clean) core(s *step) (star.Expr, error) {
	switch s.Kind {
	case elicitationStep:
		return c.elicitation(s)
	case forEachStep:
		return c.forEach(s)
	case toolStep:
		if c.isRecord(s) {
			return c.record(s), nil
		}
	}
	return c.call(s, &view{c: c, step: s}, c.isCaught(s), s.Timeout), nil
}

// call writes the call of a tool.
func (c *clean) call(s *step, v *view, caught bool, timeout time.Duration) star.Expr {
	fn := "call_tool"
	if caught {
		fn = "try_call_tool"
	}
	args := []star.Expr{star.Str(s.Tool)}
	if s.Arguments != nil && len(s.Arguments.Mapping().Keys) > 0 {
		args = append(args, c.templated(s.Arguments, s, v, v.step.Id))
	}
	if timeout != 0 {
		args = append(args, star.Arg("timeout", star.Str(durationText(timeout))))
	}
	return c.retried(s, star.Call(fn, args...))
}

// retried writes the retries of a call.
func (c *clean) retried(s *step, call star.Expr) star.Expr {
	if s.Retries() == 0 {
		return call
	}
	args := []star.Expr{star.Lambda(call), star.Arg("max_attempts", star.Integer(int64(s.Retries()+1)))}
	if d := s.OnError.RetryDelay; d != 0 && d != defaultRetryDelay {
		args = append(args, star.Arg("delay", star.Str(durationText(d))))
	}
	return star.Call("retry", args...)
}

// record writes a call whose content array is used.
func (c *clean) record(s *step) star.Expr {
	c.loads["call"] = true
	args := []star.Expr{star.Str(s.Tool), star.Dict()}
	if s.Arguments != nil {
		args[1] = c.templated(s.Arguments, s, &view{c: c, step: s}, s.Id)
	}
	args = append(args, star.Arg("step", star.Str(s.Id)), star.Arg("record", star.True()), star.Arg("integers", star.True()))
	if s.Timeout != 0 {
		args = append(args, star.Arg("timeout", star.Str(durationText(s.Timeout))))
	}
	call := c.retried(s, star.Call("call", args...))
	if !c.isCaught(s) {
		return call
	}
	c.loads["attempt"] = true
	return star.Call("attempt", star.Lambda(call), star.Arg("defaults", c.defaults(s)))
}

// templated writes a value whose texts are templates. hint is a word for the names of variables.
func (c *clean) templated(v *value, s *step, in *view, hint string) star.Expr {
	if v == nil {
		return star.None()
	}
	switch d := v.Data.(type) {
	case string:
		return c.argument(s.Templates[v], in, hint)
	case []*value:
		var list []star.Expr
		for _, e := range d {
			item := c.templated(e, s, in, hint)
			if _, isText := valueText(e); isText && item.Maybe {
				item = asText(item) // an element cannot be left out
			}
			list = append(list, item)
		}
		return star.ListOf(list...)
	case *mapping:
		var entries []star.Entry
		for _, k := range d.Keys {
			e := c.templated(d.Values[k], s, in, hint+"_"+k)
			if _, isText := valueText(d.Values[k]); isText && e.Kind == star.Nothing {
				continue
			} else if !isText {
				e.Maybe = false // a literal null is kept
			}
			entries = append(entries, star.Entry{Key: k, Value: e})
		}
		return withoutNone(entries)
	}
	return constant(v.Whole())
}

func valueText(v *value) (string, bool) {
	if v == nil {
		return "", false
	}
	s, ok := v.Data.(string)
	return s, ok
}

// withoutNone writes a dict without the entries that are None.
func withoutNone(entries []star.Entry) star.Expr {
	d := star.Dict(entries...)
	if slices.ContainsFunc(entries, func(e star.Entry) bool { return e.Value.Maybe }) {
		d.Node = star.Call("without_none", d).Node
	}
	return d
}

// argument writes one text.
func (c *clean) argument(t *template, v *view, hint string) star.Expr {
	if t.Parsed == nil {
		return star.Call("fail", star.Str("not a template: "+t.Err.Error())).Is(star.Text)
	}
	if plain, ok := t.Parsed.Plain(); ok && looksTyped(plain) && !schema.Canonical(plain) {
		if len(c.remarks) == 0 {
			c.remark(fmt.Sprintf("A text such as %q stays a text; ToolHive converted it to the type that the tool's schema has.", plain))
		}
		c.notes = append(c.notes, Note{Pos: t.Value.Pos, Path: t.Value.Path, Msg: fmt.Sprintf("the text %q stays a text: a call is refused where the tool wants a number or a boolean", plain)})
	}
	if plain, ok := t.Parsed.Plain(); ok && (plain == "0" || plain == "1") && v.mayFail() {
		c.notes = append(c.notes, Note{Pos: t.Value.Pos, Path: t.Value.Path, Msg: fmt.Sprintf("the text %q becomes a number where the tool wants one: where it wants a boolean, the call is refused and the workflow continues without it", plain)})
	}
	e := c.value(t, v, hint)
	if v.mayFail() && !t.Parsed.IsEncoded() && (e.Kind == star.Any || e.Kind == star.List || e.Kind == star.Map) {
		return asTextIfThere(e)
	}
	return e
}

// mayFail reports whether the workflow continues after a failure of the call whose arguments are written. A list or an
// object for a text, which the tool refuses, would then be a call that is left out without a word, so that such values
// are written as their texts.
func (v *view) mayFail() bool {
	return v.step != nil && v.c.continuesOnError(v.step) && !v.c.isRecord(v.step)
}

// asTextIfThere is the text of a value, None without one.
func asTextIfThere(e star.Expr) star.Expr {
	if !e.Maybe {
		return asText(e)
	}
	out := star.Call("text", e, star.None()).Is(star.Text)
	out.Maybe = true
	return out
}

// looksTyped reports whether the legacy engine could have made a number or a boolean of a text.
func looksTyped(s string) bool {
	_, noNumber := strconv.ParseFloat(s, 64)
	_, noBool := strconv.ParseBool(s)
	return noNumber == nil || noBool == nil
}

// constant writes a value of the file.
func constant(v *value) star.Expr {
	if v == nil {
		return star.None()
	}
	switch d := v.Data.(type) {
	case nil:
		return star.None()
	case bool:
		if d {
			return star.True()
		}
		return star.False()
	case string:
		return star.Str(d)
	case float64:
		return star.Fraction(d)
	case []*value:
		var list []star.Expr
		for _, e := range d {
			list = append(list, constant(e))
		}
		return star.ListOf(list...)
	case *mapping:
		var entries []star.Entry
		for _, k := range d.Keys {
			entries = append(entries, star.Entry{Key: k, Value: constant(d.Values[k])})
		}
		return star.Dict(entries...)
	}
	return star.Digits(fmt.Sprint(v.Data))
}

// constantOf writes a plain value.
func constantOf(v any) star.Expr {
	if known, ok := v.(*value); ok {
		return constant(known)
	}
	if n, ok := v.(int64); ok {
		v = int(n)
	}
	return constant((&value{Data: v}).Whole())
}
