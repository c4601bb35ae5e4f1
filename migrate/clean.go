package migrate

import (
	"slices"
	"strings"

	"github.com/bazelbuild/buildtools/build"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// clean writes scripts as a person would have written them.
//
// Each step is represented by one variable or expression, the same for all templates that use it:
//
//   - a tool step is its output, always a dict: {} or the defaults when it did not run or has
//     failed; where they are used, NAME_result is the value that try_call_tool returned, and
//     NAME_ran whether its condition was true;
//   - a tool step whose content array is used is a record of the legacy module;
//   - a question is a struct with action and content;
//   - a loop has one of the forms of loopForm.
type clean struct {
	*emitter
	body    *[]star.Stmt
	helpers map[string]bool // functions that the script defines for itself
	remarks []string        // for the statement that is being written
}

// cleanSource writes the script of a workflow in the clean style.
func cleanSource(w *workflow, o Options) (source string, notes []Note, err error) {
	c := &clean{emitter: newEmitter(w, o)}
	var body []star.Stmt
	err = c.twice(append(slices.Sorted(helperNames()), cleanReserved...), func() error {
		body, c.body, c.helpers, c.remarks = nil, &body, map[string]bool{}, nil
		return c.write()
	})
	if err != nil {
		return "", nil, err
	}
	stmts := append(c.above(), star.Def("run", []string{"params"}, body))
	source, err = star.File(stmts)
	return source, c.notes, err
}

// cleanReserved are names that clean scripts use beyond those of every script.
var cleanReserved = strings.Fields(`text printf html_escape js_escape url_query without_none call attempt skipped workflow
	as_array as_boolean as_integer as_number as_object as_string`)

// above returns the statements before the function run.
func (c *clean) above() (stmts []star.Stmt) {
	if c.w.Description != "" {
		head := &build.CommentBlock{}
		for line := range strings.Lines(comment(c.w.Description)) {
			head.Comment().Before = append(head.Comment().Before, build.Comment{Token: strings.TrimSuffix(line, "\n")})
		}
		stmts = append(stmts, head)
	}
	if names := c.loaded(); len(names) > 0 {
		stmts = append(stmts, star.Load("legacy", names...))
	}
	return append(stmts, helperDefs(c.helpers)...)
}

func (c *clean) emit(s star.Stmt) {
	if len(c.remarks) > 0 {
		s = star.Noted(s, strings.Join(c.remarks, "\n"))
		c.remarks = nil
	}
	*c.body = append(*c.body, s)
}

// block writes statements into a separate block.
func (c *clean) block(write func() error) (stmts []star.Stmt, err error) {
	outer := c.body
	c.body = &stmts
	err = write()
	c.body = outer
	return stmts, err
}

// remark puts a comment above the statement that is being written.
func (c *clean) remark(text string) {
	if !slices.Contains(c.remarks, text) {
		c.remarks = append(c.remarks, text)
	}
}

func (c *clean) write() error {
	if slices.ContainsFunc(c.w.Steps, (*step).Skips) {
		return c.byLevel(c.w.Levels())
	}
	if err := c.sequence(c.w.Steps); err != nil {
		return err
	}
	return c.result()
}

// needs returns the steps of the set that s has to wait for: those it depends on, and
// those its templates name.
func (c *clean) needs(s *step, set []*step) (list []*step) {
	for _, other := range set {
		if other != s && (slices.Contains(s.DependsOn, other.Id) || slices.Contains(c.known[s], other)) {
			list = append(list, other)
		}
	}
	return list
}

// sequence writes steps so that each waits for the steps that it needs and for few others:
// chains that do not need each other run in parallel.
func (c *clean) sequence(set []*step) error {
	for len(set) > 0 {
		if chains := c.chains(set); c.apart(chains) {
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
			first, rest = set[:1], set[1:] // only in the first pass, see emitter
		}
		if err := c.oneLevel(first); err != nil {
			return err
		}
		set = rest
	}
	return nil
}

// apart reports whether each chain is written as a function; if some chains are single steps,
// writing these beside the first steps of the others is easier to read.
func (c *clean) apart(chains [][]*step) bool {
	long := 0
	for _, chain := range chains {
		if len(chain) > 1 {
			long++
		}
	}
	return len(chains) > 1 && long != 1
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

// sideBySide writes chains as the branches of a call of parallel.
func (c *clean) sideBySide(chains [][]*step) error {
	var branches []star.Expr
	var groups [][]string
	used := false
	for _, chain := range chains {
		fn, results, err := c.branch(chain)
		if err != nil {
			return err
		}
		branches, groups = append(branches, fn), append(groups, results)
		used = used || len(results) > 0
	}
	all := star.Call("parallel", star.ListOf(branches...))
	if !used {
		c.emit(star.Do(all))
		return nil
	}
	c.emit(star.Unpack(all, groups))
	return nil
}

// branch writes a chain as a function, and the variables that it returns.
func (c *clean) branch(chain []*step) (fn star.Expr, results []string, err error) {
	for _, s := range chain {
		if c.usedOutside(s, chain) {
			results = append(results, c.produces(s)...)
		}
	}
	if len(chain) == 1 && c.simple(chain[0]) {
		body, err := c.core(chain[0])
		return star.Lambda(body), results, err
	}
	name := c.names.fresh("do_" + chain[len(chain)-1].Id)
	body, err := c.block(func() error {
		if err := c.sequence(chain); err != nil || len(results) == 0 {
			return err
		}
		if len(results) == 1 {
			c.give(star.Name(results[0]))
		} else {
			c.emit(star.ReturnAll(results...))
		}
		return nil
	})
	c.emit(star.Def(name, nil, body))
	return star.Name(name), results, err
}

// give writes the return of a value; the assignment of a variable that is only returned is left out.
func (c *clean) give(value star.Expr) {
	list := *c.body
	name, isName := value.Node.(*build.Ident)
	if isName && len(list) > 0 {
		if a, ok := list[len(list)-1].(*build.AssignExpr); ok {
			if to, ok := a.LHS.(*build.Ident); ok && to.Name == name.Name {
				last := star.Return(star.Expr{Node: a.RHS})
				*last.Comment() = *a.Comment()
				*c.body = append(list[:len(list)-1:len(list)-1], last)
				return
			}
		}
	}
	c.emit(star.Return(value))
}

// simple reports whether a step is one expression.
func (c *clean) simple(s *step) bool {
	tried := c.isCaught(s) && !c.isRecord(s) && c.needsOutput(s)
	return s.Condition == nil && s.Kind == toolStep && !tried && !c.needsRan(s)
}

// usedOutside reports whether a step or the output outside of a chain needs a step of it.
func (c *clean) usedOutside(s *step, chain []*step) bool {
	if c.decides(s) {
		return true
	}
	if !c.isUsed(s) {
		return false
	}
	if slices.Contains(c.known[nil], s) {
		return true
	}
	for other, refs := range c.known {
		if other != nil && !slices.Contains(chain, other) && slices.Contains(refs, s) {
			return true
		}
	}
	return slices.ContainsFunc(c.w.Steps, (*step).Skips)
}

// byLevel writes the steps level by level, and then the result. An answer of the user
// that ends the workflow early returns, or skips the rest where the result is made of more
// than the last output.
func (c *clean) byLevel(levels [][]*step) error {
	for i, level := range levels {
		if err := c.oneLevel(level); err != nil {
			return err
		}
		gates := gatesOf(level)
		switch {
		case len(gates) == 0 || i+1 == len(levels):
		case c.w.Output == nil:
			for _, gate := range gates {
				c.early(gate)
			}
		default:
			return c.unlessSkipped(gates, levels[i+1:])
		}
	}
	return c.result()
}

// early writes the return after an answer that ended the workflow.
func (c *clean) early(gate *step) {
	action := star.Attr(star.Name(c.vars[gate]), "action")
	skipped := star.Dict(star.Entry{Key: "action", Value: action}, star.Entry{Key: "skipped", Value: star.True()})
	c.emit(star.When(star.Not(c.continuesAfter(gate)), []star.Stmt{star.Return(skipped)}, nil))
}

// unlessSkipped writes the levels after questions whose answers may skip them, and the result.
func (c *clean) unlessSkipped(gates []*step, levels [][]*step) error {
	for _, level := range levels {
		for _, s := range level {
			c.assume(s)
		}
	}
	if err := c.goingOn(gates, levels); err != nil {
		return err
	}
	return c.result()
}

// goingOn writes levels under the condition that no answer to a question has skipped them.
func (c *clean) goingOn(gates []*step, levels [][]*step) error {
	body, err := c.block(func() error {
		for i, level := range levels {
			if err := c.oneLevel(level); err != nil {
				return err
			}
			if next := gatesOf(level); len(next) > 0 && i+1 < len(levels) {
				return c.goingOn(next, levels[i+1:])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	cond := c.continuesAfter(gates[0])
	for _, gate := range gates[1:] {
		cond = star.Op("and", cond, c.continuesAfter(gate))
	}
	c.emit(star.When(cond, body, nil))
	return nil
}

// gatesOf returns the questions of a level that may skip what comes later.
func gatesOf(level []*step) (gates []*step) {
	for _, s := range level {
		if s.Skips() {
			gates = append(gates, s)
		}
	}
	return gates
}

// decides reports whether the answer to a question is read to find whether later steps run.
func (c *clean) decides(s *step) bool {
	return s.Skips() && slices.ContainsFunc(c.w.Steps, func(other *step) bool { return other.Level > s.Level })
}

// gated reports whether a question before a step may skip it.
func (c *clean) gated(s *step) bool {
	return slices.ContainsFunc(c.w.Steps, func(other *step) bool { return other.Skips() && other.Level < s.Level })
}

// continuesAfter is the condition that an answer did not skip the remaining steps.
func (c *clean) continuesAfter(s *step) star.Expr {
	action := star.Attr(star.Name(c.vars[s]), "action")
	switch both := s.OnDecline == actionSkip && s.OnCancel == actionSkip; {
	case both && (s.Condition != nil || c.gated(s)): // a question that was not asked skips nothing
		return star.Op("not in", action, star.Tuple(star.Str("decline"), star.Str("cancel")))
	case both:
		return star.Op("==", action, star.Str("accept"))
	case s.OnDecline == actionSkip:
		return star.Op("!=", action, star.Str("decline"))
	}
	return star.Op("!=", action, star.Str("cancel"))
}

// view is the context of the templates of one field.
type view struct {
	c     *clean
	step  *step // that the template belongs to; nil for the output
	item  star.Expr
	index star.Expr
	loop  bool // the template is in a loop
	seen  *bool
}

// native is a translator for the templates of a step.
func (c *clean) native(v *view, hint string) *gotmpl.Native {
	return &gotmpl.Native{View: v, Hint: hint}
}

// value writes the value of a template that is a single action, else its text.
func (c *clean) value(t *template, v *view, hint string) star.Expr {
	n := c.native(v, hint)
	e := n.Value(t.Parsed)
	c.define(n)
	return e
}

func (c *clean) define(n *gotmpl.Native) {
	*c.body = append(*c.body, n.Defs...)
}
