// Package builtins has the functions and modules that scripts can call: tools, questions to the user, the clock, and
// modules of pure functions.
//
// All of it is in one table, [Table]; programs are compiled with [All]:
//
//	p, err := script.Compile(file, script.Options{Builtins: builtins.All()})
//	res, err := p.Run(ctx, script.RunOptions{Host: host, Args: args})
//
// All effects pass one method, [script.Run.Do].
package builtins

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

type function = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

func row(name, signature, help string, f function) check.Builtin {
	doc, b := documentation[name], meanings[name]
	b.Name, b.Signature, b.Help, b.Details, b.Example = name, signature, help, doc.details, doc.example
	b.Value = script.NewBuiltin(name, f)
	return b
}

// Table returns everything that a script can call beyond the language itself.
func Table() []check.Builtin { return slices.Clone(table) }

var table = []check.Builtin{
	row("call_tool", "call_tool(name, args={}, timeout=None)",
		"calls a tool and returns its output; a failure ends the script", callTool),
	row("try_call_tool", "try_call_tool(name, args={}, timeout=None)",
		"calls a tool and returns struct(ok, output, error, kind), whatever the tool does", tryCallTool),
	row("retry", `retry(fn, max_attempts=3, delay="1s", backoff=2, max_delay="30s", jitter=0.2)`,
		"calls a function again while it fails, or while its result has ok == False", retry),
	row("parallel", "parallel(fns) or parallel(fn, items), max_concurrency=10",
		"calls functions concurrently and returns their results in order", parallel),
	row("pages", `pages(tool, args={}, cursor="cursor", next="nextCursor", items="items", each=None)`,
		"iterates over what a tool returns in pages, fetching each when it is needed", pages),
	row("elicit", `elicit(message, schema={}, validate=True, timeout=None, when_unavailable="error")`,
		"asks the user and returns struct(action, content)", elicit),
	row("caller", "caller()",
		"the caller of the tool: subject, issuer, groups, scopes, client", caller),
	row("log", `log(message, level="info", **fields)`,
		"writes to the log of the server, of the client and of the run", logMessage),
	row("progress", "progress(done, total=None, message=None)",
		"reports progress to the client, if the client asked for it", progress),
	row("result", "result(content=None, structured=None, is_error=False)",
		"makes a result with content blocks, for run to return", result),
	row("sleep", "sleep(duration)", "waits, for seconds or days", sleep),
	row("struct", "struct(**fields)", "makes an immutable value with fields", starlarkstruct.Make),
	row("text", `text(value, default="")`,
		"formats a value for a message: a string unchanged, None as the default, other values as JSON", textValue),
	row("printf", "printf(format, *values)", "fills values into a format with the verbs of Go, such as %.1f and %-10s", printf),
	row("html_escape", "html_escape(text)", "escapes a string for HTML", htmlEscape),
	row("js_escape", "js_escape(text)", "escapes a string for a string literal of JavaScript", jsEscape),
	row("url_query", "url_query(text)", "escapes a string for the query of a URL", urlQuery),
	row("without_none", "without_none(dict)", "the entries of a dict that are not None, for optional arguments", withoutNone),
	row("tool", "tool(name, title=None, description=None, parameters={}, output=None, timeout=None, annotations={}, trust_annotations=False, limits={}, entry=\"run\")",
		"declares a tool in a file of a scripts folder; read from the text, without running it", declareTool),
	module("json", "decodes, encodes and indents JSON", jsonModule),
	module("math", "functions on numbers whose results are exact", mathModule),
	module("re", "regular expressions in the syntax of RE2", reModule),
	module("time", "the clock, in UTC, and arithmetic with it", timeModule),
}

func module(name, help string, m *starlarkstruct.Module) check.Builtin {
	members := slices.Sorted(maps.Keys(m.Members))
	doc := documentation[name]
	return check.Builtin{
		Name: name, Signature: name + "." + strings.Join(members, ", "+name+"."), Help: help,
		Details: doc.details, Example: doc.example, Value: m, Members: moduleMeanings[name],
	}
}

// All returns the predeclared names that a program is compiled with.
func All() starlark.StringDict { return maps.Clone(all) }

var all = func() starlark.StringDict {
	d := make(starlark.StringDict, len(table))
	for _, b := range table {
		d[b.Name] = b.Value
	}
	return d
}()
