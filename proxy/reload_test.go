package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// TestApplyWhileServing applies configurations during calls: no call is lost, and a refused configuration changes
// nothing.
func TestApplyWhileServing(t *testing.T) {
	one := config.Backend{Name: "one", URL: sdkBackend(t, echoServer("one"), true)}
	two := config.Backend{Name: "two", URL: sdkBackend(t, echoServer("two"), true)}
	p, url := start(t, &config.Config{Name: "first", Backends: []config.Backend{one, two}})
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		s := connect(t, url, revision, nil)
		calling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "one_echo", Arguments: echoArgs{"hi"}}); err != nil {
					t.Errorf("a call while the configuration changes: %v", err)
					return
				}
				connect(t, url, revision, nil).Close()
			}
		})
	}
	for i := range 20 {
		cfg := &config.Config{Name: fmt.Sprint("next", i), Backends: []config.Backend{one, two}}
		if err := p.Apply(cfg); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	calling.Wait()
	if err := p.Apply(&config.Config{Name: "refused", Backends: []config.Backend{one, one}}); err == nil {
		t.Error("two backends of one name were accepted")
	}
	c := &raw{t: t, url: url}
	if got := c.initialize("2025-11-25"); !strings.Contains(got, `"name":"next19"`) {
		t.Errorf("after a refused configuration: %s", got)
	}
}

// TestLargeQuestions: a backend's question larger than one buffer reaches a client with a session like a small one.
func TestLargeQuestions(t *testing.T) {
	message := strings.Repeat("long ", 40_000)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ InputResponses map[string]json.RawMessage }
		}
		json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"public"}`,
			"tools/list":      `{"tools":[{"name":"ask","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`,
			"tools/call":      `{"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"` + message + `","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s","resultType":"input_required"}`,
		}[m.Method]
		if m.Params.InputResponses["q"] != nil {
			result = `{"resultType":"complete","content":[{"type":"text","text":"thanks"}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(backend.Close)
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}})
	var asked atomic.Int32
	o := askedBy(&asked)
	o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true} // it is asked in a request, or not at all
	r, err := connect(t, url, "2025-11-25", o).CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if got := text(t, r, err); got != "thanks" || asked.Load() != 1 {
		t.Errorf("ask: %q, asked %d times", got, asked.Load())
	}
}
