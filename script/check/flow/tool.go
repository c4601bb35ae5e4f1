package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/callable"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/fit"
	"github.com/vmcp-dev/vmcp/script/check/operation"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"go.starlark.net/syntax"
)

// toolCall is the output of a call of a tool.
func (e *engine) toolCall(x *syntax.CallExpr, c *callable.Builtin, got given) types.Type {
	t, at := e.toolNamed(c, got)
	if t == nil {
		return types.Any
	}
	e.retried(t, at)
	if t.Input != nil {
		args, has := got[c.Args]
		if !has && !slices.ContainsFunc(x.Args, spread) {
			args = callable.Argument{Type: types.Of(&types.Atom{Kind: types.Dict, Role: types.Made})}
		}
		if !args.Type.IsNever() {
			e.fits.Check(fit.Value{Subject: t.Name, Whole: x, Script: t.Script}, args.Expr, args.Type, t.Input)
		}
	}
	if t.Output == nil {
		return types.Any
	}
	return t.Output.Type
}

func spread(x syntax.Expr) bool {
	u, ok := x.(*syntax.UnaryExpr)
	return ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR)
}

// toolNamed returns the tool that a call names; nil when it is not known.
func (e *engine) toolNamed(c *callable.Builtin, got given) (*Tool, syntax.Expr) {
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
		hint, near := finding.Meant(name, e.ToolNames)
		e.say(finding.Problem{Code: "tool-unknown", Node: a.Expr, Message: fmt.Sprintf("no tool %q", name), Hint: hint, Fix: finding.Quoted(near), Sure: spell.Only(name, e.ToolNames)})
	}
	return t, a.Expr
}

// retried warns about a tool that should not be called again.
func (e *engine) retried(t *Tool, at syntax.Expr) {
	for _, r := range e.repeated {
		if r.node == nil || t.Repeat == "" {
			continue
		}
		p := Problem{Unit: r.unit, Problem: finding.Problem{Code: "retry-twice", Warning: true, Node: r.node, Message: fmt.Sprintf("%s %s", t.Name, t.Repeat)}}
		if e.frame.unit != r.unit || e.frame.unit == e.root {
			p.Caller, p.CallerUnit = at, e.frame.unit
		}
		e.add(p)
		return
	}
}

// pages is the type of the elements of pages().
func (e *engine) pages(x *syntax.CallExpr, c *callable.Builtin, got given) types.Type {
	out := func(elem types.Type) types.Type {
		return types.Of(&types.Atom{Kind: types.Iterable, Elem: elem, Name: "pages"})
	}
	t, at := e.toolNamed(c, got)
	if t == nil {
		return out(types.Any)
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
			return out(types.Any)
		}
	}
	if args, has := got[c.Args]; t.Input != nil && has {
		e.fits.Check(fit.Value{Subject: t.Name, Whole: x, Script: t.Script, Skip: cursor}, args.Expr, args.Type, t.Input)
	}
	if t.Output == nil || t.Output.Type.IsAny() {
		return out(types.Any)
	}
	items, itemsAt, ok := path("items", "items")
	if a, has := got["items"]; has && a.Type.Is(types.None) {
		return out(t.Output.Type)
	}
	if _, each := got["each"]; each {
		return out(types.Any)
	}
	if !ok {
		return out(types.Any)
	}
	if _, found := below(t.Output.Type, items); !found {
		e.report(e.contract(t.Name, "pages"), itemsAt, "%s has no field %s; %s", t.Name, items, e.pagesHint(t, got))
		return out(types.Any)
	}
	next, nextAt, ok := path("next", "nextCursor")
	if _, found := below(t.Output.Type, next); ok && !found {
		e.report(e.contract(t.Name, "pages"), nextAt, "%s has no field %s: only the first page is read; %s", t.Name, next, e.pagesHint(t, got))
	}
	elem, _ := below(t.Output.Type, items)
	return out(operation.ElementOf(elem))
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
		if f.Type.Is(types.List) {
			items = f.Name
		}
		if low := strings.ToLower(f.Name); f.Type.Has(types.Text) && (strings.Contains(low, "next") || strings.Contains(low, "cursor")) {
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
func below(t types.Type, path string) (types.Type, bool) {
	for name := range strings.SplitSeq(path, ".") {
		a := t.Only()
		if a == nil || !a.Declared {
			return types.Any, true
		}
		f, ok := a.Field(name)
		if !ok {
			return types.Any, false
		}
		t = f.Type
	}
	return t, true
}
