package verify_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

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
