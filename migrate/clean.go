package migrate

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// clean writes scripts the way a person would have.
type clean struct {
	*emitter
}

func (c *clean) write() error {
	if slices.ContainsFunc(c.w.steps, (*step).skips) {
		return c.byLevel(c.w.levels())
	}
	if err := c.sequence(c.w.steps); err != nil {
		return err
	}
	return c.result()
}

// needs returns the steps of the set that s has to wait for: those it depends on, and
// those its templates name.
func (c *clean) needs(s *step, set []*step) (list []*step) {
	for _, other := range set {
		if other != s && (slices.Contains(s.dependsOn, other.id) || slices.Contains(c.known[s], other)) {
			list = append(list, other)
		}
	}
	return list
}

// sequence writes steps so that each waits for what it needs and for little else:
// chains that have nothing to do with each other run side by side.
func (c *clean) sequence(set []*step) error {
	for len(set) > 0 {
		chains := c.chains(set)
		if len(chains) > 1 {
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
			first, rest = set[:1], set[1:] // only the first time, when not all is known
		}
		if err := c.oneLevel(first); err != nil {
			return err
		}
		set = rest
	}
	return nil
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

// sideBySide writes chains as the branches of a parallel.
func (c *clean) sideBySide(chains [][]*step) error {
	var branches, targets []string
	used := false
	for _, chain := range chains {
		branch, target, err := c.branch(chain)
		if err != nil {
			return err
		}
		branches, targets = append(branches, branch), append(targets, target)
		used = used || target != "_"
	}
	args := []string{gotmpl.ListOf(branches)}
	call := gotmpl.Call("parallel", args...)
	if used {
		call = strings.Join(targets, ", ") + " = " + call
	}
	c.code.line("%s", call)
	return nil
}

// branch writes a chain as a function, and the variables that it returns.
func (c *clean) branch(chain []*step) (fn, target string, err error) {
	var results []string
	for _, s := range chain {
		if c.usedOutside(s, chain) {
			results = append(results, c.produces(s)...)
		}
	}
	target = "_"
	switch {
	case len(results) == 1:
		target = results[0]
	case len(results) > 1:
		target = "(" + strings.Join(results, ", ") + ")"
	}
	if len(chain) == 1 && c.simple(chain[0]) {
		expr, err := c.core(chain[0])
		return "lambda: " + expr, target, err
	}
	fn = c.names.fresh("do_" + chain[len(chain)-1].id)
	c.code.line("def %s():", fn)
	c.code.block(func() {
		if err = c.sequence(chain); err == nil && len(results) > 0 {
			c.code.line("return %s", strings.Join(results, ", "))
		}
	})
	c.code.line("")
	return fn, target, err
}

// simple reports whether a step is one expression.
func (c *clean) simple(s *step) bool {
	return s.condition == nil && s.kind == toolStep && !c.isCaught(s)
}

// usedOutside reports whether something outside of a chain needs a step.
func (c *clean) usedOutside(s *step, chain []*step) bool {
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
	return false
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

// isUsed reports whether something needs a step, and needsOutput whether it is its output.
func (c *clean) isUsed(s *step) bool { return *c.used[s] != facets{} }

func (c *clean) needsOutput(s *step) bool { return c.used[s].output || c.used[s].content }

// needsTried reports whether something needs to know how a call that may fail went.
func (c *clean) needsTried(s *step) bool {
	return c.isCaught(s) && (c.used[s].status || c.used[s].error)
}

// produces lists the variables of a step that something needs.
func (c *clean) produces(s *step) (list []string) {
	if c.needsOutput(s) {
		list = append(list, c.vars[s])
	}
	if c.needsTried(s) {
		list = append(list, c.tried(s))
	}
	if s.condition != nil && c.used[s].status {
		list = append(list, c.ran(s))
	}
	return list
}

// assume gives the variables of a step the values of one that is skipped.
func (c *clean) assume(s *step) {
	c.assumeOutcome(s)
	if s.condition != nil && c.used[s].status {
		c.code.line("%s = False", c.ran(s))
	}
}

// assumeOutcome is assume but for the variable that tells whether the step has run.
func (c *clean) assumeOutcome(s *step) {
	if c.needsOutput(s) {
		c.code.line("%s = %s", c.vars[s], c.skippedValue(s))
	}
	if c.needsTried(s) {
		c.code.line("%s = struct(ok = False, output = None, error = None)", c.tried(s))
	}
}

// isCaught reports whether a failure of the step's tool does not end the workflow.
func (c *clean) isCaught(s *step) bool { return c.goesOn(s) && s.kind == toolStep }

// alone writes one step as statements.
func (c *clean) alone(s *step) error {
	if s.condition == nil {
		return c.perform(s)
	}
	cond, err := c.condition(s)
	if err != nil {
		return err
	}
	c.assumeOutcome(s)
	if ran := c.ran(s); c.used[s].status {
		c.code.line("%s = %s", ran, cond)
		cond = ran
	}
	c.code.line("if %s:", cond)
	c.code.block(func() { err = c.perform(s) })
	return err
}

// ran is the variable that tells whether a step with a condition has run.
func (c *clean) ran(s *step) string { return c.vars[s] + "_ran" }

// tried is the variable that has all of a call that may fail.
func (c *clean) tried(s *step) string { return c.vars[s] + "_result" }

// perform writes what a step does.
func (c *clean) perform(s *step) error {
	expr, err := c.core(s)
	if err != nil {
		return err
	}
	switch {
	case c.isCaught(s) && c.needsOutput(s):
		c.code.line("%s = %s", c.tried(s), expr)
		c.code.line("%s = %s.output if %s.ok else %s", c.vars[s], c.tried(s), c.tried(s), c.skippedValue(s))
	case c.needsTried(s):
		c.code.line("%s = %s", c.tried(s), expr)
	case c.needsOutput(s) || s.kind == elicitationStep && !c.answersAlike(s):
		c.code.line("%s = %s", c.vars[s], expr)
	default:
		c.code.line("%s", expr)
	}
	if s.kind == elicitationStep {
		c.refusals(s)
	}
	return nil
}

// skipped is the condition under which an answer ended the workflow.
func (c *clean) skipped(s *step) string {
	action := c.vars[s] + ".action"
	switch {
	case s.onDecline == actionSkip && s.onCancel == actionSkip:
		return action + ` != "accept"`
	case s.onDecline == actionSkip:
		return action + ` == "decline"`
	}
	return action + ` == "cancel"`
}

// skippedValue is what the variable of a step holds when it did not run.
func (c *clean) skippedValue(s *step) string {
	if s.defaults != nil {
		return literal(s.defaults)
	}
	if s.kind == elicitationStep {
		return `struct(action = "skipped", content = {})`
	}
	return "{}"
}

// kinds are the types of JSON Schema.
var kinds = map[string]gotmpl.Kind{
	"string": gotmpl.Text, "boolean": gotmpl.Bool, "object": gotmpl.Map, "array": gotmpl.List,
}
