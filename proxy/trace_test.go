package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// traced calls a tool and returns the effects in the trace: position, kind, name, and whether it failed or came from
// the journal.
func traced(t *testing.T, s *mcp.ClientSession, tool string) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Meta: mcp.Meta{"vmcp.dev/trace": true}})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(r.Meta["vmcp.dev/trace"])
	var trace struct {
		Tool    string
		Effects []struct {
			Key, Kind, Name, Error string
			Replayed               bool
		}
	}
	if err := json.Unmarshal(raw, &trace); err != nil || trace.Tool != tool {
		t.Fatalf("trace of %s: %s, %v", tool, raw, err)
	}
	var lines []string
	for _, e := range trace.Effects {
		line := fmt.Sprint(e.Key, " ", e.Kind, " ", e.Name)
		if e.Replayed {
			line += " (replayed)"
		}
		if e.Error != "" {
			line += ": " + e.Error
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// TestTrace shows the effects of a call to a client that requests it, including those of called scripts and from the
// journal.
func TestTrace(t *testing.T) {
	bank := &chargeServer{charged: map[string]int{}}
	_, url := start(t, &config.Config{
		Backends: []config.Backend{{Name: "bank", URL: sdkBackend(t, bank.server(), false)}},
		ScriptedTools: []config.ScriptedTool{
			{Name: "inner", Description: "d", Script: "def run(params):\n    return call_tool('charge', {'text': 'x'})\n"},
			{Name: "outer", Description: "d", Script: "def run(params):\n    log('begins')\n    call_tool('inner')\n    elicit('sure?')\n    return try_call_tool('none').kind\n"},
			{Name: "fails", Description: "d", Script: "def run(params):\n    log('first')\n    fail('no')\n"},
		},
	})
	var asked atomic.Int32
	for revision, want := range map[string]string{
		"2025-11-25": "0 log begins\n1/0 call charge\n1 call inner\n2 elicit\n3 call none: no tool \"none\"",
		"2026-07-28": "0 log begins (replayed)\n1 call inner (replayed)\n2 elicit\n3 call none: no tool \"none\"",
	} {
		s := connect(t, url, revision, askedBy(&asked))
		if got := traced(t, s, "outer"); got != want {
			t.Errorf("trace on %s:\n%s\nwant\n%s", revision, got, want)
		}
		if got := traced(t, s, "fails"); got != "0 log first" {
			t.Errorf("trace of a run that fails: %s", got)
		}
		if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "inner"}); err != nil || r.Meta["vmcp.dev/trace"] != nil {
			t.Errorf("nobody asked for a trace: %v, %v", r, err)
		}
	}
}

// TestConvertedArguments: a script's number reaches a tool that wants a text as one, whether a backend has the tool or it is
// a script, and the trace says so. What a client sends is not converted.
func TestConvertedArguments(t *testing.T) {
	bank := &chargeServer{charged: map[string]int{}}
	_, url := start(t, &config.Config{
		Backends: []config.Backend{{Name: "bank", URL: sdkBackend(t, bank.server(), false)}},
		ScriptedTools: []config.ScriptedTool{
			{Name: "inner", Description: "d", Script: "def run(params):\n    return params['n'] + 1\n",
				Parameters: config.Raw{JSON: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}},
			{Name: "outer", Description: "d", Script: "def run(params):\n    try_call_tool('charge', {'text': 42})\n    return call_tool('inner', {'n': '7'})\n"},
		},
	})
	s := connect(t, url, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "outer", Meta: mcp.Meta{"dev.vmcp/trace": true}})
	if err != nil || r.IsError {
		t.Fatal(r, err)
	}
	if got := fmt.Sprint(r.Content[0].(*mcp.TextContent).Text, bank.charged); got != "8map[42:1]" {
		t.Errorf("have %s", got)
	}
	raw, _ := json.Marshal(r.Meta["dev.vmcp/trace"])
	for _, note := range []string{`"note":"converted text to string"`, `"note":"converted n to integer"`} {
		if !strings.Contains(string(raw), note) {
			t.Errorf("the trace has no %s: %s", note, raw)
		}
	}
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "inner", Arguments: map[string]any{"n": "7"}})
	if err == nil && !r.IsError {
		t.Errorf("a client's text for an integer: %v", r.StructuredContent)
	}
}
