package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// fake replaces a tool.
type fake struct {
	name  string // of the tool, as clients see it
	tool  *Tool  // nil: not known
	at    diag.Pos
	takes time.Duration
	used  int

	results []json.RawMessage // one for each call, or one for all
	each    bool
	fn      starlark.Callable
	failure *builtins.ToolError
}

// answer is a user's answer to a question.
type answer struct {
	part string
	raw  json.RawMessage
	at   diag.Pos
	used bool
}

// called is one call of a tool, said a question or a line of the log.
type (
	called struct {
		id, tool string
		args     json.RawMessage
	}
	said struct{ id, text string }
)

// reply is the answer to an effect, seen the effect itself.
type (
	reply struct {
		seen
		raw json.RawMessage
		err error
		due time.Duration
	}
	seen struct {
		kind, name, args string
		pos              string
	}
)

// fakeOf returns the fake of a tool, the one that was declared last. The caller holds a.mu.
func (a *attempt) fakeOf(name string, t *Tool) *fake {
	if t != nil {
		name = t.Name
	}
	for i := len(a.fakes) - 1; i >= 0; i-- {
		if a.fakes[i].name == name {
			return a.fakes[i]
		}
	}
	return nil
}

// noteCall records a call; one that a resumed run repeats is the same call.
func (a *attempt) noteCall(c called) {
	if !slices.ContainsFunc(a.calls, func(o called) bool { return o.id == c.id }) {
		a.calls = append(a.calls, c)
	}
}

// reply computes the answer to a held effect, or why the test cannot continue. Only the scheduler calls it, while no
// run computes.
//
// An effect that was the same in the plain run gets the same answer: that of a fake with state may depend on the order
// of its calls, which is the test's order, not the script's. The fake is called anyway, for what it records and
// asserts.
func (a *attempt) reply(e *effect) *Problem {
	var r reply
	var problem *Problem
	if e.question != nil {
		r, problem = a.answerOf(e)
	} else {
		r, problem = a.resultOf(e)
	}
	if problem != nil {
		return problem
	}
	r.seen = a.effects[e.id]
	if a.plain != nil {
		if old, ok := a.plain.replies[e.id]; ok && old.same(r.seen) {
			r = old
		}
	}
	a.replies[e.id] = r
	e.raw, e.err, e.due = r.raw, r.err, a.now.Add(r.due)
	return nil
}

// same reports whether two effects are equal.
func (s seen) same(o seen) bool {
	return s.kind == o.kind && s.name == o.name && sameJSON(s.args, o.args)
}

// answerOf returns the user's answer.
func (a *attempt) answerOf(e *effect) (reply, *Problem) {
	message := jsonscan.GetString(e.question.Params, "message")
	a.questions = append(a.questions, said{e.id, message})
	for _, w := range a.answers {
		if !w.used && strings.Contains(message, w.part) {
			w.used = true
			return reply{raw: w.raw}, nil
		}
	}
	msg := fmt.Sprintf("%s asks %q, and the test declares no answer to it", e.Pos, message)
	for _, w := range a.answers {
		if !w.used {
			msg += fmt.Sprintf(": the next one is for %q", w.part)
			break
		}
	}
	p := problemAt(codeUnanswered, a.file.place(a.placeOf(e)), msg)
	return reply{}, &p
}

// resultOf returns the answer of a fake.
func (a *attempt) resultOf(e *effect) (reply, *Problem) {
	f := e.fake
	if f == nil {
		return reply{}, a.unfaked(e)
	}
	f.used++
	a.noteCall(called{e.id, f.name, e.Args})
	if f.tool != nil {
		if err := f.tool.checkInput(e.Args); err != nil {
			return reply{}, f.problem("%s calls %s, and the arguments do not fit its input schema: %s", e.Pos, f.name, pointers(err))
		}
	}
	r := reply{due: f.takes}
	if e.timeout > 0 && f.takes > e.timeout {
		r.due, r.err = e.timeout, &builtins.ToolError{Kind: builtins.Timeout, Msg: fmt.Sprintf("no answer within %s", e.timeout)}
		return r, nil
	}
	switch {
	case f.failure != nil && f.failure.Kind != builtins.Tool:
		r.err = f.failure
	case f.failure != nil:
		r.raw = builtins.ErrorResult(f.failure.Msg)
	case f.fn != nil:
		return a.computed(e, f, r)
	case f.each && f.used > len(f.results):
		return r, f.problem("returns_each has %d answers, and %s calls %s for the %s time", len(f.results), e.Pos, f.name, ordinal(f.used))
	case f.each:
		r.raw = f.results[f.used-1]
	default:
		r.raw = f.results[0]
	}
	return r, nil
}

func ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprint(n, "st")
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprint(n, "nd")
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprint(n, "rd")
	}
	return fmt.Sprint(n, "th")
}

// computed returns the answer of a fake's function.
func (a *attempt) computed(e *effect, f *fake, r reply) (reply, *Problem) {
	err := a.main.Interlude(a.base, func(t *starlark.Thread) error {
		args, err := script.DecodeIn(t, e.Args, a.main.Limits().Depth)
		if err != nil {
			return err
		}
		v, err := a.main.Call(t, f.fn, starlark.Tuple{args}, nil)
		if err != nil {
			return err
		}
		r.raw, err = resultIn(t, v)
		return err
	})
	var limit *script.LimitError
	switch {
	case errors.As(err, &limit):
		p := problemAt(CodeTime, f.at, fmt.Sprintf("the answer of the fake of %s: %v", f.name, limit))
		return r, &p
	case err != nil && errors.As(err, new(*assertion)):
		return r, a.failure(CodeFailed, &script.Error{Msg: message(err), Pos: innermost(err)}, "")
	case err != nil:
		return r, f.problem("the answer of the fake of %s: %s", f.name, message(err))
	}
	if problem := f.check(r.raw); problem != "" {
		return r, f.problem("%s", problem)
	}
	return r, nil
}

func (f *fake) problem(format string, args ...any) *Problem {
	p := problemAt(codeFake, f.at, fmt.Sprintf(format, args...))
	return &p
}

func (t *Tool) checkInput(args json.RawMessage) error {
	if t.Script != nil {
		_, err := t.Script.Arguments(args)
		return err
	}
	if t.Input == nil {
		return nil
	}
	return t.Input.Validate(args)
}

// check returns why a result is invalid for the tool that f replaces, or "".
func (f *fake) check(raw json.RawMessage) string {
	if f.tool == nil || string(jsonscan.Get(raw, "isError")) == "true" {
		return ""
	}
	value := jsonscan.Get(raw, "structuredContent")
	switch {
	case f.tool.Output == nil:
		return ""
	case value == nil:
		return fmt.Sprintf("%s declares an output schema, but the fake returns no value: returns = ...", f.name)
	}
	if err := f.tool.Output.Validate(value); err != nil {
		return fmt.Sprintf("%s never returns this: %s", f.name, pointers(err))
	}
	return ""
}

// pointers formats violations of a schema, with their places as JSON pointers.
func pointers(err error) string {
	var all schema.Violations
	if !errors.As(err, &all) {
		return err.Error()
	}
	const most = 5
	var lines []string
	for i, v := range all {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		pointer := ""
		for _, part := range v.At {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
		}
		lines = append(lines, strings.TrimPrefix(pointer+": "+v.Message, ": "))
	}
	return strings.Join(lines, "; ")
}
