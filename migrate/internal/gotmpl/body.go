package gotmpl

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// body is the text of a function.
type body struct {
	strings.Builder
	out    string // the list to which the printed texts are appended
	indent int
}

// line writes one statement.
func (b *body) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	pad := strings.Repeat("    ", b.indent+1)
	fmt.Fprintf(b, "%s%s\n", pad, indentTail(text))
}

// indentTail returns code unchanged: its line breaks are inside of brackets and texts,
// which the formatter indents.
func indentTail(code string) string { return code }

// block writes statements one level deeper.
func (b *body) block(write func()) {
	b.indent++
	start := b.Len()
	write()
	if b.Len() == start {
		b.line("pass")
	}
	b.indent--
}

// statements writes nodes into the current function.
func (g *generator) statements(nodes []parse.Node, d dot) {
	nodes = trim(nodes)
	for len(nodes) > 0 {
		n := 0
		for n < len(nodes) && g.simpleNode(nodes[n]) {
			n++
		}
		if n > 0 {
			if text := g.join(nodes[:n], d); !text.Literal || text.Text != "" {
				g.body.line("%s.append(%s)", g.body.out, text.Code)
			}
			nodes = nodes[n:]
			continue
		}
		g.statement(nodes[0], d)
		nodes = nodes[1:]
	}
}

func (g *generator) statement(n parse.Node, d dot) {
	switch n := n.(type) {
	case *parse.ActionNode:
		g.declare(n.Pipe, g.pipe(n.Pipe, d))
	case *parse.IfNode:
		g.ifStatement(n, d)
	case *parse.WithNode:
		g.withStatement(n, d)
	case *parse.RangeNode:
		g.rangeStatement(n, d)
	case *parse.BreakNode:
		g.body.line("break")
	case *parse.ContinueNode:
		g.body.line("continue")
	default:
		panic(g.errorAt(n, fmt.Sprintf("%T has no translation", n)))
	}
}

// scoped runs f, and removes the variables that it declares from the scope.
func (g *generator) scoped(f func()) {
	mark := len(g.vars)
	f()
	g.vars = g.vars[:mark]
}

func (g *generator) nested(l *parse.ListNode, d dot) {
	g.body.block(func() {
		if l != nil {
			g.scoped(func() { g.statements(l.Nodes, d) })
		}
	})
}

// declare writes the assignment of a value to the variable that a pipeline declares or assigns, and
// returns an expression of the value.
func (g *generator) declare(p *parse.PipeNode, value Expr) Expr {
	for _, v := range p.Decl {
		name := v.Ident[0]
		if p.IsAssign && !g.declared(name) {
			g.body.line("%s", value.Code)
			g.body.line("%s", g.fail(lastNode(p), "undefined variable: "+name).Code)
			continue
		}
		if p.IsAssign {
			code := g.variable(v).Code
			g.body.line("%s = %s", code, value.Code)
			value = Expr{Code: code, Maybe: true, Value: true}
			continue
		}
		e := Expr{Code: g.Fresh(strings.TrimPrefix(name, "$")), Kind: value.Kind, Maybe: value.Maybe, Value: true}
		if g.assigned(name) || value.Kind == nilKind {
			e.Kind, e.Maybe = anyKind, true
		}
		g.body.line("%s = %s", e.Code, value.Code)
		g.vars = append(g.vars, variable{name, e})
		value = e
	}
	return value
}

// assigned reports whether an action assigns to the variable, so that its kind is not known.
func (g *generator) assigned(name string) (found bool) {
	walk(g.tree.Root, func(n parse.Node) {
		if p, ok := n.(*parse.PipeNode); ok && p.IsAssign {
			for _, v := range p.Decl {
				found = found || v.Ident[0] == name
			}
		}
	})
	return found
}

func (g *generator) ifStatement(n *parse.IfNode, d dot) {
	g.scoped(func() {
		cond := g.declare(n.Pipe, g.pipe(n.Pipe, d))
		g.body.line("if %s:", cond.Code)
		g.nested(n.List, d)
		g.elseBranch(n.ElseList, d)
	})
}

func (g *generator) elseBranch(l *parse.ListNode, d dot) {
	if l == nil {
		return
	}
	g.body.line("else:")
	g.nested(l, d)
}

func (g *generator) withStatement(n *parse.WithNode, d dot) {
	g.scoped(func() {
		value := g.pipe(n.Pipe, d)
		if len(n.Pipe.Decl) > 0 {
			value = g.declare(n.Pipe, value)
		} else {
			name := g.Fresh("value")
			g.body.line("%s = %s", name, value.Code)
			value = Expr{Code: name, Kind: value.Kind, Value: true}
		}
		g.body.line("if %s:", value.Code)
		value.Maybe = false
		g.nested(n.List, dot{expr: value})
		g.elseBranch(n.ElseList, d)
	})
}

func (g *generator) rangeStatement(n *parse.RangeNode, d dot) {
	g.scoped(func() {
		assigns := g.assignments(n.Pipe)
		head, inner := g.loop(n, d)
		if n.ElseList != nil {
			name, list, _ := strings.Cut(head, " in ")
			all := g.Fresh("all")
			g.body.line("%s = %s", all, list)
			head = name + " in " + all
			defer func() {
				g.body.line("if not %s:", all)
				g.nested(n.ElseList, d)
			}()
		}
		g.body.line("for %s:", head)
		g.body.block(func() {
			names, _, _ := strings.Cut(head, " in ")
			for i, name := range strings.Split(names, ", ") {
				if i < len(assigns) {
					g.body.line("%s = %s", assigns[i], name)
				}
			}
			g.scoped(func() { g.statements(n.List.Nodes, inner) })
		})
	})
}

// assignments returns the variables that a range assigns to instead of declaring them.
func (g *generator) assignments(p *parse.PipeNode) (names []string) {
	if !p.IsAssign {
		return nil
	}
	for _, v := range p.Decl {
		if !g.declared(v.Ident[0]) {
			g.body.line("%s", g.fail(lastNode(p), "undefined variable: "+v.Ident[0]).Code)
			return nil
		}
		names = append(names, g.variable(v).Code)
	}
	return names
}
