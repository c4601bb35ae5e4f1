// Package star builds Starlark code: expressions with their static types, and
// statements, as the syntax trees of buildtools. File prints them.
//
//	sum := star.Op("+", star.Name("a"), star.Integer(1))
//	star.File([]star.Stmt{star.Return(sum)})   // return a + 1
package star

import (
	"strconv"
	"strings"

	"github.com/bazelbuild/buildtools/build"
)

// Kind is the static type of a value.
type Kind int

// The kinds. Nothing is the type of None.
const (
	Any Kind = iota
	Nothing
	Text
	Bool
	Int
	Number
	Map
	List
)

// Expr is an expression with the static properties of its value.
type Expr struct {
	Node build.Expr
	Kind Kind
	// Maybe says that the value may also be None, and Missing that a part of it is then
	// None instead of an error: the value may be absent.
	Maybe, Missing bool
	// Risky says that computing the value may fail.
	Risky bool
	// Cheap expressions may be written twice.
	Cheap bool
	// Text is the value of a literal of kind Text.
	Text    string
	Literal bool
	// Cases are set when the value is one of a few texts: each with its condition.
	Cases []Case
	// Elem is the kind of the elements of a list.
	Elem Kind
	// Hint is a word for the names of variables with the value; "" when there is none.
	Hint string

	from  *Expr // of which it is the entry at key
	key   string
	truth bool

	negates bool // a boolean
}

// Truth reports whether the value is a boolean, or is used only for its truth value.
func (e Expr) Truth() bool { return e.Kind == Bool || e.truth }

// Truthful returns the expression as one that is used only for its truth value.
func (e Expr) Truthful() Expr {
	e.truth = true
	return e
}

// Case is a text that a value has when a condition holds.
type Case struct {
	Text string
	When Expr
}

// Stmt is a statement.
type Stmt = build.Expr

// None is the value None.
func None() Expr {
	return Expr{Node: &build.Ident{Name: "None"}, Kind: Nothing, Maybe: true, Missing: true, Cheap: true}
}

// Name is a variable or a function.
func Name(name string) Expr { return Expr{Node: &build.Ident{Name: name}, Cheap: true, Hint: name} }

// Str is a text.
func Str(s string) Expr {
	s = string([]rune(s)) // bytes that are not UTF-8 become U+FFFD, as they do in JSON
	return Expr{Node: &build.StringExpr{Value: s, TripleQuote: blockable(s), Token: token(s)}, Kind: Text, Text: s, Literal: true, Cheap: true}
}

// Integer is a whole number.
func Integer(n int64) Expr { return number(strconv.FormatInt(n, 10), Int) }

// Fraction is a number with a fraction.
func Fraction(f float64) Expr {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return number(s, Number)
}

// Digits is a number as it is written.
func Digits(s string) Expr { return number(s, Int) }

func number(s string, kind Kind) Expr {
	digits, negative := strings.CutPrefix(s, "-")
	var n build.Expr = &build.LiteralExpr{Token: digits}
	if negative {
		n = &build.UnaryExpr{Op: "-", X: n}
	}
	return Expr{Node: n, Kind: kind, Cheap: true}
}

// True and False are the booleans.
func True() Expr  { return Expr{Node: &build.Ident{Name: "True"}, Kind: Bool, Cheap: true} }
func False() Expr { return Expr{Node: &build.Ident{Name: "False"}, Kind: Bool, Cheap: true} }

// Is returns the expression as one of a kind that is never None.
func (e Expr) Is(kind Kind) Expr {
	e.Kind, e.Maybe, e.Missing = kind, false, false
	return e
}

// There returns the expression as one that is not None.
func (e Expr) There() Expr {
	e.Maybe, e.Missing = false, false
	return e
}

// Optional returns the expression as one that may be missing.
func (e Expr) Optional() Expr {
	e.Maybe, e.Missing = true, true
	return e
}

// Named returns the expression with a Hint.
func (e Expr) Named(hint string) Expr {
	e.Hint = hint
	return e
}

// Call is fn(args...).
func Call(fn string, args ...Expr) Expr { return call(&build.Ident{Name: fn}, args) }

// Method is x.name(args...).
func Method(x Expr, name string, args ...Expr) Expr {
	e := call(&build.DotExpr{X: x.Node, Name: name}, args)
	e.Risky = e.Risky || x.Risky
	return e
}

func call(fn build.Expr, args []Expr) Expr {
	c := &build.CallExpr{X: fn}
	e := Expr{Node: c}
	for _, a := range args {
		c.List = append(c.List, a.Bare().Node)
		e.Risky = e.Risky || a.Risky
	}
	return e
}

// Arg is a named argument.
func Arg(name string, v Expr) Expr {
	v.Node = &build.AssignExpr{LHS: &build.Ident{Name: name}, Op: "=", RHS: v.Bare().Node}
	return v
}

// Attr is x.name.
func Attr(x Expr, name string) Expr {
	return Expr{Node: &build.DotExpr{X: x.Node, Name: name}, Risky: x.Risky, Cheap: x.Cheap, Hint: name}
}

// Index is x[key].
func Index(x, key Expr) Expr {
	return Expr{
		Node: &build.IndexExpr{X: x.Node, Y: key.Node}, Risky: true, Cheap: x.Cheap && key.Cheap, Hint: key.Text,
	}
}

// Slice is x[from:to]; without a to it goes to the end.
func Slice(x Expr, from, to *Expr) Expr {
	n := &build.SliceExpr{X: x.Node}
	if from != nil {
		n.From = from.Node
	}
	if to != nil {
		n.To = to.Node
	}
	return Expr{Node: n, Kind: x.Kind, Risky: true}
}

// Get is x.get(key): the value at the key, None without one.
func Get(x Expr, key string) Expr {
	base := x
	switch {
	case x.from != nil && x.Missing:
		x = x.Or(Dict())
	case x.Missing:
		x = Op("or", x, Dict())
	}
	e := Method(x, "get", Str(key)).Optional()
	e.Risky = x.Risky || base.Kind != Map
	e.Cheap, e.Hint, e.from, e.key = base.Cheap, key, &x, key
	return e
}

// Or is the expression with other as the default of a missing entry; an entry that is null stays null.
func (e Expr) Or(other Expr) Expr {
	if e.from == nil {
		return Op("or", e, other)
	}
	out := Method(*e.from, "get", Str(e.key), other)
	out.Kind, out.Risky, out.Cheap, out.Hint, out.Elem = e.Kind, e.Risky, e.Cheap, e.Hint, e.Elem
	return out
}

// IsEntry reports whether the expression is the lookup of a key in a map.
func (e Expr) IsEntry() bool { return e.from != nil }

// Entry is a key with its value.
type Entry struct {
	Key   string
	Value Expr
}

// Dict is a dict.
func Dict(entries ...Entry) Expr {
	d := &build.DictExpr{}
	e := Expr{Node: d, Kind: Map}
	for _, kv := range entries {
		d.List = append(d.List, &build.KeyValueExpr{Key: Str(kv.Key).Node, Value: kv.Value.Bare().Node})
		e.Risky = e.Risky || kv.Value.Risky
	}
	return e
}

// ListOf is a list.
func ListOf(items ...Expr) Expr {
	l := &build.ListExpr{}
	e := Expr{Node: l, Kind: List}
	for _, x := range items {
		l.List = append(l.List, x.Bare().Node)
		e.Risky = e.Risky || x.Risky
	}
	return e
}

// Tuple is (a, b); a lone one is (a,).
func Tuple(items ...Expr) Expr {
	t := &build.TupleExpr{}
	e := Expr{Node: t}
	for _, x := range items {
		t.List = append(t.List, x.Bare().Node)
		e.Risky = e.Risky || x.Risky
	}
	return e
}

// Op is a binary operator.
func Op(op string, a, b Expr) Expr {
	return Expr{Node: &build.BinaryExpr{X: a.Node, Op: op, Y: b.Node}, Risky: a.Risky || b.Risky}
}

// Not is the negation.
func Not(a Expr) Expr {
	if n, ok := a.Node.(*build.UnaryExpr); ok && n.Op == "not" && a.negates {
		return Expr{Node: n.X, Kind: Bool, Risky: a.Risky}
	}
	if b, ok := a.Node.(*build.BinaryExpr); ok {
		if op := opposites[b.Op]; op != "" {
			return Expr{Node: &build.BinaryExpr{X: b.X, Op: op, Y: b.Y}, Kind: Bool, Risky: a.Risky}
		}
	}
	return Expr{Node: &build.UnaryExpr{Op: "not", X: a.Node}, Kind: Bool, Risky: a.Risky, negates: a.Kind == Bool && !a.Maybe}
}

// opposites are the operators whose negation has an operator.
var opposites = map[string]string{"==": "!=", "!=": "==", "in": "not in", "not in": "in"}

// If is yes if cond else no.
func If(cond, yes, no Expr) Expr {
	e := Expr{
		Node: &build.ParenExpr{X: &build.ConditionalExpr{Then: yes.Node, Test: cond.Node, Else: no.Node}},
		Kind: yes.Kind, Risky: cond.Risky || yes.Risky || no.Risky,
	}
	if yes.Kind != no.Kind {
		e.Kind = Any
	}
	e.Maybe = yes.Maybe || no.Maybe
	return e
}

// Bare removes the outer parentheses: for a whole right side, argument or element.
func (e Expr) Bare() Expr {
	if p, ok := e.Node.(*build.ParenExpr); ok {
		e.Node = p.X
	}
	return e
}

// Comprehension is [body for vars in over].
func Comprehension(body Expr, vars []string, over Expr, cond ...Expr) Expr {
	c := &build.Comprehension{Body: body.Bare().Node, Clauses: []build.Expr{&build.ForClause{Vars: targets(vars), X: over.Node}}}
	for _, e := range cond {
		c.Clauses = append(c.Clauses, &build.IfClause{Cond: e.Node})
	}
	return Expr{Node: c, Kind: List, Risky: true}
}

// Lambda is lambda: body; of fn() it is fn.
func Lambda(body Expr) Expr {
	if c, ok := body.Bare().Node.(*build.CallExpr); ok && len(c.List) == 0 {
		if fn, ok := c.X.(*build.Ident); ok {
			return Name(fn.Name)
		}
	}
	return Expr{Node: &build.LambdaExpr{Function: build.Function{Body: []build.Expr{body.Bare().Node}}}}
}

// Assign is names = value.
func Assign(value Expr, names ...string) Stmt {
	return &build.AssignExpr{LHS: targets(names), Op: "=", RHS: value.Bare().Node}
}

// Unpack is a, (b, c) = value: a group for each result, "_" for none.
func Unpack(value Expr, groups [][]string) Stmt {
	var list []build.Expr
	for _, names := range groups {
		switch len(names) {
		case 0:
			list = append(list, &build.Ident{Name: "_"})
		case 1:
			list = append(list, &build.Ident{Name: names[0]})
		default:
			t := targets(names).(*build.TupleExpr)
			t.NoBrackets = false
			list = append(list, t)
		}
	}
	var left build.Expr = &build.TupleExpr{List: list, NoBrackets: true}
	if len(list) == 1 {
		left = &build.ListExpr{List: list}
	}
	return &build.AssignExpr{LHS: left, Op: "=", RHS: value.Bare().Node}
}

func targets(names []string) build.Expr {
	if len(names) == 1 {
		return &build.Ident{Name: names[0]}
	}
	t := &build.TupleExpr{NoBrackets: true}
	for _, n := range names {
		t.List = append(t.List, &build.Ident{Name: n})
	}
	return t
}

// Do is an expression as a statement.
func Do(e Expr) Stmt { return e.Bare().Node }

// OnlyAppended returns the value that the last statement appends to a list that the first one creates, when
// no other statement names the list.
func OnlyAppended(list string, body []Stmt) (value Expr, ok bool) {
	uses := 0
	for _, s := range body {
		build.Walk(s, func(e build.Expr, _ []build.Expr) {
			if id, ok := e.(*build.Ident); ok && id.Name == list {
				uses++
			}
		})
	}
	call, isCall := body[len(body)-1].(*build.CallExpr)
	if uses != 2 || !isCall || len(call.List) != 1 {
		return Expr{}, false
	}
	method, isMethod := call.X.(*build.DotExpr)
	if !isMethod || method.Name != "append" {
		return Expr{}, false
	}
	id, isName := method.X.(*build.Ident)
	return Expr{Node: call.List[0]}, isName && id.Name == list
}

// Return is return value.
func Return(value Expr) Stmt { return &build.ReturnStmt{Result: value.Bare().Node} }

// ReturnAll is return a, b.
func ReturnAll(names ...string) Stmt { return &build.ReturnStmt{Result: targets(names)} }

// When is if cond: yes else: no; a condition bool(x) is written as x.
func When(cond Expr, yes, no []Stmt) Stmt {
	node := cond.Bare().Node
	if c, ok := node.(*build.CallExpr); ok && len(c.List) == 1 {
		if fn, ok := c.X.(*build.Ident); ok && fn.Name == "bool" {
			node = c.List[0]
		}
	}
	return &build.IfStmt{Cond: node, True: block(yes), False: no}
}

// Each is for vars in over: body.
func Each(vars []string, over Expr, body []Stmt) Stmt {
	return &build.ForStmt{Vars: targets(vars), X: over.Bare().Node, Body: block(body)}
}

// Jump is break or continue.
func Jump(word string) Stmt { return &build.BranchStmt{Token: word} }

// Def is a function.
func Def(name string, params []string, body []Stmt) Stmt {
	d := &build.DefStmt{Name: name, Function: build.Function{Body: block(body)}}
	for _, p := range params {
		d.Params = append(d.Params, &build.Ident{Name: p})
	}
	return d
}

func block(body []Stmt) []build.Expr {
	if len(body) == 0 {
		return []build.Expr{&build.BranchStmt{Token: "pass"}}
	}
	return body
}

// Load is load(module, names...).
func Load(module string, names ...string) Stmt {
	l := &build.LoadStmt{Module: &build.StringExpr{Value: module}, ForceCompact: true}
	for _, n := range names {
		l.From, l.To = append(l.From, &build.Ident{Name: n}), append(l.To, &build.Ident{Name: n})
	}
	return l
}

// Noted puts a comment above a statement.
func Noted(s Stmt, comment string) Stmt {
	for _, line := range strings.Split(comment, "\n") {
		s.Comment().Before = append(s.Comment().Before, build.Comment{Token: strings.TrimRight("# "+line, " ")})
	}
	return s
}
