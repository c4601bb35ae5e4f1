package proxy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// sized is a backend with sessions whose tool returns the requested number of bytes, as JSON and as an event.
func sized() *backendtest.Raw {
	return &backendtest.Raw{
		Session: "s", Tools: `{"name":"json","inputSchema":{"type":"object"}},{"name":"event","inputSchema":{"type":"object"}}`,
		Handle: func(x *backendtest.Exchange) {
			if x.Message.Method != wire.ToolsCall {
				x.WriteHeader(405)
				return
			}
			var n int
			json.Unmarshal([]byte(x.Param("arguments", "bytes")), &n)
			result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`
			if x.Param("name") == `"event"` {
				x.EventResult(result)
			} else {
				x.JSON(result)
			}
		},
	}
}

// TestLargeResultsArriveWhole: a result that is still arriving when the call has returned is complete, whatever
// capabilities the stateless client declared.
func TestLargeResultsArriveWhole(t *testing.T) {
	testmode.Parallel(t)
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: sized().Start(t)}}})
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"sampling":{}}`, `{"roots":{}}`} {
		for _, tool := range []string{"json", "event"} {
			t.Run(capabilities+" "+tool, func(t *testing.T) {
				t.Parallel()
				c := &raw{t: t, url: url}
				meta := strings.Replace(modernMeta, `clientCapabilities":{}`, `clientCapabilities":`+capabilities, 1)
				sizes := []int{60_000, 70_000, 200_000, 1 << 20}
				if capabilities == `{}` || testmode.Thorough() {
					sizes = append(sizes, 8<<20)
				}
				for i := range testmode.Count(1, 100) {
					if i == 10 {
						sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > 200_000 }) // what arrives late shows in the small ones
					}
					for _, n := range sizes {
						if broken := c.large(tool, meta, n); broken != nil {
							t.Fatalf("call %d of %d bytes: %v", i, n, broken)
						}
					}
				}
			})
		}
	}
}

// large calls a tool of sized and returns what is wrong with the response.
func (c *raw) large(tool, meta string, n int) error {
	_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"bytes":%d},%s}}`, tool, n, meta),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	var m struct {
		Result struct{ Content []struct{ Text string } }
		Error  json.RawMessage
	}
	err := json.Unmarshal([]byte(body), &m)
	if err != nil || len(m.Result.Content) != 1 || len(m.Result.Content[0].Text) != n {
		return fmt.Errorf("%d bytes: %w %s", len(body), err, m.Error)
	}
	return nil
}
