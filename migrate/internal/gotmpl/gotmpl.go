// Package gotmpl translates templates of Go's text/template into Starlark.
//
// The whole language is covered: pipelines, variables, if, range, with, break and
// continue, define, template and block, every function that text/template has, and the
// three that the legacy workflow engine added. A template that only prints fields
// becomes an expression; one with loops or variables becomes a function.
//
//	t, err := gotmpl.Parse("Hi {{.params.name}}")
//	code := t.Translate(scope, gotmpl.Exact)   // "Hi %s" % text(params.get("name"))
package gotmpl

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// name is what the legacy engine called every template; it is part of its error texts.
const name = "expand"

// functions are the names that a template may call: those of text/template and three more.
var functions = map[string]any{
	"and": 1, "or": 1, "not": 1, "eq": 1, "ne": 1, "lt": 1, "le": 1, "gt": 1, "ge": 1,
	"len": 1, "index": 1, "slice": 1, "print": 1, "printf": 1, "println": 1,
	"html": 1, "js": 1, "urlquery": 1, "call": 1,
	"json": 1, "quote": 1, "fromJson": 1,
}

// Template is a parsed template.
type Template struct {
	tree    *parse.Tree            // of the text itself; nil when it has none
	defined map[string]*parse.Tree // by name, itself included
}

// Parse reads a template. The error is worded as in the legacy engine, the name of the
// template included.
func Parse(text string) (*Template, error) {
	trees := map[string]*parse.Tree{}
	t := parse.New(name)
	if _, err := t.Parse(text, "", "", trees, functions); err != nil {
		return nil, err
	}
	return &Template{tree: trees[name], defined: trees}, nil
}

// Plain reports whether the template has no actions: it renders to the text returned.
func (t *Template) Plain() (string, bool) {
	var b strings.Builder
	for _, n := range t.nodes() {
		text, ok := n.(*parse.TextNode)
		if !ok {
			return "", false
		}
		b.Write(text.Text)
	}
	return b.String(), true
}

func (t *Template) nodes() []parse.Node {
	if t.tree == nil || t.tree.Root == nil {
		return nil
	}
	return t.tree.Root.Nodes
}

// Fields returns the paths below the root that the template names, such as
// [params name], without those below variables and inside of with and range, where the dot is another value.
func (t *Template) Fields() (found [][]string) {
	var visit func(n parse.Node)
	visit = func(n parse.Node) {
		moved := moved(n)
		for _, c := range children(n) {
			if c != moved {
				visit(c)
			}
		}
		if f, ok := n.(*parse.FieldNode); ok {
			found = append(found, f.Ident)
		}
	}
	for _, n := range t.nodes() {
		visit(n)
	}
	return found
}

// moved returns the part of a node in which the dot is another value; nil without one.
func moved(n parse.Node) parse.Node {
	switch n := n.(type) {
	case *parse.WithNode:
		return n.List
	case *parse.RangeNode:
		return n.List
	}
	return nil
}

// walk calls visit for n and every node below it.
func walk(n parse.Node, visit func(parse.Node)) {
	visit(n)
	for _, c := range children(n) {
		walk(c, visit)
	}
}

func children(n parse.Node) (list []parse.Node) {
	add := func(l *parse.ListNode) {
		if l != nil {
			list = append(list, l)
		}
	}
	pipe := func(p *parse.PipeNode) {
		if p != nil {
			list = append(list, p)
		}
	}
	branch := func(b *parse.BranchNode) { pipe(b.Pipe); add(b.List); add(b.ElseList) }
	switch n := n.(type) {
	case *parse.ListNode:
		list = n.Nodes
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			list = append(list, c)
		}
	case *parse.CommandNode:
		list = n.Args
	case *parse.ChainNode:
		list = []parse.Node{n.Node}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		pipe(n.Pipe)
	}
	return list
}

// templateError is an action of a template that has no translation.
type templateError struct {
	Line, Column int
	Msg          string
}

func (e *templateError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Msg) }
