package gotmpl

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// Scope is the context of a template.
type Scope interface {
	// Field returns the expression of the longest known prefix of a path below the
	// root, and the number of names in it.
	Field(names []string) (Expr, int)
	// Root returns the expression of the whole context.
	Root() Expr
	// Place is the path of the field with the template, for errors.
	Place() string
	// Fresh returns a name that is not used in the script.
	Fresh(hint string) string
	// Load notes that the script uses a function of the legacy module.
	Load(name string)
}

// Code is a translated template.
type Code struct {
	// Expr is the text that the template renders to.
	Expr Expr
	// Defs are functions that Expr uses, to be written before it.
	Defs []string
}

// Translate writes the template as Starlark. hint is a word for the names of functions.
func (t *Template) Translate(s Scope, hint string) (code Code, err error) {
	g := &generator{Scope: s, hint: hint, template: t, tree: t.tree, functions: map[string]string{}}
	defer func() {
		if e, ok := recover().(*templateError); ok {
			err = e
		} else if e != nil {
			panic(e)
		}
	}()
	root := dot{root: true}
	nodes := trim(t.nodes())
	return Code{Expr: g.text(nodes, root), Defs: g.defs}, nil
}

// generator translates one template.
type generator struct {
	Scope
	hint      string
	template  *Template
	tree      *parse.Tree // that is being translated: the text itself, or one of its definitions
	defs      []string
	functions map[string]string // of definitions, by template name
	vars      []variable
	body      *body // the function being written; nil while expressions suffice
}

// dot is the value of "." at a node.
type dot struct {
	root bool
	expr Expr
}

type variable struct {
	name string // with its $
	expr Expr
}

// trim removes nodes that print nothing, such as comments.
func trim(nodes []parse.Node) (kept []parse.Node) {
	for _, n := range nodes {
		switch n := n.(type) {
		case *parse.CommentNode:
		case *parse.TextNode:
			if len(n.Text) > 0 {
				kept = append(kept, n)
			}
		default:
			kept = append(kept, n)
		}
	}
	return kept
}

// text returns the expression of the text that nodes render to.
func (g *generator) text(nodes []parse.Node, d dot) Expr {
	nodes = trim(nodes)
	if g.simple(nodes) {
		return g.join(nodes, d)
	}
	return g.function(nodes, d)
}

// simple reports whether nodes can be written as one expression.
func (g *generator) simple(nodes []parse.Node) bool {
	for _, n := range nodes {
		if !g.simpleNode(n) {
			return false
		}
	}
	return true
}

func (g *generator) simpleNode(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.ActionNode:
		return len(n.Pipe.Decl) == 0
	case *parse.IfNode:
		return len(n.Pipe.Decl) == 0 && g.simpleBranches(n.List, n.ElseList)
	case *parse.RangeNode:
		return n.ElseList == nil && !n.Pipe.IsAssign && len(n.Pipe.Decl) < 3 && g.simpleBranches(n.List)
	case *parse.TextNode, *parse.CommentNode, *parse.TemplateNode:
		return true
	}
	return false
}

func (g *generator) simpleBranches(lists ...*parse.ListNode) bool {
	for _, l := range lists {
		if l != nil && !g.simple(l.Nodes) {
			return false
		}
	}
	return true
}

// join writes simple nodes as one text expression.
func (g *generator) join(nodes []parse.Node, d dot) Expr {
	var parts []Expr
	for _, n := range nodes {
		parts = append(parts, g.part(n, d))
	}
	return concat(parts)
}

// concat joins texts: with a format when there are several.
func concat(parts []Expr) Expr {
	parts = merge(parts)
	switch len(parts) {
	case 0:
		return String("")
	case 1:
		return parts[0]
	}
	var format strings.Builder
	var args []string
	for _, p := range parts {
		if p.Literal {
			format.WriteString(strings.ReplaceAll(p.Text, "%", "%%"))
			continue
		}
		format.WriteString("%s")
		args = append(args, p.Code)
	}
	operand := "(" + strings.Join(args, ", ") + ")"
	if len(args) == 1 {
		operand = argument(args[0])
	} else if len(operand) > maxLine || strings.Contains(operand, "\n") {
		operand = bracket("(", ")", args)
	}
	return Expr{Code: Quote(format.String()) + " % " + operand, Kind: Text, Rank: arithmetic}
}

// argument writes the only operand of a format.
func argument(code string) string {
	depth := 0
	for i, c := range code {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ' ':
			if depth == 0 && i > 0 {
				return "(" + code + ")"
			}
		}
	}
	return code
}

// merge joins neighbouring literals and drops empty ones.
func merge(parts []Expr) (merged []Expr) {
	for _, p := range parts {
		last := len(merged) - 1
		switch {
		case p.Literal && p.Text == "":
		case p.Literal && last >= 0 && merged[last].Literal:
			merged[last] = String(merged[last].Text + p.Text)
		default:
			merged = append(merged, p)
		}
	}
	return merged
}

// part writes one simple node as a text expression.
func (g *generator) part(n parse.Node, d dot) Expr {
	switch n := n.(type) {
	case *parse.TextNode:
		return String(string(n.Text))
	case *parse.ActionNode:
		return g.print(g.pipe(n.Pipe, d))
	case *parse.IfNode:
		cond := g.pipe(n.Pipe, d)
		yes, no := g.list(n.List, d), g.list(n.ElseList, d)
		return Expr{Code: fmt.Sprintf("(%s if %s else %s)", yes.Code, cond.Code, no.Code), Kind: Text}
	case *parse.RangeNode:
		return g.comprehension(n, d)
	case *parse.TemplateNode:
		return g.include(n, d)
	}
	panic(g.errorAt(n, fmt.Sprintf("%T has no translation", n)))
}

func (g *generator) list(l *parse.ListNode, d dot) Expr {
	if l == nil {
		return String("")
	}
	return g.join(trim(l.Nodes), d)
}

// comprehension writes a range that only prints.
func (g *generator) comprehension(n *parse.RangeNode, d dot) Expr {
	mark := len(g.vars)
	loop, inner := g.loop(n, d)
	body := g.list(n.List, inner)
	g.vars = g.vars[:mark]
	return Expr{Code: fmt.Sprintf(`"".join([%s for %s])`, body.Code, loop), Kind: Text}
}

// loop returns "x in xs" of a range and the dot inside; it declares the range's variables.
func (g *generator) loop(n *parse.RangeNode, d dot) (code string, inner dot) {
	over := g.pipe(n.Pipe, d)
	at := g.at(lastNode(n.Pipe))
	names := g.loopVariables(n.Pipe)
	item := names[len(names)-1]
	inner = dot{expr: Expr{Code: item, Maybe: true}}
	if over.Kind == Int {
		inner.expr = Expr{Code: item, Kind: Int, Value: true}
	}
	if len(names) == 1 {
		return item + " in " + g.items(over, at), inner
	}
	return strings.Join(names, ", ") + " in " + g.pairs(over, at), inner
}

// loopVariables declares the variables of a range; without any, one for the dot.
func (g *generator) loopVariables(p *parse.PipeNode) (names []string) {
	for _, v := range p.Decl {
		name := g.Fresh(strings.TrimPrefix(v.Ident[0], "$"))
		names = append(names, name)
		if p.IsAssign {
			continue
		}
		g.vars = append(g.vars, variable{v.Ident[0], Expr{Code: name, Maybe: true}})
	}
	if len(names) == 0 {
		names = []string{g.Fresh("item")}
	}
	return names
}

// include writes the use of a definition.
func (g *generator) include(n *parse.TemplateNode, d dot) Expr {
	tree := g.template.defined[n.Name]
	if tree == nil {
		return g.fail(n, fmt.Sprintf("template %q not defined", n.Name))
	}
	arg := None
	if n.Pipe != nil {
		arg = g.pipe(n.Pipe, d)
	}
	return Expr{Code: Call(g.define(n.Name, tree), arg.Code), Kind: Text}
}

// define writes the function of a definition, once.
func (g *generator) define(name string, tree *parse.Tree) string {
	if fn, ok := g.functions[name]; ok {
		return fn
	}
	fn := g.Fresh(name)
	g.functions[name] = fn
	data := g.Fresh("data")
	inner := &generator{
		Scope: g.Scope, hint: fn, template: g.template, tree: tree, functions: g.functions,
		vars: []variable{{"$", Expr{Code: data, Maybe: true, Value: true}}},
	}
	d := dot{expr: Expr{Code: data, Maybe: true, Value: true}}
	var nodes []parse.Node
	if tree.Root != nil {
		nodes = trim(tree.Root.Nodes)
	}
	def := inner.named(fn, data, nodes, d)
	g.defs = append(g.defs, inner.defs...)
	g.defs = append(g.defs, def)
	return fn
}

// named writes a function that returns the text of nodes.
func (g *generator) named(name, params string, nodes []parse.Node, d dot) string {
	if g.simple(nodes) {
		return fmt.Sprintf("def %s(%s):\n    return %s\n", name, params, indentTail(g.join(nodes, d).Code))
	}
	b := &body{}
	outer := g.body
	g.body = b
	out := g.Fresh("out")
	b.out = out
	b.line("%s = []", out)
	if g.assigned("$") {
		root := g.variable(&parse.VariableNode{Ident: []string{"$"}})
		e := Expr{Code: g.Fresh("root"), Maybe: true, Value: true}
		b.line("%s = %s", e.Code, root.Code)
		g.vars = append(g.vars, variable{"$", e})
	}
	g.statements(nodes, d)
	b.line(`return "".join(%s)`, out)
	g.body = outer
	return fmt.Sprintf("def %s(%s):\n%s", name, params, b.String())
}

// function writes nodes as a function and returns its call.
func (g *generator) function(nodes []parse.Node, d dot) Expr {
	name := g.Fresh(g.hint)
	g.defs = append(g.defs, g.named(name, "", nodes, d))
	return Expr{Code: name + "()", Kind: Text}
}

// at returns the position of a node for errors: place, line, column and text.
func (g *generator) at(n parse.Node) string {
	location, text := g.tree.ErrorContext(n)
	_, position, _ := strings.Cut(location, ":")
	in := ""
	if g.tree.Name != name {
		in = fmt.Sprintf(" in %q", g.tree.Name)
	}
	return fmt.Sprintf("%s:%s%s: %s", g.Place(), position, in, text)
}

func (g *generator) errorAt(n parse.Node, msg string) *templateError {
	e := &templateError{Msg: msg}
	location, _ := g.tree.ErrorContext(n)
	fmt.Sscanf(location[strings.IndexByte(location, ':')+1:], "%d:%d", &e.Line, &e.Column)
	return e
}

// single returns the pipeline of a template that is one action and nothing else.
func (t *Template) single() *parse.PipeNode {
	nodes := trim(t.nodes())
	if len(nodes) != 1 {
		return nil
	}
	a, ok := nodes[0].(*parse.ActionNode)
	if !ok || len(a.Pipe.Decl) > 0 {
		return nil
	}
	return a.Pipe
}

// Value returns the value of a template that is a single action, before it is printed.
func (t *Template) Value(s Scope) (e Expr, ok bool, err error) {
	pipe := t.single()
	if pipe == nil {
		return Expr{}, false, nil
	}
	return t.evaluate(s, pipe)
}

// Encoded returns the value of which a template is the JSON text: {{json value}}.
func (t *Template) Encoded(s Scope) (e Expr, ok bool, err error) {
	pipe := t.encoded()
	if pipe == nil {
		return Expr{}, false, nil
	}
	return t.evaluate(s, pipe)
}

// encoded returns the pipeline of the value of which a template is the JSON text, or nil.
func (t *Template) encoded() *parse.PipeNode {
	pipe := t.single()
	if pipe == nil || len(pipe.Cmds) == 0 {
		return nil
	}
	last := pipe.Cmds[len(pipe.Cmds)-1]
	if id, isName := last.Args[0].(*parse.IdentifierNode); !isName || id.Ident != "json" {
		return nil
	}
	value := *pipe
	switch {
	case len(pipe.Cmds) == 1 && len(last.Args) == 2:
		inner := *last
		inner.Args = last.Args[1:]
		if inner.Args[0].Type() == parse.NodeNil {
			return nil
		}
		value.Cmds = []*parse.CommandNode{&inner}
	case len(pipe.Cmds) > 1 && len(last.Args) == 1:
		value.Cmds = pipe.Cmds[:len(pipe.Cmds)-1]
	default:
		return nil
	}
	return &value
}

func (t *Template) evaluate(s Scope, pipe *parse.PipeNode) (e Expr, ok bool, err error) {
	g := &generator{Scope: s, template: t, tree: t.tree, functions: map[string]string{}}
	defer func() {
		if failed, is := recover().(*templateError); is {
			err = failed
		}
	}()
	return g.pipe(pipe, dot{root: true}), true, nil
}
