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
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Builtin is a row of the table.
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
}

type function = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

func row(name, signature, help string, f function) Builtin {
	doc := documentation[name]
	return Builtin{
		Name: name, Signature: signature, Help: help, Details: doc.details, Example: doc.example, Value: starlark.NewBuiltin(name, f),
	}
}

// Table lists everything that a script can call beyond the language itself.
func Table() []Builtin { return slices.Clone(table) }

var table = []Builtin{
	row("call_tool", "call_tool(name, args={}, timeout=None)",
		"calls a tool and returns its output; a failure ends the script", callTool),
	row("try_call_tool", "try_call_tool(name, args={}, timeout=None)",
		"calls a tool and returns struct(ok, output, error, kind), whatever the tool does", tryCallTool),
	row("retry", `retry(fn, max_attempts=3, delay="1s", backoff=2, max_delay="30s", jitter=0.2)`,
		"calls a function again while it fails, or while its result has ok == False", retry),
	row("parallel", "parallel(fns) or parallel(fn, items), max_concurrency=10",
		"calls functions side by side and returns their results in order", parallel),
	row("pages", `pages(tool, args={}, cursor="cursor", next="nextCursor", items="items")`,
		"iterates over what a tool returns in pages, fetching each when it is needed", pages),
	row("elicit", `elicit(message, schema={}, validate=True, timeout=None, when_unavailable="error")`,
		"asks the user and returns struct(action, content)", elicit),
	row("log", `log(message, level="info", **fields)`,
		"writes to the log of the server, of the client and of the run", logMessage),
	row("progress", "progress(done, total=None, message=None)",
		"tells the client how far the script is, if the client wants to know", progress),
	row("result", "result(content=None, structured=None, is_error=False)",
		"makes a result with content blocks, for run to return", result),
	row("sleep", "sleep(duration)", "waits", sleep),
	row("struct", "struct(**fields)", "makes an immutable value with fields", starlarkstruct.Make),
	row("tool", "tool(name, title=None, description=None, parameters={}, output=None, timeout=None, annotations={}, trust_annotations=False, limits={})",
		"declares the tool that a file of a scripts folder is; read from the text, before anything runs", declareTool),
	module("json", "JSON text to values and back", jsonModule),
	module("math", "functions on numbers whose results are exact", mathModule),
	module("re", "regular expressions in the syntax of RE2", reModule),
	module("time", "the clock, in UTC, and arithmetic with it", timeModule),
}

func module(name, help string, m *starlarkstruct.Module) Builtin {
	members := slices.Sorted(maps.Keys(m.Members))
	doc := documentation[name]
	return Builtin{
		Name: name, Signature: name + "." + strings.Join(members, ", "+name+"."), Help: help,
		Details: doc.details, Example: doc.example, Value: m,
	}
}

// All returns the table as the names that a program is compiled with.
func All() starlark.StringDict { return maps.Clone(all) }

var all = func() starlark.StringDict {
	d := make(starlark.StringDict, len(table))
	for _, b := range table {
		d[b.Name] = b.Value
	}
	return d
}()
