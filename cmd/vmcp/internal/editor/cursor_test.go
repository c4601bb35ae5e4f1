package editor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/editor"
)

func TestAt(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"", "name"},
		{"x = ca", "name ca"},
		{"def f():\n    ret", "name ret"},
		{"x = y", "name y"},
		{"x = y ", "nothing"},
		{"# comment", "nothing"},
		{"x = 12", "nothing"},
		{"time.", "field of time"},
		{"time.no", "field no of time"},
		{"a.b.c", "field c of a.b"},
		{"f(x).y", "field y of f()"},
		{`call_tool("sh`, "text sh in call_tool 0"},
		{`call_tool('sh`, "text sh in call_tool 0"},
		{`call_tool(name = "sh`, "text sh in call_tool name"},
		{`call_tool("shop", {"i`, "key i in call_tool 1 of shop depth 1"},
		{`call_tool("shop", {"id": 1, "n`, "key n in call_tool 1 of shop depth 1 keys id"},
		{`call_tool("shop", {"id": {"a`, "key a in call_tool 1 of shop depth 2"},
		{`call_tool("shop", {"id": "v`, "text v in call_tool 1 of shop depth 1"},
		{`call_tool("shop", args = {"`, "key in call_tool args of shop depth 1"},
		{`retry(lambda: call_tool("shop", {"`, "key in call_tool 1 of shop depth 1"},
		{"call_tool(", "argument in call_tool 0"},
		{`call_tool("a", ti`, "argument ti in call_tool 1 of a"},
		{`r["`, "index of r"},
		{`r["st`, "index st of r"},
		{`r["a"]["b`, "index b of r[a]"},
		{`r[0]["b`, "index b of r[]"},
		{`r.output["b`, "index b of r.output"},
		{`call_tool("shop", {"id": 1})["st`, "index st of call_tool()(shop)"},
		{`x = ["`, "text"},
		{`x = a + ["`, "text"},
		{`x = {"`, "key depth 1"},
		{"x = \"a\n\"\ny = r[\"", "index of r"},
		{`x = """` + "\n" + `call_tool("`, "text \ncall_tool(\""},
		{`print("a" + "b`, "text b in print 0 of a"},
		{`r["a" + "b`, "text b"},
		{"x.y = r.z[", "name"},
		{"if x in r:\n    y", "name y"},
		{"a]b)c", "name c"},
	} {
		if got := describe(editor.At(tt.src)); got != tt.want {
			t.Errorf("At(%q) = %q, want %q", tt.src, got, tt.want)
		}
	}
}

func describe(c editor.Context) string {
	words := []string{[]string{"nothing", "name", "field", "text", "key", "index", "argument"}[c.Kind]}
	if c.Word != "" {
		words = append(words, c.Word)
	}
	if c.Of != nil {
		words = append(words, "of", c.Of.String())
		if c.Of.Tool != "" {
			words[len(words)-1] += "(" + c.Of.Tool + ")"
		}
	}
	if c.Call != nil {
		arg := c.Key
		if arg == "" {
			arg = fmt.Sprint(c.Arg)
		}
		words = append(words, "in", c.Call.String(), arg)
	}
	if c.Tool != "" {
		words = append(words, "of", c.Tool)
	}
	if c.Depth > 0 {
		words = append(words, "depth", fmt.Sprint(c.Depth))
	}
	if len(c.Keys) > 0 {
		words = append(words, "keys", strings.Join(c.Keys, ","))
	}
	return strings.Join(words, " ")
}

// TestAnyText: every text has a context.
func TestAnyText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", ".", "(", ")", "[", "]", "{", "}", `"`, "'", `"""`, ",", ":", "=", "\n", " ", "#", "\\", "lambda", "1", "é", "\xff", "r", "b", "in"}
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(30) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if c := editor.At(b.String()); c.Kind < editor.Nothing || c.Kind > editor.Argument {
			t.Fatalf("At(%q) = %v", b.String(), c)
		}
	}
}
