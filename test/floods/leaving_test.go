//go:build suites

package floods

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// shop is a server without annotations: charge answers, and slow only when its caller gives up.
type shop struct {
	url     string
	charged atomic.Int64
	open    atomic.Int64 // calls of slow in progress
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	s.url = srv.URL
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m request
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := lone(&m)
	switch m.Method + " " + m.Params.Name {
	case "tools/list ":
		result = `{"tools":[{"name":"charge","inputSchema":{"type":"object"}},{"name":"slow","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
	case "tools/call slow":
		s.open.Add(1)
		defer s.open.Add(-1)
		<-r.Context().Done()
		return
	case "tools/call charge":
		s.charged.Add(1)
		fallthrough
	case "tools/call look":
		result = `{"content":[{"type":"text","text":"here"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

const shopScripts = `scriptedTools:
  - {name: late, description: d, script: "def run(params):\n    call_tool('charge')\n    call_tool('slow', timeout='20ms')\n"}
  - {name: gone, description: d, script: "def run(params):\n    call_tool('charge')\n    call_tool('slow')\n"}
  - {name: quiet, description: d, durable: never, script: "def run(params):\n    call_tool('charge')\n    call_tool('slow')\n"}
  - {name: naps, description: d, script: "def run(params):\n    call_tool('charge')\n    sleep('1h')\n"}
  - {name: writes, description: d, script: "def run(params):\n    call_tool('charge')\n    return call_tool('charge')['text']\n"}
  - {name: reads, description: d, script: "def run(params):\n    return call_tool('look')['text']\n"}
  - {name: asks, description: d, script: "def run(params):\n    call_tool('charge')\n    return elicit('sure?').action\n"}
`

// TestClientsThatLeave: with default settings, thousands of calls that time out, are cancelled or lose their clients, over sessions
// and without, leave every tool working, no call open at the backend, and nothing behind in the process.
func TestClientsThatLeave(t *testing.T) {
	testmode.NeedThorough(t)
	b, shop := newBackend(t), newShop(t)
	b.beside = "{name: shop, url: " + shop.url + "}"
	s := serve(t, b, "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, shop]}}\n"+shopScripts)
	accepts := &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept"}, nil
	}}
	connect := func(revision string) *mcp.ClientSession {
		t.Helper()
		c, err := mcp.NewClient(&mcp.Implementation{Name: "leaves", Version: "1"}, accepts).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: s.url()}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	works := func(when string) {
		t.Helper()
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			c := connect(revision)
			for tool, want := range map[string]string{"writes": "here", "reads": "here", "asks": "accept", "charge": "here"} {
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
				text, _ := json.Marshal(r)
				if err != nil || r.IsError || !strings.Contains(string(text), want) {
					t.Errorf("%s, %s: %s has %s, %v", when, revision, tool, text, err)
				}
			}
			c.Close()
		}
	}
	works("at first")
	before := s.fds(t)
	goroutines := s.metric(t, "go_goroutines")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for _, tool := range []string{"late", "gone", "quiet", "naps"} {
			const sessions, calls = 25, 60
			var all sync.WaitGroup
			for range sessions {
				c := connect(revision)
				all.Go(func() {
					defer c.Close()
					for range calls {
						ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
						r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
						if cancel(); err == nil && !r.IsError {
							t.Errorf("%s has a result", tool)
						}
						if err != nil && strings.Contains(err.Error(), "no room") {
							t.Errorf("%s: %v", tool, err)
						}
					}
				})
			}
			all.Wait()
			works(fmt.Sprintf("after %d calls of %s with %s", sessions*calls, tool, revision))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	if err := rig.Poll(ctx, "the process to have what it had", func() (bool, error) {
		return shop.open.Load() == 0 && s.fds(t) <= before+20 && s.metric(t, "go_goroutines") <= goroutines+40, nil
	}); err != nil {
		t.Errorf("%v: %d calls are open at the backend; %d descriptors, %d before; %v goroutines, %v before", err, shop.open.Load(), s.fds(t), before, s.metric(t, "go_goroutines"), goroutines)
	}
	t.Logf("%d charges, resident memory grew by %d MB", shop.charged.Load(), s.grown(t)>>20)
}
