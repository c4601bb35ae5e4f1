package gotmpl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// pipe writes a pipeline: each command gets the value of the one before as its last argument.
func (g *Native) pipe(p *parse.PipeNode, d at) star.Expr {
	var value *star.Expr
	for _, c := range p.Cmds {
		v := g.command(c, d, value)
		value = &v
	}
	if value == nil {
		return star.None()
	}
	return *value
}

func (g *Native) command(c *parse.CommandNode, d at, final *star.Expr) star.Expr {
	first := c.Args[0]
	if f, ok := first.(*parse.IdentifierNode); ok {
		return g.call(f.Ident, c, c.Args[1:], d, final)
	}
	if len(c.Args) > 1 || final != nil {
		return g.fail(first, fmt.Sprintf("can't give argument to non-function %s", first))
	}
	if _, ok := first.(*parse.NilNode); ok {
		return g.fail(first, "nil is not a command")
	}
	return g.operand(first, d)
}

// operand writes one operand of a command.
func (g *Native) operand(n parse.Node, d at) star.Expr {
	switch n := n.(type) {
	case *parse.DotNode:
		if d.root {
			return g.Root()
		}
		return d.expr
	case *parse.FieldNode:
		if d.root {
			return g.path(n.Ident)
		}
		return fieldsOf(d.expr, n.Ident)
	case *parse.VariableNode:
		return g.variable(n)
	case *parse.ChainNode:
		return g.chain(n, d)
	case *parse.PipeNode:
		return g.pipe(n, d)
	case *parse.IdentifierNode:
		return g.call(n.Ident, n, nil, d, nil)
	case *parse.StringNode:
		return star.Str(n.Text)
	case *parse.BoolNode:
		if n.True {
			return star.True()
		}
		return star.False()
	case *parse.NumberNode:
		return g.number(n)
	case *parse.NilNode:
		return star.None()
	}
	return g.impossible(n)
}

// path writes a path below the root.
func (g *Native) path(names []string) star.Expr {
	base, used := g.Path(names)
	return fieldsOf(base, names[used:])
}

// fieldsOf writes base.get("a", {}).get("b"): the fields of a missing field are missing.
func fieldsOf(base star.Expr, names []string) star.Expr {
	for _, name := range names {
		if base.Kind == star.Nothing {
			return base
		}
		base = star.Get(base, name)
	}
	return base
}

func (g *Native) chain(n *parse.ChainNode, d at) star.Expr {
	if _, ok := n.Node.(*parse.NilNode); ok {
		return g.fail(n, fmt.Sprintf("indirection through explicit nil in %s", n))
	}
	if _, ok := n.Node.(*parse.DotNode); ok && d.root {
		return g.path(n.Field)
	}
	return fieldsOf(g.operand(n.Node, d), n.Field)
}

// variable writes the use of a variable; "$" is the root, or the data of a definition.
func (g *Native) variable(n *parse.VariableNode) star.Expr {
	for i := len(g.vars) - 1; i >= 0; i-- {
		if g.vars[i].name == n.Ident[0] {
			return fieldsOf(g.vars[i].expr, n.Ident[1:])
		}
	}
	switch {
	case n.Ident[0] != "$":
		return g.fail(n, "undefined variable: "+n.Ident[0])
	case len(n.Ident) == 1:
		return g.Root()
	}
	return g.path(n.Ident[1:])
}

// declared reports whether a variable has been declared; "$" always is.
func (g *Native) declared(name string) bool {
	return name == "$" || slices.ContainsFunc(g.vars, func(v binding) bool { return v.name == name })
}

func (g *Native) number(n *parse.NumberNode) star.Expr {
	switch {
	case n.IsFloat && !hexInt(n.Text) && !strings.HasPrefix(n.Text, "'") && strings.ContainsAny(n.Text, ".eEpP"):
		return star.Fraction(n.Float64)
	case n.IsInt:
		return star.Integer(n.Int64)
	}
	return g.fail(n, n.Text+" is no number that a script has")
}

// use is the use of one function.
type use struct {
	g     *Native
	name  string
	node  parse.Node
	args  []star.Expr
	risky bool
}

// call writes the call of a function.
func (g *Native) call(name string, node parse.Node, argNodes []parse.Node, d at, final *star.Expr) star.Expr {
	u := use{g: g, name: name, node: node}
	for _, n := range argNodes {
		u.args = append(u.args, g.operand(n, d))
	}
	if final != nil {
		u.args = append(u.args, *final)
	}
	want := arity[name]
	if want < 0 && len(u.args) < -want-1 || want >= 0 && len(u.args) != want {
		return g.fail(ident(node), "wrong number of args for "+name)
	}
	for _, a := range u.args {
		u.risky = u.risky || a.Risky
	}
	return u.write()
}

func (u *use) write() star.Expr {
	a := u.args
	switch u.name {
	case "and", "or":
		return u.shortCircuit()
	case "not":
		return star.Not(a[0])
	case "eq", "ne", "lt", "le", "gt", "ge":
		return u.compare()
	case "json":
		return u.made(star.Call("json.encode", a[0]), star.Text)
	case "quote":
		return u.made(star.Call("json.encode", AsText(a[0])), star.Text)
	case "fromJson":
		e := star.Call("json.decode", AsText(a[0]))
		e.Maybe, e.Missing, e.Risky = true, true, true
		return e
	case "len":
		if a[0].Kind == star.Nothing {
			return u.g.fail(u.node, "len of nothing")
		}
		e := star.Call("len", a[0]).Is(star.Int)
		e.Risky = true
		return e
	case "index":
		return u.index()
	case "slice":
		return u.slice()
	case "printf":
		return u.printf()
	case "print", "println":
		return u.print()
	case "html", "js", "urlquery":
		fn := map[string]string{"html": "html_escape", "js": "js_escape", "urlquery": "url_query"}[u.name]
		return u.made(star.Call(fn, u.print0()), star.Text)
	}
	return u.g.fail(u.node, "no value of a workflow is a function")
}

// made returns e as an expression of a kind that is never None.
func (u *use) made(e star.Expr, kind star.Kind) star.Expr {
	e = e.Is(kind)
	e.Risky = u.risky
	return e
}

// shortCircuit writes and, or: like the template functions, Starlark's return an operand, and have the same truth values.
func (u *use) shortCircuit() star.Expr {
	e := u.args[0]
	for _, a := range u.args[1:] {
		next := star.Op(u.name, e, a)
		if next.Kind = e.Kind; e.Kind != a.Kind {
			next.Kind = star.Any
		}
		next.Maybe, next.Missing = a.Maybe, a.Missing
		if u.name == "and" {
			next.Maybe, next.Missing = e.Maybe || a.Maybe, e.Missing || a.Missing
		}
		if a.Truth() && (u.name == "and" || e.Truth()) {
			next = next.Truthful()
		}
		e = next
	}
	return e
}

var comparisons = map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

// compare writes a comparison.
func (u *use) compare() star.Expr {
	if len(u.args) < 2 {
		return u.g.fail(u.node, "missing argument for comparison")
	}
	if e, known := u.decided(); known {
		return e
	}
	var e star.Expr
	if u.name == "eq" && len(u.args) > 2 {
		e = star.Op("in", u.args[0], star.Tuple(u.args[1:]...)).Is(star.Bool)
	} else {
		e = star.Op(comparisons[u.name], u.args[0], u.args[1]).Is(star.Bool)
	}
	e.Risky = u.risky || u.name != "eq" && u.name != "ne" && !u.ordered()
	return e
}

// ordered reports whether both values are known to be texts, or numbers.
func (u *use) ordered() bool {
	class := func(e star.Expr) int {
		switch {
		case e.Maybe:
			return 0
		case e.Kind == star.Text:
			return 1
		case e.Kind == star.Int || e.Kind == star.Number:
			return 2
		}
		return 0
	}
	return class(u.args[0]) != 0 && class(u.args[0]) == class(u.args[1])
}

// decided writes the comparison of a text with a value that is one of a few texts: the condition of that case.
func (u *use) decided() (star.Expr, bool) {
	if u.name != "eq" && u.name != "ne" || len(u.args) != 2 {
		return star.Expr{}, false
	}
	a, b := u.args[0], u.args[1]
	if a.Cases == nil {
		a, b = b, a
	}
	if a.Literal && b.Literal {
		if (a.Text == b.Text) == (u.name == "eq") {
			return star.True(), true
		}
		return star.False(), true
	}
	if a.Cases == nil || !b.Literal {
		return star.Expr{}, false
	}
	is := star.False()
	for _, c := range a.Cases {
		if c.Text == b.Text {
			is = c.When
		}
	}
	if u.name == "ne" {
		return star.Not(is), true
	}
	return is, true
}

// index writes x.get("a")[0]; where the type is only known at run time, it calls a helper.
func (u *use) index() star.Expr {
	e := u.args[0]
	if e.Kind == star.Nothing {
		return u.g.fail(u.node, "index of nothing")
	}
	for n, i := range u.args[1:] {
		switch {
		case i.Literal:
			if n > 0 || e.Missing {
				e = e.There() // indexing a missing value is an error
			}
			e = star.Get(e, i.Text)
			e.Risky = true
		case i.Kind == star.Int:
			e = star.Index(e, i)
			e.Maybe = true
		default:
			e = star.Call(u.g.Helper("entry"), e, i)
			e.Maybe, e.Missing, e.Risky = true, true, true
		}
	}
	return e
}

func (u *use) slice() star.Expr {
	a := u.args
	if a[0].Kind == star.Nothing {
		return u.g.fail(u.node, "slice of nothing")
	}
	switch len(a) {
	case 1:
		return star.Slice(a[0], nil, nil)
	case 2:
		return star.Slice(a[0], &a[1], nil)
	}
	return star.Slice(a[0], &a[1], &a[2])
}

// printf writes a format: with % where the result is the same.
func (u *use) printf() star.Expr {
	f := u.args[0]
	if f.Literal {
		if parts, ok := plainParts(f.Text, u.args[1:]); ok {
			return AsText(join(parts))
		}
	}
	args := u.args[1:]
	if f.Literal && !strings.ContainsAny(f.Text, "[*") {
		f, args = typeVerbs(f, args)
	}
	return u.made(star.Call("printf", append([]star.Expr{AsText(f)}, args...)...), star.Text)
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]*)?(.)`)

// typeVerbs writes %T as %s of type(x).
func typeVerbs(format star.Expr, args []star.Expr) (star.Expr, []star.Expr) {
	args, n := slices.Clone(args), 0
	text := verb.ReplaceAllStringFunc(format.Text, func(v string) string {
		if strings.HasSuffix(v, "%") {
			return v
		}
		n++
		if strings.HasSuffix(v, "T") && n <= len(args) {
			args[n-1] = star.Call("type", args[n-1])
			return strings.TrimSuffix(v, "T") + "s"
		}
		return v
	})
	return star.Str(text), args
}

// plainParts splits a format that has only %s, %v, %d of integers, and %%.
func plainParts(format string, args []star.Expr) (parts []star.Expr, ok bool) {
	for {
		text, rest, found := strings.Cut(format, "%")
		parts = append(parts, star.Str(text))
		if !found {
			return parts, len(args) == 0
		}
		if rest == "" {
			return nil, false
		}
		switch verb := rest[0]; {
		case verb == '%':
			parts = append(parts, star.Str("%"))
		case len(args) > 0 && (verb == 's' || verb == 'v' || verb == 'd' && args[0].Kind == star.Int && !args[0].Maybe):
			parts, args = append(parts, printed(args[0])), args[1:]
		default:
			return nil, false
		}
		format = rest[1:]
	}
}

// print writes print and println.
func (u *use) print() star.Expr {
	var parts []star.Expr
	for i, a := range u.args {
		if i > 0 && (u.name == "println" || a.Kind != star.Text && u.args[i-1].Kind != star.Text) {
			parts = append(parts, star.Str(" "))
		}
		parts = append(parts, printed(a))
	}
	if u.name == "println" {
		parts = append(parts, star.Str("\n"))
	}
	return join(parts)
}

// print0 is the text of all arguments, as the escaping functions make it.
func (u *use) print0() star.Expr {
	plain := *u
	plain.name = "print"
	return plain.print()
}
