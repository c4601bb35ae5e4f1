package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// TestTasksPassThrough starts a task of the tasks extension and queries it: the messages reach the backend that runs
// the task, unchanged, for the task's owner only.
func TestTasksPassThrough(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}},"resultType":"complete","ttlMs":0,"cacheScope":"public"}`,
			"tools/list":      `{"tools":[{"name":"slow","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`,
			"tools/call":      `{"resultType":"task","taskId":"t-1","status":"working","vendor":1.0}`,
			"tasks/get":       `{"resultType":"complete","taskId":"t-1","status":"completed","result":{"content":[]}}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		if result == "" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(backend.Close)
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}})
	c := &raw{t: t, url: url}
	ask := func(method, name, params string) string {
		headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		if name != "" {
			headers = append(headers, "Mcp-Name", name)
		}
		_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, modernMeta), headers...)
		return body
	}
	if got := ask("server/discover", "", ""); !strings.Contains(got, `"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}`) {
		t.Errorf("discover: %s", got)
	}
	if got := ask("tools/call", "slow", `"name":"slow",`); !strings.Contains(got, `{"resultType":"task","taskId":"t-1","status":"working","vendor":1.0}`) {
		t.Errorf("tools/call: %s", got)
	}
	if got := ask("tasks/get", "", `"taskId":"t-1",`); !strings.Contains(got, `"status":"completed"`) {
		t.Errorf("tasks/get: %s", got)
	}
	if got := ask("tasks/get", "", `"taskId":"t-2",`); !strings.Contains(got, "unknown task: t-2") {
		t.Errorf("tasks/get of nobody's task: %s", got)
	}
}

// TestTasksAreAdvertised: a client of 2025-11-25 sees the capability tasks if a backend has it, gets a task from that
// backend, and none from a script.
func TestTasksAreAdvertised(t *testing.T) {
	backend := func(capabilities string) config.Backend {
		s := httptest.NewServer(&wiretest.Server{Capabilities: capabilities, Handle: func(c *wiretest.Call) (string, error) {
			switch c.Method {
			case "tools/list":
				return `{"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, nil
			case "tools/call":
				return `{"task":{"taskId":"t-1","status":"working","ttl":60000},"params":` + string(c.Params) + `}`, nil
			case "tasks/result":
				return `{"content":[{"type":"text","text":"done"}]}`, nil
			}
			return "", wiretest.ErrDefault
		}})
		t.Cleanup(s.Close)
		return config.Backend{Name: "b" + fmt.Sprint(len(capabilities)), URL: s.URL}
	}
	const with = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	script := []config.ScriptedTool{{Name: "script", Description: "d", Script: "def run(params):\n    return {}\n"}}
	_, url := start(t, &config.Config{Backends: []config.Backend{backend(`{"tools":{}}`), backend(with)}, ScriptedTools: script})
	c := &raw{t: t, url: url}
	if got := c.initialize("2025-11-25"); !strings.Contains(got, `"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}`) {
		t.Errorf("initialize: %s", got)
	}
	for _, tt := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"b` + fmt.Sprint(len(with)) + `_slow","task":{"ttl":60000}}`, `{"task":{"taskId":"t-1","status":"working","ttl":60000},"params":{"name":"slow","task":{"ttl":60000}}}`},
		{"tasks/result", `{"taskId":"t-1"}`, `"text":"done"`},
		{"tools/call", `{"name":"script","task":{}}`, `{"code":-32601,"message":"tool script cannot run as a task: call it without task"}`},
		{"tools/call", `{"name":"script"}`, `"content"`},
	} {
		if _, got := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":%s}`, tt.method, tt.params)); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s\nwant %s", tt.method, tt.params, got, tt.want)
		}
	}
	if got := (&raw{t: t, url: url}).initialize("2025-06-18"); strings.Contains(got, "tasks") {
		t.Errorf("2025-06-18 has no tasks: %s", got)
	}
	_, url = start(t, &config.Config{Backends: []config.Backend{backend(`{"tools":{}}`)}, ScriptedTools: script})
	c = &raw{t: t, url: url}
	if got := c.initialize("2025-11-25"); strings.Contains(got, "tasks") {
		t.Errorf("no backend has tasks: %s", got)
	}
	if _, got := c.do("POST", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"script","task":{}}}`); !strings.Contains(got, `"content"`) {
		t.Errorf("a task that was not offered is not asked for: %s", got)
	}
}
