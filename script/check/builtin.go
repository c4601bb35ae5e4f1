package check

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/check/callable"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// Builtin is a row of the table of what scripts can call: what the reference prints, and
// what checks have to know of it. No check knows a builtin by its name.
type Builtin struct {
	// Name is what a script writes.
	Name string
	// Signature shows the parameters with their defaults.
	Signature string
	// Help says in one line what it does.
	Help string
	// Details say more, in Markdown; "" when there is no more to say.
	Details string
	// Example shows the use. It runs as a test.
	Example Example
	// Value is the function or module.
	Value starlark.Value

	// Tool takes the name of a tool, Args the arguments of that call as they are.
	Tool, Args Param
	// Form takes the JSON Schema of a question to the user.
	Form Param
	// Branches takes functions that run side by side.
	Branches Param
	// Effect says that a call can give the turn to other branches.
	Effect bool

	// Call is Signature for checks, where that shows several forms.
	Call string
	// Types say what parameters take, by name: text, integer, positive, number, bool, dict, list,
	// duration, time, function, functions. Choices are the texts that one may be.
	Types   map[string]string
	Choices map[string][]string
	// Returns says what a call returns: a type such as "text" and "list of text", or how it
	// depends on the arguments: output, outcome, pages, called, branches, answer, match,
	// texts or tuples, struct. "" is anything.
	Returns string
	// Repeats takes a function that may be called again, Waits a time that is waited, Pattern a
	// regular expression.
	Repeats, Waits, Pattern Param
	// Members are the functions of a module, by their names in it.
	Members map[string]Builtin
	// Pure says that it is called for its result alone.
	Pure bool
}

// callable is the row for those checks that follow types.
func (b *Builtin) callable() *callable.Builtin {
	c := &callable.Builtin{Name: b.Name, Returns: b.Returns, Tool: b.Tool.Name, Args: b.Args.Name, Form: b.Form.Name,
		Repeats: b.Repeats.Name, Waits: b.Waits.Name, Pattern: b.Pattern.Name, Pure: b.Pure}
	if m, ok := b.Value.(*starlarkstruct.Module); ok {
		c.Members, c.Values = map[string]*callable.Builtin{}, map[string]types.Type{}
		for name, v := range m.Members {
			member := b.Members[name]
			member.Name = b.Name + "." + name
			if _, ok := v.(starlark.Callable); ok {
				c.Members[name] = member.callable()
			} else {
				c.Values[name] = callable.Parse(member.Returns)
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

// parameters reads a signature; of one that is none nothing is known.
func (b *Builtin) parameters(signature string) (params []callable.Param, varargs, kwargs bool) {
	_, inside, ok := strings.Cut(signature, "(")
	f, err := syntax.Parse("", fmt.Sprintf("def f(%s: pass", inside), 0)
	if !ok || err != nil {
		return nil, true, true
	}
	params = []callable.Param{}
	for _, p := range f.Stmts[0].(*syntax.DefStmt).Params {
		switch p := p.(type) {
		case *syntax.Ident:
			params = append(params, callable.Param{Name: p.Name, Type: b.Types[p.Name], Choices: b.Choices[p.Name]})
		case *syntax.BinaryExpr:
			name := p.X.(*syntax.Ident).Name
			params = append(params, callable.Param{Name: name, Type: b.Types[name], Choices: b.Choices[name], Optional: true})
		case *syntax.UnaryExpr:
			varargs, kwargs = varargs || p.Op == syntax.STAR, kwargs || p.Op == syntax.STARSTAR
		}
	}
	return params, varargs, kwargs
}

// Example is a piece of a script. Behind the expressions whose value matters it says
// what they are: "1 + 1  # → 2".
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

// table finds rows by the name that a script writes.
type table map[string]*Builtin

func tableOf(rows []Builtin) table {
	t := make(table, len(rows))
	for i := range rows {
		t[rows[i].Name] = &rows[i]
	}
	return t
}

// called returns the row of what a call calls by its name, or nil.
func (t table) called(call *syntax.CallExpr) *Builtin {
	if id, ok := call.Fn.(*syntax.Ident); ok {
		return t[id.Name]
	}
	return nil
}

// values are the table's names as a program is compiled with them.
func values(rows []Builtin) starlark.StringDict {
	d := make(starlark.StringDict, len(rows))
	for _, b := range rows {
		d[b.Name] = b.Value
	}
	return d
}
