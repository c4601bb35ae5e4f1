package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// TestCompositeTools runs a workflow in the legacy format.
func TestCompositeTools(t *testing.T) {
	cfg, err := config.Parse("vmcp.yaml", []byte(`
backends:
- name: one
  url: `+sdkBackend(t, echoServer("one"), false)+`
- name: two
  url: `+sdkBackend(t, echoServer("two"), true)+`
compositeTools:
- name: both
  description: says it twice
  parameters:
    type: object
    properties:
      what: {type: string}
  steps:
  - id: a
    tool: one_echo
    arguments: {text: "{{.params.what}}"}
  - id: b
    tool: two.echo
    arguments: {text: "again {{.steps.a.output.text}}"}
    dependsOn: [a]
  output:
    properties:
      said:
        type: string
        description: what came back
        value: "{{.steps.b.output.text}}"
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		_, url := start(t, cfg)
		s := connect(t, url, revision, nil)
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "both", Arguments: map[string]any{"what": "hi"}})
		if got, want := text(t, r, err), `{"said":"two: again one: hi"}`; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// TestScriptsLookNoSaferThanTheirTools: hints of a script are derived from the tools that it calls.
func TestScriptsLookNoSaferThanTheirTools(t *testing.T) {
	yes := true
	calls := func(tool string) string { return "def run(params):\n    return call_tool(\"" + tool + "\")\n" }
	reads := toolServer("a", "write")
	mcp.AddTool(reads, &mcp.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}}, noop)
	folder := t.TempDir()
	file := "tool(name=\"signed\", description=\"d\", annotations={\"readOnlyHint\": True}, trust_annotations=True)\n" + calls("write")
	if err := os.WriteFile(filepath.Join(folder, "signed.star"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	p, url := start(t, &config.Config{
		Backends: []config.Backend{{Name: "a", URL: sdkBackend(t, reads, false)}},
		Scripts:  []string{folder},
		ScriptedTools: []config.ScriptedTool{
			{Name: "nothing", Description: "d", Script: "def run(params):\n    return 1\n"},
			{Name: "reads", Description: "d", Script: calls("read")},
			{Name: "writes", Description: "d", Script: calls("write")},
			{Name: "through", Description: "d", Script: calls("reads")},
			{Name: "dynamic", Description: "d", Script: "def run(params):\n    return call_tool(params[\"t\"])\n"},
			{Name: "claims", Description: "d", Script: calls("write"), Annotations: &config.Annotations{ReadOnlyHint: &yes}},
			{Name: "vouched", Description: "d", Script: calls("write"), Annotations: &config.Annotations{ReadOnlyHint: &yes}, TrustAnnotations: true},
		},
	})
	all := listed(t, connect(t, url, "2025-11-25", nil))
	for name, want := range map[string][3]bool{ // readOnly, destructive, openWorld
		"nothing": {true, false, false},
		"reads":   {true, false, false},
		"through": {true, false, false},
		"writes":  {false, true, true},
		"dynamic": {false, true, true},
		"claims":  {false, true, true},
		"vouched": {true, true, true},
		"signed":  {true, true, true},
	} {
		a := all[name].Annotations
		if got := [3]bool{a.ReadOnlyHint, *a.DestructiveHint, *a.OpenWorldHint}; got != want {
			t.Errorf("%s: readOnly, destructive, openWorld are %v, want %v", name, got, want)
		}
	}
	if pr := p.Status().Problems; len(pr) != 1 || !strings.Contains(pr[0].Text(), "set trustAnnotations") {
		t.Errorf("problems: %+v", pr)
	}
}
