package migrate

import (
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// loopForm is the form of the variable of a loop, the same for all templates that use it.
type loopForm int

const (
	loopUnused  loopForm = iota // there is no variable
	loopOutputs                 // the list of the values that the calls returned: only its length is used
	loopRecords                 // the list of its iterations
	loopSummary                 // a dict with iterations, count, completed and failed, or the defaults
)

// loopForm chooses the simplest form that is enough for all uses.
func (c *clean) loopForm(s *step) loopForm {
	u := c.used[s]
	if !u.output {
		return loopUnused
	}
	known := []string{"count", "completed", "failed", "iterations"}
	if s.Condition != nil || c.gated(s) || slices.ContainsFunc(u.parts, func(p string) bool { return !slices.Contains(known, p) }) {
		return loopSummary
	}
	if slices.Contains(u.parts, "iterations") {
		return loopRecords
	}
	return loopOutputs
}

// forEach writes a loop as a parallel over the elements.
func (c *clean) forEach(s *step) (star.Expr, error) {
	items := c.collection(s)
	all := c.loop(s, items)
	if c.loopForm(s) == loopSummary {
		all = star.Call(c.helper("summary"), all)
	}
	return all, nil
}

// collection writes the list that a loop iterates over.
func (c *clean) collection(s *step) star.Expr {
	n := c.native(&view{c: c, step: s}, s.Id+"_items")
	if items, ok := n.Encoded(s.Collection.Parsed); ok {
		c.define(n)
		if items.Kind == star.Nothing {
			return star.ListOf()
		}
		return gotmpl.OrEmpty(items)
	}
	text := n.Text(s.Collection.Parsed)
	c.define(n)
	if v, err := parseJSONText(text.Text); text.Literal && err == nil {
		return constant(v.Whole())
	}
	return star.Op("or", star.Call("json.decode", text), star.ListOf())
}

// loop writes the function for one element, and its use.
func (c *clean) loop(s *step, items star.Expr) star.Expr {
	fn := c.names.fresh(s.Id + "_each")
	item, idx := c.names.fresh(s.ItemName()), c.names.fresh("i")
	items = c.bounded(s, items)
	counted := c.loopForm(s) == loopRecords || c.loopForm(s) == loopSummary
	element := star.Name(item)
	element.Maybe = true
	v := &view{c: c, step: s, item: element, index: star.Name(idx).Is(star.Int), loop: true, seen: &counted}
	inner := *s.Inner
	inner.Level = s.Level
	body, _ := c.block(func() error {
		call := c.call(&inner, v, s.MayFail(), 0)
		c.emit(star.Return(c.iteration(s, call, v).Bare()))
		return nil
	})
	over := []string{item}
	if counted {
		pair := c.names.fresh("pair")
		body = append([]star.Stmt{star.Assign(star.Name(pair), idx, item)}, body...)
		over, items = []string{pair}, star.Call("enumerate", items)
	}
	c.emit(star.Def(fn, over, body))
	for _, name := range append(over, item, idx) {
		c.names.free(name) // it is local to the function
	}
	args := []star.Expr{star.Name(fn), items}
	if s.MaxParallel != 0 {
		args = append(args, star.Arg("max_concurrency", star.Integer(int64(s.MaxParallel))))
	}
	return star.Call("parallel", args...)
}

// iteration writes the value that the function of a loop returns for one element.
func (c *clean) iteration(s *step, call star.Expr, v *view) star.Expr {
	switch form := c.loopForm(s); {
	case form == loopUnused || form == loopOutputs:
		return call
	case s.MayFail():
		return star.Call(c.helper("iteration"), v.index, v.item, call)
	}
	return star.Dict(
		star.Entry{Key: "index", Value: v.index}, star.Entry{Key: "item", Value: v.item},
		star.Entry{Key: "output", Value: call}, star.Entry{Key: "status", Value: star.Str("completed")},
	)
}

// bounded writes the check of the number of elements, when the definition bounds it.
func (c *clean) bounded(s *step, items star.Expr) star.Expr {
	if s.MaxIterations == 0 {
		return items
	}
	all := c.names.fresh(s.ItemName() + "s")
	c.emit(star.Assign(items, all))
	tooMany := star.Op(">", star.Call("len", star.Name(all)), star.Integer(int64(s.MaxIterations)))
	message := star.Str(fmt.Sprintf("%s: more than %d elements", s.Id, s.MaxIterations))
	c.emit(star.When(tooMany, []star.Stmt{star.Do(star.Call("fail", message))}, nil))
	return star.Name(all)
}

// loopField returns a part of the value of a loop.
func (c *clean) loopField(s *step, names []string) (star.Expr, int) {
	v := star.Name(c.vars[s])
	if c.loopForm(s) == loopSummary {
		return c.summaryField(s, v.Is(star.Map), names)
	}
	if len(names) == 3 {
		return v, 3 // only in the first pass
	}
	count := star.Call("len", v).Is(star.Int)
	switch names[3] {
	case "iterations":
		e := v.Is(star.List)
		e.Elem = star.Map
		return e.Named("iterations"), 4
	case "count":
		return count, 4
	case "completed":
		if !s.MayFail() {
			return count, 4
		}
		return c.counted(s, v, true), 4
	}
	if !s.MayFail() {
		return star.Integer(0), 4
	}
	return c.counted(s, v, false), 4
}

// counted is the number of elements that completed, or that failed.
func (c *clean) counted(s *step, v star.Expr, well bool) star.Expr {
	name := c.names.fresh("r")
	r := star.Name(name)
	cond := star.Attr(r, "ok")
	if c.loopForm(s) == loopRecords {
		cond = star.Op("==", star.Index(r, star.Str("status")), star.Str("completed"))
	}
	if !well && c.loopForm(s) == loopRecords {
		cond = star.Op("==", star.Index(r, star.Str("status")), star.Str("failed"))
	} else if !well {
		cond = star.Not(cond)
	}
	e := star.Call("len", star.Comprehension(r, []string{name}, v, cond)).Is(star.Int)
	e.Risky = false
	return e
}

// summaryField returns a part of the summary of a loop, or of the defaults in its place.
func (c *clean) summaryField(s *step, v star.Expr, names []string) (star.Expr, int) {
	if len(names) == 3 {
		return v, 3
	}
	kind := star.Int
	if names[3] == "iterations" {
		kind = star.List
	}
	known := slices.Contains([]string{"count", "completed", "failed", "iterations"}, names[3])
	if !known || c.mayBeSkipped(s) && constant(s.Defaults.Mapping().Get(names[3])).Kind != kind {
		return v, 3
	}
	e := star.Index(v, star.Str(names[3])).Is(kind)
	e.Risky = false
	return e.Named(names[3]), 4
}
