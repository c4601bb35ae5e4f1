package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
)

// TestClientsThatCannotBeAsked: the request of a backend is answered with the missing capability.
func TestClientsThatCannotBeAsked(t *testing.T) {
	_, url := start(t, &config.Config{Backends: []config.Backend{
		{Name: "http", URL: backendtest.HTTP(t, backendtest.New("2025-11-25"), true)}, backendtest.Stdio("stdio", "legacy"),
	}})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	for i, backend := range []string{"http", "stdio"} {
		for tool, want := range map[string]string{"ask": "elicitation", "sample": "sampling"} {
			_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d%s","method":"tools/call","params":{"name":"%s_%s","arguments":{}}}`, i, tool, backend, tool))
			if !strings.Contains(body, "support "+want) {
				t.Errorf("%s_%s: %s", backend, tool, body)
			}
		}
	}
}
