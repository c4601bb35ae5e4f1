package builtins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// adapting converts for a tool whose property n has a type.
func adapting(t *testing.T, kind string) func(context.Context, script.Effect) (json.RawMessage, string) {
	t.Helper()
	s, err := schema.CompileForeign(json.RawMessage(`{"type":"object","properties":{"n":{"type":"` + kind + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, e script.Effect) (json.RawMessage, string) { return builtins.Convert(s, e.Args) }
}

// TestConverts: every builtin that calls a tool passes the arguments as its schema wants them, which the trace says.
func TestConverts(t *testing.T) {
	for _, call := range []string{
		`call_tool("echo", {"n": 42})`, `try_call_tool("echo", {"n": 42})`, `retry(lambda: try_call_tool("echo", {"n": 42}))`,
		`parallel([lambda: call_tool("echo", {"n": 42})])`, `call_tool("echo", {"n": "42"})`, `call_tool("echo", {"n": [42]})`,
	} {
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
		note := ""
		_, err := scripttest.Compile(t, "def run(params): return "+call+"\n").Run(t.Context(), script.RunOptions{
			Host: h, Adapt: adapting(t, "string"), Trace: func(e script.Event) { note += e.Note + " " + string(e.Args) },
		})
		want, said := `[{echo {"n":"42"}}]`, `converted n to string {"n":"42"}`
		switch {
		case strings.Contains(call, `"42"`):
			said = ` {"n":"42"}`
		case strings.Contains(call, "[42]"):
			want, said = `[{echo {"n":[42]}}]`, ` {"n":[42]}`
		}
		if have := fmt.Sprint(h.Calls()); err != nil || have != want || note != said {
			t.Errorf("%s: %s, %q, %v; want %s, %q", call, have, note, err, want, said)
		}
	}
}

// TestConvertsOnce: a resumed run replays calls as they were recorded, however they would be converted now, and one that
// was recorded before there were conversions.
func TestConvertsOnce(t *testing.T) {
	p := scripttest.Compile(t, `
def run(params):
    first = call_tool("echo", {"n": 42})
    elicit("go on?", {"type": "object", "properties": {}})
    return [first, call_tool("echo", {"n": 42})]
`)
	for _, tt := range []struct {
		name          string
		before, after func(context.Context, script.Effect) (json.RawMessage, string)
		want          string
	}{
		{"the same", adapting(t, "string"), adapting(t, "string"), `[{"n":"42"},{"n":"42"}]`},
		{"not converted before", nil, adapting(t, "string"), `[{"n":42},{"n":"42"}]`},
		{"another schema now", adapting(t, "string"), adapting(t, "integer"), `[{"n":"42"},{"n":42}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}, Answer: scripttest.Later}
			j := script.NewJournal()
			_, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, ID: "r", Adapt: tt.before})
			if !errors.As(err, new(*script.Suspended)) {
				t.Fatal(err)
			}
			h.Answer = scripttest.Accept("{}")
			replayed := ""
			res, err := p.Run(t.Context(), script.RunOptions{Host: h, Journal: j, ID: "r", Adapt: tt.after, Trace: func(e script.Event) {
				if e.Replayed {
					replayed += string(e.Args)
				}
			}})
			if err != nil || string(res.Structured) != tt.want {
				t.Errorf("have %v, %v, want %s", res, err, tt.want)
			}
			var list []json.RawMessage
			if err := json.Unmarshal([]byte(tt.want), &list); err != nil || replayed != string(list[0]) {
				t.Errorf("replayed %s, want %s", replayed, list[0])
			}
		})
	}
}
