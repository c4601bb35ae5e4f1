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
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Declaration is the declaration of a tool in a file, a call at top level:
//
//	tool(
//	    name = "deploy",
//	    description = "Deploys a service",
//	    parameters = {"type": "object", "properties": {"service": {"type": "string"}}},
//	)
//
// A file of several tools declares each, and each names its entry function.
type Declaration struct {
	Name, Title, Description, Timeout       string
	Entry                                   string          // the function; "" is run
	Parameters, Output, Annotations, Limits json.RawMessage // nil: not declared
	TrustAnnotations                        bool

	file script.File
	call *syntax.CallExpr
}

const (
	declares      = "tool"  // the function that declares a tool
	entryArgument = "entry" // its argument for the entry function
)

// ReadDeclarations reads the declarations of a file without running it: their arguments have to be literals or
// constants of the file. A file without any is a library. If only an entry function is missing, the declarations are
// returned together with the problems.
func ReadDeclarations(f script.File, l script.Limits) ([]*Declaration, diag.Problems) {
	parsed, err := script.Parse(f, l)
	if err != nil {
		c := &checker{file: f}
		c.engine(codeSyntax, err)
		for i := range c.found {
			c.found[i] = familiar(f, c.found[i])
		}
		return nil, c.found
	}
	c := &checker{file: f, constants: literalOf(parsed)}
	var all []*Declaration
	for _, call := range declarations(parsed) {
		all = append(all, c.declaration(call))
	}
	if len(c.found) > 0 {
		return nil, c.found
	}
	c.misplaced(parsed)
	c.functions(parsed, all)
	return all, c.found
}

// functions reports declared tools whose entry function does not exist. One of several tools may leave it out.
func (c *checker) functions(f *syntax.File, all []*Declaration) {
	var first *Declaration // without entry
	_, hasRun := hasFunction(f, script.SourceRun)
	for _, d := range all {
		switch {
		case d.Entry == "" && d.argument(entryArgument) != syntax.Node(d.call):
			c.add(codeDeclaration, d.argument(entryArgument), "tool: entry: want the name of a function")
		case d.Entry != "":
			if names, ok := hasFunction(f, d.Entry); !ok {
				at := d.argument(entryArgument)
				p := c.add(codeDeclaration, at, "tool: entry: no function %s at the top level of this file", d.Entry)
				if near := display.Nearest(d.Entry, names); near != "" {
					p.Hint = "did you mean " + near + "?"
					if fix := strconv.Quote(near); replaceable(at, fix) {
						p.Fix = fixed(*p, fix, display.Only(d.Entry, names))
					}
				}
			}
		case len(all) == 1: // reported as for any script
		case !hasRun:
			d.assumeEntry(f)
			c.add(codeDeclaration, d.call, `tool: %s needs an entry, as in entry="%s": this file has no function run`, d.Name, functionName(d.Name))
		case first != nil:
			d.assumeEntry(f)
			c.add(codeDeclaration, d.call, `tool: %s needs an entry, as in entry="%s": run is the function of %s above, and a file of several tools has one for each`,
				d.Name, functionName(d.Name), first.Name)
		default:
			first = d
		}
	}
}

// assumeEntry takes the function with the name of the tool as its entry, so that no other problems are reported for
// it.
func (d *Declaration) assumeEntry(f *syntax.File) {
	if name := functionName(d.Name); name != script.SourceRun {
		if _, ok := hasFunction(f, name); ok {
			d.Entry = name
		}
	}
}

// CheckFunction returns the problem of a file without the entry function of a tool; nil if it has one.
func CheckFunction(f script.File, l script.Limits, function string) *diag.Problem {
	parsed, err := script.Parse(f, l)
	if err != nil {
		return nil // the file's own problem
	}
	names, ok := hasFunction(parsed, function)
	if ok {
		return nil
	}
	p := &diag.Problem{Code: codeDeclaration, Message: fmt.Sprintf("no function %s at the top level of %s", function, diag.File(f.Shown()))}
	if near := display.Nearest(function, names); near != "" {
		p.Hint = "did you mean " + near + "?"
	}
	return p
}

// hasFunction reports whether a file binds a name, possibly to a function; otherwise it returns the names of the
// functions that it has.
func hasFunction(f *syntax.File, name string) (names []string, ok bool) {
	if _, bound := meter.FindFunction(f, name); bound {
		return nil, true
	}
	for _, s := range f.Stmts {
		if def, ok := s.(*syntax.DefStmt); ok {
			names = append(names, def.Name.Name)
		}
	}
	return names, false
}

// functionName returns a likely name for the function of a tool.
func functionName(tool string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tool)
}

// Tool returns the tool for checks, without the arguments that cannot be read.
func (d *Declaration) Tool() Entry {
	e := Entry{Tool: d.Name, Function: d.Entry, Input: d.Parameters, Output: d.Output}
	_ = json.Unmarshal(d.Limits, &e.Limits)
	_ = e.Limits.Time.UnmarshalText([]byte(d.Timeout))
	return e
}

// Is reports whether an expression is the declaration.
func (d *Declaration) Is(x syntax.Expr) bool {
	call, ok := x.(*syntax.CallExpr)
	return ok && call.Lparen.Line == d.call.Lparen.Line && call.Lparen.Col == d.call.Lparen.Col
}

// NamesEntry reports whether an argument of a call names the entry function in a declaration.
func NamesEntry(function, argument string) bool {
	return function == declares && argument == entryArgument
}

// argument returns the value of an argument, or the whole declaration.
func (d *Declaration) argument(name string) syntax.Node {
	for _, arg := range d.call.Args {
		if key, x, err := keyword(arg); err == nil && key == name {
			return x
		}
	}
	return d.call
}

// declarations returns the calls of tool at top level.
func declarations(tree *syntax.File) (calls []*syntax.CallExpr) {
	for _, s := range tree.Stmts {
		x, ok := s.(*syntax.ExprStmt)
		if !ok {
			continue
		}
		call, ok := x.X.(*syntax.CallExpr)
		if !ok {
			continue
		}
		if id, ok := call.Fn.(*syntax.Ident); ok && id.Name == declares {
			calls = append(calls, call)
		}
	}
	return calls
}

// misplaced reports calls of tool that are no declarations because they are not at top level.
func (c *checker) misplaced(f *syntax.File) {
	if meter.Bound(f)[declares] { // they may call another
		return
	}
	read := declarations(f)
	syntax.Walk(f, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || slices.Contains(read, call) {
			return true
		}
		if id, ok := call.Fn.(*syntax.Ident); ok && id.Name == declares {
			c.add(codeDeclaration, call, "tool: this declares nothing: a declaration is a statement at top level, outside of if, for and functions")
		}
		return true
	})
}

// Declares reports whether a file declares tools.
func Declares(f *syntax.File) bool { return len(declarations(f)) > 0 }

func (c *checker) declaration(call *syntax.CallExpr) *Declaration {
	d := &Declaration{file: c.file, call: call}
	into := map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description, "timeout": &d.Timeout, entryArgument: &d.Entry,
		"parameters": &d.Parameters, "output": &d.Output, "annotations": &d.Annotations, "limits": &d.Limits,
		"trust_annotations": &d.TrustAnnotations,
	}
	for _, arg := range call.Args {
		name, x, err := keyword(arg)
		switch field := into[name].(type) {
		case *string:
			err = readText(c.constants, x, field)
		case *json.RawMessage:
			err = readDict(c.constants, x, field)
		case *bool:
			err = readBool(c.constants, x, field)
		default:
			if err == nil {
				x = arg.(*syntax.BinaryExpr).X
				err = unknownKeyword(name, slices.Sorted(maps.Keys(into)))
			}
		}
		if err != nil {
			c.declarationError(name, cmp.Or(x, arg), err)
		}
	}
	if d.Name == "" && len(c.found) == 0 {
		c.add(codeDeclaration, call, `tool: want a name, as in tool(name="deploy", ...)`)
	}
	return d
}

// declarationError reports an error in an argument of tool, at the narrowest position.
func (c *checker) declarationError(name string, at syntax.Expr, err error) {
	var lit *notLiteral
	if errors.As(err, &lit) {
		at = lit.At
		if id, ok := at.(*syntax.Ident); ok && name == entryArgument {
			err = fmt.Errorf("want the name of the function as a string: entry=%q", id.Name)
		}
	}
	if name != "" {
		name += ": "
	}
	c.add(codeDeclaration, at, "tool: %s%v", name, err)
}

// Problem returns a problem of what is declared at a path of the configuration, such as tool.parameters.properties.x,
// with the position of the key that causes it.
func (d *Declaration) Problem(path string) diag.Problem {
	var at syntax.Node = d.call
	way := steps(path)
	if len(way) > 1 {
		for _, arg := range d.call.Args {
			if name, x, err := keyword(arg); err == nil && strings.ReplaceAll(name, "_", "") == strings.ToLower(way[1]) {
				at = arg.(*syntax.BinaryExpr).X
				if key, _ := locate(x, way[2:]); key != x {
					at = key
				}
			}
		}
	}
	return spanned(d.file, at, diag.Problem{Code: codeDeclaration})
}

// steps splits a path of the configuration: a.b[2]["c d"].
func steps(path string) (way []string) {
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case path[0] == '[':
			inside, rest, _ := strings.Cut(path[1:], "]")
			if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
				inside, _ = strconv.Unquote(quoted)
				rest = strings.TrimPrefix(path[1+len(quoted):], "]")
			}
			way, path = append(way, inside), rest
		default:
			n := strings.IndexAny(path, ".[")
			if n < 0 {
				n = len(path)
			}
			way, path = append(way, path[:n]), path[n:]
		}
	}
	return way
}

func keyword(arg syntax.Expr) (string, syntax.Expr, error) {
	if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
		if id, ok := b.X.(*syntax.Ident); ok {
			return id.Name, b.Y, nil
		}
	}
	return "", nil, errors.New(`want keyword arguments, as in tool(name="deploy", ...)`)
}

func unknownKeyword(name string, known []string) error {
	if near := display.Nearest(name, known); near != "" {
		return fmt.Errorf("unknown argument, did you mean %q?", near)
	}
	return fmt.Errorf("unknown argument: want one of %s", strings.Join(known, ", "))
}

func readText(c *constants, x syntax.Expr, into *string) error {
	v, err := c.Value(x)
	if err != nil {
		return err
	}
	s, ok := v.(starlark.String)
	if !ok {
		return fmt.Errorf("want a string, have %s", v.Type())
	}
	*into = string(s)
	return nil
}

func readDict(c *constants, x syntax.Expr, into *json.RawMessage) error {
	v, err := c.Value(x)
	if err != nil {
		return err
	}
	if _, ok := v.(*starlark.Dict); !ok {
		return fmt.Errorf("want a dict, have %s", v.Type())
	}
	*into, err = c.JSON(x)
	return err
}

func readBool(c *constants, x syntax.Expr, into *bool) error {
	v, err := c.Value(x)
	if err != nil {
		return err
	}
	b, ok := v.(starlark.Bool)
	if !ok {
		return fmt.Errorf("want True or False, have %s", v.Type())
	}
	*into = bool(b)
	return nil
}
