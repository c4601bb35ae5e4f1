package builtins

import (
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script/check"
)

// What checks need to know of the builtins besides their signatures: the types of parameters, which of them are names
// of tools or functions, and the types of results.

type kinds = map[string]string

func param(i int, name string) check.Param { return check.Param{Index: i, Name: name} }

var callKinds = kinds{"name": "text", "tool": "text", "args": "dict", "timeout": "duration"}

// meanings describe functions.
var meanings = map[string]check.Builtin{
	"call_tool":     {Tool: param(0, "name"), Args: param(1, "args"), Effect: true, Types: callKinds, Returns: "output"},
	"try_call_tool": {Tool: param(0, "name"), Args: param(1, "args"), Effect: true, Types: callKinds, Returns: "outcome"},
	"pages": {Tool: param(0, "tool"), Args: param(1, "args"), Effect: true, Returns: "pages",
		Types: kinds{"tool": "text", "args": "dict", "cursor": "text", "next": "text", "each": "function"}},
	"retry": {Effect: true, Repeats: param(0, "fn"), Returns: "called",
		Types: kinds{"fn": "function", "max_attempts": "positive", "delay": "duration", "backoff": "number", "max_delay": "duration", "jitter": "number"}},
	"parallel": {Branches: param(0, "fns"), Effect: true, Call: "parallel(fns, items=None, max_concurrency=10)", Returns: "branches",
		Types: kinds{"fns": "functions", "max_concurrency": "positive"}},
	"elicit": {Form: param(1, "schema"), Effect: true, Returns: "answer",
		Types:   kinds{"message": "text", "schema": "dict", "validate": "bool", "timeout": "duration", "when_unavailable": "text"},
		Choices: map[string][]string{"when_unavailable": {"error", "decline", "cancel"}}},
	"caller":       {Returns: "caller", Pure: true},
	"log":          {Types: kinds{"level": "text"}, Choices: map[string][]string{"level": wire.LogLevels}, Returns: "none"},
	"progress":     {Types: kinds{"done": "number", "total": "number", "message": "text"}, Returns: "none"},
	"result":       {Types: kinds{"is_error": "bool"}, Returns: "result", Pure: true},
	"sleep":        {Effect: true, Types: kinds{"duration": "duration"}, Waits: param(0, "duration"), Returns: "none"},
	"struct":       {Returns: "struct", Pure: true},
	"text":         {Returns: "text", Pure: true},
	"printf":       {Types: kinds{"format": "text"}, Returns: "text", Pure: true},
	"html_escape":  {Types: kinds{"text": "text"}, Returns: "text", Pure: true},
	"js_escape":    {Types: kinds{"text": "text"}, Returns: "text", Pure: true},
	"url_query":    {Types: kinds{"text": "text"}, Returns: "text", Pure: true},
	"without_none": {Types: kinds{"dict": "dict"}, Returns: "compact", Pure: true},
	"tool":         {Call: "tool(*_, **arguments)", Returns: "none"}, // the declaration is read from the text
}

var patternParam = param(0, "pattern")

// moduleMeanings describe the members of modules.
var moduleMeanings = map[string]map[string]check.Builtin{
	"json": {
		"encode": {Signature: "encode(x)", Returns: "text", Pure: true},
		"decode": {Signature: "decode(text, default=None)", Types: kinds{"text": "text"}},
		"indent": {Signature: "indent(text, indent=None)", Types: kinds{"text": "text"}, Returns: "text", Pure: true},
	},
	"math": {
		"ceil": {Signature: "ceil(x)", Types: kinds{"x": "number"}, Returns: "integer", Pure: true}, "floor": {Signature: "floor(x)", Types: kinds{"x": "number"}, Returns: "integer", Pure: true},
		"fabs": {Signature: "fabs(x)", Types: kinds{"x": "number"}, Returns: "float", Pure: true}, "sqrt": {Signature: "sqrt(x)", Types: kinds{"x": "number"}, Returns: "float", Pure: true},
		"round":    {Signature: "round(x)", Types: kinds{"x": "number"}, Returns: "float", Pure: true},
		"copysign": {Signature: "copysign(x, y)", Types: kinds{"x": "number", "y": "number"}, Returns: "float", Pure: true}, "remainder": {Signature: "remainder(x, y)", Types: kinds{"x": "number", "y": "number"}, Returns: "float", Pure: true},
		"mod": {Signature: "mod(x, y)", Types: kinds{"x": "number", "y": "number"}, Returns: "float", Pure: true},
		"pi":  {Returns: "float"}, "e": {Returns: "float"},
	},
	"re": {
		"search":  {Signature: "search(pattern, text)", Types: kinds{"pattern": "text", "text": "text"}, Pattern: patternParam, Returns: "match", Pure: true},
		"match":   {Signature: "match(pattern, text)", Types: kinds{"pattern": "text", "text": "text"}, Pattern: patternParam, Returns: "match", Pure: true},
		"findall": {Signature: "findall(pattern, text)", Types: kinds{"pattern": "text", "text": "text"}, Pattern: patternParam, Returns: "texts or tuples", Pure: true},
		"sub":     {Signature: "sub(pattern, replacement, text, max=-1)", Types: kinds{"pattern": "text", "text": "text", "max": "integer"}, Pattern: patternParam, Returns: "text", Pure: true},
		"split":   {Signature: "split(pattern, text, max=-1)", Types: kinds{"pattern": "text", "text": "text", "max": "integer"}, Pattern: patternParam, Returns: "list of text", Pure: true},
	},
	"time": {
		"now":            {Signature: "now()", Returns: "time"},
		"parse":          {Signature: "parse(text, format=None)", Types: kinds{"text": "text", "format": "text"}, Returns: "time"},
		"from_timestamp": {Signature: "from_timestamp(seconds, nanoseconds=0)", Returns: "time"},
		"duration":       {Signature: "duration(duration)", Types: kinds{"duration": "duration"}, Returns: "duration"},
		"second":         {Returns: "duration"}, "minute": {Returns: "duration"}, "hour": {Returns: "duration"},
	},
}
