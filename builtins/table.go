// Package builtins is what scripts can call: tools, the user, the clock, and a few
// modules of pure functions.
//
// All of it is in one table, [Table]; a program gets it with [All]:
//
//	p, err := script.Compile(file, script.Options{Builtins: builtins.All()})
//	res, err := p.Run(ctx, script.RunOptions{Host: host, Args: args})
//
// What touches the world goes through the run's one door, [script.Run.Do].
package builtins

import (
	"go.starlark.net/starlark"
)

// Builtin is a row of the table.
type Builtin struct {
	// Name is what a script writes.
	Name string
	// Signature shows the parameters with their defaults.
	Signature string
	// Help says in one line what it does.
	Help string
	// Value is the function or module.
	Value starlark.Value
}

type function = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

func row(name, signature, help string, f function) Builtin {
	return Builtin{Name: name, Signature: signature, Help: help, Value: starlark.NewBuiltin(name, f)}
}

// Table lists everything that a script can call beyond the language itself.
func Table() []Builtin { return table }

var table = []Builtin{
	row("call_tool", "call_tool(name, args={}, timeout=None)", "calls a tool and returns its output; a failure ends the script", callTool),
	row("try_call_tool", "try_call_tool(name, args={}, timeout=None)", "calls a tool and returns struct(ok, output, error, kind), whatever happens", tryCallTool),
	row("log", `log(message, level="info", **fields)`, "writes to the log of the server, of the client and of the run", logMessage),
}

// All returns the table as the names that a program is compiled with.
func All() starlark.StringDict { return all }

var all = func() starlark.StringDict {
	d := make(starlark.StringDict, len(table))
	for _, b := range table {
		d[b.Name] = b.Value
	}
	return d
}()
