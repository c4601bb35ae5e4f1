package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/spell"
)

// CheckOptions say what a script is checked against.
type CheckOptions struct {
	// Builtins are the names that it may use.
	Builtins starlark.StringDict
	// Tools are the tools that it may call, with their inputSchema; nil: not known.
	Tools map[string]json.RawMessage
	// Library files need no run.
	Library bool
	Limits  Limits
}

// Problem is something that is wrong with a script, found without running it.
type Problem struct {
	Pos syntax.Position
	Msg string
	// Hint says what was probably meant; "" when there is no telling.
	Hint string
	// Warning tells what is suspicious from what cannot work.
	Warning bool
}

func (p Problem) String() string { return p.Pos.String() + ": " + p.Msg }

// Check looks for mistakes in one file that its text shows: names that nothing
// defines, code that is never reached, tools that do not exist, literal arguments that
// do not fit a tool, forms that no client can show, lambdas that all see the last value
// of a loop. It returns all of them, in the order of the text.
func Check(f File, o CheckOptions) []Problem {
	limits := o.Limits.orDefault()
	if len(f.Source) > limits.Source {
		return []Problem{problemOf(sourceTooLong(f, limits.Source))}
	}
	tree, err := dialect.Parse(f.Name, f.Source, 0)
	if err == nil {
		err = checkTree(tree)
	}
	if err != nil {
		return problemsOf(err)
	}
	c := &checker{o: o, constants: constantsOf(tree), tools: slices.Sorted(maps.Keys(o.Tools))}
	if !o.Library {
		if err := checkEntry(&file{name: f.Name, tree: tree}); err != nil {
			c.found = append(c.found, problemsOf(err)...)
		}
	}
	c.block(tree.Stmts)
	syntax.Walk(tree, c.node)
	names := predeclared(o.Builtins)
	suggest := suggestions(tree, names)
	if err := resolve.File(tree, someUndefined(names), starlark.Universe.Has); err != nil {
		c.found = append(c.found, problemsOf(suggest(err))...)
	}
	slices.SortStableFunc(c.found, func(a, b Problem) int {
		return int(a.Pos.Line-b.Pos.Line)*10000 + int(a.Pos.Col-b.Pos.Col)
	})
	return c.found
}

func sourceTooLong(f File, limit int) *Error {
	return &Error{
		Msg: fmt.Sprintf("the file has %d bytes, the limit is %s", len(f.Source), Bytes(int64(limit))),
		Pos: syntax.MakePosition(&f.Name, 1, 1),
	}
}

func problemOf(e *Error) Problem { return Problem{Pos: e.Pos, Msg: e.Msg} }

func problemsOf(err error) []Problem {
	var (
		list Errors
		one  *Error
		out  []Problem
	)
	switch err := compileErrors(err); {
	case errors.As(err, &list):
		for _, e := range list {
			out = append(out, problemOf(e))
		}
	case errors.As(err, &one):
		out = append(out, problemOf(one))
	}
	return out
}

// checker collects the problems of one file.
type checker struct {
	o         CheckOptions
	constants *constants
	tools     []string
	schemas   map[string]*schema.Schema
	found     []Problem
}

func (c *checker) add(pos syntax.Position, warning bool, format string, args ...any) *Problem {
	c.found = append(c.found, Problem{Pos: pos, Msg: fmt.Sprintf(format, args...), Warning: warning})
	return &c.found[len(c.found)-1]
}

// node checks one node of the tree; Walk calls it for all.
func (c *checker) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.DefStmt:
		c.block(n.Body)
	case *syntax.IfStmt:
		c.block(n.True)
		c.block(n.False)
	case *syntax.ForStmt:
		c.block(n.Body)
		c.loop(n)
	case *syntax.WhileStmt:
		c.block(n.Body)
	case *syntax.Comprehension:
		c.comprehension(n)
	case *syntax.CallExpr:
		c.call(n)
	}
	return true
}

// block reports the first statement that nothing leads to.
func (c *checker) block(stmts []syntax.Stmt) {
	for i, s := range stmts[:max(len(stmts)-1, 0)] {
		if ends(s) {
			c.add(syntax.Start(stmts[i+1]), true, "this is never reached")
			return
		}
	}
}

// ends reports whether nothing goes on behind s.
func ends(s syntax.Stmt) bool {
	switch s := s.(type) {
	case *syntax.ReturnStmt:
		return true
	case *syntax.BranchStmt:
		return s.Token != syntax.PASS
	case *syntax.ExprStmt:
		call, ok := s.X.(*syntax.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fn.(*syntax.Ident)
		return ok && id.Name == "fail"
	case *syntax.IfStmt:
		return len(s.False) > 0 && endsBlock(s.True) && endsBlock(s.False)
	case *syntax.WhileStmt:
		cond, ok := s.Cond.(*syntax.Ident)
		return ok && cond.Name == "True" && !breaks(s.Body)
	}
	return false
}

func endsBlock(stmts []syntax.Stmt) bool {
	return slices.ContainsFunc(stmts, ends)
}

// breaks reports whether a break in stmts leaves the loop around them.
func breaks(stmts []syntax.Stmt) bool {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.BranchStmt:
			if s.Token == syntax.BREAK {
				return true
			}
		case *syntax.IfStmt:
			if breaks(s.True) || breaks(s.False) {
				return true
			}
		}
	}
	return false
}

// call checks a call of a builtin that the text shows in full.
func (c *checker) call(call *syntax.CallExpr) {
	id, ok := call.Fn.(*syntax.Ident)
	if !ok {
		return
	}
	switch {
	case toolFunctions[id.Name]:
		c.toolCall(id.Name, call)
	case id.Name == "elicit":
		c.form(argument(call, 1, "schema"))
	}
}

// checkForms reports the questions of a file whose literal schema no client can show.
func checkForms(tree *syntax.File) error {
	c := &checker{constants: constantsOf(tree)}
	syntax.Walk(tree, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			c.call(call)
		}
		return true
	})
	var errs Errors
	for _, p := range c.found {
		errs = append(errs, &Error{Msg: p.Msg, Pos: p.Pos})
	}
	if errs == nil {
		return nil
	}
	return errs
}

// form checks the schema of a question.
func (c *checker) form(x syntax.Expr) {
	if x == nil {
		return
	}
	raw, err := c.constants.json(x)
	if err != nil {
		return // not literal
	}
	if _, err := FormSchema(raw); err != nil {
		c.add(syntax.Start(x), false, "elicit: schema: %v", err)
	}
}

// toolCall checks the name of a tool and its arguments.
func (c *checker) toolCall(function string, call *syntax.CallExpr) {
	if c.o.Tools == nil {
		return
	}
	arg := argument(call, 0, toolParameter(function))
	name, ok := literalString(arg)
	if !ok {
		return
	}
	raw, ok := c.o.Tools[name]
	if !ok {
		p := c.add(syntax.Start(arg), false, "%s: no tool %q", function, name)
		if near := spell.Nearest(name, c.tools); len(c.found) < enoughHints && near != "" {
			p.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return
	}
	if s := c.schema(name, raw); s != nil && function != "pages" {
		c.arguments(fmt.Sprintf("%s(%q)", function, name), argument(call, 1, "args"), call, s)
	}
}

// schema compiles the schema of a tool once; one that cannot be compiled is not checked.
func (c *checker) schema(name string, raw json.RawMessage) *schema.Schema {
	if s, ok := c.schemas[name]; ok {
		return s
	}
	if c.schemas == nil {
		c.schemas = map[string]*schema.Schema{}
	}
	s, err := schema.CompileForeign(raw)
	if len(raw) == 0 || err != nil {
		s = nil
	}
	c.schemas[name] = s
	return s
}

// arguments checks the arguments of a call as far as they are literal.
func (c *checker) arguments(what string, x syntax.Expr, call *syntax.CallExpr, s *schema.Schema) {
	pos := syntax.Start(call)
	known, computed := json.RawMessage("{}"), map[string]bool{}
	if x != nil {
		pos = syntax.Start(x)
		var ok bool
		if known, computed, ok = c.knownPart(x); !ok {
			return
		}
	} else if spreads(call) {
		return
	}
	filled, err := s.Defaults(known)
	if err != nil {
		return
	}
	var violations schema.Violations
	if !errors.As(s.Validate(filled), &violations) {
		return
	}
	for _, v := range violations {
		if hidden := v.Path == "" && len(computed) > 0; !hidden && !concerns(v, computed) {
			c.add(pos, false, "%s: %s", what, v)
		}
	}
}

// spreads reports whether a call takes arguments from a list or dict.
func spreads(call *syntax.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(x syntax.Expr) bool {
		u, ok := x.(*syntax.UnaryExpr)
		return ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR)
	})
}

// knownPart is the JSON of a dict with null for the members that are computed, and the
// names of these.
func (c *checker) knownPart(x syntax.Expr) (json.RawMessage, map[string]bool, bool) {
	computed := map[string]bool{}
	d, ok := x.(*syntax.DictExpr)
	if !ok {
		raw, err := c.constants.json(x)
		return raw, computed, err == nil
	}
	known := starlark.NewDict(len(d.List))
	for _, e := range d.List {
		entry := e.(*syntax.DictEntry)
		key, err := c.constants.value(entry.Key)
		name, ok := key.(starlark.String)
		if err != nil || !ok {
			return nil, nil, false
		}
		v, err := c.constants.value(entry.Value)
		if err != nil {
			computed[string(name)] = true
			v = starlark.None
		}
		if err := known.SetKey(name, v); err != nil {
			return nil, nil, false
		}
	}
	raw, err := c.constants.encode(known)
	return raw, computed, err == nil
}

// concerns reports whether a violation is about a value that is not known.
func concerns(v schema.Violation, computed map[string]bool) bool {
	name, _, _ := strings.Cut(v.Path, ".")
	name, _, _ = strings.Cut(name, "[")
	return computed[name] && v.Message != schema.UnknownProperty
}
