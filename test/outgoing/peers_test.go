// Package outgoing_test tests the requests to backends: their credentials, which principals share
// a token, and secrets that are never sent. Backends and the token endpoint are real HTTP servers that record
// their requests.
package outgoing_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// waitTime bounds every wait of a test.
const waitTime = 2 * time.Minute

// endpoint is a token endpoint. It knows the client "vmcp" with the secret "cl1ent-s3cret".
type endpoint struct {
	*httptest.Server

	mu      sync.Mutex
	asked   []url.Values      // guarded by mu, like all below
	good    map[string]string // tokens that backends take → of whom
	life    time.Duration     // of a token; 0 does not say
	answer  http.HandlerFunc  // instead of a token; nil: none
	refuses map[string]bool   // subjects without an exchange
	hold    chan struct{}     // every request waits for it; nil: none
}

const clientSecret = "cl1ent-s3cret"

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{good: map[string]string{}, life: time.Hour, refuses: map[string]bool{}}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	e.mu.Lock()
	e.asked = append(e.asked, r.PostForm)
	n, answer, hold := len(e.asked), e.answer, e.hold
	e.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if answer != nil {
		answer(w, r)
		return
	}
	id, secret, _ := r.BasicAuth()
	if id != "vmcp" || secret != clientSecret {
		fail(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	who := "vmcp"
	if r.PostForm.Get("grant_type") != "client_credentials" {
		if who = subjectOf(r.PostForm.Get("subject_token")); who == "" || e.refusesTo(who) {
			fail(w, http.StatusBadRequest, "invalid_grant")
			return
		}
	}
	token := fmt.Sprintf("t0ken-%s-%d-%s", who, n, strings.Repeat("x", 20))
	e.mu.Lock()
	e.good[token] = who
	life := e.life
	e.mu.Unlock()
	body := map[string]any{"access_token": token, "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
	if life > 0 {
		body["expires_in"] = int(life / time.Second)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q,"error_description":"no"}`, code)
}

// subjectOf is the sub of a JWT, which is not verified here.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Sub string }
	_ = json.Unmarshal(payload, &claims)
	return claims.Sub
}

func (e *endpoint) refusesTo(who string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refuses[who]
}

// requests are the forms that the endpoint got so far.
func (e *endpoint) requests() []url.Values {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]url.Values(nil), e.asked...)
}

// owner is the owner of a token; "" for an invalid one.
func (e *endpoint) owner(token string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.good[token]
}

// revoke revokes all tokens.
func (e *endpoint) revoke() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.good = map[string]string{}
}

func (e *endpoint) set(change func(*endpoint)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

// seen is a request that a backend got.
type seen struct {
	method, rpc, authorization, session, remote string
	header                                      http.Header
	body, query                                 string
}

// guarded is an MCP server that accepts the credentials for which good returns true.
type guarded struct {
	*httptest.Server
	mcp     raw.Server
	handler http.Handler                // instead of mcp; nil: none
	refuse  http.HandlerFunc            // instead of a bare 401
	open    map[string]http.HandlerFunc // paths that need no credential
	good    func(authorization string) bool
	deny    func(w http.ResponseWriter, authorization, rpc string) bool // answers a request with a good credential; nil: none

	mu  sync.Mutex
	all []seen // guarded by mu
}

func newGuarded(t *testing.T, modern bool, good func(authorization string) bool) *guarded {
	g := &guarded{good: good}
	g.mcp = raw.Server{Modern: modern, Handle: func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return g.mcp.List("tools", `{"name":"who","inputSchema":{"type":"object"}}`), nil
		case "tools/call":
			who, _ := json.Marshal(c.Header.Get("Authorization"))
			result := `{"content":[{"type":"text","text":` + string(who) + `}]`
			if modern {
				result += `,"resultType":"complete"`
			}
			return result + "}", nil
		}
		return "", raw.ErrDefault
	}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m)
	s := seen{r.Method, m.Method, r.Header.Get("Authorization"), r.Header.Get("Mcp-Session-Id"), r.RemoteAddr, r.Header.Clone(), string(body), r.URL.RawQuery}
	g.mu.Lock()
	g.all = append(g.all, s)
	g.mu.Unlock()
	if f := g.open[r.URL.Path]; f != nil {
		f(w, r)
		return
	}
	if g.good != nil && !g.good(s.authorization) && g.refuse != nil {
		g.refuse(w, r)
		return
	}
	if g.good != nil && !g.good(s.authorization) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if g.deny != nil && g.deny(w, s.authorization, s.rpc) {
		return
	}
	if g.handler != nil {
		g.handler.ServeHTTP(w, r)
		return
	}
	g.mcp.ServeHTTP(w, r)
}

// seen returns the requests with a JSON-RPC method, or all.
func (g *guarded) seen(rpc string) (some []seen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.all {
		if rpc == "" || s.rpc == rpc {
			some = append(some, s)
		}
	}
	return some
}

// vmcp is a proxy on a port.
type vmcp struct {
	*proxy.Proxy
	url string
	log *bytes.Buffer // what it logged; read after Close
}

func serve(t *testing.T, cfg *config.Config) *vmcp {
	t.Helper()
	v := &vmcp{log: &bytes.Buffer{}}
	v.Proxy = proxy.New(proxy.Options{Log: slog.New(slog.NewJSONHandler(v.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	srv := httptest.NewServer(v.Proxy)
	t.Cleanup(func() { v.Close(); srv.Close() })
	v.url = srv.URL + "/mcp"
	v.apply(t, cfg)
	return v
}

func (v *vmcp) apply(t *testing.T, cfg *config.Config) {
	t.Helper()
	if err := v.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	if err := v.Settled(ctx); err != nil {
		t.Fatal(err)
	}
}

// client connects a client of a revision with a bearer token, or none.
func (v *vmcp) client(t *testing.T, revision, token string) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: v.url, Revision: revision}
	if token != "" {
		c.Header = http.Header{"Authorization": {"Bearer " + token}}
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// who calls the tool of the backend and returns its text.
func who(t *testing.T, c *raw.Client) (string, error) {
	result, err := c.Call(t.Context(), "tools/call", `{"name":"who","arguments":{}}`)
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 {
		return "", fmt.Errorf("%s: %v", result, err)
	}
	return r.Content[0].Text, nil
}

func mustBe(t *testing.T, c *raw.Client, want string) {
	t.Helper()
	if got, err := who(t, c); err != nil || got != want {
		t.Errorf("the backend got %q, %v, want %q", got, err, want)
	}
}

// with is a configuration with one backend.
func with(b config.Backend, s config.OutgoingStrategy) *config.Config {
	b.Name = "b"
	return &config.Config{Backends: []config.Backend{b}, OutgoingAuth: config.OutgoingAuth{Backends: map[string]config.OutgoingStrategy{"b": s}}}
}

func credentialsOf(e *endpoint) config.OutgoingStrategy {
	return config.OutgoingStrategy{Type: "client_credentials", ClientCredentials: config.ClientCredentials{
		TokenURL: e.URL + "/token", ClientID: "vmcp", ClientSecret: clientSecret, Scopes: []string{"crm"}, Audience: "https://crm.example.com"}}
}
