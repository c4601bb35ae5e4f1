package gotmpl

import (
	"fmt"
	"strings"
	"text/template/parse"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// View is the context of a template, for scripts in the clean style.
type View interface {
	// Path returns the expression of the longest known prefix of a path below the
	// root, and the number of names in it.
	Path(names []string) (star.Expr, int)
	// Root returns the expression of the whole context.
	Root() star.Expr
	// Fresh returns a name that is not used in the script; Free makes the name of a variable
	// that is not used any more available again.
	Fresh(hint string) string
	Free(name string)
	// Helper adds a helper function, pairs, items or entry, to the script, and returns its
	// name.
	Helper(name string) string
}

// Native translates templates into values and texts of Starlark. A missing value prints
// as an empty text, a number with its digits, a list or an object as JSON.
type Native struct {
	View
	// Hint is a word for the names of functions.
	Hint string
	// Defs are functions that the expressions use, to be written before them.
	Defs []star.Stmt

	template  *Template
	tree      *parse.Tree       // that is being translated: the text itself, or one of its definitions
	functions map[string]string // of definitions, by template name
	vars      []binding
	body      *[]star.Stmt // of the function being written; nil while expressions suffice
	out       string       // the list to which that function appends the printed texts
}

// binding is a variable of a template with its value.
type binding struct {
	name string // with its $
	expr star.Expr
}

// at is the value of "." at a node.
type at struct {
	root bool
	expr star.Expr
}

func (g *Native) begin(t *Template) at {
	g.template, g.tree, g.functions, g.vars = t, t.tree, map[string]string{}, nil
	return at{root: true}
}

// Value returns the value of a template that is a single action, else its text.
func (g *Native) Value(t *Template) star.Expr {
	d := g.begin(t)
	if pipe := t.single(); pipe != nil {
		return g.pipe(pipe, d)
	}
	return g.text(t.nodes(), d)
}

// Text returns the text that a template renders to.
func (g *Native) Text(t *Template) star.Expr {
	d := g.begin(t)
	return g.text(t.nodes(), d)
}

// Encoded returns the value of which a template is the JSON text: {{json value}}.
func (g *Native) Encoded(t *Template) (star.Expr, bool) {
	pipe := t.encoded()
	if pipe == nil {
		return star.Expr{}, false
	}
	return g.pipe(pipe, g.begin(t)), true
}

// IsEncoded reports whether a template is the JSON text of a value.
func (t *Template) IsEncoded() bool { return t.encoded() != nil }

// text returns the expression of the text that nodes render to.
func (g *Native) text(nodes []parse.Node, d at) star.Expr {
	nodes = trim(nodes)
	if g.simple(nodes) {
		return g.join(nodes, d)
	}
	name := g.Fresh(g.Hint)
	def := g.function(name, nil, nodes, d)
	g.Defs = append(g.Defs, def)
	e := star.Call(name).Is(star.Text)
	e.Risky = true
	return e
}

// simple reports whether nodes can be written as one expression.
func (g *Native) simple(nodes []parse.Node) bool {
	for _, n := range nodes {
		if !g.simpleNode(n) {
			return false
		}
	}
	return true
}

func (g *Native) simpleNode(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.ActionNode:
		return len(n.Pipe.Decl) == 0
	case *parse.IfNode:
		return len(n.Pipe.Decl) == 0 && g.simpleLists(n.List, n.ElseList)
	case *parse.WithNode:
		return len(n.Pipe.Decl) == 0 && cheap(n.Pipe) && g.simpleLists(n.List, n.ElseList)
	case *parse.RangeNode:
		return (n.ElseList == nil || cheap(n.Pipe)) && !n.Pipe.IsAssign && len(n.Pipe.Decl) < 3 && g.simpleLists(n.List, n.ElseList)
	case *parse.TextNode, *parse.CommentNode, *parse.TemplateNode:
		return true
	}
	return false
}

func (g *Native) simpleLists(lists ...*parse.ListNode) bool {
	for _, l := range lists {
		if l != nil && !g.simple(l.Nodes) {
			return false
		}
	}
	return true
}

// cheap reports whether a pipeline is only a path or a variable, which may be written twice.
func cheap(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	switch p.Cmds[0].Args[0].(type) {
	case *parse.FieldNode, *parse.VariableNode, *parse.DotNode:
		return true
	}
	return false
}

// join writes simple nodes as one text.
func (g *Native) join(nodes []parse.Node, d at) star.Expr {
	var parts []star.Expr
	for _, n := range nodes {
		parts = append(parts, g.part(n, d))
	}
	return join(parts)
}

// join joins texts and integers: with a format when there are several.
func join(parts []star.Expr) star.Expr {
	parts = mergeLiterals(parts)
	switch {
	case len(parts) == 0:
		return star.Str("")
	case len(parts) == 1 && parts[0].Kind == star.Text:
		return parts[0]
	case len(parts) == 1:
		return star.Call("str", parts[0]).Is(star.Text)
	}
	var format strings.Builder
	var args []star.Expr
	for _, p := range parts {
		if p.Literal {
			format.WriteString(strings.ReplaceAll(p.Text, "%", "%%"))
			continue
		}
		format.WriteString("%s")
		args = append(args, p)
	}
	operand := star.Tuple(args...)
	if len(args) == 1 {
		operand = args[0]
	}
	return star.Op("%", star.Str(format.String()), operand).Is(star.Text)
}

func mergeLiterals(parts []star.Expr) (merged []star.Expr) {
	for _, p := range parts {
		last := len(merged) - 1
		switch {
		case p.Literal && p.Text == "":
		case p.Literal && last >= 0 && merged[last].Literal:
			merged[last] = star.Str(merged[last].Text + p.Text)
		default:
			merged = append(merged, p)
		}
	}
	return merged
}

// printed returns the expression of what an action prints for a value: a text, or an integer.
func printed(e star.Expr) star.Expr {
	switch {
	case e.Kind == star.Nothing:
		return star.Str("")
	case e.Kind == star.Text && !e.Maybe, e.Kind == star.Int && !e.Maybe:
		return e
	case e.Kind == star.Text && e.IsEntry():
		return e.Or(star.Str("")).Is(star.Text)
	case e.Kind == star.Text:
		return star.Op("or", e, star.Str("")).Is(star.Text)
	}
	return star.Call("text", e).Is(star.Text)
}

// AsText returns the expression of what an action prints for a value, as a text.
func AsText(e star.Expr) star.Expr { return join([]star.Expr{printed(e)}) }

// part writes one simple node as a text or an integer.
func (g *Native) part(n parse.Node, d at) star.Expr {
	switch n := n.(type) {
	case *parse.TextNode:
		return star.Str(string(n.Text))
	case *parse.ActionNode:
		return printed(g.pipe(n.Pipe, d))
	case *parse.IfNode:
		cond := g.pipe(n.Pipe, d)
		return g.choose(cond, g.list(n.List, d), g.list(n.ElseList, d))
	case *parse.WithNode:
		value := g.pipe(n.Pipe, d)
		return g.choose(value, g.list(n.List, at{expr: value.There()}), g.list(n.ElseList, d))
	case *parse.RangeNode:
		return g.comprehension(n, d)
	case *parse.TemplateNode:
		return g.include(n, d)
	}
	return g.impossible(n)
}

// choose writes yes if cond else no, or only one of them where the condition is known.
func (g *Native) choose(cond, yes, no star.Expr) star.Expr {
	switch {
	case cond.Kind == star.Nothing:
		return no
	case cond.Kind == star.Text && (star.Same(cond, yes) || star.Same(AsText(cond), yes)):
		return star.Op("or", cond, no).Is(star.Text)
	case star.Same(AsText(cond), yes):
		return AsText(star.Op("or", cond, no))
	}
	e := star.If(cond, yes, no).Is(star.Text)
	if yes.Literal && no.Literal && yes.Text != no.Text {
		e.Cases = []star.Case{{Text: yes.Text, When: cond}, {Text: no.Text, When: star.Not(cond)}}
	}
	return e
}

func (g *Native) list(l *parse.ListNode, d at) star.Expr {
	if l == nil {
		return star.Str("")
	}
	return g.join(trim(l.Nodes), d)
}

// comprehension writes a range that only prints.
func (g *Native) comprehension(n *parse.RangeNode, d at) star.Expr {
	mark := len(g.vars)
	over := g.pipe(n.Pipe, d)
	names, items, inner := g.loop(n, over)
	nodes, conds := trim(n.List.Nodes), []star.Expr(nil)
	if only := lonelyIf(nodes); only != nil { // the condition is written in the comprehension
		nodes, conds = trim(only.List.Nodes), append(conds, g.pipe(only.Pipe, inner))
	}
	body := AsText(g.join(nodes, inner))
	g.vars = g.vars[:mark]
	for _, name := range names { // the dot's, too
		g.Free(name)
	}
	all := star.Method(star.Str(""), "join", star.Comprehension(body, names, items, conds...)).Is(star.Text)
	if n.ElseList == nil {
		return all
	}
	return g.choose(g.some(over, items), all, g.list(n.ElseList, d))
}

// some is the condition that a range over a value has an element, so that its else is not rendered. The
// list items is tested where the value itself may be no list, such as an empty text.
func (g *Native) some(over, items star.Expr) star.Expr {
	switch over.Kind {
	case star.Any, star.Text, star.Bool, star.Number:
		return items
	}
	return over
}

// lonelyIf returns the if without an else that is the only node; else nil.
func lonelyIf(nodes []parse.Node) *parse.IfNode {
	if len(nodes) != 1 {
		return nil
	}
	n, ok := nodes[0].(*parse.IfNode)
	if !ok || n.ElseList != nil {
		return nil
	}
	return n
}

// loop returns the variables of a range, the list that it iterates over, and the dot inside. It
// binds the template's variables.
func (g *Native) loop(n *parse.RangeNode, over star.Expr) (names []string, items star.Expr, inner at) {
	for _, v := range n.Pipe.Decl {
		names = append(names, g.Fresh(strings.TrimPrefix(v.Ident[0], "$")))
	}
	if len(names) == 0 {
		names = []string{g.Fresh(singular(over.Hint))}
	}
	item := star.Name(names[len(names)-1])
	item.Kind, item.Maybe = over.Elem, over.Elem == star.Any
	if over.Kind == star.Int {
		item = item.Is(star.Int)
	}
	if !n.Pipe.IsAssign {
		for i, v := range n.Pipe.Decl {
			e := item
			if i == 0 && len(names) == 2 {
				e = star.Name(names[0])
				if over.Kind == star.List {
					e = e.Is(star.Int)
				}
			}
			g.vars = append(g.vars, binding{v.Ident[0], e})
		}
	}
	inner = at{expr: item}
	if len(names) == 1 {
		return names, g.items(over), inner
	}
	return names, g.pairs(over), inner
}

// singular returns the singular of a word, for the name of a loop's variable.
func singular(word string) string {
	switch {
	case word == "iterations":
		return "it"
	case strings.HasSuffix(word, "ies") && len(word) > 4:
		return strings.TrimSuffix(word, "ies") + "y"
	case strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"), strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"):
		return strings.TrimSuffix(word, "es")
	case strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && len(word) > 2:
		return strings.TrimSuffix(word, "s")
	}
	return "item"
}

// items returns the list that a range with one variable iterates over.
func (g *Native) items(over star.Expr) star.Expr {
	switch over.Kind {
	case star.Nothing:
		return star.ListOf()
	case star.Int:
		if over.Maybe {
			over = star.Op("or", over, star.Integer(0))
		}
		return star.Call("range", over)
	case star.List:
		return OrEmpty(over)
	}
	return star.Call(g.Helper("items"), over)
}

// OrEmpty returns an empty list in place of None.
func OrEmpty(list star.Expr) star.Expr {
	switch {
	case !list.Maybe:
		return list
	case list.IsEntry() && list.Kind == star.List:
		return list.Or(star.ListOf())
	}
	return star.Op("or", list, star.ListOf())
}

// pairs returns the list of pairs that a range with two variables iterates over.
func (g *Native) pairs(over star.Expr) star.Expr {
	switch {
	case over.Kind == star.List:
		return star.Call("enumerate", OrEmpty(over))
	case over.Kind == star.Map && !over.Maybe:
		return star.Call("sorted", star.Method(over, "items"))
	}
	return star.Call(g.Helper("pairs"), over)
}

// include writes the use of a definition.
func (g *Native) include(n *parse.TemplateNode, d at) star.Expr {
	tree := g.template.defined[n.Name]
	if tree == nil {
		return g.fail(n, fmt.Sprintf("template %q not defined", n.Name)).Is(star.Text)
	}
	data := star.None()
	if n.Pipe != nil {
		data = g.pipe(n.Pipe, d)
	}
	e := star.Call(g.define(n.Name, tree), data).Is(star.Text)
	e.Risky = true
	return e
}

// define writes the function of a definition, once.
func (g *Native) define(name string, tree *parse.Tree) string {
	if fn, ok := g.functions[name]; ok {
		return fn
	}
	fn, data := g.Fresh(name), g.Fresh("data")
	g.functions[name] = fn
	value := star.Name(data).Optional()
	inner := &Native{
		View: g.View, Hint: fn, template: g.template, tree: tree, functions: g.functions, vars: []binding{{"$", value}},
	}
	var nodes []parse.Node
	if tree.Root != nil {
		nodes = tree.Root.Nodes
	}
	def := inner.function(fn, []string{data}, nodes, at{expr: value})
	g.Defs = append(append(g.Defs, inner.Defs...), def)
	return fn
}

// fail returns an expression that fails where the template would have failed.
func (g *Native) fail(n parse.Node, msg string) star.Expr {
	where, text := "", ""
	if g.tree != nil {
		where, text = g.tree.ErrorContext(n)
		_, where, _ = strings.Cut(where, ":")
	}
	e := star.Call("fail", star.Str(fmt.Sprintf("template:%s: %s: %s", where, text, msg)))
	e.Maybe, e.Risky = true, true
	return e
}

func (g *Native) impossible(n parse.Node) star.Expr {
	return g.fail(n, fmt.Sprintf("%T has no translation", n)).Is(star.Text)
}
