// Package check finds mistakes in scripts without running them, and reads what their text
// says: the declaration of a tool, the tools that it calls.
//
// Nothing here knows a builtin by its name: callers pass the table, whose rows say which
// parameter is a tool's name, which a form.
//
//	problems := check.File(file, check.Options{Builtins: builtins.Table(), Tools: tools})
package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// Options say what a script is checked against.
type Options struct {
	// Builtins is the table of what it may call.
	Builtins []Builtin
	// Tools are the tools that it may call, with their inputSchema; nil: not known.
	Tools map[string]json.RawMessage
	// Library files need no run.
	Library bool
	Limits  script.Limits
	// Load finds what load statements name; nil: what they name is not looked at.
	Load func(from, name string) (script.File, error)
	// Output is the JSON Schema of what run returns; nil: anything.
	Output json.RawMessage
}

// Codes of the problems that are found here.
const (
	codeSyntax      = "syntax"
	codeUndefined   = "undefined"
	codeDeclaration = "tool-declaration"
	codeLoad        = "load"
	codeForm        = "form"
	codeOutput      = "output"
	codeToolUnknown = "tool-unknown"
	codeMissing     = "argument-missing"
	codeUnknown     = "argument-unknown"
	codeType        = "argument-type"
	codeValue       = "argument-value"
	codeUnreachable = "unreachable"
	codeClosure     = "closure"
	codeLostUpdate  = "lost-update"
)

// File looks for mistakes in one file that its text shows: names that nothing
// defines, code that is never reached, tools that do not exist, literal arguments that
// do not fit a tool, forms that no client can show, lambdas that all see the last value
// of a loop, counters that branches overwrite. It returns all of them, in the order of the text.
func File(f script.File, o Options) diag.Problems {
	c := &checker{o: o, file: f, builtins: tableOf(o.Builtins), tools: slices.Sorted(maps.Keys(o.Tools))}
	tree, err := script.Parse(f, o.Limits)
	if err != nil {
		c.engine(codeSyntax, err)
		return c.found
	}
	c.loads(tree)
	c.constants = constantsOf(tree)
	if !o.Library {
		c.engine(codeDeclaration, script.CheckEntry(tree))
	}
	c.block(tree.Stmts)
	syntax.Walk(tree, c.node)
	c.branches(tree)
	c.returns(tree)
	c.engine(codeUndefined, script.Resolve(tree, values(o.Builtins)))
	return c.found.OnePerPlace()
}

// checker collects the problems of one file.
type checker struct {
	o         Options
	file      script.File
	builtins  table
	constants *constants
	tools     []string
	schemas   map[string]*schema.Schema
	found     diag.Problems
}

// engine adds what the engine itself refuses.
func (c *checker) engine(code string, err error) {
	var list script.Errors
	errors.As(err, &list)
	for _, e := range list {
		c.found = append(c.found, Problem(c.file, code, e))
	}
}

// Problem is an error of the engine in a file.
func Problem(f script.File, code string, e *script.Error) diag.Problem {
	p := placed(f, e.Pos, diag.Problem{Code: code, Message: e.Msg})
	if undefined := strings.HasPrefix(e.Msg, "undefined: "); undefined {
		p.Code = codeUndefined
	} else if code == codeUndefined {
		p.Code = codeSyntax
	}
	if msg, meant, ok := strings.Cut(p.Message, " (did you mean "); ok {
		meant, rest, _ := strings.Cut(meant, ")")
		p.Message, p.Hint = msg+rest, "did you mean "+meant
	}
	if end, ok := f.Token(e.Pos); ok && p.Line == int(e.Pos.Line) {
		p.EndLine, p.EndColumn = int(end.Line), int(end.Col)
	}
	return p
}

// placed puts a problem where a position stands for its reader.
func placed(f script.File, pos syntax.Position, p diag.Problem) diag.Problem {
	var line int
	if p.Pos, line = f.Place(pos); line > 0 {
		p.Message += fmt.Sprintf(" (line %d of the script)", line)
	}
	return p
}

func (c *checker) add(code string, n syntax.Node, format string, args ...any) *diag.Problem {
	c.found = append(c.found, spanned(c.file, n, diag.Problem{Code: code, Message: fmt.Sprintf(format, args...)}))
	return &c.found[len(c.found)-1]
}

// spanned puts a problem on a piece of the text.
func spanned(f script.File, n syntax.Node, p diag.Problem) diag.Problem {
	start, end := n.Span()
	p = placed(f, start, p)
	if p.Line == int(start.Line) {
		p.EndLine, p.EndColumn = int(end.Line), int(end.Col)
	}
	return p
}

// warn adds what is suspicious, and may work.
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
			c.warn(codeUnreachable, stmts[i+1], "this is never reached")
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
	if b := c.builtins.called(call); b != nil && b.Tool.Name != "" {
		c.toolCall(b, call)
	}
	c.form(call)
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
	raw, err := c.constants.json(x)
	if err != nil {
		return // not literal
	}
	if _, err := FormSchema(raw); err != nil {
		c.add(codeForm, x, "%s: %s: %v", b.Name, b.Form.Name, err)
	}
}

// toolCall checks the name of a tool and its arguments.
func (c *checker) toolCall(b *Builtin, call *syntax.CallExpr) {
	if c.o.Tools == nil {
		return
	}
	arg := b.Tool.of(call)
	name, ok := literalString(arg)
	if !ok {
		return
	}
	raw, ok := c.o.Tools[name]
	if !ok {
		p := c.add(codeToolUnknown, arg, "%s: no tool %q", b.Name, name)
		if near := spell.Nearest(name, c.tools); len(c.found) < tree.EnoughHints && near != "" {
			p.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return
	}
	if s := c.schema(name, raw); s != nil && b.Args.Name != "" {
		c.arguments(fmt.Sprintf("%s(%q)", b.Name, name), b.Args.of(call), call, s)
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
	known, computed := json.RawMessage("{}"), map[string]bool{}
	if x != nil {
		var ok bool
		if known, computed, ok = c.knownPart(x); !ok {
			return
		}
	} else if spreads(call) {
		return
	}
	if filled, err := s.Defaults(known); err == nil {
		c.fits(subject{what: what, value: x, whole: call}, s.Validate(filled), computed)
	}
}

// subject is a value that has to fit a schema.
type subject struct {
	what  string
	value syntax.Expr // nil: none is given
	whole syntax.Node // what lacks something when the value does
	code  string      // of all problems; "" for those of arguments
}

// fits reports how a value does not fit a schema, but for what is not known of it.
func (c *checker) fits(of subject, err error, computed map[string]bool) {
	var violations schema.Violations
	errors.As(err, &violations)
	missing := map[syntax.Node]int{} // index of the problem
	for _, v := range violations {
		if v.Path == "" && len(computed) > 0 || concerns(v, computed) {
			continue
		}
		code, n := of.at(v)
		i, told := missing[n]
		switch {
		case v.Kind == schema.Missing && told: // one problem for all that a place lacks
			c.found[i].Message += "; " + v.String()
			continue
		case v.Kind == schema.Missing:
			missing[n] = len(c.found)
		}
		c.add(cmp.Or(of.code, code), n, "%s: %s", of.what, v)
	}
}

// at is the kind of a violation and the smallest piece of text that is to blame: the call or
// dict that lacks something, the key that should not be there, the value that is wrong.
func (of subject) at(v schema.Violation) (code string, n syntax.Node) {
	code = map[schema.Kind]string{schema.Missing: codeMissing, schema.Unknown: codeUnknown, schema.WrongType: codeType, schema.BadValue: codeValue}[v.Kind]
	if of.value == nil || v.Kind == schema.Missing && len(v.At) == 1 {
		return code, of.whole
	}
	way := v.At
	if v.Kind == schema.Missing {
		way = way[:len(way)-1]
	}
	key, value := locate(of.value, way)
	if v.Kind == schema.Unknown {
		return code, key
	}
	return code, value
}

// locate follows the way into a literal as far as it is written out, and returns the last
// key on it and its value.
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

// member is the last entry of a dict with a key, or an element of a list, with itself as key.
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
	return len(v.At) > 0 && computed[v.At[0]] && v.Kind != schema.Unknown
}
