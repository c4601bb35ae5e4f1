package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// TestAStreamBeginsWithItsRun: a client of 2025-11-25 gets the head of the response to a call, and an event to resume from,
// while the first effect of its durable run is made, and has the result on another connection when the first one is lost.
func TestAStreamBeginsWithItsRun(t *testing.T) {
	for _, tt := range []struct{ name, tool, meta string }{
		{"its row is made by the first effect", "act", ""},
		{"its row is made by its key", "see", `,"_meta":{"dev.vmcp/idempotencyKey":"k"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newSlow()
			_, _, url := startKept(t, fmt.Sprintf("def run(params):\n    return call_tool(%q)\n", tt.tool), func(c *config.Config) {
				c.Backends = []config.Backend{{Name: "slow", URL: b.serve(t, mcp.ToolAnnotations{})}}
			})
			c := &raw{t: t, url: url}
			c.initialize("2025-11-25")
			ctx, lose := context.WithCancel(t.Context())
			defer lose()
			resp := c.open(ctx, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asking","arguments":{}`+tt.meta+`}}`)
			first, err := bufio.NewReader(resp.Body).ReadString('\n')
			last, primed := strings.CutPrefix(strings.TrimSpace(first), "id: ")
			if err != nil || !primed || resp.StatusCode != http.StatusOK {
				t.Fatalf("the response begins with %s, %q, %v", resp.Status, first, err)
			}
			<-b.underWay
			lose()
			close(b.end)
			if _, body := c.do("GET", "", "Last-Event-ID", last); !strings.Contains(body, `"id":7`) || !strings.Contains(body, `"did":"it"`) {
				t.Errorf("the resumed stream: %s", body)
			}
		})
	}
}

// TestNoStreamWithoutNeed: clients without events to resume from get JSON, and so do calls without a row.
func TestNoStreamWithoutNeed(t *testing.T) {
	_, _, url := startKept(t, "def run(params):\n    return call_tool(params[\"tool\"])\n", func(c *config.Config) {
		c.ScriptedTools[0].Parameters = config.Raw{JSON: []byte(`{"type":"object","required":["tool"],"properties":{"tool":{"type":"string"}}}`)}
	})
	for _, tt := range []struct{ name, revision, arguments string }{
		{"no polling", "2025-06-18", `{"tool":"pay"}`},
		{"invalid arguments", "2025-11-25", `{}`},
		{"only reads", "2025-11-25", `{"tool":"look"}`},
	} {
		c := &raw{t: t, url: url}
		c.initialize(tt.revision)
		resp, body := c.do("POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asking","arguments":`+tt.arguments+`}}`)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/json" || !strings.Contains(body, `"id":7`) {
			t.Errorf("%s: %s, %s, want JSON: %s", tt.name, resp.Status, got, body)
		}
	}
}

// open sends a request and returns when the head of the response has come.
func (c *raw) open(ctx context.Context, body string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", c.session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _, _ = io.Copy(io.Discard, resp.Body); resp.Body.Close() })
	return resp
}
