package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/proxy"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// TestPeopleAreTold: people are notified of a waiting run by a request or by a call, without the question.
func TestPeopleAreTold(t *testing.T) {
	told := make(chan map[string]string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- message(t, body)
	}))
	defer hook.Close()
	for _, notify := range []config.Notify{{URL: hook.URL}, {Tool: "bank.told", Events: []string{"waiting"}}} {
		bank := &chargeServer{charged: map[string]int{}}
		s := bank.server()
		s.AddTool(&mcp.Tool{Name: "told", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			told <- message(t, r.Params.Arguments)
			return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
		})
		cfg := bank.asking(sdkBackend(t, s, false), askingScript)
		cfg.Runs.Notify = notify
		p := proxy.New(proxy.Options{OpenStore: func(c *config.Config) (durablepkg.Store, *durablepkg.Ring, error) {
			return sqlstore.Open(t.Context(), c, sqlstore.How{})
		}})
		srv := httptest.NewServer(p.Handler())
		if err := p.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if err := p.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		result, _ := modernCall(t, srv.URL+"/mcp", "asking", "")
		asks(t, result)
		if m := <-told; m["type"] != "run.waiting" || m["tool"] != "asking" || len(m["run"]) != 26 || len(m) != 4 {
			t.Errorf("told %v", m)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		srv.Close()
	}
}

func message(t *testing.T, text []byte) (m map[string]string) {
	if err := json.Unmarshal(text, &m); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return m
}
