package check

import (
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/check/types"
)

// Builtin is a row of the table of what scripts can call: what the reference prints, and what checks need. No check
// knows a builtin by its name.
type Builtin struct {
	// Name is the name in scripts.
	Name string
	// Signature lists the parameters with their defaults.
	Signature string
	// Help describes it in one line.
	Help string
	// Details are the full description, in Markdown; "" for none.
	Details string
	// Example shows how to use it. It is run as a test.
	Example Example
	// Value is the function or module.
	Value starlark.Value

	// Tool is the parameter for the name of a tool, Args that for the arguments of its call.
	Tool, Args Param
	// Form is the parameter for the JSON Schema of a question to the user.
	Form Param
	// Branches is the parameter for functions that run concurrently.
	Branches Param
	// Effect says that other branches can compute during a call.
	Effect bool

	// Call replaces Signature in checks, where Signature shows several forms.
	Call string
	// Types are the types of parameters, by name: text, integer, positive, number, bool, dict, list, duration, time,
	// function, functions. Choices are the allowed texts of a parameter.
	Types   map[string]string
	Choices map[string][]string
	// Returns is what a call returns: a type such as "text" and "list of text", or how it depends on the arguments:
	// output, outcome, pages, called, branches, answer, match, texts or tuples, struct. "" is anything.
	Returns string
	// Repeats is the parameter for a function that may be called again, Waits for a time to wait, Pattern for a
	// regular expression.
	Repeats, Waits, Pattern Param
	// Members are the functions of a module, by their names in it.
	Members map[string]Builtin
	// Pure says that calling it has no purpose but its result.
	Pure bool
}

// callable returns the row for the checks that follow types.
func (b *Builtin) callable() *types.Builtin {
	c := &types.Builtin{Name: b.Name, Returns: b.Returns, Tool: b.Tool.Name, Args: b.Args.Name, Form: b.Form.Name,
		Repeats: b.Repeats.Name, Waits: b.Waits.Name, Pattern: b.Pattern.Name, Pure: b.Pure}
	if m, ok := b.Value.(*starlarkstruct.Module); ok {
		c.Members, c.Values = map[string]*types.Builtin{}, map[string]types.Type{}
		for name, v := range m.Members {
			member := b.Members[name]
			member.Name = b.Name + "." + name
			if _, ok := v.(starlark.Callable); ok {
				c.Members[name] = member.callable()
			} else {
				c.Values[name] = types.Parse(member.Returns)
			}
		}
		return c
	}
	call := b.Call
	if call == "" {
		call = b.Signature
	}
	c.Params, c.Varargs, c.Kwargs = b.parameters(call)
	return c
}

// parameters parses a signature. For an invalid one nothing is known.
func (b *Builtin) parameters(signature string) (params []types.Param, varargs, kwargs bool) {
	written, ok := parsed(signature)
	if !ok {
		return nil, true, true
	}
	params = []types.Param{}
	for _, p := range written {
		switch p := p.(type) {
		case *syntax.Ident:
			params = append(params, types.Param{Name: p.Name, Type: b.Types[p.Name], Choices: b.Choices[p.Name]})
		case *syntax.BinaryExpr:
			name := p.X.(*syntax.Ident).Name
			params = append(params, types.Param{Name: name, Type: b.Types[name], Choices: b.Choices[name], Optional: true})
		case *syntax.UnaryExpr:
			varargs, kwargs = varargs || p.Op == syntax.STAR, kwargs || p.Op == syntax.STARSTAR
		}
	}
	return params, varargs, kwargs
}

// signatures caches the parsed parameters of each signature, as []syntax.Expr. Signatures are part of the program, so
// their number is bounded; tables are made for every catalog.
var signatures sync.Map

// parsed returns the parameters in a signature; ok is false for an invalid one.
func parsed(signature string) (params []syntax.Expr, ok bool) {
	if known, ok := signatures.Load(signature); ok {
		return known.([]syntax.Expr), true
	}
	_, inside, found := strings.Cut(signature, "(")
	f, err := syntax.Parse("", fmt.Sprintf("def f(%s: pass", inside), 0)
	if !found || err != nil {
		return nil, false
	}
	params = f.Stmts[0].(*syntax.DefStmt).Params
	signatures.Store(signature, params)
	return params, true
}

// Example is a part of a script. A comment after an expression has its value: "1 + 1  # → 2".
type Example string

// Param is a parameter of a builtin; the zero value is none.
type Param struct {
	Index int
	Name  string
}

// of returns the argument of a call for p; nil when there is none or the text does not show it.
func (p Param) of(call *syntax.CallExpr) syntax.Expr {
	if p.Name == "" {
		return nil
	}
	for i, arg := range call.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				if id, ok := arg.X.(*syntax.Ident); ok && id.Name == p.Name {
					return arg.Y
				}
				continue
			}
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				continue
			}
		}
		if i == p.Index {
			return arg
		}
	}
	return nil
}

// table has the rows by the names in scripts.
type table map[string]*Builtin

func tableOf(rows []Builtin) table {
	t := make(table, len(rows))
	for i := range rows {
		t[rows[i].Name] = &rows[i]
	}
	return t
}

// called returns the row of the builtin that is called by name, or nil.
func (t table) called(call *syntax.CallExpr) *Builtin {
	if id, ok := call.Fn.(*syntax.Ident); ok {
		return t[id.Name]
	}
	return nil
}

// values returns the predeclared names that a program is compiled with.
func values(rows []Builtin) starlark.StringDict {
	d := make(starlark.StringDict, len(rows))
	for _, b := range rows {
		d[b.Name] = b.Value
	}
	return d
}
