package proxy_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
	"github.com/vmcp-dev/vmcp/proxy"
)

// TestRecordedComposites repeats recorded runs of the legacy engine with compositeTools, over real backends: the client
// gets the same result or refusal. Each workflow also runs as a script in the clean style.
func TestRecordedComposites(t *testing.T) {
	cases, err := filepath.Glob("../migrate/testdata/oracle/found_*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			loaded, err := verify.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			serveRecorded(t, &loaded[0])
		})
	}
}

func serveRecorded(t *testing.T, c *verify.Case) {
	cfg, err := config.Parse("vmcp.yaml", recordedConfig(t, c))
	if err == nil && c.Want.Refused() != "" {
		err = proxy.Check(cfg)
	}
	if c.Want.Refused() != "" {
		if err == nil || !strings.Contains(err.Error(), "vmcp.yaml:") {
			t.Errorf("accepted, or refused without a place: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.ScriptedTools = append(cfg.ScriptedTools, cleanTool(t, c))
	_, url := start(t, cfg)
	asked := 0
	s := connect(t, url, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		a := c.Fake.Elicitations[asked]
		asked++
		r := &mcp.ElicitResult{Action: a.Action}
		if len(a.Content) == 0 {
			return r, nil
		}
		return r, json.Unmarshal(a.Content, &r.Content)
	}})
	var def struct{ Name string }
	if err := json.Unmarshal(c.Tool, &def); err != nil {
		t.Fatal(err)
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: def.Name, Arguments: c.Params})
	if got := text(t, r, err); got != c.Want.Result.Text || r.IsError != c.Want.Result.IsError {
		t.Errorf("isError %v: -want +have\n%s", r.IsError, cmp.Diff(c.Want.Result.Text, got))
	}
	asked = 0
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "clean", Arguments: c.Params})
	have := verify.Outcome{Status: "completed", Result: verify.Result{Text: text(t, r, err)}}
	if r.IsError {
		have.Status = "failed"
	}
	if have.Result.Structured, err = json.Marshal(r.StructuredContent); err != nil {
		t.Fatal(err)
	}
	want := c.Want
	want.Trace = nil
	for _, d := range verify.CompareClean(have, want) {
		t.Errorf("in the clean style: %s\nhave %s\nwant %s", d.What, d.Have, d.Want)
	}
}

// cleanTool is the workflow of a case as a scripted tool in the clean style.
func cleanTool(t *testing.T, c *verify.Case) config.ScriptedTool {
	c.Style = migrate.Clean
	s, refused := c.Migrate()
	if s == nil {
		t.Fatal(refused.Refused())
	}
	return config.ScriptedTool{
		Name: "clean", Description: s.Description, Script: s.Source, Timeout: config.Duration(s.Timeout),
		Parameters: config.Raw{JSON: s.Parameters}, Output: config.Raw{JSON: s.Output},
	}
}

// recordedConfig is a configuration with the workflow of a case and a backend for each
// part before the dot of its tools.
func recordedConfig(t *testing.T, c *verify.Case) []byte {
	servers := map[string]*mcp.Server{}
	for name, tool := range c.Fake.Tools {
		backend, own, _ := strings.Cut(name, ".")
		if servers[backend] == nil {
			servers[backend] = mcp.NewServer(&mcp.Implementation{Name: backend, Version: "1"}, nil)
		}
		addRecorded(servers[backend], own, tool)
	}
	doc := map[string]any{"compositeTools": []json.RawMessage{c.Tool}}
	var backends []any
	for name, s := range servers {
		backends = append(backends, map[string]any{"name": name, "url": sdkBackend(t, s, false)})
	}
	doc["backends"] = backends
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// addRecorded adds a tool that answers as recorded.
func addRecorded(s *mcp.Server, name string, recorded *verify.Tool) {
	schema := recorded.InputSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	s.AddTool(&mcp.Tool{Name: name, InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out := &mcp.CallToolResult{IsError: recorded.IsError, Content: []mcp.Content{}}
		if recorded.Text != "" {
			out.Content = append(out.Content, &mcp.TextContent{Text: recorded.Text})
		}
		switch {
		case recorded.Structured != nil:
			out.StructuredContent = recorded.Structured
		case recorded.Echo:
			out.StructuredContent = map[string]any{"tool": name, "args": r.Params.Arguments}
		}
		return out, nil
	})
}

// TestCompositeNamesToolsThatExist reports a step whose tool no backend has.
func TestCompositeNamesToolsThatExist(t *testing.T) {
	cfg, err := config.Parse("vmcp.yaml", []byte(`
backends:
- name: b
  url: `+sdkBackend(t, toolServer("b", "somewhere"), false)+`
compositeTools:
- name: lost
  description: d
  steps:
  - id: a
    tool: b.somewhere
  - id: c
    type: forEach
    collection: "[1]"
    step: {id: i, tool: b.nowhere}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := start(t, cfg)
	problems := p.Status().Problems
	if len(problems) != 1 || problems[0].Text() != `steps[1].step.tool: no tool "b.nowhere"; did you mean "b.somewhere"?` {
		t.Errorf("problems: %+v", problems)
	}
}

// TestCompositeSendsAnObject sends {} for a step without arguments, as the engine did.
func TestCompositeSendsAnObject(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	got := make(chan string, 1)
	s.AddTool(&mcp.Tool{Name: "none", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got <- string(r.Params.Arguments)
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	cfg, err := config.Parse("vmcp.yaml", []byte(`
backends: [{name: b, url: "`+sdkBackend(t, s, false)+`"}]
compositeTools: [{name: w, description: d, steps: [{id: a, tool: b.none}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, cfg)
	r, err := connect(t, url, "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "w"})
	if text(t, r, err); <-got != "{}" {
		t.Error("the step sends no object")
	}
}
