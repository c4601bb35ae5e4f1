package flow

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/callable"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// index is the type of x[y].
func (e *engine) index(x *syntax.IndexExpr) types.Type {
	on, key := e.eval(x.X), e.eval(x.Y)
	if on.IsAny() {
		return types.Any
	}
	if on.Is(types.None, types.Bool, types.Int, types.Float, types.Struct, types.Func, types.Set, types.Duration, types.Time, types.Opaque) {
		p := finding.Problem{Code: "index", Node: x, Message: finding.Article(on) + " has no elements"}
		if name, ok := key.Text(); ok && on.Is(types.Struct) {
			p.Hint = "write ." + name
		}
		e.say(p)
		return types.Any
	}
	e.noneFor(x.X, on, func(a *types.Atom) bool {
		return a.Kind == types.Dict || a.Kind == types.List || a.Kind == types.Tuple || a.Kind == types.Text
	})
	on = on.Without(types.None)
	e.indexKey(x, on, key)
	if name, ok := key.Text(); ok && on.Is(types.Dict) {
		return e.field(x, on, name)
	}
	return e.element(x, on, key)
}

// indexKey reports keys of the wrong type.
func (e *engine) indexKey(x *syntax.IndexExpr, on, key types.Type) {
	switch {
	case on.Is(types.List, types.Tuple, types.Text, types.Range) && key.Is(types.Text, types.Float, types.None, types.Dict, types.List):
		e.report("index", x.Y, "%s is indexed by an integer, not by %s", finding.Article(on), finding.Article(key))
	case on.Is(types.Dict):
		e.hashable(x.Y, key)
	}
}

// element is the type of x[i] where no field is named.
func (e *engine) element(x *syntax.IndexExpr, on, key types.Type) types.Type {
	out := types.Never
	n, known := key.Int()
	for _, a := range on.Atoms() {
		switch {
		case a.Kind == types.Text:
			out = types.Join(out, types.Kinds(types.Text))
		case a.Sized && known:
			i := n
			if i < 0 {
				i += len(a.Elems)
			}
			if i < 0 || i >= len(a.Elems) {
				e.outside(x, on, a)
				return types.Any
			}
			out = types.Join(out, a.Elems[i])
		case a.Kind == types.List, a.Kind == types.Range:
			out = types.Join(out, a.Elem)
		case a.Kind == types.Dict && len(a.Fields) == 0 && !a.Elem.IsNever() && !e.frame.unit.scopes.Wilder:
			out = types.Join(out, a.Elem)
		default:
			return types.Any
		}
	}
	if out.IsNever() {
		return types.Any
	}
	return out
}

// outside reports an index beyond a tuple of known length.
func (e *engine) outside(x *syntax.IndexExpr, on types.Type, a *types.Atom) {
	if on.Only() == nil {
		return
	}
	if a.Name == callable.GroupsName {
		e.report("regexp", x.Y, "the pattern has %s", finding.Plural(len(a.Elems), "group"))
		return
	}
	e.report("index", x.Y, "%s has %s", map[bool]string{true: "the list", false: "the tuple"}[a.Kind == types.List], finding.Plural(len(a.Elems), "element"))
}

// field is the type of x["name"] for dicts.
func (e *engine) field(x *syntax.IndexExpr, on types.Type, name string) types.Type {
	out := types.Never
	missing, optional := 0, 0
	var from *types.Atom
	for _, a := range on.Atoms() {
		f, ok := a.Field(name)
		switch {
		case e.isWild(name):
			out = types.Any
		case ok:
			out = types.Join(out, f.Type)
			if f.Presence == types.Optional {
				optional++
				from = a
			}
		case a.Declared:
			missing++
			from = a
		default:
			out = types.Join(out, a.Unnamed())
		}
	}
	switch n := len(on.Atoms()); {
	case missing == n:
		e.noField(x.Y, from, name)
		return types.Any
	case optional == n:
		e.optionalField(x, from, name)
	}
	if out.IsNever() {
		return types.Any
	}
	return out
}

// isWild reports whether a key is set in dicts that are not known.
func (e *engine) isWild(name string) bool {
	s := e.frame.unit.scopes
	return s.Wilder || s.Wild[name] || e.root.scopes.Wild[name] || e.root.scopes.Wilder
}

// noField reports a field that is not declared.
func (e *engine) noField(at syntax.Expr, a *types.Atom, name string) {
	hint, near := finding.Meant(name, a.Names())
	switch a.Role {
	case types.Params:
		p := finding.Problem{Code: "parameter-unknown", Node: at, Message: "the tool has no parameter " + name, Hint: hint, Fix: finding.Quoted(near), Sure: spell.Only(name, a.Names())}
		if a.Name != "" {
			p.Message = a.Name + " has no " + name
		}
		e.say(p)
	case types.Content:
		e.say(finding.Problem{Code: "result-field", Node: at, Message: "the form has no " + name, Hint: hint, Fix: finding.Quoted(near), Sure: spell.Only(name, a.Names())})
	default:
		p := finding.Problem{Code: e.contract(a.Name, "result-field"), Node: at, Message: a.Name + " returns no " + name, Hint: hint, Fix: finding.Quoted(near), Sure: spell.Only(name, a.Names())}
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
func (e *engine) optionalField(x *syntax.IndexExpr, a *types.Atom, name string) {
	switch a.Role {
	case types.Params:
		e.warn("parameter-optional", x.Y, "%s is optional and has no default: %s[%q] fails without it", name, finding.Describe(x.X), name)
	case types.Content:
		e.warn("optional-field", x.Y, "%s is optional in the form: this fails when it is missing; .get(%q)", name, name)
	default:
		e.warn("optional-field", x.Y, "%s is optional in %s's output: this fails when it is missing; .get(%q)", name, a.Name, name)
	}
	e.conds.Refine(x, func(t types.Type) types.Type { return t })
}

// attribute is the type of x.name outside of calls.
func (e *engine) attribute(x *syntax.DotExpr) types.Type {
	on := e.eval(x.X)
	if on.IsAny() || on.IsNever() {
		return types.Any
	}
	if on.Is(types.None) {
		if on.Every(types.UnexpectedNone) {
			e.report("attribute", x.Name, "None has no %s", x.Name.Name)
		}
		return types.Any
	}
	name := x.Name.Name
	e.noneFor(x.X, on, func(a *types.Atom) bool { _, ok := e.member(a, name); return ok })
	on = on.Without(types.None)
	out, misses := types.Never, 0
	for _, a := range on.Atoms() {
		t, ok := e.member(a, name)
		if !ok {
			misses++
			continue
		}
		out = types.Join(out, t)
	}
	if misses > 0 && misses == len(on.Atoms()) {
		e.noMember(x, on)
		return types.Any
	}
	if out.IsNever() {
		return types.Any
	}
	return out
}

// member returns the type of a field or method of a value.
func (e *engine) member(a *types.Atom, name string) (types.Type, bool) {
	switch a.Kind {
	case types.Struct:
		f, ok := a.Field(name)
		if !ok && a.Open {
			return types.Any, true
		}
		return f.Type, ok
	case types.Module:
		c := a.Fn.(*callable.Builtin)
		if v, ok := c.Values[name]; ok {
			return v, true
		}
		if m := c.Members[name]; m != nil {
			return types.Of(&types.Atom{Kind: types.Func, Fn: m, Name: m.Name}), true
		}
		return types.Any, false
	case types.Time, types.Duration:
		return callable.Member(a.Kind, name)
	case types.Opaque, types.Func:
		return types.Any, true
	}
	if m := callable.MethodOf(a.Kind, name); m != nil {
		return types.Of(&types.Atom{Kind: types.Func, Fn: &callable.Bound{On: a, Method: m}, Name: name}), true
	}
	return types.Any, a.Kind == types.Iterable && a.Name != ""
}

// noMember reports an attribute that a value does not have.
func (e *engine) noMember(x *syntax.DotExpr, on types.Type) {
	name := x.Name.Name
	a := on.Atoms()[0]
	switch {
	case a.Kind == types.Module:
		e.noModuleMember(x, a.Fn.(*callable.Builtin), name)
	case a.Kind == types.Struct:
		hint, near := finding.Meant(name, a.Names())
		subject := a.Name
		if subject == "" {
			subject = "the struct"
		}
		p := finding.Problem{Code: "attribute", Node: x.Name, Message: fmt.Sprintf("%s has %s; no %s", subject, strings.Join(a.Names(), ", "), name), Hint: hint, Fix: near, Sure: spell.Only(name, a.Names())}
		e.say(p)
	case a.Kind == types.Dict:
		if f, ok := a.Field(name); ok && on.Only() != nil {
			e.say(finding.Problem{Code: "attribute", Node: x.Name, Message: fmt.Sprintf("a dict has no attribute %s", name), Hint: fmt.Sprintf("write [%q]", f.Name)})
			return
		}
		e.noMethod(x, on, name)
	default:
		e.noMethod(x, on, name)
	}
}

func (e *engine) noMethod(x *syntax.DotExpr, on types.Type, name string) {
	a := on.Atoms()[0]
	hint, near := finding.Meant(name, callable.MethodNames(a.Kind))
	if h := callable.Habit(a.Kind, name); h != "" {
		hint, near = h, ""
	}
	e.say(finding.Problem{Code: "method", Node: x.Name, Message: fmt.Sprintf("%s has no %s", finding.Article(on), name), Hint: hint, Fix: near, Sure: near != "" && spell.Only(name, callable.MethodNames(a.Kind))})
}

func (e *engine) noModuleMember(x *syntax.DotExpr, c *callable.Builtin, name string) {
	var names []string
	for n := range c.Members {
		names = append(names, n)
	}
	for n := range c.Values {
		names = append(names, n)
	}
	slices.Sort(names)
	p := finding.Problem{Code: "module-member", Node: x.Name, Message: fmt.Sprintf("%s has no %s", c.Name, name)}
	if e.Builtins[name] != nil {
		p.Hint = "the builtin is " + name
	} else {
		p.Hint, p.Fix = finding.Meant(name, names)
		p.Sure = spell.Only(name, names)
	}
	if p.Hint == "" {
		p.Hint = "it has " + strings.Join(names, ", ")
	}
	e.say(p)
}
