package star_test

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

func printed(t *testing.T, stmts ...star.Stmt) string {
	t.Helper()
	text, err := star.File(stmts)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFile: what is built is printed as a person would write it.
func TestFile(t *testing.T) {
	x, params := star.Name("x"), star.Name("params").Is(star.Map)
	for _, tt := range []struct {
		stmt star.Stmt
		want string
	}{
		{star.Return(star.Op("+", x, star.Integer(-1))), "return x + -1"},
		{star.Return(star.If(x, star.Str("a"), star.None())), `return "a" if x else None`},
		{star.Return(star.Not(star.Op("==", x, star.None()))), "return x != None"},
		{star.Return(star.Not(star.Op("in", x, params))), "return x not in params"},
		{star.Return(star.Not(star.Not(star.Call("f").Is(star.Bool)))), "return f()"},
		{star.Return(star.Get(star.Get(params, "a"), "b")), `return params.get("a", {}).get("b")`},
		{star.Return(star.Get(params, "a").Or(star.Str("none"))), `return params.get("a", "none")`},
		{star.Return(x.Or(star.Str("none"))), `return x or "none"`},
		{star.Return(star.Tuple(x)), "return (x,)"},
		{star.Return(star.Lambda(star.Call("f"))), "return f"},
		{star.Return(star.Lambda(star.Call("f", x))), "return lambda: f(x)"},
		{star.Return(star.Comprehension(x, []string{"k", "x"}, star.Call("pairs", params), x)), "return [x for k, x in pairs(params) if x]"},
		{star.Unpack(star.Call("f"), [][]string{nil, {"a"}, {"b", "c"}}), "_, a, (b, c) = f()"},
		{star.Unpack(star.Call("f"), [][]string{{"a"}}), "[a] = f()"},
		{star.Noted(star.Assign(star.Call("f", star.Arg("n", star.Integer(1))), "x"), "why"), "# why\nx = f(n = 1)"},
		{star.Each([]string{"x"}, params, []star.Stmt{star.When(x, []star.Stmt{star.Jump("break")}, []star.Stmt{star.Jump("continue")})}),
			"for x in params:\n    if x:\n        break\n    else:\n        continue"},
	} {
		if got := strings.TrimSuffix(printed(t, tt.stmt), "\n"); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}

// TestLongLines: a line that is too long is broken at brackets, the last argument of a call first, and means the same.
func TestLongLines(t *testing.T) {
	word := func(n int) star.Expr { return star.Str(strings.Repeat("w", n)) }
	for _, tt := range []struct {
		value star.Expr
		want  string
	}{
		{star.Call("f", word(20), star.Dict(star.Entry{Key: "a", Value: word(70)})), "return f(\"" + strings.Repeat("w", 20) + "\", {\n    \"a\": "},
		{star.Call("f", word(60), word(60)), "return f(\n    \"w"},
		{star.ListOf(word(60), word(60)), "return [\n    \"w"},
		{star.Call("f", word(30), word(30)), "return f(\"w"},
	} {
		text := printed(t, star.Return(tt.value))
		if !strings.HasPrefix(text, tt.want) {
			t.Errorf("got\n%swant it to begin\n%s", text, tt.want)
		}
		if _, err := syntax.Parse("x.star", "def f(a, b):\n    "+strings.ReplaceAll(text, "\n", "\n    "), 0); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}

// TestQuote: a quoted text is the text again, and several lines are written as several.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "a", `"`, `\`, "\x00\x1b\x7f", "日本 😀", "{\"\"\"}\na\nb\nc\n", "a\nb", "one line\nand another\nand a third of them\n",
		"one line \nand another\nand a third of them\n", "one line\nand another\nand a third \"of them\"", "a\r\nb\r\nc\r\nd"} {
		quoted := star.Quote(text)
		got, err := starlark.Eval(&starlark.Thread{}, "x.star", quoted, nil)
		if err != nil || got != starlark.String(text) {
			t.Errorf("%q is quoted %s, which is %v, %v", text, quoted, got, err)
		}
	}
	const lines = "one line\nand another\nand a third of them\n"
	if got := star.Quote(lines); got != `"""`+lines+`"""` {
		t.Errorf("lines are quoted %s", got)
	}
}

// TestOnlyAppended: a function that only fills a list is the value that it appends.
func TestOnlyAppended(t *testing.T) {
	list := func() star.Stmt { return star.Assign(star.ListOf(), "out") }
	fill := func(v string) star.Stmt { return star.Do(star.Method(star.Name("out"), "append", star.Name(v))) }
	if v, ok := star.OnlyAppended("out", []star.Stmt{list(), fill("x")}); !ok || !star.Same(v, star.Name("x")) {
		t.Errorf("one value: %v, %v", v, ok)
	}
	for name, body := range map[string][]star.Stmt{
		"two values":  {list(), fill("x"), fill("y")},
		"names it":    {list(), star.Assign(star.Name("out"), "y"), fill("x")},
		"fills later": {list(), fill("x"), star.Return(star.Name("x"))},
	} {
		if _, ok := star.OnlyAppended("out", body); ok {
			t.Errorf("%s: want it kept as a list", name)
		}
	}
}
