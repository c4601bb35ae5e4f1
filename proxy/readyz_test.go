package proxy_test

import (
	"net/http/httptest"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// TestStrictReadiness: a probe says which backends have to be ready; without it one that is down takes nothing out of service.
func TestStrictReadiness(t *testing.T) {
	p := proxy.New(proxy.Options{})
	srv := httptest.NewServer(p.Handler())
	defer srv.Close()
	defer p.Close()
	if resp, _ := ask(t, "GET", srv.URL+"/readyz", "", ""); resp.StatusCode != 503 {
		t.Errorf("before the first configuration: %d", resp.StatusCode)
	}
	up := &backendtest.Raw{Tools: toolsNamed("t", 1)}
	cfg := &config.Config{Backends: []config.Backend{
		{Name: "up", URL: up.Start(t)}, {Name: "down", URL: "http://127.0.0.1:1/mcp"}, {Name: "off", URL: "http://127.0.0.1:1/mcp", Disabled: true},
	}}
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"": 200, "?strict": 503, "?strict=": 503, "?strict=up": 200, "?strict=up,down": 503, "?strict=down": 503, "?strict=off": 503, "?strict=nobody": 503, "?strict=up,": 503,
	} {
		if resp, body := ask(t, "GET", srv.URL+"/readyz"+query, "", ""); resp.StatusCode != want {
			t.Errorf("/readyz%s: %d, want %d: %s", query, resp.StatusCode, want, body)
		}
	}
	if err := p.Apply(&config.Config{Backends: []config.Backend{cfg.Backends[0], cfg.Backends[2]}}); err != nil {
		t.Fatal(err)
	}
	if resp, body := ask(t, "GET", srv.URL+"/readyz?strict", "", ""); resp.StatusCode != 200 {
		t.Errorf("all that are enabled are ready: %d %s", resp.StatusCode, body)
	}
}
