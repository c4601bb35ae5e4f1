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
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check/literal"
	"github.com/vmcp-dev/vmcp/script/source"
)

// Declaration is what a file that is a tool says about itself, in a call at top level:
//
//	tool(
//	    name = "deploy",
//	    description = "Deploys a service",
//	    parameters = {"type": "object", "properties": {"service": {"type": "string"}}},
//	)
type Declaration struct {
	Name, Title, Description, Timeout       string
	Parameters, Output, Annotations, Limits json.RawMessage // nil: not declared
	TrustAnnotations                        bool

	file script.File
	call *syntax.CallExpr
}

// ReadDeclaration reads the declaration of a file without running anything: its
// arguments have to be literals, or constants of the file. A file without one is a
// library, and the result nil.
func ReadDeclaration(f script.File) (*Declaration, diag.Problems) {
	tree, err := source.Parse(f, script.Limits{})
	if err != nil {
		c := &checker{file: f}
		c.engine(codeSyntax, err)
		for i := range c.found {
			c.found[i] = familiar(f, c.found[i])
		}
		return nil, c.found
	}
	c := &checker{file: f, constants: literal.Of(tree)}
	var d *Declaration
	for _, call := range declarations(tree) {
		if d != nil {
			c.add(codeDeclaration, call, "tool(...) was called above already: a file is one tool")
			break
		}
		d = c.declaration(call)
	}
	if len(c.found) > 0 {
		return nil, c.found
	}
	return d, nil
}

// declarations finds the calls of tool at top level.
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
		if id, ok := call.Fn.(*syntax.Ident); ok && id.Name == "tool" {
			calls = append(calls, call)
		}
	}
	return calls
}

func (c *checker) declaration(call *syntax.CallExpr) *Declaration {
	d := &Declaration{file: c.file, call: call}
	into := map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description, "timeout": &d.Timeout,
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

// declarationError says what is wrong with an argument of tool, at the narrowest place.
func (c *checker) declarationError(name string, at syntax.Expr, err error) {
	var lit *literal.NotLiteral
	if errors.As(err, &lit) {
		at = lit.At
	}
	if name != "" {
		name += ": "
	}
	c.add(codeDeclaration, at, "tool: %s%v", name, err)
}

// Problem is a problem with what is declared at a path of the configuration, such as
// tool.parameters.properties.x, at the key that is to blame.
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

// steps takes a path of the configuration apart: a.b[2]["c d"].
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
	if near := spell.Nearest(name, known); near != "" {
		return fmt.Errorf("unknown argument, did you mean %q?", near)
	}
	return fmt.Errorf("unknown argument: want one of %s", strings.Join(known, ", "))
}

func readText(c *literal.Constants, x syntax.Expr, into *string) error {
	v, err := c.Value(x)
	if err != nil {
		return err
	}
	s, ok := v.(starlark.String)
	if !ok {
		return fmt.Errorf("want a text, have %s", v.Type())
	}
	*into = string(s)
	return nil
}

func readDict(c *literal.Constants, x syntax.Expr, into *json.RawMessage) error {
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

func readBool(c *literal.Constants, x syntax.Expr, into *bool) error {
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
