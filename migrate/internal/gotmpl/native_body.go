package gotmpl

import (
	"strings"
	"text/template/parse"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// function writes nodes as a function that returns their text.
func (g *Native) function(name string, params []string, nodes []parse.Node, d at) star.Stmt {
	nodes = trim(nodes)
	if g.simple(nodes) {
		return star.Def(name, params, []star.Stmt{star.Return(AsText(g.join(nodes, d)))})
	}
	outerBody, outerOut, mark := g.body, g.out, len(g.vars)
	var body []star.Stmt
	g.body, g.out = &body, g.Fresh("out")
	g.emit(star.Assign(star.ListOf(), g.out))
	if assigned(g.tree, "$") {
		root := g.Root()
		for _, v := range g.vars {
			if v.name == "$" {
				root = v.expr
			}
		}
		g.bind("$", root, "root")
	}
	g.statements(nodes, d)
	if text, ok := star.OnlyAppended(g.out, body); ok {
		body = append(body[1:len(body)-1], star.Return(text))
	} else {
		g.emit(star.Return(star.Method(star.Str(""), "join", star.Name(g.out))))
	}
	g.Free(g.out)
	g.forget(mark)
	g.body, g.out = outerBody, outerOut
	return star.Def(name, params, body)
}

func (g *Native) emit(s star.Stmt) { *g.body = append(*g.body, s) }

// bind writes the assignment of a value to a new variable of the function, for a variable of the template.
func (g *Native) bind(name string, value star.Expr, hint string) star.Expr {
	e := star.Name(g.Fresh(hint))
	e.Kind, e.Maybe, e.Missing, e.Elem = value.Kind, value.Maybe, value.Missing, value.Elem
	if assigned(g.tree, name) || value.Kind == star.Nothing {
		e.Kind, e.Maybe, e.Missing, e.Elem = star.Any, true, true, star.Any
	}
	g.emit(star.Assign(value, e.Hint))
	g.vars = append(g.vars, binding{name, e})
	return e
}

// statements writes nodes into the current function.
func (g *Native) statements(nodes []parse.Node, d at) {
	nodes = trim(nodes)
	for len(nodes) > 0 {
		n := 0
		for n < len(nodes) && g.simpleNode(nodes[n]) {
			n++
		}
		if n == 0 {
			g.statement(nodes[0], d)
			nodes = nodes[1:]
			continue
		}
		if text := AsText(g.join(nodes[:n], d)); !text.Literal || text.Text != "" {
			g.emit(star.Do(star.Method(star.Name(g.out), "append", text)))
		}
		nodes = nodes[n:]
	}
}

func (g *Native) statement(n parse.Node, d at) {
	switch n := n.(type) {
	case *parse.ActionNode:
		g.declare(n.Pipe, g.pipe(n.Pipe, d))
	case *parse.IfNode:
		mark := len(g.vars)
		cond := g.declare(n.Pipe, g.pipe(n.Pipe, d))
		g.emit(star.When(cond, g.nested(n.List, d), g.nested(n.ElseList, d)))
		g.forget(mark)
	case *parse.WithNode:
		g.withStatement(n, d)
	case *parse.RangeNode:
		g.rangeStatement(n, d)
	case *parse.BreakNode:
		g.emit(star.Jump("break"))
	case *parse.ContinueNode:
		g.emit(star.Jump("continue"))
	default:
		g.emit(star.Do(g.impossible(n)))
	}
}

// nested writes a list of nodes as a separate block; nil for none.
func (g *Native) nested(l *parse.ListNode, d at) []star.Stmt {
	if l == nil {
		return nil
	}
	outer, mark := g.body, len(g.vars)
	var body []star.Stmt
	g.body = &body
	g.statements(l.Nodes, d)
	g.body = outer
	g.forget(mark)
	return body
}

// forget removes the variables from mark on from the scope.
func (g *Native) forget(mark int) {
	for _, v := range g.vars[mark:] {
		g.Free(v.expr.Hint)
	}
	g.vars = g.vars[:mark]
}

// declare writes the assignment of a value to the variables that a pipeline declares or assigns, and
// returns an expression of the value.
func (g *Native) declare(p *parse.PipeNode, value star.Expr) star.Expr {
	for _, v := range p.Decl {
		name := v.Ident[0]
		switch {
		case p.IsAssign && !g.declared(name):
			g.emit(star.Do(value))
			value = g.fail(lastNode(p), "undefined variable: "+name)
			g.emit(star.Do(value))
		case p.IsAssign:
			variable := g.variable(&parse.VariableNode{Ident: []string{name}})
			g.emit(star.Assign(value, variable.Hint))
			variable.Kind, variable.Maybe, variable.Missing = star.Any, true, true
			value = variable
		default:
			value = g.bind(name, value, strings.TrimPrefix(name, "$"))
		}
	}
	return value
}

// assigned reports whether an action assigns to a variable, so that its kind is not known.
func assigned(tree *parse.Tree, name string) (found bool) {
	if tree == nil || tree.Root == nil {
		return false
	}
	walk(tree.Root, func(n parse.Node) {
		if p, ok := n.(*parse.PipeNode); ok && p.IsAssign {
			for _, v := range p.Decl {
				found = found || v.Ident[0] == name
			}
		}
	})
	return found
}

func (g *Native) withStatement(n *parse.WithNode, d at) {
	mark := len(g.vars)
	value := g.pipe(n.Pipe, d)
	if len(n.Pipe.Decl) > 0 {
		value = g.declare(n.Pipe, value)
	} else if !value.Cheap {
		value = g.bind("", value, "value")
	}
	g.emit(star.When(value, g.nested(n.List, at{expr: value.There()}), g.nested(n.ElseList, d)))
	g.forget(mark)
}

func (g *Native) rangeStatement(n *parse.RangeNode, d at) {
	mark := len(g.vars)
	over := g.pipe(n.Pipe, d)
	if n.ElseList != nil && !over.Cheap {
		over = g.bind("", over, "all")
	}
	var assigns []string
	if n.Pipe.IsAssign {
		for _, v := range n.Pipe.Decl {
			if !g.declared(v.Ident[0]) {
				g.emit(star.Do(g.fail(lastNode(n.Pipe), "undefined variable: "+v.Ident[0])))
				assigns = nil
				break
			}
			assigns = append(assigns, g.variable(&parse.VariableNode{Ident: v.Ident[:1]}).Hint)
		}
	}
	names, items, inner := g.loop(n, over)
	body := g.nestedLoop(n.List, inner, assigns, names)
	g.emit(star.Each(names, items, body))
	if n.ElseList != nil {
		g.emit(star.When(star.Not(over), g.nested(n.ElseList, d), nil))
	}
	g.forget(mark)
}

// nestedLoop writes the block of a loop, which begins with the assignments to existing variables.
func (g *Native) nestedLoop(l *parse.ListNode, d at, assigns, names []string) (body []star.Stmt) {
	for i, to := range assigns {
		body = append(body, star.Assign(star.Name(names[i]), to))
	}
	return append(body, g.nested(l, d)...)
}
