package proxy_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// TestStrictReadiness: a probe lists the backends that have to be ready; without that a backend that is down does not
// make the endpoint unready.
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

// TestReadinessIsWhatTheStatusSays: details for operators are ready only if the status is 200, and report the shutdown.
func TestReadinessIsWhatTheStatusSays(t *testing.T) {
	up := &backendtest.Raw{Tools: toolsNamed("t", 1)}
	p := proxy.New(proxy.Options{})
	srv := httptest.NewServer(p.AdminHandler())
	defer srv.Close()
	defer p.Close()
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "up", URL: up.Start(t)}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	says := func(query string, status int, ready, draining bool) {
		t.Helper()
		resp, body := ask(t, "GET", srv.URL+"/readyz"+query, "", "")
		var page struct{ Ready, Draining *bool }
		if err := json.Unmarshal([]byte(body), &page); err != nil || page.Ready == nil || page.Draining == nil {
			t.Fatalf("/readyz%s: want ready and draining: %s", query, body)
		}
		if resp.StatusCode != status || *page.Ready != ready || *page.Draining != draining {
			t.Errorf("/readyz%s: %d, want %d, ready %v, draining %v: %s", query, resp.StatusCode, status, ready, draining, body)
		}
	}
	says("", 200, true, false)
	says("?strict=nobody", 503, false, false)
	p.Stopping()
	says("", 503, false, true)
}
