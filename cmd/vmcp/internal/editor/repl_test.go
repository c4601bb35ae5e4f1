package editor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// TestExamples: an example is valid by its schema.
func TestExamples(t *testing.T) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","minimum":3},"c":{"enum":["x","y"]}},"required":["a","b","c"]}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"n":{"type":["null","number"]}},"required":["n"]}}},"required":["a"]}`,
		`{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"},"v":{"const":4}},"required":["v"]}},"$ref":"#/$defs/n"}`,
		`{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}]}`,
		`{"type":"string","minLength":40}`, `{"type":"string","maxLength":2}`, `{"type":"number","maximum":-4}`,
		`{"type":"object","properties":{"email":{"type":"string","format":"email"},"when":{"type":"string","format":"date"}},"required":["email","when"]}`,
		`{"type":"object","examples":[{"id":7}],"properties":{"id":{"type":"integer"}}}`, `{"default":false}`, `{"properties":{"x":{"type":"boolean"}}}`,
	} {
		value := exampleOf(json.RawMessage(s))
		compiled, err := schema.Compile(json.RawMessage(s))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); err != nil {
			t.Errorf("Example(%s) = %s: %v", s, value, err)
		}
	}
	for _, odd := range []string{`true`, `{}`, `{"$ref":"#/$defs/none"}`, `{"type":"array","items":true}`, `{"anyOf":[]}`, `{"$ref":"#"}`, `{"type":[]}`} {
		if v := exampleOf(json.RawMessage(odd)); !json.Valid(v) {
			t.Errorf("Example(%s) = %q", odd, v)
		}
	}
}

// shop is an endpoint with two tools.
type shop struct{ calls []string }

func (s *shop) Tools(context.Context) ([]*mcp.Tool, error) {
	harmless := false
	return []*mcp.Tool{
		{Name: "shop_get_order", InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`), OutputSchema: json.RawMessage(`{"type":"object","properties":{"status":{"type":"string"}}}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		{Name: "shop_note", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{DestructiveHint: &harmless}},
		{Name: "shop_refund", InputSchema: json.RawMessage(`{"type":"object"}`)},
	}, nil
}

func (s *shop) Call(_ context.Context, c client.Call) (*client.Result, error) {
	s.calls = append(s.calls, c.Name)
	if c.Name == "shop_note" {
		return nil, errors.New("connection refused")
	}
	return &client.Result{CallToolResult: &mcp.CallToolResult{}, Raw: json.RawMessage(`{"content":[],"structuredContent":{"status":"paid","n":9007199254740993}}`)}, nil
}

// talk runs a session with an input.
func talk(t *testing.T, o REPLOptions, input string) (out, messages string) {
	t.Helper()
	var b, m bytes.Buffer
	o.Lines, o.Out = strings.NewReader(input), &b
	o.Shown = func(s string) string { return s }
	o.Tell = func(s string) { m.WriteString(s + "\n") }
	if err := RunREPL(t.Context(), o); err != nil && !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	return b.String(), m.String()
}

func TestTools(t *testing.T) {
	s := &shop{}
	out, messages := talk(t, REPLOptions{Tools: s}, `

call_tool("shop_get_order", {"id": "A"})
call_tool("shop_get_order", {"id": [1]})
try_call_tool("shop_note").kind
try_call_tool("shop_refund").kind
try_call_tool("shop_get_ordr").error
`)
	want := `{"status": "paid", "n": 9007199254740993}
"unavailable"
"denied"
"no tool \"shop_get_ordr\"; did you mean \"shop_get_order\"?"
`
	if out != want || !strings.Contains(messages, "<input>:4:10: call_tool(\"shop_get_order\"): the arguments do not fit the input schema") {
		t.Errorf("the session shows\n%s%s\nwant\n%s", out, messages, want)
	}
	if want := []string{"shop_get_order", "shop_note"}; !slices.Equal(s.calls, want) {
		t.Errorf("called %q, want %q", s.calls, want)
	}
}

// TestOwnNames: an input may bind the names of builtins that the session itself uses.
func TestOwnNames(t *testing.T) {
	out, messages := talk(t, REPLOptions{}, "repr = 1\n[repr]\nrun = lambda p: p\nrun(2)\ncall_tool = 3\ncall_tool\n_ = 4\n_\n")
	if want := "[1]\n2\n3\n4\n"; out != want || messages != "" {
		t.Errorf("the session shows %q, %q, want %q", out, messages, want)
	}
	_, messages = talk(t, REPLOptions{}, "x = '"+strings.Repeat("a", 5000)+"' + 1\n")
	if len(messages) > 1000 || !strings.Contains(messages, "unknown binary op") {
		t.Errorf("a long line is shown as %q", messages)
	}
}

// TestLimits: an input has the limits of a tool, and the session continues after it has reached one.
func TestLimits(t *testing.T) {
	limits := script.DefaultLimits()
	limits.Steps, limits.Memory = 100_000, 10<<20
	out, messages := talk(t, REPLOptions{Limits: limits}, "while True: pass\nx = 'x' * 100000000\nd = [1]\nfor i in range(60): d = [d, d]\n\nd\n1 + 1\n")
	if out != "2\n" || strings.Count(messages, "limit reached") != 3 {
		t.Errorf("the session shows %q\n%s", out, messages)
	}
}

func TestCompletionRepl(t *testing.T) {
	h := &host{o: &REPLOptions{}, tools: map[string]*tool{}}
	list, _ := (&shop{}).Tools(t.Context())
	for _, one := range list {
		h.tools[one.Name] = newTool(one)
	}
	h.o.Shown, h.o.Tell, h.o.Out = func(s string) string { return s }, func(string) {}, &bytes.Buffer{}
	s := newSession(h.o, h)
	for _, line := range []string{`order = {"id": "A", "buyer": {"email": "e"}, "lines": [{"sku": 1}]}`, "answer = struct(action = 1, content = {})"} {
		s.enter(t.Context(), line)
	}
	for _, tt := range []struct{ text, want string }{
		{"orde", "order"},
		{"try_c", "try_call_tool"},
		{`call_tool("shop_g`, `call_tool("shop_get_order"`},
		{`call_tool('shop_g`, `call_tool('shop_get_order'`},
		{`call_tool("shop_get_order", {"`, `call_tool("shop_get_order", {"id": `},
		{`call_tool("shop_get_order", {})["`, `call_tool("shop_get_order", {})["status"]`},
		{`order["bu`, `order["buyer"]`},
		{`order["buyer"]["`, `order["buyer"]["email"]`},
		{`order["lines"][0]["`, `order["lines"][0]["sku"]`},
		{"answer.ac", "answer.action"},
		{"math.flo", "math.floor"},
		{":sch", ":schema"},
		{":schema shop_n", ":schema shop_note"},
		{"nothing_like_it", "nothing_like_it"},
		{`"text`, `"text`},
	} {
		word, candidates := s.complete(tt.text)
		if got, _ := extend(tt.text, word, candidates); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.text, got, tt.want)
		}
	}
}
