package outgoing_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

const audience = "https://mcp.example.com/mcp"

// exchanging is a configuration whose backend is called with a token for each principal.
func exchanging(url string, issuer *authtest.Issuer, e *endpoint) *config.Config {
	cfg := with(config.Backend{URL: url}, config.OutgoingStrategy{Type: "token_exchange", TokenExchange: config.TokenExchange{
		TokenURL: e.URL + "/token", ClientID: "vmcp", ClientSecret: clientSecret, Audience: "https://hr.example.com", Scopes: []string{"hr"},
		Discovery: config.DiscoveryStrategy{Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "Authorization", HeaderValue: "Bearer list-only"}},
	}})
	cfg.IncomingAuth = config.IncomingAuth{Type: "oidc", OIDC: config.OIDC{Issuer: issuer.URL, Audience: audience, InsecureAllowHTTP: true, JWKSAllowPrivateIP: true}}
	return cfg
}

// takesTokens is a backend that accepts the tokens of e, and one for lists.
func takesTokens(t *testing.T, modern bool, e *endpoint) *guarded {
	return newGuarded(t, modern, func(a string) bool {
		return a == "Bearer list-only" || e.owner(strings.TrimPrefix(a, "Bearer ")) != ""
	})
}

func tokenOf(t *testing.T, issuer *authtest.Issuer, who string) string {
	return issuer.Token(t, audience, map[string]any{"sub": who, "jti": fmt.Sprint(time.Now().UnixNano())})
}

// The token of each principal is exchanged once, with any revisions; no session of the backend, and no
// connection to it, has the credentials of two principals, and none has a client's token.
func TestEachPrincipalHasItsOwn(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			t.Parallel()
			issuer, e := authtest.NewIssuer(t), newEndpoint(t)
			g := takesTokens(t, modern, e)
			v := serve(t, exchanging(g.URL, issuer, e))
			people := []string{"alice", "bob", "carol"}
			inbound := map[string]string{}
			var all sync.WaitGroup
			for _, name := range people {
				inbound[name] = tokenOf(t, issuer, name)
			}
			for _, name := range people {
				for _, revision := range []string{legacy, legacy, raw.Modern} {
					c := v.client(t, revision, inbound[name])
					for range 5 {
						all.Go(func() {
							got, err := who(t, c)
							if err != nil || e.owner(strings.TrimPrefix(got, "Bearer ")) != name {
								t.Errorf("%s called with %q, %v", name, got, err)
							}
						})
					}
				}
			}
			all.Wait()
			if n := len(e.requests()); n != len(people) {
				t.Errorf("%d exchanges for %d principals", n, len(people))
			}
			for _, f := range e.requests() {
				if f.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" || f.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:access_token" ||
					f.Get("audience") != "https://hr.example.com" || f.Get("scope") != "hr" || f.Get("subject_token") != inbound[subjectOf(f.Get("subject_token"))] {
					t.Errorf("the token endpoint was asked %v", f)
				}
			}
			sessions, connections := map[string]string{}, map[string]string{}
			for _, s := range g.seen("") {
				for _, of := range []struct {
					kind, key string
					seen      map[string]string
				}{{"session", s.session, sessions}, {"connection", s.remote, connections}} {
					if before, ok := of.seen[of.key]; ok && before != s.authorization && of.key != "" {
						t.Errorf("one %s carries %q and %q", of.kind, before, s.authorization)
					}
					of.seen[of.key] = s.authorization
				}
				if s.rpc == "tools/list" && s.authorization != "Bearer list-only" && modern {
					t.Errorf("lists are read with %q", s.authorization)
				}
			}
			noInbound(t, inbound, g)
		})
	}
}

// noInbound fails when a request to a backend has a client's token.
func noInbound(t *testing.T, inbound map[string]string, backends ...*guarded) {
	t.Helper()
	for _, g := range backends {
		all := g.seen("")
		if len(all) == 0 {
			t.Error("a backend got nothing")
		}
		for _, s := range all {
			header, _ := json.Marshal(s.header)
			for name, token := range inbound {
				if strings.Contains(string(header)+s.body, token) {
					t.Errorf("%s %s carries the token of %s", s.method, s.rpc, name)
				}
			}
		}
	}
}

// After a refused exchange the backend is not contacted, and the call fails with the reason.
func TestARefusedExchange(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	e.refuses["mallory"] = true
	g := takesTokens(t, false, e)
	cfg := exchanging(g.URL, issuer, e)
	cfg.ScriptedTools = []config.ScriptedTool{{Name: "kind", Description: "d", Script: "def run(params):\n    return try_call_tool('who').kind\n"}}
	v := serve(t, cfg)
	for _, revision := range []string{legacy, raw.Modern} {
		c := v.client(t, revision, tokenOf(t, issuer, "mallory"))
		_, err := who(t, c)
		if err == nil || !strings.Contains(err.Error(), "backend b: token endpoint "+e.URL+"/token refuses a token: invalid_grant") || !strings.Contains(err.Error(), `denied`) {
			t.Errorf("got %v", err)
		}
		if got, err := c.Call(t.Context(), "tools/call", `{"name":"kind","arguments":{}}`); err != nil || !strings.Contains(string(got), "denied") {
			t.Errorf("a script sees %s, %v", got, err)
		}
		for _, s := range g.seen("") {
			if s.authorization != "Bearer list-only" {
				t.Errorf("the backend was contacted: %s %s with %q", s.method, s.rpc, s.authorization)
			}
		}
	}
}

// A static token has no issuer: it is not exchanged.
func TestAStaticTokenIsNotExchanged(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	g := takesTokens(t, false, e)
	cfg := exchanging(g.URL, issuer, e)
	cfg.IncomingAuth.Tokens.File = t.TempDir() + "/tokens.yaml"
	token, err := auth.NewToken(cfg.IncomingAuth.Tokens.File, auth.Token{Name: "robot"})
	if err != nil {
		t.Fatal(err)
	}
	v := serve(t, cfg)
	if _, err := who(t, v.client(t, legacy, token)); err == nil || !strings.Contains(err.Error(), "needs a JWT or an introspected token") {
		t.Errorf("got %v", err)
	}
	if n := len(e.requests()); n != 0 {
		t.Errorf("the token endpoint was asked %d times", n)
	}
	noInbound(t, map[string]string{"robot": token}, g)
}

// After a 401 the token of one principal is exchanged again; that of the other is kept.
func TestARefusedTokenOfOnePrincipal(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	g := takesTokens(t, false, e)
	v := serve(t, exchanging(g.URL, issuer, e))
	alice, bob := v.client(t, legacy, tokenOf(t, issuer, "alice")), v.client(t, raw.Modern, tokenOf(t, issuer, "bob"))
	first, err := who(t, alice)
	if err != nil {
		t.Fatal(err)
	}
	his, err := who(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	e.set(func(e *endpoint) { delete(e.good, strings.TrimPrefix(first, "Bearer ")) })
	if second, err := who(t, alice); err != nil || second == first {
		t.Errorf("alice: %q, %v", second, err)
	}
	mustBe(t, bob, his)
	if n := len(e.requests()); n != 3 {
		t.Errorf("%d exchanges, want 3", n)
	}
}

// Without a credential for lists, a backend is connected with the token of the first caller, at the
// first request, and lists with that token.
func TestTheFirstCallerListsWithItsToken(t *testing.T) {
	for _, revision := range []string{legacy, raw.Modern} {
		issuer, e := authtest.NewIssuer(t), newEndpoint(t)
		g := takesTokens(t, false, e)
		cfg := exchanging(g.URL, issuer, e)
		s := cfg.OutgoingAuth.Backends["b"]
		s.TokenExchange.Discovery = config.DiscoveryStrategy{}
		cfg.OutgoingAuth.Backends["b"] = s
		v := serve(t, cfg)
		if b := v.Status().Backends[0]; b.State != "down" || !strings.Contains(b.Error, "before the first call with a token that can be exchanged") {
			t.Errorf("before anybody called: %+v", b)
		}
		if len(g.seen("")) > 0 {
			t.Error("the backend was contacted without a caller")
		}
		c := &raw.Client{URL: v.url, Revision: revision, Header: http.Header{"Authorization": {"Bearer " + tokenOf(t, issuer, "alice")}}}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := c.Call(t.Context(), "tools/list", "{}")
		if err != nil || !strings.Contains(string(list), `"who"`) {
			t.Fatalf("the first list: %s, %v", list, err)
		}
		for _, s := range g.seen("") {
			if e.owner(strings.TrimPrefix(s.authorization, "Bearer ")) != "alice" {
				t.Errorf("%s %s with %q", s.method, s.rpc, s.authorization)
			}
		}
		if got, err := who(t, v.client(t, revision, tokenOf(t, issuer, "bob"))); err != nil || e.owner(strings.TrimPrefix(got, "Bearer ")) != "bob" {
			t.Errorf("bob called with %q, %v", got, err)
		}
	}
}

// With more principals than connections, idle connections are closed to make room.
func TestConnectionsOfPrincipalsAreBounded(t *testing.T) {
	for _, modern := range []bool{false, true} {
		issuer, e := authtest.NewIssuer(t), newEndpoint(t)
		g := takesTokens(t, modern, e)
		cfg := exchanging(g.URL, issuer, e)
		cfg.Backends[0].MaxConnections = 3
		cfg.SessionIdle.Pressure = config.Duration(time.Millisecond)
		v := serve(t, cfg)
		for i := range 8 {
			name := fmt.Sprint("user", i)
			if got, err := who(t, v.client(t, raw.Modern, tokenOf(t, issuer, name))); err != nil || e.owner(strings.TrimPrefix(got, "Bearer ")) != name {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}

// Listed headers are forwarded to backends over HTTP, except those that the configuration sets;
// others are not.
func TestPassthroughHeaders(t *testing.T) {
	for _, modern := range []bool{false, true} {
		g := newGuarded(t, modern, nil)
		cfg := with(config.Backend{URL: g.URL, Headers: map[string]string{"X-Tenant": "configured"}}, config.OutgoingStrategy{})
		cfg.PassthroughHeaders = []string{"x-request-id", "X-Tenant"}
		v := serve(t, cfg)
		for _, revision := range []string{legacy, raw.Modern} {
			c := v.client(t, revision, "")
			c.Header = http.Header{"X-Request-Id": {"r-" + revision}, "X-Tenant": {"the client's"}, "X-Other": {"o"}, "Cookie": {"a=b"}}
			if _, err := who(t, c); err != nil {
				t.Fatal(err)
			}
			calls := g.seen("tools/call")
			h := calls[len(calls)-1].header
			if h.Get("X-Request-Id") != "r-"+revision || !slices.Equal(h.Values("X-Tenant"), []string{"configured"}) || h.Get("X-Other")+h.Get("Cookie") != "" {
				t.Errorf("the backend got %v", h)
			}
		}
		for _, s := range g.seen("") {
			if s.rpc != "tools/call" && s.header.Get("X-Request-Id") != "" {
				t.Errorf("%s carries a client's header", s.rpc)
			}
		}
	}
}
