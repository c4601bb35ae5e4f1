package proxy_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/migrate"
)

// TestCorpusRuns runs every workflow in the folder VMCP_CORPUS that the legacy engine
// accepts, in both styles, against real backends that have the tools it names.
func TestCorpusRuns(t *testing.T) {
	dir := os.Getenv("VMCP_CORPUS")
	if dir == "" {
		t.Skip("VMCP_CORPUS names no folder with workflows")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows in %s: %v", dir, err)
	}
	ran := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defs, err := migrate.Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, def := range defs {
			for _, style := range []migrate.Style{migrate.Exact, migrate.Clean} {
				s, err := migrate.Translate(def, migrate.Options{Style: style, Checked: true})
				if err != nil {
					t.Logf("%s is refused: %v", filepath.Base(file), err)
					continue
				}
				ran++
				t.Run(filepath.Base(file)+" "+string(style), func(t *testing.T) { runWorkflow(t, s) })
			}
		}
	}
	if ran == 0 {
		t.Error("every workflow was refused")
	}
}

func runWorkflow(t *testing.T, s *migrate.Script) {
	called := make(chan string, 100)
	_, url := start(t, &config.Config{
		Backends:    backendsWith(t, s.Tools, called),
		Aggregation: config.Aggregation{ConflictResolution: "manual"},
		ScriptedTools: []config.ScriptedTool{{
			Name: s.Name, Description: s.Description, Script: s.Source,
			Parameters: config.Raw{JSON: s.Parameters}, Output: config.Raw{JSON: s.Output},
		}},
	})
	c := connect(t, url, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}})
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: s.Name, Arguments: sample(s)})
	if got := text(t, r, err); r.IsError {
		t.Errorf("%s failed: %s\n%s", s.Name, got, s.Source)
	}
	close(called)
	seen := map[string]bool{}
	for tool := range called {
		seen[tool] = true
	}
	if len(seen) == 0 {
		t.Errorf("%s called none of %+v", s.Name, s.Tools)
	}
}

// backendsWith makes a backend for each name before a dot, with the tools behind it; tools without a dot have a backend
// of their own.
func backendsWith(t *testing.T, tools []migrate.Tool, called chan<- string) []config.Backend {
	servers := map[string]*mcp.Server{}
	for _, tool := range tools {
		full := tool.Name
		backend, name, dotted := strings.Cut(full, ".")
		if !dotted {
			backend, name = "loose", full
		}
		if servers[backend] == nil {
			servers[backend] = mcp.NewServer(&mcp.Implementation{Name: backend, Version: "1"}, nil)
		}
		servers[backend].AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			called <- full
			return &mcp.CallToolResult{StructuredContent: map[string]any{"ok": true}, Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}}, nil
		})
	}
	var all []config.Backend
	for name, s := range servers {
		all = append(all, config.Backend{Name: name, URL: sdkBackend(t, s, false)})
	}
	return all
}

var paramUse = regexp.MustCompile(`params(?:\["|\.get\(")(\w+)"`)

// sample is a value for every declared or used parameter.
func sample(s *migrate.Script) map[string]any {
	args := map[string]any{}
	for _, use := range paramUse.FindAllStringSubmatch(s.Source, -1) {
		args[use[1]] = "x"
	}
	var schema struct {
		Properties map[string]struct{ Type string }
	}
	_ = json.Unmarshal(s.Parameters, &schema)
	for name, p := range schema.Properties {
		args[name] = map[string]any{"string": "x", "integer": 1, "number": 1.5, "boolean": true, "array": []any{}, "object": map[string]any{}}[p.Type]
	}
	return args
}
