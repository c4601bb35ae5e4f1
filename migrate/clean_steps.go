package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

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
	items = c.bounded(s, items)
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
	args := []string{fn, items}
	if s.maxParallel != 0 {
		args = append(args, keyword("max_concurrency", strconv.Itoa(s.maxParallel)))
	}
	return gotmpl.Call("parallel", args...), nil
}

// bounded writes the check of how many elements a loop may have, when the definition says so.
func (c *clean) bounded(s *step, items string) string {
	if s.maxIterations == 0 {
		return items
	}
	all := c.names.fresh(s.itemName() + "s")
	c.code.line("%s = %s", all, items)
	c.code.line("if len(%s) > %d:", all, s.maxIterations)
	c.code.block(func() {
		c.code.line("fail(%s)", gotmpl.Quote(fmt.Sprintf("%s: more than %d elements", s.id, s.maxIterations)))
	})
	return all
}

// usesName reports whether code has the name as a word of its own.
func usesName(code, name string) bool {
	return slices.Contains(strings.FieldsFunc(code, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}), name)
}
