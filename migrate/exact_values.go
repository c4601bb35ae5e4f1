package migrate

import (
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

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
		if x.continuesOnError(s) && x.isRecord(s) {
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

// outputField returns a part of an output whose members are known.
func (x *exact) outputField(s *step, names []string) (gotmpl.Expr, int) {
	output := gotmpl.Expr{Code: x.outputOf(s), Kind: gotmpl.Map}
	if len(names) < 4 || x.mayBeSkipped(s) || x.continuesOnError(s) {
		return output, 3
	}
	part := func(kind gotmpl.Kind) (gotmpl.Expr, int) {
		return gotmpl.Expr{Code: output.Code + "[" + gotmpl.Quote(names[3]) + "]", Kind: kind}, 4
	}
	switch {
	case s.Kind == elicitationStep && names[3] == "action":
		return part(gotmpl.Text)
	case s.Kind == elicitationStep && names[3] == "content":
		if s.OnDecline == "" && s.OnCancel == "" || s.OnDecline == actionAbort && s.OnCancel == actionAbort {
			return part(gotmpl.Map)
		}
		return gotmpl.Expr{Code: output.Code + `.get("content")`, Kind: gotmpl.Map, Maybe: true}, 4
	case s.Kind == forEachStep && (names[3] == "count" || names[3] == "completed" || names[3] == "failed"):
		return part(gotmpl.Int)
	}
	return output, 3
}

// result writes the return of the workflow's result.
func (x *exact) result() error {
	if x.w.Output == nil {
		x.lastResult()
		return nil
	}
	x.loads["answer"] = true
	entries, err := x.properties(x.w.Output.Properties, "output", "")
	if err != nil {
		return err
	}
	x.code.line("return answer(%s)", gotmpl.Dict(entries))
	return nil
}

// assume writes the assignment of the value of a skipped step.
func (x *exact) assume(s *step) {
	if x.isUsed(s) {
		x.code.line("%s = %s", x.vars[s], x.skippedValue(s))
	}
}

// early writes the return after an answer in a level that ended the workflow.
func (x *exact) early(level []*step) { x.lastOf(level) }

// lastResult returns the output of the step that ended last.
func (x *exact) lastResult() {
	levels := x.w.Levels()
	x.lastOf(levels[len(levels)-1])
}

func (x *exact) lastOf(level []*step) {
	x.loads["answer"] = true
	if s := level[0]; len(level) == 1 && s.Condition == nil && !x.continuesOnError(s) {
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
		name := segment(p.Name)
		inPlace, inPath := place+"."+name, strings.TrimPrefix(path+"."+name, ".")
		var e string
		if p.Properties != nil {
			inner, err := x.properties(p.Properties, inPlace, inPath)
			if err != nil {
				return nil, err
			}
			e = gotmpl.Dict(inner)
		} else if e, err = x.property(p, inPlace, inPath); err != nil {
			return nil, err
		}
		entries = append(entries, gotmpl.Quote(p.Name)+": "+e)
	}
	return entries, nil
}

// property writes one value of the result.
func (x *exact) property(p *property, place, path string) (string, error) {
	before := x.code.Len()
	text, err := x.argument(p.Value, &scope{e: x}, place)
	if err != nil {
		return "", err
	}
	mayFail := strings.Contains(text, "at = ") || x.code.Len() > before
	if p.Kind == "string" && p.Fallback == nil {
		return text, nil
	}
	_, hasDefault := p.Usable()
	if hasDefault && mayFail {
		text = "lambda: " + text
	}
	args := []string{text, keywordText("name", path)}
	if d, ok := p.Usable(); ok {
		args = append(args, keyword("default", literalOf(d)))
	}
	fn := "as_" + p.Kind
	x.loads[fn] = true
	return gotmpl.Call(fn, args...), nil
}
