package callable

import (
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/types"
)

// Parse parses Builtin.Returns: "text", "list of text", "time"; anything else is anything.
func Parse(s string) types.Type {
	if elem, ok := strings.CutPrefix(s, "list of "); ok {
		return types.ListOf(Parse(elem))
	}
	k, ok := map[string]types.Kind{"text": types.Text, "integer": types.Int, "float": types.Float, "bool": types.Bool, "none": types.None, "list": types.List,
		"dict": types.Dict, "time": types.Time, "duration": types.Duration, "result": types.Opaque}[s]
	switch {
	case s == "number":
		return types.Kinds(types.Int, types.Float)
	case s == "none":
		return types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	case !ok:
		return types.Any
	}
	return types.Kinds(k)
}

// Outcome is the result of try_call_tool for a tool with that output.
func Outcome(output types.Type) types.Type {
	none := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	text := types.Kinds(types.Text)
	const name = "the result of try_call_tool"
	field := func(n string, t types.Type) types.Field { return types.Field{Name: n, Type: t} }
	kinds := types.Never
	for _, k := range failures {
		kinds = types.Join(kinds, types.Of(&types.Atom{Kind: types.Text, Lit: k, Role: types.Output, Set: failures}))
	}
	return types.Join(
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{field("ok", types.Literal(true)), field("output", output), field("error", none), field("kind", none)}}),
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{field("ok", types.Literal(false)), field("output", none), field("error", text), field("kind", kinds)}}),
	)
}

// failures are the kinds of builtins.ToolError.
var failures = []any{"invalid_input", "invalid_output", "tool", "timeout", "unavailable", "unknown", "denied", "not_found"}

// Ran is the result of testing.run. Its fields depend on the fakes.
var Ran = types.Of(&types.Atom{Kind: types.Struct, Name: "the result of testing.run", Fields: []types.Field{
	{Name: "ok", Type: types.Kinds(types.Bool)}, {Name: "output", Type: types.Any}, {Name: "content", Type: types.Any},
	{Name: "error", Type: types.Any}, {Name: "kind", Type: types.Any},
}})

// Answer is the answer to a question, for a form with that content.
func Answer(content types.Type) types.Type {
	none := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	const name = "the answer of elicit"
	action := func(s string) types.Type {
		return types.Of(&types.Atom{Kind: types.Text, Lit: s, Role: types.Output, Set: actions})
	}
	return types.Join(
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{{Name: "action", Type: action("accept")}, {Name: "content", Type: content}}}),
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{{Name: "action", Type: types.Join(action("decline"), action("cancel"))}, {Name: "content", Type: none}}}),
	)
}

var actions = []any{"accept", "decline", "cancel"}

// Caller is the result of caller().
var Caller = func() types.Type {
	text, list := types.Kinds(types.Text), types.ListOf(types.Kinds(types.Text))
	a := &types.Atom{Kind: types.Dict, Role: types.Output, Name: "caller()", Declared: true}
	a.Fields = []types.Field{{Name: "subject", Type: text}, {Name: "issuer", Type: text}, {Name: "groups", Type: list}, {Name: "scopes", Type: list}, {Name: "client", Type: text}}
	return types.Of(a)
}()

// Compact returns a dict without its entries that are None.
func Compact(t types.Type) types.Type {
	return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
		if a.Role != types.Made {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
		b := *a
		b.Fields = nil
		for _, f := range a.Fields {
			if f.Type.Has(types.None) {
				f.Type, f.Presence = f.Type.Without(types.None), types.Maybe
			}
			if !f.Type.IsNever() {
				b.Fields = append(b.Fields, f)
			}
		}
		b.Elem = a.Elem.Without(types.None)
		return &b
	})
}
