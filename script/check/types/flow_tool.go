package types

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/display"

	"go.starlark.net/syntax"
)

// toolCall is the output of a call of a tool.
func (e *engine) toolCall(x *syntax.CallExpr, c *Builtin, got given) Type {
	t, at := e.toolNamed(c, got)
	if t == nil {
		return Any
	}
	e.retried(t, at)
	e.checkArguments(x, t, got, c.Args, "")
	if t.Output == nil {
		return Any
	}
	return t.Output.Type
}

// checkArguments checks the arguments of a call against the tool's input schema, {} where none are given. skip is one
// that is given elsewhere.
func (e *engine) checkArguments(x *syntax.CallExpr, t *Tool, got given, name, skip string) {
	if t.Input == nil {
		return
	}
	args, has := got[name]
	if !has && !slices.ContainsFunc(x.Args, spread) {
		args = Argument{Type: Of(&Atom{Kind: Dict, Role: ownRole})}
	}
	if !args.Type.IsNever() {
		e.fits.Check(value{Subject: t.Name, Whole: x, Script: t.Script, Skip: skip}, args.Expr, args.Type, t.Input)
	}
}

func spread(x syntax.Expr) bool {
	u, ok := x.(*syntax.UnaryExpr)
	return ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR)
}

// toolNamed returns the tool that a call names; nil when it is not known.
func (e *engine) toolNamed(c *Builtin, got given) (*Tool, syntax.Expr) {
	a, ok := got[c.Tool]
	if !ok {
		return nil, nil
	}
	name, ok := a.Type.Text()
	if !ok {
		return nil, nil
	}
	t, known := e.Tool(name)
	if t == nil && known {
		hint, near := meant(name, e.ToolNames)
		e.say(FindingProblem{Code: "tool-unknown", Node: a.Expr, Message: fmt.Sprintf("no tool %q", name), Hint: hint, Fix: quoted(near), Sure: display.Only(name, e.ToolNames)})
	}
	return t, a.Expr
}

// retried warns about a tool that should not be called again.
func (e *engine) retried(t *Tool, at syntax.Expr) {
	for _, r := range e.repeated {
		if r.node == nil || t.Repeat == "" {
			continue
		}
		p := FlowProblem{Unit: r.unit, FindingProblem: FindingProblem{Code: "retry-twice", Warning: true, Node: r.node, Message: fmt.Sprintf("%s %s", t.Name, t.Repeat)}}
		if e.frame.unit != r.unit || e.frame.unit == e.root {
			p.Caller, p.CallerUnit = at, e.frame.unit
		}
		e.add(p)
		return
	}
}

// pages is the type of the elements of pages().
func (e *engine) pages(x *syntax.CallExpr, c *Builtin, got given) Type {
	out := func(elem Type) Type {
		return Of(&Atom{Kind: Iterable, Elem: elem, Name: "pages"})
	}
	t, at := e.toolNamed(c, got)
	if t == nil {
		return out(Any)
	}
	path := func(name, fallback string) (string, syntax.Expr, bool) {
		a, ok := got[name]
		if !ok {
			return fallback, at, true
		}
		s, known := a.Type.Text()
		return s, a.Expr, known
	}
	cursor, cursorAt, known := path("cursor", "cursor")
	if known && t.Input != nil && t.Input.Known && t.Input.Closed {
		if _, ok := t.Input.Prop(cursor); !ok {
			e.report(e.contract(t.Name, "pages"), cursorAt, "%s has no argument %s; it has %s", t.Name, cursor, strings.Join(t.Input.Names(), ", "))
			return out(Any)
		}
	}
	e.checkArguments(x, t, got, c.Args, cursor)
	if t.Output == nil || t.Output.Type.IsAny() {
		return out(Any)
	}
	items, itemsAt, ok := path("items", "items")
	if a, has := got["items"]; has && a.Type.Is(None) {
		return out(t.Output.Type)
	}
	if _, each := got["each"]; each {
		return out(Any)
	}
	if !ok {
		return out(Any)
	}
	if _, found := below(t.Output.Type, items); !found {
		e.report(e.contract(t.Name, "pages"), itemsAt, "%s has no field %s; %s", t.Name, items, e.pagesHint(t, got))
		return out(Any)
	}
	next, nextAt, ok := path("next", "nextCursor")
	if _, found := below(t.Output.Type, next); ok && !found {
		e.report(e.contract(t.Name, "pages"), nextAt, "%s has no field %s: only the first page is read; %s", t.Name, next, e.pagesHint(t, got))
	}
	elem, _ := below(t.Output.Type, items)
	return out(elementOf(elem))
}

// pagesHint suggests arguments for reading the pages of a tool.
func (e *engine) pagesHint(t *Tool, got given) string {
	a := t.Output.Type.Only()
	if a == nil {
		return "see its output schema"
	}
	items, next := "items", "nextCursor"
	if s, ok := got["next"].Type.Text(); ok {
		next = s
	}
	for _, f := range a.Fields {
		if f.Type.Is(List) {
			items = f.Name
		}
		if low := strings.ToLower(f.Name); f.Type.Has(Text) && (strings.Contains(low, "next") || strings.Contains(low, "cursor")) {
			next = f.Name
		}
	}
	hint := "pages(..."
	if items != "items" {
		hint += fmt.Sprintf(", items = %q", items)
	}
	if next != "nextCursor" {
		hint += fmt.Sprintf(", next = %q", next)
	}
	return hint + ")"
}

// below returns the type at a path such as page.next; ok is false when there is none.
func below(t Type, path string) (Type, bool) {
	for name := range strings.SplitSeq(path, ".") {
		a := t.Only()
		if a == nil || !a.Declared {
			return Any, true
		}
		f, ok := a.Field(name)
		if !ok {
			return Any, false
		}
		t = f.Type
	}
	return t, true
}
