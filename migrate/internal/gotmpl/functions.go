package gotmpl

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// call writes the call of a function; node is the node that errors name.
func (g *generator) call(name string, node parse.Node, argNodes []parse.Node, d dot, final *Expr) Expr {
	c := call{g: g, name: name, node: node}
	for _, n := range argNodes {
		c.args = append(c.args, g.operand(n, d))
		c.nodes = append(c.nodes, n)
	}
	if final != nil {
		c.args = append(c.args, *final)
		c.nodes = append(c.nodes, node)
	}
	if msg := c.wrongCount(len(argNodes)); msg != "" {
		return g.fail(ident(node), msg)
	}
	return c.write()
}

// ident returns the name of the function that a command calls.
func ident(n parse.Node) parse.Node {
	if c, ok := n.(*parse.CommandNode); ok {
		return c.Args[0]
	}
	return n
}

// call is the use of one function.
type call struct {
	g     *generator
	name  string
	node  parse.Node
	args  []Expr
	nodes []parse.Node
}

// arity is the number of arguments of a function; a negative number -1-n means at least n.
var arity = map[string]int{
	"and": -2, "or": -2, "not": 1, "eq": -2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2,
	"len": 1, "index": -2, "slice": -2, "print": -1, "printf": -2, "println": -1,
	"html": -1, "js": -1, "urlquery": -1, "call": -2,
	"json": 1, "quote": 1, "fromJson": 1,
}

func (c *call) wrongCount(written int) string {
	want := arity[c.name]
	switch {
	case want < 0 && len(c.args) < -want-1:
		return fmt.Sprintf("wrong number of args for %s: want at least %d got %d", c.name, -want-1, written)
	case want >= 0 && len(c.args) != want:
		return fmt.Sprintf("wrong number of args for %s: want %d got %d", c.name, want, len(c.args))
	}
	return ""
}

func (c *call) write() Expr {
	switch c.name {
	case "and", "or":
		return c.shortCircuit()
	case "not":
		return Expr{Code: "not " + c.args[0].in(not), Kind: Bool, Rank: not}
	case "eq", "ne", "lt", "le", "gt", "ge":
		return c.compare()
	}
	return c.exact()
}

// shortCircuit writes and, or: like the template functions, Starlark's return an operand, and have the same truth values.
func (c *call) shortCircuit() Expr {
	rank := map[string]Rank{"or": or, "and": and}[c.name]
	e := Expr{Kind: c.args[0].Kind, Rank: rank}
	var codes []string
	for _, a := range c.args {
		codes = append(codes, a.in(rank))
		if a.Kind != e.Kind {
			e.Kind = anyKind
		}
		e.Maybe = e.Maybe || a.Maybe
	}
	if e.Kind == anyKind {
		e.Maybe = true
	}
	if last := c.args[len(c.args)-1]; c.name == "or" && last.Kind == Text && e.Kind == Text {
		e.Maybe = last.Maybe
	}
	e.Code = strings.Join(codes, " "+c.name+" ")
	if len(c.args) == 1 {
		return c.args[0]
	}
	return e
}

var operators = map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

// compare writes a comparison: with an operator where the kinds are known to fit.
func (c *call) compare() Expr {
	if len(c.args) < 2 {
		return c.g.fail(c.node, "error calling "+c.name+": missing argument for comparison")
	}
	if e, known := c.constant(); known {
		return e
	}
	if !c.comparable() {
		return Expr{Code: c.legacy(c.name, true), Kind: Bool}
	}
	op := operators[c.name]
	if c.name == "eq" && len(c.args) > 2 {
		return Expr{Code: c.args[0].in(compare) + " in (" + codes(c.args[1:]) + ")", Kind: Bool, Rank: compare}
	}
	return Expr{Code: c.args[0].in(compare) + " " + op + " " + c.args[1].in(compare), Kind: Bool, Rank: compare}
}

// constant returns the known result of a comparison of a missing value with another one, unless
// evaluating that one can fail: it would not be evaluated.
func (c *call) constant() (Expr, bool) {
	if c.name != "eq" && c.name != "ne" || len(c.args) != 2 {
		return Expr{}, false
	}
	a, b := c.args[0], c.args[1]
	if a.Kind != nilKind {
		a, b = b, a
	}
	if a.Kind != nilKind || b.Kind == anyKind || b.Maybe && b.Kind != nilKind || strings.Contains(b.Code, "(") {
		return Expr{}, false
	}
	if (b.Kind == nilKind) == (c.name == "eq") {
		return Expr{Code: "True", Kind: Bool}, true
	}
	return Expr{Code: "False", Kind: Bool}, true
}

// comparable reports whether the operator does what the function does.
func (c *call) comparable() bool {
	kind := c.args[0].Kind
	for _, a := range c.args {
		if a.Kind != kind || kind == anyKind || kind == Map || kind == list || kind == nilKind {
			return false
		}
		if c.name != "eq" && c.name != "ne" && (a.Maybe || kind == Bool) {
			return false
		}
	}
	return true
}

func codes(args []Expr) string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = a.Code
	}
	return strings.Join(list, ", ")
}

// legacy writes the call of a function of the legacy module; one that can refuse its
// arguments gets its position in the argument at.
func (c *call) legacy(fn string, refuses bool) string {
	c.g.Load(fn)
	var args []string
	for _, a := range c.args {
		args = append(args, a.Code)
	}
	if refuses {
		args = append(args, "at = "+Quote(c.g.at(c.node)))
	}
	return Call(fn, args...)
}

// exact writes the functions that have no counterpart in Starlark.
func (c *call) exact() Expr {
	switch c.name {
	case "print":
		return Expr{Code: c.legacy("sprint", false), Kind: Text}
	case "println":
		return Expr{Code: c.legacy("sprintln", false), Kind: Text}
	case "printf":
		c.args[0] = c.text(0)
		return Expr{Code: c.legacy("printf", false), Kind: Text}
	case "html":
		return Expr{Code: c.legacy("html_escape", false), Kind: Text}
	case "js":
		return Expr{Code: c.legacy("js_escape", false), Kind: Text}
	case "urlquery":
		return Expr{Code: c.legacy("url_query", false), Kind: Text}
	case "json":
		return Expr{Code: c.legacy("to_json", false), Kind: Text}
	case "quote":
		c.args[0] = c.text(0)
		return Expr{Code: c.legacy("quote", false), Kind: Text}
	case "fromJson":
		c.args[0] = c.text(0)
		return Expr{Code: c.legacy("from_json", true), Kind: anyKind, Maybe: true}
	case "len":
		return Expr{Code: c.length(), Kind: Int}
	case "index":
		return Expr{Code: c.legacy("index", true), Kind: anyKind, Maybe: true}
	case "slice":
		return Expr{Code: c.legacy("slice", true), Kind: anyKind}
	}
	return c.function()
}

// length writes len. A key of a map is looked up by the function of the legacy module, because len
// and functions of strings treat a missing key and a null differently.
func (c *call) length() string {
	a := c.args[0]
	if a.From == "" {
		return c.legacy("length", true)
	}
	c.g.Load("length")
	return Call("length", a.From, a.Key, "at = "+Quote(c.g.at(c.node)))
}

// function writes the template function "call": no value of a workflow is a function.
func (c *call) function() Expr {
	name := "nil"
	if len(c.nodes) > 0 {
		name = c.nodes[0].String()
	}
	c.g.Load("call_value")
	args := []string{c.args[0].Code, Quote(name), "at = " + Quote(c.g.at(c.node))}
	return Expr{Code: Call("call_value", args...), Kind: anyKind, Maybe: true}
}

// text writes argument i of a function that accepts only a text.
func (c *call) text(i int) Expr {
	a := c.args[i]
	if a.Kind == Text && !a.Maybe {
		return a
	}
	switch n := c.nodes[i].(type) {
	case *parse.NumberNode, *parse.BoolNode:
		return c.g.fail(n, fmt.Sprintf("expected string; found %s", n))
	case *parse.NilNode:
		return c.g.fail(n, "cannot assign nil to string")
	}
	c.g.Load("string")
	args := []string{a.Code}
	if a.From != "" {
		args = []string{a.From, a.Key}
	}
	args = append(args, "at = "+Quote(c.g.at(lastNode(c.nodes[i]))))
	return Expr{Code: Call("string", args...), Kind: Text}
}

// fail writes an expression that fails as the template would have.
func (g *generator) fail(n parse.Node, msg string) Expr {
	g.Load("template_error")
	return Expr{Code: Call("template_error", Quote(msg), "at = "+Quote(g.at(n))), Kind: anyKind, Maybe: true}
}

// print writes the text that an action prints.
func (g *generator) print(e Expr) Expr {
	switch {
	case e.Kind == Text && !e.Maybe:
		return e
	case e.Kind == nilKind:
		return String("<no value>")
	case e.Kind == Int && !e.Maybe:
		if strings.Trim(e.Code, "0123456789") == "" {
			return String(e.Code)
		}
		return Expr{Code: Call("str", e.Code), Kind: Text}
	}
	g.Load("text")
	return Expr{Code: Call("text", e.Code), Kind: Text}
}

// fields writes a chain of fields below a value.
func (g *generator) fields(base Expr, names []string, n parse.Node) Expr {
	switch {
	case len(names) == 0:
		return base
	case base.Kind == nilKind:
		return base
	case base.Kind == Map && base.Maybe && len(names) == 1:
		g.Load("field")
		return Expr{Code: Call("field", base.Code, Quote(names[0])), Kind: anyKind, Maybe: true}
	case base.Kind == Map && !base.Maybe && len(names) == 1:
		return Expr{
			Code: Call(base.Operand()+".get", Quote(names[0])), Kind: anyKind, Maybe: true,
			From: base.Code, Key: Quote(names[0]),
		}
	}
	g.Load("field")
	args := []string{base.Code}
	for _, name := range names {
		args = append(args, Quote(name))
	}
	args = append(args, "at = "+Quote(g.at(n)))
	if base.Value {
		args = append(args, "value = True")
	}
	return Expr{Code: Call("field", args...), Kind: anyKind, Maybe: true}
}

// items writes the list that a range with one variable iterates over.
func (g *generator) items(e Expr, at string) string {
	g.Load("items")
	return Call("items", e.Code, "at = "+Quote(at))
}

// pairs writes the list of pairs that a range with two variables iterates over.
func (g *generator) pairs(e Expr, at string) string {
	g.Load("pairs")
	return Call("pairs", e.Code, "at = "+Quote(at))
}
