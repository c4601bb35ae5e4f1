package types_test

import (
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// orNone is a value of a tool that may be missing.
func orNone(t types.Type) types.Type {
	return types.Join(t, types.Of(&types.Atom{Kind: types.None, Role: types.Output}))
}

// TestConditionsNarrow: what x can be behind "if condition", and in its else. Never is where nothing leads to.
func TestConditionsNarrow(t *testing.T) {
	text, number := types.Kinds(types.Text), types.Kinds(types.Int)
	order := types.Of(&types.Atom{Kind: types.Dict, Role: types.Output, Name: "order", Fields: []types.Field{
		{Name: "id", Type: text}, {Name: "note", Type: orNone(text), Presence: types.Optional},
	}})
	for _, tt := range []struct {
		x         types.Type
		condition string
		yes, no   string
	}{
		{orNone(text), "x", "a string", "a string or None"},
		{orNone(text), "not x", "a string or None", "a string"},
		{orNone(text), "x == None", "None", "a string"},
		{orNone(text), "x != None and x", "a string", "None or a string"},
		{orNone(number), "x != None", "an integer", "None"},
		{orNone(number), "x < 3", "an integer", "an integer or None"},
		{types.Join(text, number), `type(x) == "int"`, "an integer", "a string"},
		{types.Join(text, types.Kinds(types.List)), `type(x) in ("list", "tuple")`, "a list", "a string"},
		{types.Any, `type(x) == "string"`, "a string", "anything"},
		{types.Join(types.Literal("a"), types.Literal("b")), `x == "a"`, `"a"`, `"b"`},
		{types.Literal("a"), `x == "b"`, "nothing", `"a"`},
		{types.Join(types.Literal("a"), types.Literal("b")), `x in ["b", "c"]`, `"b"`, `"a"`},
		{types.Literal(true), "x", "True", "nothing"},
		{order, `"note" in x`, "{id: a string, note: a string or None}", "{id: a string, note?: a string or None}"},
		{order, `x.get("note")`, "{id: a string, note: a string}", "{id: a string, note?: a string or None}"},
		{order, `x["note"] == None`, "{id: a string, note: None}", "{id: a string, note: a string}"},
		{order, `len(x.get("note", "")) > 0`, "{id: a string, note: a string}", "{id: a string, note?: a string or None}"},
		{orNone(text), `False`, "nothing", "a string or None"},
		{orNone(text), `any([x])`, "a string or None", "a string or None"},
		{orNone(text), `all([x])`, "a string", "a string or None"},
	} {
		for truth, want := range map[bool]string{true: tt.yes, false: tt.no} {
			if got := narrowed(t, tt.x, tt.condition, truth).String(); got != want {
				t.Errorf("%s: %s is %t: x is %s, want %s", tt.x, tt.condition, truth, got, want)
			}
		}
	}
}

// narrowed is what a parameter x can be where a condition held, or did not.
func narrowed(t *testing.T, x types.Type, condition string, truth bool) types.Type {
	t.Helper()
	file := script.File{Name: "x.star", Source: []byte("def run(x):\n    return " + condition + "\n")}
	tree, err := script.Parse(file, script.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Resolve(tree, starlark.StringDict{}); err != nil {
		t.Fatal(err)
	}
	def := tree.Stmts[0].(*syntax.DefStmt)
	id := def.Params[0].(*syntax.Ident)
	e := types.Env{State: &types.State{Vars: types.Vars{}.With(id, x)}, Scopes: types.ScopeOf(tree), Owner: def}
	r := types.Refiner{Env: &e, Type: func(x syntax.Expr) types.Type { return simple(&e, x) }}
	r.Narrow(def.Body[0].(*syntax.ReturnStmt).Result, truth)
	if e.Dead {
		return types.Never
	}
	left, _ := e.Vars.Get(id)
	return left
}

// simple is the type of a name or literal; of anything else nothing is known.
func simple(e *types.Env, x syntax.Expr) types.Type {
	switch x := x.(type) {
	case *syntax.Literal:
		return types.Literal(x.Value)
	case *syntax.Ident:
		if t, ok := e.Read(x); ok {
			return t
		}
		if x.Name == "None" {
			return types.Kinds(types.None)
		}
	}
	return types.Any
}
