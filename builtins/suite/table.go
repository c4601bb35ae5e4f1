package suite

import (
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Table lists what tests can call besides the builtins of scripts, for checks and editors.
func Table() []check.Builtin {
	names := make([]string, len(functions))
	members := make(map[string]check.Builtin, len(functions))
	for i, f := range functions {
		b := f.row
		b.Name, _, _ = strings.Cut(b.Signature, "(")
		names[i], members[b.Name] = module.Name+"."+b.Name, b
	}
	return []check.Builtin{{Name: module.Name, Signature: strings.Join(names, ", "), Help: "fakes, assertions and a clock for tests", Value: module, Members: members}}
}

// function is a function of the module testing.
type function struct {
	run func(*call) (starlark.Value, error)
	row check.Builtin
}

type kinds = map[string]string

func param(i int, name string) check.Param { return check.Param{Index: i, Name: name} }

// functions are those of testing, with what checks need to know. It is filled in by init, because the functions refer
// to it.
var functions []function

func init() {
	functions = []function{
		{eq, check.Builtin{Signature: "eq(have, want)", Help: "a difference is reported by its path", Returns: "none"}},
		{ne, check.Builtin{Signature: "ne(have, other)", Returns: "none"}},
		{isTrue, check.Builtin{Signature: "is_true(x)", Returns: "none"}},
		{isFalse, check.Builtin{Signature: "is_false(x)", Returns: "none"}},
		{contains, check.Builtin{Signature: "contains(x, part)", Help: "a part of a string, an element of a list, a key of a dict, or entries of a dict", Returns: "none"}},
		{fails, check.Builtin{Signature: `fails(fn, text="")`, Help: "calls fn, whose error has to contain the text, and returns the message", Types: kinds{"fn": "function", "text": "text"}, Returns: "text"}},
		{declareFake, check.Builtin{Signature: `tool(name, returns=None, returns_each=None, answer=None, text=None, fails=None, kind="tool", takes="0s")`,
			Help: "a fake for a tool", Tool: param(0, "name"), Returns: "named", Choices: map[string][]string{"kind": failureKinds},
			Types: kinds{"name": "text", "returns_each": "list", "answer": "function", "text": "text", "fails": "text", "kind": "text", "takes": "duration"}}},
		{declareAnswer, check.Builtin{Signature: `answer(part_of_message, action="accept", content={})`, Help: "answers one question that contains the text",
			Types: kinds{"part_of_message": "text", "action": "text", "content": "dict"}, Choices: map[string][]string{"action": {"accept", "decline", "cancel"}}, Returns: "none"}},
		{runTool, check.Builtin{Signature: "run(tool, args={})", Help: "runs a scripted tool as a client's call would; returns struct(ok, output, content, error, kind)",
			Tool: param(0, "tool"), Types: kinds{"tool": "text", "args": "dict"}, Returns: "ran"}},
		{calls, check.Builtin{Signature: `calls(name="")`, Help: "the arguments of the calls of a tool", Types: kinds{"name": "text"}, Tool: param(0, "name"), Returns: "named"}},
		{questions, check.Builtin{Signature: "questions()", Help: "the questions that were asked", Returns: "list of text"}},
		{logs, check.Builtin{Signature: "logs()", Help: "the messages that were logged", Returns: "list of text"}},
		{now, check.Builtin{Signature: "now()", Help: "the time of the test", Returns: "time"}},
		{setClock, check.Builtin{Signature: "clock(text)", Help: "sets the time", Types: kinds{"text": "text"}, Returns: "none"}},
		{skip, check.Builtin{Signature: "skip(why)", Help: "ends the test, which counts as skipped", Types: kinds{"why": "text"}, Returns: "none"}},
	}
	for _, f := range functions {
		name, _, _ := strings.Cut(f.row.Signature, "(")
		module.Members[name] = builtin(name, f.run)
	}
}

// failureKinds are the kinds of try_call_tool.
var failureKinds = []string{builtins.InvalidInput, builtins.InvalidOutput, builtins.Tool, builtins.Timeout, builtins.Unavailable,
	builtins.Denied, builtins.NotFound, builtins.Unknown}
