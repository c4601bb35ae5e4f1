// Package check finds mistakes in scripts without running them, and reads what their text declares: tools, and the
// tools that they call.
//
// It knows no builtin by its name: callers pass the table, whose rows describe their parameters, such as which one is
// the name of a tool.
//
//	problems := check.File(file, check.Options{Builtins: builtins.Table(), Tools: tools})
package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// Options say what scripts are checked against.
type Options struct {
	// Builtins is the table of what scripts may call.
	Builtins []Builtin
	// TestBuiltins are what tests may call in addition; nil: testing, of which nothing is known.
	TestBuiltins []Builtin
	// Tools are the tools that scripts may call; nil: not known.
	Tools map[string]Tool
	// Unknown reports whether a name that is not in Tools may be that of a tool; nil: none may.
	Unknown func(name string) bool
	// Load returns the file that a load statement names; nil: load statements are not checked.
	Load func(from, name string) (script.File, error)
	// Limits are for files that have none.
	Limits script.Limits
	// Last is the result of an earlier check: for a file that cannot be parsed now, it answers with the types of the
	// earlier text. nil: none.
	Last *Program

	// Cache has the findings of earlier checks; nil: all files are checked.
	Cache *Cache

	// Library and Output are for File: whether the file needs no run, and the JSON Schema of what run returns.
	Library bool
	Output  json.RawMessage
}

// Tool is what is known of a tool that scripts can call.
type Tool struct {
	// Description is for people; "" for none.
	Description string
	// Input and Output are JSON Schemas; nil: not known.
	Input, Output json.RawMessage
	// Annotations are the tool annotations of MCP; nil for none.
	Annotations json.RawMessage
	// Script says that it is a scripted tool of the same configuration, declared at Pos.
	Script bool
	Pos    diag.Pos
}

// Codes of the problems of this package; package types has those of types.
const (
	codeSyntax      = "syntax"
	codeUndefined   = "undefined"
	codeDeclaration = "tool-declaration"
	codeLoad        = "load"
	codeForm        = "form"
	codeUnreachable = "unreachable"
	codeClosure     = "closure"
	codeLostUpdate  = "lost-update"
)

// File checks one file. It returns all problems, in the order of the text.
func File(f script.File, o Options) diag.Problems {
	s := Source{File: f, Limits: o.Limits}
	declared, _ := ReadDeclarations(f, o.Limits) // their problems are reported where the tools are made
	for _, d := range declared {
		s.Tools = append(s.Tools, Entry{Function: d.Entry, Output: o.Output})
	}
	switch {
	case o.Library:
		s.Kind = Library
	case len(declared) == 0:
		s.Tools = []Entry{{Output: o.Output}}
	}
	return Check([]Source{s}, o).Problems()
}

// checker collects the problems of one file.
type checker struct {
	o         Options
	file      script.File
	builtins  table
	constants *constants
	needs     *needs
	found     diag.Problems
	lines     []string // of the file, once they are asked for
}

// engine adds an error of the engine.
func (c *checker) engine(code string, err error) {
	var list script.Errors
	errors.As(err, &list)
	for _, e := range list {
		c.found = append(c.found, Problem(c.file, code, e))
	}
}

// Problem returns an error of the engine in a file as a problem.
func Problem(f script.File, code string, e *script.Error) diag.Problem {
	end, ok := f.Token(e.Pos)
	if !ok {
		end = syntax.Position{}
	}
	p := placed(f, e.Pos, end, diag.Problem{Code: code, Message: e.Msg})
	if undefined := strings.HasPrefix(e.Msg, "undefined: "); undefined {
		p.Code = codeUndefined
	} else if code == codeUndefined {
		p.Code = codeSyntax
	}
	if msg, meant, ok := strings.Cut(p.Message, " (did you mean "); ok {
		meant, rest, _ := strings.Cut(meant, ")")
		p.Message, p.Hint = msg+rest, "did you mean "+meant
	}
	return p
}

// placed sets the position of a problem as readers need it. A text that has another form in its origin has one
// position for all problems, without ends.
func placed(f script.File, start, end syntax.Position, p diag.Problem) diag.Problem {
	var line int
	if p.Pos, line = f.Place(start); line > 0 {
		p.Message += fmt.Sprintf(" (line %d of the script)", line)
		return p
	}
	p.EndLine, p.EndColumn = int(end.Line), int(end.Col)
	return p
}

func (c *checker) add(code string, n syntax.Node, format string, args ...any) *diag.Problem {
	c.found = append(c.found, spanned(c.file, n, diag.Problem{Code: code, Message: fmt.Sprintf(format, args...)}))
	return &c.found[len(c.found)-1]
}

// spanned sets the position of a problem to that of a node.
func spanned(f script.File, n syntax.Node, p diag.Problem) diag.Problem {
	start, end := n.Span()
	return placed(f, start, end, p)
}

// warn adds a warning.
func (c *checker) warn(code string, n syntax.Node, format string, args ...any) *diag.Problem {
	p := c.add(code, n, format, args...)
	p.Severity = diag.Warning
	return p
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
	case *syntax.WhileStmt:
		c.block(n.Body)
	case *syntax.CallExpr:
		c.form(n)
	}
	return true
}

// block reports the first statement that is never reached.
func (c *checker) block(stmts []syntax.Stmt) {
	for i, s := range stmts[:max(len(stmts)-1, 0)] {
		if ends(s) {
			c.warn(codeUnreachable, stmts[i+1], "this statement is never reached")
			return
		}
	}
}

// ends reports whether the statement after s is never reached.
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

// breaks reports whether a break in stmts leaves the enclosing loop.
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

// form checks the schema of a question.
func (c *checker) form(call *syntax.CallExpr) {
	b := c.builtins.called(call)
	if b == nil {
		return
	}
	x := b.Form.of(call)
	if x == nil {
		return
	}
	raw, err := c.constants.JSON(x)
	if err != nil {
		return // not literal
	}
	if _, err := FormSchema(raw); err != nil {
		at := x
		if way := formPlace(err.Error()); way != nil {
			_, at = locate(x, way)
		}
		c.add(codeForm, at, "%s: %s: %v", b.Name, b.Form.Name, err)
	}
}

// locate follows a path into a literal as far as it is written out, and returns the last key on it and its value.
func locate(x syntax.Expr, way []string) (key, value syntax.Expr) {
	key = x
	for _, step := range way {
		for {
			p, ok := x.(*syntax.ParenExpr)
			if !ok {
				break
			}
			x = p.X
		}
		k, v := member(x, step)
		if v == nil {
			break
		}
		key, x = k, v
	}
	return key, x
}

// member returns the last entry of a dict with a key, or an element of a list with itself as key.
func member(x syntax.Expr, step string) (key, value syntax.Expr) {
	switch x := x.(type) {
	case *syntax.DictExpr:
		for _, e := range x.List {
			entry := e.(*syntax.DictEntry)
			if name, ok := literalString(entry.Key); ok && name == step {
				key, value = entry.Key, entry.Value
			}
		}
	case *syntax.ListExpr:
		return element(x.List, step)
	case *syntax.TupleExpr:
		return element(x.List, step)
	}
	return key, value
}

func element(list []syntax.Expr, step string) (key, value syntax.Expr) {
	if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(list) {
		return list[i], list[i]
	}
	return nil, nil
}

// formPlace returns the path to the property that an error about a form names.
func formPlace(message string) []string {
	rest, ok := strings.CutPrefix(message, "properties.")
	name, _, found := strings.Cut(rest, ":")
	if !ok || !found {
		return nil
	}
	return []string{"properties", name}
}
