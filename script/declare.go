package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/spell"
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
	Pos                                     syntax.Position
}

// ReadDeclaration reads the declaration of a file without running anything: its
// arguments have to be literals, or constants of the file. A file without one is a
// library, and the result nil.
func ReadDeclaration(f File) (*Declaration, error) {
	limits := DefaultLimits()
	if len(f.Source) > limits.Source {
		return nil, Errors{sourceTooLong(f, limits.Source)}
	}
	tree, err := dialect.Parse(f.Name, f.Source, 0)
	if err != nil {
		return nil, compileErrors(err)
	}
	if err := checkTree(tree); err != nil {
		return nil, compileErrors(err)
	}
	var d *Declaration
	for _, call := range declarations(tree) {
		if d != nil {
			return nil, Errors{{Msg: "tool(...) was called above already: a file is one tool", Pos: syntax.Start(call)}}
		}
		if d, err = readDeclaration(call, constantsOf(tree)); err != nil {
			return nil, err
		}
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

func readDeclaration(call *syntax.CallExpr, c *constants) (*Declaration, error) {
	d := &Declaration{Pos: syntax.Start(call)}
	into := map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description, "timeout": &d.Timeout,
		"parameters": &d.Parameters, "output": &d.Output, "annotations": &d.Annotations, "limits": &d.Limits,
		"trust_annotations": &d.TrustAnnotations,
	}
	var problems Errors
	for _, arg := range call.Args {
		name, x, err := keyword(arg)
		switch field := into[name].(type) {
		case *string:
			err = readText(c, x, field)
		case *json.RawMessage:
			err = readDict(c, x, field)
		case *bool:
			err = readBool(c, x, field)
		default:
			if err == nil {
				err = unknownKeyword(name, slices.Sorted(maps.Keys(into)))
			}
		}
		if err != nil {
			problems = append(problems, declarationError(name, arg, err))
		}
	}
	if d.Name == "" && len(problems) == 0 {
		problems = append(problems, &Error{Msg: `tool: want a name, as in tool(name="deploy", ...)`, Pos: d.Pos})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// declarationError says what is wrong with an argument of tool, at the narrowest place.
func declarationError(name string, arg syntax.Expr, err error) *Error {
	e := &Error{Msg: strings.TrimSuffix("tool: "+name, " ") + ": " + err.Error(), Pos: syntax.Start(arg)}
	if name == "" {
		e.Msg = "tool: " + err.Error()
	}
	var lit *notLiteral
	if errors.As(err, &lit) {
		e.Pos = lit.pos
	}
	return e
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

func readText(c *constants, x syntax.Expr, into *string) error {
	v, err := c.value(x)
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

func readDict(c *constants, x syntax.Expr, into *json.RawMessage) error {
	v, err := c.value(x)
	if err != nil {
		return err
	}
	if _, ok := v.(*starlark.Dict); !ok {
		return fmt.Errorf("want a dict, have %s", v.Type())
	}
	*into, err = c.json(x)
	return err
}

func readBool(c *constants, x syntax.Expr, into *bool) error {
	v, err := c.value(x)
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
