package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestInputThatEnds: what arrived before the end of the input is answered. Requests to the client fail, and a
// subscription ends.
func TestInputThatEnds(t *testing.T) {
	release := make(chan struct{})
	p, _ := start(t, &config.Config{
		Backends: []config.Backend{{Name: "slow", URL: slowBackend(t, release)}},
		ScriptedTools: []config.ScriptedTool{
			{Name: "waiting", Description: "waits for its backend", Script: "def run(params):\n    call_tool(\"work\")\n    return {\"n\": 1}\n"},
			{Name: "asking", Description: "asks", Script: "def run(params):\n    return elicit(\"sure?\").action\n"},
		},
	})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- p.ServeStdio(t.Context(), fromClient, toClient)
		toClient.Close()
	}()
	go func() {
		io.WriteString(toServer, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"waiting","arguments":{}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"asking","arguments":{}}}
`)
		fmt.Fprintf(toServer, `{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`+"\n", modernMeta)
		io.WriteString(toServer, `{"jsonrpc":"2.0","id":5,"method":"ping"}`) // no line break
		toServer.Close()
		close(release)
	}()
	answers := map[string]string{}
	for in := json.NewDecoder(fromServer); ; {
		var m struct {
			ID, Result, Error json.RawMessage
			Method            string
		}
		if err := in.Decode(&m); err != nil {
			break
		}
		if m.Method == "" {
			answers[string(m.ID)] = string(m.Result) + string(m.Error)
		}
	}
	if err := <-served; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	for id, want := range map[string]string{"1": "serverInfo", "2": `{"n":1}`, "3": "session ended", "4": "", "5": "{}"} {
		if got, answered := answers[id]; id != "4" && !answered || !strings.Contains(got, want) {
			t.Errorf("request %s: %s, want %s", id, got, want)
		}
	}
}
