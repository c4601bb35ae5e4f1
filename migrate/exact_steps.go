package migrate

import (
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

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
	return x.call(s, s.id, &scope{e: x, step: s}, segment(s.id)+".arguments")
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
	message, err := x.argument(s.message, &scope{e: x, step: s}, segment(s.id)+".message")
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
		sc := &scope{e: x, step: s, item: item, index: idx}
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
	sc := &scope{e: x, step: s, place: place}
	e, ok, err := t.parsed.Encoded(sc)
	if err != nil {
		return "", x.misplaced(t, err)
	}
	if ok {
		return e.Code, nil
	}
	text, err := x.translate(t, sc, s.id+"_items")
	return keyword("text", text.Code), err
}
