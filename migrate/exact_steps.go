package migrate

import (
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// broken writes a text that is no template: an expression that fails when it is evaluated.
func (x *exact) broken(t *template, place string) string {
	x.loads["broken_template"] = true
	return gotmpl.Call("broken_template", gotmpl.Quote(t.Err.Error()), keywordText("at", place))
}

// core writes the effect of a step, without its condition.
func (x *exact) core(s *step) (string, error) {
	switch s.Kind {
	case elicitationStep:
		return x.elicitation(s)
	case forEachStep:
		return x.forEach(s)
	}
	return x.call(s, s.Id, &scope{e: x, step: s}, segment(s.Id)+".arguments")
}

// call writes the call of a tool; id is "" for an inner step.
func (x *exact) call(s *step, id string, sc *scope, place string) (string, error) {
	x.loads["call"] = true
	args := []string{gotmpl.Quote(s.Tool)}
	arguments, err := x.arguments(s, sc, place)
	if err != nil {
		return "", err
	}
	retries := s.Retries()
	if retries > 0 && strings.Contains(arguments, "at = ") {
		name := x.names.fresh(s.Id + "_args")
		x.code.line("%s = %s", name, arguments)
		arguments = name
	}
	if arguments != "" {
		args = append(args, arguments)
	}
	if id != "" {
		args = append(args, keywordText("step", id))
	}
	if s.Timeout != 0 && id != "" && retries == 0 && s.Timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.Timeout)))
	}
	if id != "" && x.isRecord(s) && (x.used[s].content || !x.continuesOnError(s)) {
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
	args := []string{"lambda: " + call, keyword("attempts", strconv.Itoa(s.Retries()+1))}
	if d := s.OnError.RetryDelay; d != 0 && d != defaultRetryDelay {
		args = append(args, keywordText("delay", durationText(d)))
	}
	if s.Timeout != 0 && id != "" && s.Timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.Timeout)))
	}
	return gotmpl.Call("retry", args...)
}

// arguments writes the arguments of a call; "" for none.
func (x *exact) arguments(s *step, sc *scope, place string) (string, error) {
	if s.Arguments == nil {
		return "", nil
	}
	return x.templated(s.Arguments, s, sc, place)
}

// templated writes a value whose texts are templates.
func (x *exact) templated(v *value, s *step, sc *scope, place string) (string, error) {
	if v == nil {
		return "None", nil
	}
	switch d := v.Data.(type) {
	case string:
		return x.argument(s.Templates[v], sc, place)
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
		for _, k := range d.Keys {
			e, err := x.templated(d.Values[k], s, sc, place+"."+segment(k))
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
func (x *exact) argument(t *template, sc *scope, place string) (string, error) {
	if t.Parsed == nil {
		return x.broken(t, place), nil
	}
	sc.place = place
	e, err := x.translate(t, sc, place[strings.LastIndexByte(place, '.')+1:]+"_text")
	return e.Code, err
}

// elicitation writes a question.
func (x *exact) elicitation(s *step) (string, error) {
	x.loads["ask"] = true
	message, err := x.argument(s.Message, &scope{e: x, step: s}, segment(s.Id)+".message")
	if err != nil {
		return "", err
	}
	args := []string{message, literal(s.Schema), keywordText("step", s.Id)}
	if s.Timeout != 0 && s.Timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.Timeout)))
	}
	if s.OnDecline != "" && s.OnDecline != actionAbort {
		args = append(args, keywordText("on_decline", s.OnDecline))
	}
	if s.OnCancel != "" {
		args = append(args, keywordText("on_cancel", s.OnCancel))
	}
	return x.recorded(s, gotmpl.Call("ask", args...)), nil
}

// recorded converts the output of a step that is no call into a record, where the record is used.
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
	args := []string{fn, over, keywordText("step", s.Id)}
	if s.MaxParallel != 0 && s.MaxParallel != defaultParallel {
		args = append(args, keyword("max_parallel", strconv.Itoa(s.MaxParallel)))
	}
	if s.MaxIterations != 0 && s.MaxIterations != defaultIterations {
		args = append(args, keyword("max_iterations", strconv.Itoa(s.MaxIterations)))
	}
	if s.MayFail() {
		args = append(args, keyword("keep_going", "True"))
	}
	if s.Timeout != 0 && s.Timeout != defaultStepTimeout {
		args = append(args, keywordText("timeout", durationText(s.Timeout)))
	}
	return x.recorded(s, gotmpl.Call("for_each", args...)), nil
}

// loopFunction writes the function that is called for each element.
func (x *exact) loopFunction(s *step) (string, error) {
	fn := x.names.fresh(s.Id + "_each")
	item, idx := x.names.fresh(s.ItemName()), x.names.fresh("i")
	x.code.line("def %s(%s, %s):", fn, item, idx)
	var err error
	x.code.block(func() {
		var call string
		inner := *s.Inner
		inner.Level = s.Level
		sc := &scope{e: x, step: s, item: item, index: idx}
		if call, err = x.call(&inner, "", sc, segment(s.Id)+".step.arguments"); err == nil {
			x.code.line("return %s", call)
		}
	})
	x.code.line("")
	return fn, err
}

// collection writes the collection of a loop: the value itself where the template is
// {{json value}}, else the text.
func (x *exact) collection(s *step) (string, error) {
	place := segment(s.Id) + ".collection"
	t := s.Collection
	if t.Parsed == nil {
		return keyword("text", x.broken(t, place)), nil
	}
	if text, plain := t.Parsed.Plain(); plain {
		if list, err := parseJSONText(text); err == nil && list.List() != nil {
			return literal(list.Whole()), nil
		}
	}
	sc := &scope{e: x, step: s, place: place}
	e, ok, err := t.Parsed.Encoded(sc)
	if err != nil {
		return "", x.misplaced(t, err)
	}
	if ok {
		return e.Code, nil
	}
	text, err := x.translate(t, sc, s.Id+"_items")
	return keyword("text", text.Code), err
}
