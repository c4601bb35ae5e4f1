package types

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// index is the type of x[y].
func (e *engine) index(x *syntax.IndexExpr) Type {
	on, key := e.eval(x.X), e.eval(x.Y)
	if on.IsAny() {
		return Any
	}
	if on.Is(None, boolKind, Int, floatKind, Struct, funcKind, Set, duration, timeKind, opaque) {
		p := FindingProblem{Code: "index", Node: x, Message: article(on) + " has no elements"}
		if name, ok := key.Text(); ok && on.Is(Struct) {
			p.Hint = "write ." + name
		}
		e.say(p)
		return Any
	}
	e.noneFor(x.X, on, func(a *Atom) bool {
		return a.Kind == Dict || a.Kind == List || a.Kind == tuple || a.Kind == Text
	})
	on = on.Without(None)
	e.indexKey(x, on, key)
	if name, ok := key.Text(); ok && on.Is(Dict) {
		return e.field(x, on, name)
	}
	return e.element(x, on, key)
}

// indexKey reports keys of the wrong type.
func (e *engine) indexKey(x *syntax.IndexExpr, on, key Type) {
	switch {
	case on.Is(List, tuple, Text, rangeKind) && key.Is(Text, floatKind, None, Dict, List):
		e.report("index", x.Y, "%s is indexed by an integer, not by %s", article(on), article(key))
	case on.Is(Dict):
		e.hashable(x.Y, key)
	}
}

// element is the type of x[i] where no field is named.
func (e *engine) element(x *syntax.IndexExpr, on, key Type) Type {
	out := Never
	n, known := key.Int()
	for _, a := range on.Atoms() {
		switch {
		case a.Kind == Text:
			out = Join(out, Kinds(Text))
		case a.Sized && known:
			i := n
			if i < 0 {
				i += len(a.Elems)
			}
			if i < 0 || i >= len(a.Elems) {
				e.outside(x, on, a)
				return Any
			}
			out = Join(out, a.Elems[i])
		case a.Kind == List, a.Kind == rangeKind:
			out = Join(out, a.Elem)
		case a.Kind == Dict && len(a.Fields) == 0 && !a.Elem.IsNever() && !e.frame.unit.scopes.Wilder:
			out = Join(out, a.Elem)
		default:
			return Any
		}
	}
	if out.IsNever() {
		return Any
	}
	return out
}

// outside reports an index beyond a tuple of known length.
func (e *engine) outside(x *syntax.IndexExpr, on Type, a *Atom) {
	if on.Only() == nil {
		return
	}
	if a.Name == groupsName {
		e.report("regexp", x.Y, "the pattern has %s", plural(len(a.Elems), "group"))
		return
	}
	e.report("index", x.Y, "%s has %s", map[bool]string{true: "the list", false: "the tuple"}[a.Kind == List], plural(len(a.Elems), "element"))
}

// field is the type of x["name"] for dicts.
func (e *engine) field(x *syntax.IndexExpr, on Type, name string) Type {
	out := Never
	missing, optional := 0, 0
	var from *Atom
	for _, a := range on.Atoms() {
		f, ok := a.Field(name)
		switch {
		case e.isWild(name):
			out = Any
		case ok:
			out = Join(out, f.Type)
			if f.Presence == Optional {
				optional++
				from = a
			}
		case a.Declared:
			missing++
			from = a
		default:
			out = Join(out, a.Unnamed())
		}
	}
	switch n := len(on.Atoms()); {
	case missing == n:
		e.noField(x.Y, from, name)
		return Any
	case optional == n:
		e.optionalField(x, from, name)
	}
	if out.IsNever() {
		return Any
	}
	return out
}

// isWild reports whether a key is set in dicts that are not known.
func (e *engine) isWild(name string) bool {
	s := e.frame.unit.scopes
	return s.Wilder || s.Wild[name] || e.root.scopes.Wild[name] || e.root.scopes.Wilder
}

// noField reports a field that is not declared.
func (e *engine) noField(at syntax.Expr, a *Atom, name string) {
	hint, near := meant(name, a.Names())
	switch a.Role {
	case Params:
		p := FindingProblem{Code: "parameter-unknown", Node: at, Message: "the tool has no parameter " + name, Hint: hint, Fix: quoted(near), Sure: display.Only(name, a.Names())}
		if a.Name != "" {
			p.Message = a.Name + " has no " + name
		}
		e.say(p)
	case contentRole:
		e.say(FindingProblem{Code: "result-field", Node: at, Message: "the form has no " + name, Hint: hint, Fix: quoted(near), Sure: display.Only(name, a.Names())})
	default:
		p := FindingProblem{Code: e.contract(a.Name, "result-field"), Node: at, Message: a.Name + " returns no " + name, Hint: hint, Fix: quoted(near), Sure: display.Only(name, a.Names())}
		if hint == "" {
			p.Message += "; it has " + strings.Join(a.Names(), ", ")
		}
		e.say(p)
	}
}

// contract returns the code of problems with a tool: "tool-contract" for scripted tools.
func (e *engine) contract(tool, code string) string {
	if t, _ := e.Tool(tool); t != nil && t.Script {
		return "tool-contract"
	}
	return code
}

// optionalField warns about a field that may be missing, once on each path.
func (e *engine) optionalField(x *syntax.IndexExpr, a *Atom, name string) {
	switch a.Role {
	case Params:
		e.warn("parameter-optional", x.Y, "%s is optional and has no default: %s[%q] fails without it", name, describe(x.X), name)
	case contentRole:
		e.warn("optional-field", x.Y, "%s is optional in the form: this fails when it is missing; .get(%q)", name, name)
	default:
		e.warn("optional-field", x.Y, "%s is optional in %s's output: this fails when it is missing; .get(%q)", name, a.Name, name)
	}
	e.conds.Refine(x, func(t Type) Type { return t })
}

// attribute is the type of x.name outside of calls.
func (e *engine) attribute(x *syntax.DotExpr) Type {
	on := e.eval(x.X)
	if on.IsAny() || on.IsNever() {
		return Any
	}
	if on.Is(None) {
		if on.Every(unexpectedNone) {
			e.report("attribute", x.Name, "None has no %s", x.Name.Name)
		}
		return Any
	}
	name := x.Name.Name
	e.noneFor(x.X, on, func(a *Atom) bool { _, ok := e.member(a, name); return ok })
	on = on.Without(None)
	out, misses := Never, 0
	for _, a := range on.Atoms() {
		t, ok := e.member(a, name)
		if !ok {
			misses++
			continue
		}
		out = Join(out, t)
	}
	if misses > 0 && misses == len(on.Atoms()) {
		e.noMember(x, on)
		return Any
	}
	if out.IsNever() {
		return Any
	}
	return out
}

// member returns the type of a field or method of a value.
func (e *engine) member(a *Atom, name string) (Type, bool) {
	switch a.Kind {
	case Struct:
		f, ok := a.Field(name)
		if !ok && a.Open {
			return Any, true
		}
		return f.Type, ok
	case moduleKind:
		c := a.Fn.(*Builtin)
		if v, ok := c.Values[name]; ok {
			return v, true
		}
		if m := c.Members[name]; m != nil {
			return Of(&Atom{Kind: funcKind, Fn: m, Name: m.Name}), true
		}
		return Any, false
	case timeKind, duration:
		return member(a.Kind, name)
	case opaque, funcKind:
		return Any, true
	}
	if m := methodOf(a.Kind, name); m != nil {
		return Of(&Atom{Kind: funcKind, Fn: &bound{On: a, Method: m}, Name: name}), true
	}
	return Any, a.Kind == Iterable && a.Name != ""
}

// noMember reports an attribute that a value does not have.
func (e *engine) noMember(x *syntax.DotExpr, on Type) {
	name := x.Name.Name
	a := on.Atoms()[0]
	switch {
	case a.Kind == moduleKind:
		e.noModuleMember(x, a.Fn.(*Builtin), name)
	case a.Kind == Struct:
		hint, near := meant(name, a.Names())
		subject := a.Name
		if subject == "" {
			subject = "the struct"
		}
		p := FindingProblem{Code: "attribute", Node: x.Name, Message: fmt.Sprintf("%s has %s; no %s", subject, strings.Join(a.Names(), ", "), name), Hint: hint, Fix: near, Sure: display.Only(name, a.Names())}
		e.say(p)
	case a.Kind == Dict:
		if f, ok := a.Field(name); ok && on.Only() != nil {
			e.say(FindingProblem{Code: "attribute", Node: x.Name, Message: fmt.Sprintf("a dict has no attribute %s", name), Hint: fmt.Sprintf("write [%q]", f.Name)})
			return
		}
		e.noMethod(x, on, name)
	default:
		e.noMethod(x, on, name)
	}
}

func (e *engine) noMethod(x *syntax.DotExpr, on Type, name string) {
	a := on.Atoms()[0]
	hint, near := meant(name, MethodNames(a.Kind))
	if h := habit(a.Kind, name); h != "" {
		hint, near = h, ""
	}
	e.say(FindingProblem{Code: "method", Node: x.Name, Message: fmt.Sprintf("%s has no %s", article(on), name), Hint: hint, Fix: near, Sure: near != "" && display.Only(name, MethodNames(a.Kind))})
}

func (e *engine) noModuleMember(x *syntax.DotExpr, c *Builtin, name string) {
	var names []string
	for n := range c.Members {
		names = append(names, n)
	}
	for n := range c.Values {
		names = append(names, n)
	}
	slices.Sort(names)
	p := FindingProblem{Code: "module-member", Node: x.Name, Message: fmt.Sprintf("%s has no %s", c.Name, name)}
	if e.Builtins[name] != nil {
		p.Hint = "the builtin is " + name
	} else {
		p.Hint, p.Fix = meant(name, names)
		p.Sure = display.Only(name, names)
	}
	if p.Hint == "" {
		p.Hint = "it has " + strings.Join(names, ", ")
	}
	e.say(p)
}
