package migrate

import (
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// ends reports whether an answer that has this handler ends the workflow with a failure.
func ends(handler string) bool { return handler == "" || handler == actionAbort }

// refusals writes the failure after a refusal of the user that the definition does not handle.
func (c *clean) refusals(s *step) {
	op, word := "", ""
	switch {
	case ends(s.OnDecline) && ends(s.OnCancel):
		op, word = "!=", "accept"
	case ends(s.OnDecline):
		op, word = "==", "decline"
	case ends(s.OnCancel):
		op, word = "==", "cancel"
	default:
		return
	}
	refused := star.Op(op, star.Attr(star.Name(c.vars[s]), "action"), star.Str(word))
	c.emit(star.When(refused, []star.Stmt{star.Do(star.Call("fail", star.Str(s.Id+": not accepted by the user")))}, nil))
}

func (c *clean) elicitation(s *step) (star.Expr, error) {
	n := c.native(&view{c: c, step: s}, s.Id+"_message")
	message := n.Text(s.Message.Parsed)
	c.define(n)
	form, err := c.form(s)
	if err != nil {
		return star.Expr{}, err
	}
	args := []star.Expr{message, star.Arg("schema", constant(form.Whole()))}
	if s.Timeout != 0 {
		args = append(args, star.Arg("timeout", star.Str(durationText(min(s.Timeout, maxElicitTimeout)))))
	}
	return star.Call("elicit", args...), nil
}

// unasked is the action of a question that was not asked.
func (c *clean) unasked(s *step) star.Expr {
	if action := s.Defaults.Mapping().Get("action"); action != nil {
		return constant(action.Whole())
	}
	return star.None()
}

// skippedQuestion is the answer to a question that was not asked.
func (c *clean) skippedQuestion(s *step) star.Expr {
	content := star.Dict()
	if v := s.Defaults.Mapping().Get("content"); v.Mapping() != nil {
		content = constant(v.Whole())
	}
	args := []star.Expr{star.Arg("action", c.unasked(s)), star.Arg("content", content)}
	if m := s.Defaults.Mapping(); m != nil {
		for _, k := range m.Keys {
			if k != "action" && k != "content" && identifier(k) == k {
				args = append(args, star.Arg(k, constant(m.Values[k].Whole())))
			}
		}
	}
	return star.Call("struct", args...)
}

// answerField returns a part of the user's answer; accepted says that the user is known to have
// accepted.
func (c *clean) answerField(s *step, names []string, accepted bool) (star.Expr, int) {
	v := star.Name(c.vars[s])
	content := star.Attr(v, "content").Is(star.Map)
	if handled := func(h string) bool { return h == actionContinue || h == actionSkip }; !accepted && (handled(s.OnDecline) || handled(s.OnCancel)) {
		content = content.Optional() // a refusal has none
	}
	action := star.Attr(v, "action").Is(star.Text)
	if !accepted && c.mayBeSkipped(s) && c.unasked(s).Kind != star.Text {
		action = textOrNone(action)
	}
	switch {
	case len(names) == 3 && s.Skips():
		return withoutNone([]star.Entry{{Key: "action", Value: action}, {Key: "content", Value: content}, {Key: "skipped", Value: c.skippedRest(s)}}), 3
	case len(names) == 3:
		return withoutNone([]star.Entry{{Key: "action", Value: action}, {Key: "content", Value: content}}), 3
	case names[3] == "skipped" && s.Skips():
		return c.skippedRest(s), 4
	case names[3] == "action":
		return action, 4
	case names[3] == "content" && len(names) == 4:
		return content, 4
	case names[3] == "content":
		return c.answered(s, content, names[4], accepted), 5
	case c.mayBeSkipped(s) && s.Defaults.Mapping().Get(names[3]) != nil && identifier(names[3]) == names[3]:
		return star.Call("getattr", v, star.Str(names[3]), star.None()).Optional(), 4
	}
	return star.None(), len(names)
}

// answerWithoutSkipping is the answer where it is known not to have skipped the remaining steps: after
// one that does, the script has returned.
func (c *clean) answerWithoutSkipping(s *step) star.Expr {
	part := func(name string) star.Entry {
		e, _ := c.answerField(s, []string{"steps", s.Id, "output", name}, false)
		return star.Entry{Key: name, Value: e}
	}
	return withoutNone([]star.Entry{part("action"), part("content")})
}

// skippedRest is True when the answer skipped the remaining steps, else None.
func (c *clean) skippedRest(s *step) star.Expr {
	e := star.If(star.Not(c.continuesAfter(s)), star.True(), star.None())
	e.Kind, e.Maybe, e.Missing = star.Bool, true, true
	return e
}

// answered returns a field of the form that the user filled in.
func (c *clean) answered(s *step, content star.Expr, name string, accepted bool) star.Expr {
	schema := s.Schema.Mapping()
	kind := kinds[schema.Get("properties").Mapping().Get(name).Mapping().Get("type").Text()]
	required := false
	for _, r := range schema.Get("required").List() {
		required = required || r.Text() == name
	}
	if required && (accepted || !content.Missing && !c.mayBeSkipped(s)) {
		e := star.Index(content, star.Str(name)).Is(kind)
		e.Maybe, e.Risky = kind == star.Any, false
		return e
	}
	e := star.Get(content, name)
	e.Kind = kind
	return e
}
