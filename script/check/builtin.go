package check

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
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
