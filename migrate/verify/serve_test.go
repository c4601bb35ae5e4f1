package verify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// outcomeOf runs a workflow with a tool t.data whose output is {"title": "A", "number": 42}.
func outcomeOf(t *testing.T, c verify.Case) (have verify.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if have, err = c.Run(t.Context()); err != nil || have.Refused() != "" {
			t.Fatal(err, have.Refused())
		}
	})
	return have
}

func workflowCase(t *testing.T, tool string) verify.Case {
	t.Helper()
	var c verify.Case
	data := `{"name": "x", "params": {}, "fake": {"tools": {"t.data": {"structured": {"title": "A", "number": 42}}}}, "tool": ` + tool + "}"
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNullOutput: a list or an object of the output that is missing was null in the engine, after all effects; a scripted
// tool returns it, too, although its results are checked.
func TestNullOutput(t *testing.T) {
	for _, tt := range []struct{ name, output, want string }{
		{"list", `{"l": {"type": "array", "description": "d", "value": "{{json .steps.f.output.tags}}"}}`, `{"l":null}`},
		{"object", `{"o": {"type": "object", "description": "d", "value": "{{json .steps.f.output.meta}}"}}`, `{"o":null}`},
		{"parameter", `{"l": {"type": "array", "description": "d", "value": "{{json .params.tags}}"}}`, `{"l":null}`},
		{"nested", `{"p": {"type": "object", "description": "d", "properties": {"l": {"type": "array", "description": "d", "value": "{{json .params.tags}}"}}}}`, `{"p":{"l":null}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := workflowCase(t, `{"name": "x", "description": "d", "parameters": {"type": "object", "properties": {"tags": {"type": "array"}}},
				"steps": [{"id": "f", "tool": "t.data"}], "output": {"properties": `+tt.output+`}}`)
			if have := outcomeOf(t, c); string(have.Result.Structured) != tt.want {
				t.Errorf("have %s %s\nwant %s", have.Result.Text, have.Result.Structured, tt.want)
			}
		})
	}
}

// TestConvertedArguments: arguments reach the tool as the engine sent them, whatever type the template's value has.
func TestConvertedArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"}}}`
	for _, tt := range []struct{ name, args, more, want string }{
		{"number for a text", `{"s": "{{.steps.f.output.number}}"}`, ``, `{"s":"42"}`},
		{"number of the client for a text", `{"s": "{{.params.five}}"}`, ``, `{"s":"5"}`},
		{"boolean for a text", `{"s": "{{.steps.f.output.open}}"}`, ``, `{"s":"true"}`},
		{"text for an integer", `{"i": "7"}`, ``, `{"i":7}`},
		{"text of the client for an integer", `{"i": "{{.params.six}}"}`, ``, `{"i":6}`},
		{"json for an integer", `{"i": "{{json .steps.f.output.big}}"}`, ``, `{"i":1234567}`},
		{"printf for an integer", `{"i": "{{printf \"%.0f\" .steps.f.output.big}}"}`, ``, `{"i":1234567}`},
		{"digits for an integer", `{"i": "{{.params.five}}0"}`, ``, `{"i":50}`},
		{"words for a boolean", `{"b": "{{if .steps.f.output.open}}true{{else}}false{{end}}"}`, ``, `{"b":true}`},
		{"fraction", `{"n": "{{.steps.f.output.price}}"}`, ``, `{"n":9.5}`},
		{"list for a text, continuing", `{"s": "{{.steps.f.output.labels}}"}`, `, "onError": {"action": "continue"}`, `{"s":"[\"a\",\"b\"]"}`},
		{"text for an integer, continuing", `{"i": "7"}`, `, "onError": {"action": "continue"}`, `{"i":7}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := workflowCase(t, `{"name": "x", "description": "d", "parameters": {"type": "object", "properties": {"five": {"type": "number"}, "six": {"type": "string"}}},
				"steps": [{"id": "f", "tool": "t.data"}, {"id": "a", "tool": "t.echo", "arguments": `+tt.args+`, "dependsOn": ["f"]`+tt.more+`}]}`)
			c.Params, c.Style = json.RawMessage(`{"five": 5, "six": "6"}`), migrate.Clean
			c.Fake.Tools["t.data"].Structured = json.RawMessage(`{"number": 42, "open": true, "big": 1234567, "price": 9.5, "labels": ["a", "b"]}`)
			c.Fake.Tools["t.echo"] = &verify.Tool{InputSchema: json.RawMessage(schema), Reply: verify.Reply{Echo: true}}
			have := outcomeOf(t, c)
			if n := len(have.Trace); n != 2 || string(have.Trace[1].Args) != tt.want {
				t.Errorf("have %v, %s\nwant %s", have.Trace, have.Result.Text, tt.want)
			}
		})
	}
	c := workflowCase(t, `{"name": "x", "description": "d", "steps": [{"id": "f", "tool": "t.data"},
		{"id": "a", "tool": "t.echo", "arguments": {"s": "{{.steps.f.output}}"}, "dependsOn": ["f"]}]}`)
	c.Style = migrate.Clean
	c.Fake.Tools["t.echo"] = &verify.Tool{InputSchema: json.RawMessage(schema), Reply: verify.Reply{Echo: true}}
	if have := outcomeOf(t, c); have.Status != "failed" || !strings.Contains(have.Result.Text, "s: want string, have object") {
		t.Errorf("an object for a text: %s %s, want a failure", have.Status, have.Result.Text)
	}
}
