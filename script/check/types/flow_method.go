package types

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// callMethod is the type of a call of a method.
func (e *engine) callMethod(x *syntax.CallExpr, b *bound, args []Argument) Type {
	m := b.Method
	dot, _ := meter.Unparen(x.Fn).(*syntax.DotExpr)
	spread := slices.ContainsFunc(args, func(a Argument) bool { return a.Spread })
	name := "this"
	if dot != nil {
		name = dot.Name.Name
	}
	positional := positional(args)
	if !spread && (len(positional) < m.Min || m.Max >= 0 && len(positional) > m.Max) {
		want := plural(m.Min, "argument")
		if m.Max != m.Min {
			want = "at most " + plural(m.Max, "argument")
			if len(positional) < m.Min {
				want = "at least " + plural(m.Min, "argument")
			}
		}
		e.report("call-arity", x, "%s wants %s, has %d", name, want, len(positional))
		return Any
	}
	if dot != nil && !spread {
		e.methodArguments(x, dot, b, positional, args)
	}
	out := e.methodGives(b, args)
	if m.Change != nil && dot != nil {
		e.env.Change(dot.X, func(t Type) Type {
			return t.Replace(b.On.Kind, func(a *Atom) *Atom { return m.Change(a, args) })
		})
	}
	return out
}

// methodGives is the result of a method. A key that may be set elsewhere in the text has an unknown type.
func (e *engine) methodGives(b *bound, args []Argument) Type {
	if b.Method == methodOf(Dict, "get") {
		if name, ok := args[0].Type.Text(); ok && e.isWild(name) {
			return Any
		}
	}
	return b.Method.Gives(b.On, args)
}

// methodArguments reports arguments of the wrong type.
func (e *engine) methodArguments(x *syntax.CallExpr, dot *syntax.DotExpr, b *bound, positional, args []Argument) {
	name := dot.Name.Name
	if b.Method.Kinds != nil {
		for _, a := range positional {
			if a.Type.Every(func(t *Atom) bool { return isJSON(t) && !slices.Contains(b.Method.Kinds, t.Kind) }) {
				e.report("builtin-value", a.Expr, "%s wants %s, this is %s", name, "a string", article(a.Type))
			} else if !slices.Contains(b.Method.Kinds, None) {
				e.noneFor(a.Expr, a.Type, func(t *Atom) bool { return slices.Contains(b.Method.Kinds, t.Kind) })
			}
		}
	}
	switch {
	case b.On.Kind == Text && name == "join":
		e.joins(positional[0])
	case b.On.Kind == Text && name == "format":
		e.formatCall(x, dot, b, positional, args)
	case b.On.Kind == Text && (name == "split" || name == "replace" || name == "find") && len(positional) > 0:
		if positional[0].Type.Is(Int, floatKind, List, Dict, boolKind) {
			e.report("builtin-value", positional[0].Expr, "%s wants a string, this is %s", name, article(positional[0].Type))
		} else if name == "replace" && positional[1].Type.Is(Int, floatKind, List, Dict, boolKind, None) {
			e.report("builtin-value", positional[1].Expr, "%s wants a string, this is %s", name, article(positional[1].Type))
		}
	case b.On.Kind == List && name == "extend" && positional[0].Type.Is(Int, Text, None, floatKind, boolKind):
		e.report("index", positional[0].Expr, "%s is not iterable", article(positional[0].Type))
	case b.On.Kind == Dict && name == "get":
		e.gotten(positional[0], len(positional) > 1, b.On)
	}
}

// joins reports elements that are not strings.
func (e *engine) joins(a Argument) {
	if a.Type.Is(Text) {
		e.report("builtin-value", a.Expr, "join wants a list of strings, this is a string")
		return
	}
	elem := elementOf(a.Type)
	wrong := func(t *Atom) bool { return t.Kind != Text && t.Kind != opaque }
	if !elem.IsNever() && elem.Every(wrong) {
		e.say(FindingProblem{Code: "builtin-value", Node: a.Expr, Message: "join wants strings, these are " + elem.Widen().String(), Hint: "write [str(x) for x in ...]"})
		return
	}
	if elem.Some(unexpectedNone) && elem.Has(Text) && len(elem.Widen().Atoms()) == 2 {
		e.warn("maybe-none", a.Expr, "an element of %s may be None here", describe(a.Expr))
	}
}

// gotten reports a key that a dict with declared fields does not have.
func (e *engine) gotten(key Argument, fallback bool, on *Atom) {
	name, ok := key.Type.Text()
	if !ok || !on.Declared || e.isWild(name) {
		return
	}
	if _, has := on.Field(name); has {
		return
	}
	if _, near := meant(name, on.Names()); fallback && !display.Slip(name, near) {
		return // some members of the union may have it
	}
	e.noField(key.Expr, on, name)
}

// formatCall reports "{}".format(...) with too few values, or with names that are not given.
func (e *engine) formatCall(x *syntax.CallExpr, dot *syntax.DotExpr, b *bound, positional, args []Argument) {
	s, ok := b.On.Lit.(string)
	if !ok {
		return
	}
	next, numbered := 0, false
	for i := 0; i < len(s); i++ {
		if s[i] == '}' {
			if i+1 < len(s) && s[i+1] == '}' {
				i++
				continue
			}
			e.report("format", dot.X, "the format has a } without its {; write }} for one")
			return
		}
		if s[i] != '{' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '{' {
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			e.report("format", dot.X, "the format has a { without its }; write {{ for one")
			return
		}
		field := s[i+1 : i+end]
		i += end
		if strings.ContainsAny(field, ":.[") {
			e.say(FindingProblem{Code: "format", Node: dot.X, Message: "{" + field + "} is not a format field: Starlark has no widths and precisions", Hint: `printf("%.2f", x) has`})
			return
		}
		field, _, _ = strings.Cut(field, "!")
		if field == "" {
			next++
		} else if !isDigits(field) {
			if _, has := named(args, field); !has {
				e.report("format", x, "the format has {%s}, which is not given", field)
				return
			}
		} else {
			numbered = true
		}
	}
	if !numbered && next > len(positional) {
		e.report("format", x, "the format wants %s, has %d", plural(next, "value"), len(positional))
	}
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
