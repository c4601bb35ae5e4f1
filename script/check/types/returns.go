package types

import (
	"strings"
)

// Parse parses Builtin.Returns: "text", "list of text", "time"; anything else is anything.
func Parse(s string) Type {
	if elem, ok := strings.CutPrefix(s, "list of "); ok {
		return listOf(Parse(elem))
	}
	k, ok := map[string]Kind{"text": Text, "integer": Int, "float": floatKind, "bool": boolKind, "none": None, "list": List,
		"dict": Dict, "time": timeKind, "duration": duration, "result": opaque}[s]
	switch {
	case s == "number":
		return Kinds(Int, floatKind)
	case s == "none":
		return Of(&Atom{Kind: None, Role: Output})
	case !ok:
		return Any
	}
	return Kinds(k)
}

// outcome is the result of try_call_tool for a tool with that output.
func outcome(output Type) Type {
	none := Of(&Atom{Kind: None, Role: Output})
	text := Kinds(Text)
	const name = "the result of try_call_tool"
	field := func(n string, t Type) Field { return Field{Name: n, Type: t} }
	kinds := Never
	for _, k := range failures {
		kinds = Join(kinds, Of(&Atom{Kind: Text, Lit: k, Role: Output, Set: failures}))
	}
	return Join(
		Of(&Atom{Kind: Struct, Name: name, Fields: []Field{field("ok", Literal(true)), field("output", output), field("error", none), field("kind", none)}}),
		Of(&Atom{Kind: Struct, Name: name, Fields: []Field{field("ok", Literal(false)), field("output", none), field("error", text), field("kind", kinds)}}),
	)
}

// failures are the kinds of builtins.ToolError.
var failures = []any{"invalid_input", "invalid_output", "tool", "timeout", "unavailable", "unknown", "denied", "not_found"}

// ran is the result of testing.run. Its fields depend on the fakes.
var ran = Of(&Atom{Kind: Struct, Name: "the result of testing.run", Fields: []Field{
	{Name: "ok", Type: Kinds(boolKind)}, {Name: "output", Type: Any}, {Name: "content", Type: Any},
	{Name: "error", Type: Any}, {Name: "kind", Type: Any},
}})

// answer is the answer to a question, for a form with that content.
func answer(content Type) Type {
	none := Of(&Atom{Kind: None, Role: Output})
	const name = "the answer of elicit"
	action := func(s string) Type {
		return Of(&Atom{Kind: Text, Lit: s, Role: Output, Set: actions})
	}
	return Join(
		Of(&Atom{Kind: Struct, Name: name, Fields: []Field{{Name: "action", Type: action("accept")}, {Name: "content", Type: content}}}),
		Of(&Atom{Kind: Struct, Name: name, Fields: []Field{{Name: "action", Type: Join(action("decline"), action("cancel"))}, {Name: "content", Type: none}}}),
	)
}

var actions = []any{"accept", "decline", "cancel"}

// caller is the result of caller().
var caller = func() Type {
	text, list := Kinds(Text), listOf(Kinds(Text))
	a := &Atom{Kind: Dict, Role: Output, Name: "caller()", Declared: true}
	a.Fields = []Field{{Name: "subject", Type: text}, {Name: "issuer", Type: text}, {Name: "groups", Type: list}, {Name: "scopes", Type: list}, {Name: "client", Type: text}}
	return Of(a)
}()

// compact returns a dict without its entries that are None.
func compact(t Type) Type {
	return t.Replace(Dict, func(a *Atom) *Atom {
		if a.Role != ownRole {
			return &Atom{Kind: Dict, Open: true, Elem: Any}
		}
		b := *a
		b.Fields = nil
		for _, f := range a.Fields {
			if f.Type.Has(None) {
				f.Type, f.Presence = f.Type.Without(None), maybe
			}
			if !f.Type.IsNever() {
				b.Fields = append(b.Fields, f)
			}
		}
		b.Elem = a.Elem.Without(None)
		return &b
	})
}
