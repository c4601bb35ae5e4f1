package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// TestNoValueOfAVariableIsShown: values of variables in a URL, headers, arguments and an environment are in no document
// of the API, though backends write them to standard error, log messages, errors and definitions.
func TestNoValueOfAVariableIsShown(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	const canary = "canary/value+vex4711"
	t.Setenv("CANARY", canary)
	chatty := &backendtest.Raw{Modern: true, Tools: fmt.Sprintf(`{"name":"t","description":"knows %s","inputSchema":{"type":"object","properties":{"a":{"const":%q}},"required":["a"]}}`, canary, canary)}
	chatty.Handle = func(x *backendtest.Exchange) {
		x.JSON(fmt.Sprintf(`{"content":[],"structuredContent":{%q:"x"},"resultType":"complete"}`, canary))
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no "+r.Header.Get("X-Key")+" for "+r.URL.String(), http.StatusForbidden)
	}))
	defer refusing.Close()
	cfg, err := config.Parse("vmcp.yaml", fmt.Appendf(nil, `
backends:
  - {name: chatty, url: %q, headers: {X-Key: "${CANARY}"}}
  - {name: refusing, url: "%s/?key=${CANARY}", headers: {X-Key: "${CANARY}"}}
  - name: shell
    command: sh
    args: ["-c", "echo $0 $TOKEN >&2; echo not JSON $TOKEN; exit 3", "${CANARY}"]
    env: {TOKEN: "${CANARY}"}
  - {name: gone, command: "/no/${CANARY}/program"}
`, chatty.Start(t), refusing.URL))
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(proxy.Options{})
	defer p.Close()
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Refused(fmt.Errorf("vmcp.yaml: has %s", canary))
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1:4483/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chatty_t","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "chatty_t"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); !strings.Contains(w.Body.String(), canary) {
		t.Errorf("the client gets %s", w.Body)
	}
	for path, want := range map[string]string{"/api/v1/status": "forbidden", "/api/v1/tools": "knows ***", "/api/v1/tools/chatty_t": `"shape":{"***":"string"}`, "/api/v1/logs?tail=2000": "***CANARY***"} {
		text := get(p, path).Body.String()
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %s", path, line)
			}
		}
		if strings.Contains(text, "vex4711") || strings.Contains(text, "canary") || !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("%s: want %s in it, and no canary\n%s", path, want, text)
		}
	}
	if s := decode[status.Status](t, get(p, "/api/v1/status")); len(s.Backends) != 4 || s.Healthy() {
		t.Errorf("status = %+v", s)
	}
}
