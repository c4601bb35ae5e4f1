package gotmpl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// pipe writes a pipeline: each command gets the value of the one before as its last argument.
func (g *generator) pipe(p *parse.PipeNode, d dot) Expr {
	var value *Expr
	for _, c := range p.Cmds {
		v := g.command(c, d, value)
		v.From = "" // in a pipeline null is a missing value
		value = &v
	}
	if value == nil {
		return None
	}
	return *value
}

func (g *generator) command(c *parse.CommandNode, d dot, final *Expr) Expr {
	first := c.Args[0]
	if f, ok := first.(*parse.IdentifierNode); ok {
		return g.call(f.Ident, c, c.Args[1:], d, final)
	}
	if len(c.Args) > 1 || final != nil {
		return g.notFunction(first, d)
	}
	if _, ok := first.(*parse.NilNode); ok {
		return g.fail(first, "nil is not a command")
	}
	return g.operand(first, d)
}

// notFunction writes the error of an operand that is no function but has arguments.
func (g *generator) notFunction(n parse.Node, d dot) Expr {
	var ident []string
	switch n := n.(type) {
	case *parse.FieldNode:
		ident = n.Ident
	case *parse.ChainNode:
		ident = n.Field
	case *parse.VariableNode:
		ident = n.Ident[1:]
	}
	if len(ident) > 0 {
		return g.fail(n, ident[len(ident)-1]+" is not a method but has arguments")
	}
	return g.fail(n, fmt.Sprintf("can't give argument to non-function %s", n))
}

// operand writes one operand of a command.
func (g *generator) operand(n parse.Node, d dot) Expr {
	switch n := n.(type) {
	case *parse.DotNode:
		return g.dot(d)
	case *parse.FieldNode:
		if d.root {
			return g.path(n.Ident, n)
		}
		return g.fields(d.expr, n.Ident, n)
	case *parse.VariableNode:
		return g.variable(n)
	case *parse.ChainNode:
		return g.chain(n, d)
	case *parse.PipeNode:
		return g.pipe(n, d)
	case *parse.IdentifierNode:
		return g.call(n.Ident, n, nil, d, nil)
	case *parse.StringNode:
		return String(n.Text)
	case *parse.BoolNode:
		return Expr{Code: map[bool]string{true: "True", false: "False"}[n.True], Kind: Bool}
	case *parse.NumberNode:
		return g.number(n)
	case *parse.NilNode:
		return None
	}
	panic(g.errorAt(n, fmt.Sprintf("%s has no translation", n)))
}

func (g *generator) dot(d dot) Expr {
	if d.root {
		return g.Root()
	}
	return d.expr
}

// path writes a path below the root.
func (g *generator) path(names []string, n parse.Node) Expr {
	base, used := g.Field(names)
	return g.fields(base, names[used:], n)
}

func (g *generator) chain(n *parse.ChainNode, d dot) Expr {
	if _, ok := n.Node.(*parse.NilNode); ok {
		return g.fail(n, fmt.Sprintf("indirection through explicit nil in %s", n))
	}
	if _, ok := n.Node.(*parse.DotNode); ok && d.root {
		return g.path(n.Field, n)
	}
	base := g.operand(n.Node, d)
	base.Value = true
	return g.fields(base, n.Field, lastNode(n.Node))
}

// variable writes the use of a variable; "$" is the root, or the data of a definition.
func (g *generator) variable(n *parse.VariableNode) Expr {
	for i := len(g.vars) - 1; i >= 0; i-- {
		if g.vars[i].name == n.Ident[0] {
			return g.fields(g.vars[i].expr, n.Ident[1:], n)
		}
	}
	switch {
	case n.Ident[0] != "$":
		return g.fail(n, "undefined variable: "+n.Ident[0])
	case len(n.Ident) == 1:
		return g.Root()
	}
	return g.path(n.Ident[1:], n)
}

// declared reports whether a variable has been declared; "$" always is.
func (g *generator) declared(name string) bool {
	return name == "$" || slices.ContainsFunc(g.vars, func(v variable) bool { return v.name == name })
}

func (g *generator) number(n *parse.NumberNode) Expr {
	switch {
	case n.IsComplex && !n.IsFloat && !n.IsInt && !n.IsUint:
		panic(g.errorAt(n, "complex numbers have no translation"))
	case n.IsFloat && !hexInt(n.Text) && !strings.HasPrefix(n.Text, "'") && strings.ContainsAny(n.Text, ".eEpP"):
		return Expr{Code: FloatLiteral(n.Float64), Kind: float, Rank: sign(n.Float64 < 0)}
	case n.IsInt:
		return Expr{Code: strconv.FormatInt(n.Int64, 10), Kind: Int, Rank: sign(n.Int64 < 0)}
	}
	return g.fail(n, n.Text+" overflows int")
}

// sign is the rank of a number: with a minus it is an operator expression.
func sign(negative bool) Rank {
	if negative {
		return arithmetic
	}
	return atom
}

func hexInt(s string) bool {
	return len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && !strings.ContainsAny(s, "pP")
}

// FloatLiteral writes a float as Starlark.
func FloatLiteral(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if strings.ContainsAny(s, ".e") {
		return s
	}
	return s + ".0"
}

// lastNode returns the node that the template engine names in an error after it has evaluated n.
func lastNode(n parse.Node) parse.Node {
	switch n := n.(type) {
	case *parse.PipeNode:
		if len(n.Cmds) > 0 {
			return lastNode(n.Cmds[len(n.Cmds)-1])
		}
	case *parse.CommandNode:
		if len(n.Args) > 1 {
			return lastNode(n.Args[len(n.Args)-1])
		}
		return lastNode(n.Args[0])
	case *parse.ChainNode:
		return lastNode(n.Node)
	}
	return n
}
