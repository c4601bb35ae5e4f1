package proxy_test

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/proxy"
)

const pingText = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

// keyed is a configuration with keys of these names, and the tokens of a file.
func keyed(tokens string, ids ...string) *config.Config {
	c := &config.Config{SessionStorage: config.SessionStorage{Schema: "vmcp"}}
	if tokens != "" {
		c.IncomingAuth = config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: tokens}}
	}
	for _, id := range ids {
		c.SessionStorage.Keys = append(c.SessionStorage.Keys, config.StorageKey{ID: id, Key: bytes.Repeat([]byte(id), 32)})
	}
	return c
}

// TestSealedSessions: with keys a session has a sealed id. Every other id gets the same response, byte for byte.
func TestSealedSessions(t *testing.T) {
	file, token := tokens(t, "ann", "bob")
	begin := func(ids ...string) (*proxy.Proxy, string) {
		p := proxy.New(proxy.Options{})
		t.Cleanup(func() { p.Close() })
		if err := p.Apply(keyed(file, ids...)); err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(p.Handler())
		t.Cleanup(srv.Close)
		return p, srv.URL + "/mcp"
	}
	p, url := begin("a")
	_, elsewhere := begin("a")
	open := func(url string) string {
		t.Helper()
		resp, body := ask(t, "POST", url, token["ann"], greet)
		id := resp.Header.Get("Mcp-Session-Id")
		if resp.StatusCode != 200 || len(id) < 150 || len(id) > 2048 {
			t.Fatalf("initialize: %d %s, id %q", resp.StatusCode, body, id)
		}
		return id
	}
	use := func(who, id string) (int, string) {
		t.Helper()
		resp, body := ask(t, "POST", url, token[who], pingText, "Mcp-Session-Id", id)
		return resp.StatusCode, body
	}
	id := open(url)
	if status, body := use("ann", id); status != 200 {
		t.Fatalf("ping: %d %s", status, body)
	}
	const gone = `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"session not found: begin a new one with initialize"}}`
	for name, text := range map[string]string{
		"changed": id[:40] + other(id[40]) + id[41:], "cut": id[:len(id)-1], "longer": id + "A", "random": strings.Repeat("AQ", 100), "short": "x", "without a seal": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"too long": strings.Repeat("A", 3000), "of another process": open(elsewhere),
	} {
		if status, body := use("ann", text); status != 404 || body != gone {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := use("bob", id); status != 404 || body != gone {
		t.Errorf("another principal: %d %s", status, body)
	}
	for _, step := range []struct {
		keys string
		old  int
	}{{"a b", 200}, {"b a", 200}, {"b", 404}} {
		if err := p.Apply(keyed(file, strings.Fields(step.keys)...)); err != nil {
			t.Fatal(err)
		}
		if status, body := use("ann", id); status != step.old {
			t.Errorf("keys %s: the old session: %d %s, want %d", step.keys, status, body, step.old)
		}
		next := open(url)
		if status, _ := use("ann", next); status != 200 {
			t.Errorf("keys %s: a new session: %d", step.keys, status)
		}
		if resp, _ := ask(t, "DELETE", url, token["ann"], "", "Mcp-Session-Id", next); resp.StatusCode != 204 {
			t.Errorf("keys %s: DELETE: %d", step.keys, resp.StatusCode)
		}
		if status, body := use("ann", next); status != 404 || body != gone {
			t.Errorf("keys %s: a deleted session: %d %s", step.keys, status, body)
		}
	}
}

// other is a character that c is not.
func other(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}
