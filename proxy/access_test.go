package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

const greet = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// guardedEndpoint serves a configuration whose clients have to authenticate.
func guardedEndpoint(t *testing.T, in config.IncomingAuth) (*proxy.Proxy, *httptest.Server) {
	t.Helper()
	p := proxy.New(proxy.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(&config.Config{IncomingAuth: in}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(srv.Close)
	return p, srv
}

// tokens makes a tokens file with a token for each name.
func tokens(t *testing.T, names ...string) (file string, tokens map[string]string) {
	t.Helper()
	file, tokens = filepath.Join(t.TempDir(), "tokens.yaml"), map[string]string{}
	for _, name := range names {
		token, err := auth.NewToken(file, auth.Token{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
	}
	return file, tokens
}

// ask makes a request with a token; headers come in pairs.
func ask(t *testing.T, method, url, token, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// A session belongs to the principal that opened it: for others it does not exist.
func TestASessionIsItsPrincipals(t *testing.T) {
	file, token := tokens(t, "alice", "bob")
	_, srv := guardedEndpoint(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	resp, _ := ask(t, "POST", srv.URL+"/mcp", token["alice"], greet)
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != 200 || id == "" {
		t.Fatalf("initialize: %s", resp.Status)
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for _, tt := range []struct {
		who, method, body string
		want              int
	}{
		{"bob", "POST", ping, 404}, {"bob", "GET", "", 404}, {"bob", "DELETE", "", 404},
		{"", "POST", ping, 401}, {"", "GET", "", 401}, {"", "DELETE", "", 401},
		{"alice", "POST", ping, 200},
	} {
		resp, body := ask(t, tt.method, srv.URL+"/mcp", token[tt.who], tt.body, "Mcp-Session-Id", id)
		if resp.StatusCode != tt.want {
			t.Errorf("%s by %q: %s, want %d: %s", tt.method, tt.who, resp.Status, tt.want, body)
		}
	}
	unknown, text := ask(t, "POST", srv.URL+"/mcp", token["bob"], ping, "Mcp-Session-Id", "NEVERTHERE")
	foreign, same := ask(t, "POST", srv.URL+"/mcp", token["bob"], ping, "Mcp-Session-Id", id)
	if unknown.StatusCode != foreign.StatusCode || text != same {
		t.Errorf("another's session reads %s %s, an unknown one %s %s", foreign.Status, same, unknown.Status, text)
	}
}

// Without a token there is a challenge, and a body that a JSON-RPC client can read; health
// and readiness stay open, details do not.
func TestWithoutAToken(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	_, srv := guardedEndpoint(t, config.IncomingAuth{Type: "oidc", OIDC: config.OIDC{
		Issuer: issuer.URL, Audience: "https://mcp.example.com/mcp", InsecureAllowHTTP: true, JWKSAllowPrivateIP: true,
	}})
	resp, body := ask(t, "POST", srv.URL+"/mcp", "", greet)
	var rpc struct {
		JSONRPC string
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(body), &rpc); err != nil || rpc.Error.Code == 0 || resp.StatusCode != 401 {
		t.Errorf("got %s %s: %v", resp.Status, body, err)
	}
	if got, want := resp.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`; got != want {
		t.Errorf("challenge %s\nwant %s", got, want)
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/health": 200, "/readyz": 200, "/readyz?tools": 404, "/metrics": 404, "/.well-known/oauth-protected-resource/mcp": 200,
	} {
		if resp, body := ask(t, "GET", srv.URL+path, "", ""); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d: %s", path, resp.Status, want, body)
		}
	}
	token := issuer.Token(t, "https://mcp.example.com/mcp", nil)
	if resp, body := ask(t, "POST", srv.URL+"/mcp", token, greet); resp.StatusCode != 200 {
		t.Errorf("with a token: %s %s", resp.Status, body)
	}
}

// A stream ends when its token is revoked; that of another token continues.
func TestAStreamEndsWithItsToken(t *testing.T) {
	testmode.Parallel(t)
	file, token := tokens(t, "alice", "bob")
	_, srv := guardedEndpoint(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	stream := func(who string) (ended chan struct{}) {
		resp, _ := ask(t, "POST", srv.URL+"/mcp", token[who], greet)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token[who])
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
		get, err := http.DefaultClient.Do(r)
		if err != nil || get.StatusCode != 200 {
			t.Fatalf("GET: %v %v", get, err)
		}
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			defer get.Body.Close()
			for s := bufio.NewScanner(get.Body); s.Scan(); {
			}
		}()
		return ended
	}
	alice, bob := stream("alice"), stream("bob")
	if err := auth.RevokeToken(file, "alice"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-alice:
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on without its token")
	}
	select {
	case <-bob:
		t.Error("the other's stream ended, too")
	default:
	}
}

// A configuration with an invalid tokens file is refused, and the previous one is still served.
func TestABrokenTokensFileIsRefused(t *testing.T) {
	file, token := tokens(t, "alice")
	p, srv := guardedEndpoint(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("tokens: [{name: x}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{IncomingAuth: config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: broken}}}
	if err := p.Apply(cfg); err == nil || !strings.Contains(err.Error(), "tokens[0].sha256") {
		t.Errorf("Apply: %v", err)
	}
	if err := proxy.Check(cfg); err == nil || !strings.Contains(fmt.Sprint(err), "tokens[0].sha256") {
		t.Errorf("Check: %v", err)
	}
	if resp, _ := ask(t, "POST", srv.URL+"/mcp", token["alice"], greet); resp.StatusCode != 200 {
		t.Errorf("after a refused configuration: %s", resp.Status)
	}
	if err := p.Verify(t.Context(), ""); err == nil {
		t.Error("a client on a pipe comes in without a token")
	}
	if err := p.Verify(t.Context(), token["alice"]); err != nil {
		t.Errorf("a client on a pipe with its token: %v", err)
	}
}
