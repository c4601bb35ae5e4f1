package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestLargeAnswersKeepTheirLength streams results with different text around them in the backend's frame, to clients of
// both eras: the response has a Content-Length, and the result is unchanged.
func TestLargeAnswersKeepTheirLength(t *testing.T) {
	content := `"content":[{"type":"text","text":"` + strings.Repeat(`a \"quoted\" word, `, 20_000) + `"}]`
	for _, tt := range []struct{ name, frame, want string }{
		{"id in front", `{"jsonrpc":"2.0","id":%s,"result":{` + content + `}}`, `{` + content},
		{"id behind", `{"result":{` + content + `},"jsonrpc":"2.0","id":%s}` + "\n", `{` + content},
		{"members behind", `{"jsonrpc":"2.0","id":%s,"result":{` + content + `} , "debug":{"id":7}}`, `{` + content},
		{"a foreign introduction", `{"jsonrpc":"2.0","id":%s,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{}},` + content + `}}`, content},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				json.NewDecoder(r.Body).Decode(&m)
				w.Header().Set("Content-Type", "application/json")
				answer := map[string]string{
					"initialize": `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`,
					"tools/list": `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"big","inputSchema":{"type":"object"}}]}}`,
					"tools/call": tt.frame,
				}[m.Method]
				if answer == "" {
					answer = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`
				}
				if m.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				body := strings.Replace(answer, "%s", string(m.ID), 1)
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				io.WriteString(w, body)
			}))
			t.Cleanup(backend.Close)
			_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}})
			legacy := &raw{t: t, url: url}
			legacy.initialize("2025-11-25")
			resp, body := legacy.do("POST", `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"big","arguments":{}}}`)
			checkLarge(t, resp, body, tt.want)
			modern := &raw{t: t, url: url}
			resp, body = modern.do("POST", `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"big","arguments":{},`+modernMeta+`}}`,
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "big")
			checkLarge(t, resp, body, tt.want)
			if !strings.Contains(body, `"resultType":"complete"`) {
				t.Error("the modern client got no resultType")
			}
		})
	}
}

func checkLarge(t *testing.T, resp *http.Response, body, want string) {
	t.Helper()
	var m struct {
		ID     string
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || m.ID != "mine" {
		t.Fatalf("%d bytes are no answer to the request: id %q, %v", len(body), m.ID, err)
	}
	if resp.ContentLength != int64(len(body)) {
		t.Errorf("Content-Length %d for %d bytes", resp.ContentLength, len(body))
	}
	if !strings.Contains(string(m.Result), want) || strings.Contains(body, "debug") || strings.Contains(body, `serverInfo":{}`) {
		t.Error("the result is not what the backend sent")
	}
}
