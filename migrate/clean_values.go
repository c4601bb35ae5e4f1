package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// early writes the return after such an answer.
func (c *clean) early(level []*step) {
	for _, s := range level {
		if s.skips() {
			c.code.line(`return {"action": %s.action, "skipped": True}`, c.vars[s])
			return
		}
	}
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

// lastOutput is the output of the last step that has run, in the order of levels and of the file.
func (c *clean) lastOutput(levels [][]*step) string {
	if len(levels) == 0 {
		return "None"
	}
	level := levels[len(levels)-1]
	s := level[len(level)-1]
	if len(level) > 1 {
		c.notes = append(c.notes, Note{Pos: c.w.pos, Msg: "the result is the output of step " + s.id + ", not of whichever step ends last"})
	}
	c.refs[nil] = append(c.refs[nil], s)
	output, _ := c.stepField(s, []string{"steps", s.id, "output"})
	if s.condition == nil && !c.isCaught(s) {
		return output.Code
	}
	c.see(s, []string{"steps", s.id, "status"})
	ran := c.ran(s)
	switch {
	case s.condition == nil:
		ran = c.tried(s) + ".ok"
	case c.isCaught(s):
		ran += " and " + c.tried(s) + ".ok"
	}
	return fmt.Sprintf("%s if %s else %s", output.Code, ran, c.lastOutput(levels[:len(levels)-1]))
}

// result writes the return of the result.
func (c *clean) result() error {
	if c.w.output == nil {
		c.code.line("return %s", c.lastOutput(c.w.levels()))
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
