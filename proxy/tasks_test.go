package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestTasksPassThrough starts a task of the tasks extension and asks for it: the
// messages arrive as they are, at the backend that runs the task, for its owner only.
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
