package auth_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

const metadata = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`

const audience = "https://mcp.example.com/mcp"

// clock is a clock that a test sets.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) move(by time.Duration) { c.offset.Add(int64(by)) }

func oidc(i *authtest.Issuer) config.IncomingAuth {
	return config.IncomingAuth{Type: "oidc", OIDC: config.OIDC{
		Issuer: i.URL, ClientID: "vmcp", Secret: "s3cret", Audience: audience, Scopes: []string{"mcp:tools"},
		InsecureAllowHTTP: true, JWKSAllowPrivateIP: true, ClockSkew: config.Duration(30 * time.Second),
		JWKSRefresh: config.Duration(10 * time.Minute), IntrospectionCache: config.Duration(time.Minute), SubjectClaim: "sub",
	}}
}

func newAuth(t *testing.T, cfg config.IncomingAuth) (*auth.Authenticator, *clock) {
	t.Helper()
	c := &clock{}
	a, err := auth.New(cfg, auth.Options{Now: c.now, Look: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, c
}

// request returns a request with these Authorization headers.
func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header["Authorization"] = headers
	return r
}

// answered returns the response to a refused request: status and challenge.
func answered(a *auth.Authenticator, err error) string {
	var refusal *auth.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Sprint(err)
	}
	h := http.Header{}
	refusal.SetHeader(h, a.MetadataURL(""))
	out := fmt.Sprint(refusal.Status)
	if v := h.Get("WWW-Authenticate"); v != "" {
		out += " " + v
	}
	if v := h.Get("Retry-After"); v != "" {
		out += " retry " + v
	}
	return out
}

func TestGoodTokens(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	a, _ := newAuth(t, oidc(issuer))
	now := time.Now().Unix()
	for _, tt := range []struct {
		name    string
		changes map[string]any
		want    string
	}{
		{"plain", nil, "alice [dev] [mcp:tools files:read] agent"},
		{"audience in a list", map[string]any{"aud": []string{"x", audience}}, "alice [dev] [mcp:tools files:read] agent"},
		{"scp as a list", map[string]any{"scope": nil, "scp": []string{"a", "b"}}, "alice [dev] [a b] agent"},
		{"scp as a text", map[string]any{"scope": nil, "scp": "a b"}, "alice [dev] [a b] agent"},
		{"expired within the skew", map[string]any{"exp": now - 20}, "alice [dev] [mcp:tools files:read] agent"},
		{"not yet, within the skew", map[string]any{"nbf": now + 20}, "alice [dev] [mcp:tools files:read] agent"},
		{"roles", map[string]any{"groups": nil, "roles": []string{"ops"}}, "alice [ops] [mcp:tools files:read] agent"},
		{"cognito", map[string]any{"groups": nil, "cognito:groups": []string{"ops"}}, "alice [ops] [mcp:tools files:read] agent"},
		{"azp", map[string]any{"client_id": nil, "azp": "other"}, "alice [dev] [mcp:tools files:read] other"},
		{"a fraction of a second", map[string]any{"exp": json.Number(fmt.Sprintf("%d.5", now+60))}, "alice [dev] [mcp:tools files:read] agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := a.Authenticate(request("bearer " + issuer.Token(t, audience, tt.changes)))
			if err != nil {
				t.Fatal(err, errors.Unwrap(err))
			}
			if got := fmt.Sprint(p.Subject, " ", p.Groups, " ", p.Scopes, " ", p.Client); got != tt.want || p.Issuer != issuer.URL {
				t.Errorf("got %s of %s\nwant %s", got, p.Issuer, tt.want)
			}
		})
	}
	issuer.UseECDSA(t)
	b, _ := newAuth(t, oidc(issuer))
	if _, err := b.Authenticate(request("Bearer " + issuer.Token(t, audience, nil))); err != nil {
		t.Errorf("ES256: %v", err)
	}
}

// Every invalid token gets the exact status and challenge, without a part of the token.
// test/access tests the endpoint with the same table.
func TestBadTokens(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	a, _ := newAuth(t, oidc(issuer))
	for _, bad := range issuer.BadRequests(t, audience, `scope="mcp:tools", `+metadata) {
		t.Run(bad.Name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/mcp"+bad.Query, nil)
			r.Header["Authorization"] = bad.Authorization
			p, err := a.Authenticate(r)
			if got := answered(a, err); got != bad.Want || p != nil {
				t.Errorf("got  %s, %v\nwant %s", got, p, bad.Want)
			}
		})
	}
	if _, err := a.Authenticate(request("Bearer " + issuer.Token(t, audience, nil))); err != nil {
		t.Errorf("the good token: %v", err)
	}
}

func TestAnIDTokenForThisClientIsRefused(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.Audience = "vmcp"
	a, _ := newAuth(t, cfg)
	token := authtest.Sign(t, issuer.Key(), issuer.Claims("vmcp", nil), map[jose.HeaderKey]any{"typ": "JWT"})
	if _, err := a.Authenticate(request("Bearer " + token)); err == nil || err.Error() != "this is not an access token" {
		t.Errorf("got %v", err)
	}
}

// Anybody can invent key ids: not each of them may cause a fetch of the keys.
// TestKindsOfSignedTokens: a signed token for our audience that its issuer marks as another one than an access token is refused,
// whatever its header says, and so is an introspection response with the same claims.
func TestKindsOfSignedTokens(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.IntrospectionURL = issuer.URL + "/introspect"
	a, err := auth.New(cfg, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	logout := map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}
	for i, tt := range []struct {
		header string
		claims map[string]any
		good   bool
	}{
		{"", map[string]any{}, true},
		{"at+jwt", map[string]any{}, true},
		{"", map[string]any{"token_use": "access"}, true},
		{"", map[string]any{"typ": "Bearer"}, true},
		{"", map[string]any{"token_type": "access"}, true},
		{"", map[string]any{"token_type": "refresh_token"}, false},
		{"", map[string]any{"token_type": "refresh"}, false},
		{"", map[string]any{"token_use": "refresh"}, false},
		{"", map[string]any{"token_use": "id"}, false},
		{"", map[string]any{"token_use": 7}, false},
		{"", map[string]any{"typ": "Refresh"}, false},
		{"", map[string]any{"typ": "Offline"}, false},
		{"", map[string]any{"typ": "ID"}, false},
		{"at+jwt", map[string]any{"token_use": "refresh"}, false},
		{"", map[string]any{"events": logout}, false},
		{"at+jwt", map[string]any{"events": logout}, false},
		{"", map[string]any{"nonce": "x"}, false},
		{"", map[string]any{"s_hash": "x"}, false},
		{"", map[string]any{"events": []any{}}, false},
		{"", map[string]any{"type": "refresh"}, false},
		{"", map[string]any{"tokenType": "refresh_token"}, false},
		{"", map[string]any{"use": "ID"}, false},
		{"", map[string]any{"type": "user"}, true},
	} {
		signed := authtest.Sign(t, issuer.Key(), issuer.Claims(audience, tt.claims), map[jose.HeaderKey]any{"typ": cmp.Or(tt.header, "JWT")})
		if _, err := a.Authenticate(request("Bearer " + signed)); (err == nil) != tt.good {
			t.Errorf("signed, header %q, %v: %v, want it accepted: %t", tt.header, tt.claims, err, tt.good)
		}
		opaque := fmt.Sprint("opaque-", i)
		issuer.Opaque(opaque, issuer.Claims(audience, tt.claims))
		if _, err := a.Authenticate(request("Bearer " + opaque)); (err == nil) != tt.good {
			t.Errorf("introspected, %v: %v, want it accepted: %t", tt.claims, err, tt.good)
		}
	}
}

func TestUnknownKeysAreNoAmplifier(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	a, clock := newAuth(t, oidc(issuer))
	var g sync.WaitGroup
	for n := range 200 {
		token := authtest.Sign(t, authtest.WithID(issuer.Key(), fmt.Sprint("invented", n)), issuer.Claims(audience, nil), nil)
		g.Go(func() { _, _ = a.Authenticate(request("Bearer " + token)) })
	}
	g.Wait()
	if n := issuer.Fetches(); n > 4 {
		t.Errorf("200 unknown keys caused %d fetches", n)
	}
	issuer.Rotate(t, false)
	clock.move(11 * time.Second)
	if _, err := a.Authenticate(request("Bearer " + issuer.Token(t, audience, nil))); err != nil {
		t.Errorf("a new key, 11 s later: %v", err)
	}
}

// Tokens of a withdrawn key are refused, also those with a cached verdict.
func TestWithdrawnKeys(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	a, clock := newAuth(t, oidc(issuer))
	old := issuer.Token(t, audience, nil)
	if _, err := a.Authenticate(request("Bearer " + old)); err != nil {
		t.Fatal(err)
	}
	issuer.Rotate(t, true)
	clock.move(11 * time.Minute)
	later := map[string]any{"exp": time.Now().Add(time.Hour).Unix()}
	if _, err := a.Authenticate(request("Bearer " + issuer.Token(t, audience, later))); err != nil {
		t.Fatalf("the new key: %v", err)
	}
	if _, err := a.Authenticate(request("Bearer " + old)); err == nil {
		t.Error("a token of a withdrawn key still comes in")
	}
}

// A withdrawn key is detected although all tokens have cached verdicts.
func TestWithdrawnKeyOfAKnownToken(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.JWKSRefresh = config.Duration(time.Minute)
	a, clock := newAuth(t, cfg)
	token := issuer.Token(t, audience, nil)
	if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
		t.Fatal(err)
	}
	issuer.Rotate(t, true)
	clock.move(59 * time.Second)
	if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
		t.Errorf("before the keys are looked at again: %v", err)
	}
	clock.move(2 * time.Second)
	if _, err := a.Authenticate(request("Bearer " + token)); err == nil {
		t.Error("a token of a withdrawn key comes in after jwksRefresh")
	}
}

// While the issuer is down no token is refused as invalid.
func TestTheIssuerIsDown(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	issuer.SetDown(true)
	a, clock := newAuth(t, oidc(issuer))
	token := issuer.Token(t, audience, map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()})
	_, err := a.Authenticate(request("Bearer " + token))
	if got := answered(a, err); got != "503 retry 5" {
		t.Errorf("down from the start: got %s", got)
	}
	issuer.SetDown(false)
	clock.move(11 * time.Second)
	if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
		t.Fatalf("up: %v", err)
	}
	issuer.SetDown(true)
	clock.move(30 * time.Minute) // the verdict is gone, the keys are past their refresh
	if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
		t.Errorf("a known key while down: %v", answered(a, err))
	}
	unknown := authtest.Sign(t, authtest.WithID(issuer.Key(), "new"), issuer.Claims(audience, map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()}), nil)
	_, err = a.Authenticate(request("Bearer " + unknown))
	if got := answered(a, err); got != "503 retry 5" {
		t.Errorf("an unknown key while down: got %s", got)
	}
}

func TestIntrospection(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.IntrospectionURL = issuer.URL + "/introspect"
	a, clock := newAuth(t, cfg)
	issuer.Opaque("good", map[string]any{"sub": "bob", "scope": "x", "aud": audience, "iss": issuer.URL, "exp": time.Now().Add(time.Hour).Unix()})
	issuer.Opaque("foreign", map[string]any{"sub": "bob", "aud": "https://other.example"})
	var g sync.WaitGroup
	for range 20 {
		g.Go(func() {
			if p, err := a.Authenticate(request("Bearer good")); err != nil || p.Subject != "bob" {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}
	g.Wait()
	for _, token := range []string{"foreign", "invented"} {
		if _, err := a.Authenticate(request("Bearer " + token)); err == nil {
			t.Errorf("%s comes in", token)
		}
	}
	if n := issuer.Questions(); n > 4 {
		t.Errorf("22 requests with 3 tokens caused %d questions", n)
	}
	issuer.Revoke("good")
	clock.move(61 * time.Second)
	if _, err := a.Authenticate(request("Bearer good")); answered(a, err)[:3] != "401" {
		t.Errorf("a revoked token: %v", err)
	}
	issuer.SetDown(true)
	if _, err := a.Authenticate(request("Bearer other")); answered(a, err) != "503 retry 5" {
		t.Errorf("the issuer is down: %v", answered(a, err))
	}
}

// TestIntrospectedKinds: what an introspection response has to say of a token before it opens the endpoint, with aud required and
// with the clients that need none. A refusal for want of aud is logged once, with the key of the configuration.
func TestIntrospectedKinds(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	later := time.Now().Add(time.Hour).Unix()
	const other = "https://other.example/mcp"
	tests := []struct {
		name               string
		claims             map[string]any
		required, optional bool // whether it is accepted
	}{
		{"an access token for us", map[string]any{"aud": audience, "token_type": "Bearer", "client_id": "app", "iss": issuer.URL, "exp": later}, true, true},
		{"bearer in lower case", map[string]any{"aud": audience, "token_type": "bearer"}, true, true},
		{"several audiences", map[string]any{"aud": []any{other, audience}}, true, true},
		{"our audience and no type", map[string]any{"aud": audience}, true, true},
		{"token_use access_token", map[string]any{"aud": audience, "token_use": "access_token"}, true, true},
		{"typ of Keycloak", map[string]any{"aud": audience, "typ": "Bearer"}, true, true},
		{"another audience", map[string]any{"aud": other, "token_type": "Bearer", "client_id": "app"}, false, false},
		{"an empty audience", map[string]any{"aud": []any{}, "token_type": "Bearer", "client_id": "app"}, false, false},
		{"an audience that is no text", map[string]any{"aud": 7, "token_type": "Bearer", "client_id": "app"}, false, false},
		{"no audience, a listed client", map[string]any{"token_type": "Bearer", "client_id": "app"}, false, true},
		{"no audience, a listed client by azp", map[string]any{"token_type": "Bearer", "azp": "app"}, false, true},
		{"no audience, another client", map[string]any{"token_type": "Bearer", "client_id": "game"}, false, false},
		{"no audience, no client", map[string]any{"token_type": "Bearer"}, false, false},
		{"no audience, no type", map[string]any{"client_id": "app"}, false, false},
		{"nothing but active", map[string]any{}, false, false},
		{"token_type refresh_token", map[string]any{"aud": audience, "token_type": "refresh_token", "client_id": "app"}, false, false},
		{"token_type id_token", map[string]any{"aud": audience, "token_type": "id_token"}, false, false},
		{"token_type N_A", map[string]any{"aud": audience, "token_type": "N_A"}, false, false},
		{"token_type that is no text", map[string]any{"aud": audience, "token_type": 1}, false, false},
		{"token_type null", map[string]any{"aud": audience, "token_type": nil, "client_id": "app"}, false, false},
		{"bound to a proof that is not checked", map[string]any{"aud": audience, "token_type": "DPoP", "cnf": map[string]any{"jkt": "x"}}, false, false},
		{"token_use refresh", map[string]any{"aud": audience, "token_use": "refresh"}, false, false},
		{"token_use id", map[string]any{"aud": audience, "token_use": "id", "token_type": "Bearer"}, false, false},
		{"typ Refresh", map[string]any{"aud": audience, "typ": "Refresh"}, false, false},
		{"typ Offline", map[string]any{"aud": audience, "typ": "Offline", "token_type": "Bearer"}, false, false},
		{"at_hash", map[string]any{"aud": audience, "at_hash": "x"}, false, false},
		{"not valid yet", map[string]any{"aud": audience, "nbf": later, "exp": later + 60}, false, false},
		{"valid for a second", map[string]any{"aud": audience, "nbf": time.Now().Unix() - 1}, true, true},
		{"valid in a second, within the clocks' skew", map[string]any{"aud": audience, "nbf": time.Now().Unix() + 1}, true, true},
		{"nbf that is no number", map[string]any{"aud": audience, "nbf": "now"}, false, false},
	}
	for _, optional := range []bool{false, true} {
		cfg := oidc(issuer)
		cfg.OIDC.IntrospectionURL, cfg.OIDC.ClockSkew = issuer.URL+"/introspect", config.Duration(30*time.Second)
		if optional {
			cfg.OIDC.IntrospectionAudience, cfg.OIDC.IntrospectionClients = "optional", []string{"cli", "app"}
		}
		var log testkit.Buffer
		a, err := auth.New(cfg, auth.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for i, tt := range tests {
			token := fmt.Sprintf("token-%t-%d", optional, i)
			claims := maps.Clone(tt.claims)
			claims["sub"] = "eve"
			issuer.Opaque(token, claims)
			want := tt.required
			if optional {
				want = tt.optional
			}
			if _, err := a.Authenticate(request("Bearer " + token)); (err == nil) != want {
				t.Errorf("%s (aud optional: %t): %v, want it accepted: %t", tt.name, optional, err, want)
			}
		}
		if n := strings.Count(log.String(), "introspectionAudience"); n != 1 {
			t.Errorf("aud optional: %t: the key is named %d times, want once:\n%s", optional, n, log.String())
		}
	}
}

// TestMetadataHasNoNull: no member of the metadata is null or empty (RFC 9728, sections 2 and 3.2), with every configuration of scopes.
func TestMetadataHasNoNull(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	for _, scopes := range [][]string{nil, {}, {"mcp:tools"}} {
		cfg := oidc(issuer)
		cfg.OIDC.Scopes, cfg.OIDC.RequiredScopes = scopes, nil
		a, _ := newAuth(t, cfg)
		w := httptest.NewRecorder()
		a.ServeMetadata(w, httptest.NewRequest("GET", "/.well-known/oauth-protected-resource/mcp", nil), nil)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("scopes %q: %d %s: %v", scopes, w.Code, w.Body, err)
		}
		for name, v := range got {
			if list, ok := v.([]any); v == nil || ok && len(list) == 0 {
				t.Errorf("scopes %q: %s is %v: want it left out", scopes, name, v)
			}
		}
		if _, has := got["scopes_supported"]; has != (len(scopes) > 0) || got["resource"] == nil || got["authorization_servers"] == nil {
			t.Errorf("scopes %q: %s", scopes, w.Body)
		}
	}
}

func TestRequiredScopes(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.RequiredScopes = []string{"mcp:tools", "mcp:admin"}
	a, _ := newAuth(t, cfg)
	_, err := a.Authenticate(request("Bearer " + issuer.Token(t, audience, nil)))
	want := `403 Bearer error="insufficient_scope", error_description="more scopes are needed", scope="mcp:tools mcp:admin", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	if got := answered(a, err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A tokens file is followed: new, revoked, invalid, removed, restored.
func TestStaticTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token, err := auth.NewToken(file, auth.Token{Name: "alice", Groups: []string{"ops"}, Scopes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token, "vmcp_") || len(token) < 48 {
		t.Errorf("token %q", token)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(data), token) {
		t.Errorf("the token is in its file: %v", err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	a, clock := newAuth(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	in := func(token string) func() bool {
		return func() bool { _, err := a.Authenticate(request("Bearer " + token)); return err == nil }
	}
	p, err := a.Authenticate(request("Bearer " + token))
	if err != nil || p.Subject != "alice" || p.Issuer != auth.IssuerTokens || p.Groups[0] != "ops" {
		t.Fatalf("got %+v, %v", p, err)
	}
	watched, stop := a.Watch(context.Background(), p, token)
	defer stop()
	bob, err := auth.NewToken(file, auth.Token{Name: "bob", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a new token", in(bob))
	if _, err := auth.NewToken(file, auth.Token{Name: "bob"}); err == nil {
		t.Error("two tokens have a name")
	}
	clock.move(2 * time.Hour)
	testkit.Eventually(t, "an expired token is out", func() bool { return !in(bob)() })
	if err := os.WriteFile(file+".new", []byte("tokens: [{name: x}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(file)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // that nothing changes cannot be waited for
	if !in(token)() {
		t.Error("a broken file changed something")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a file that is gone denies everybody", func() bool { return !in(token)() })
	select {
	case <-watched.Done():
		if !errors.Is(context.Cause(watched), auth.ErrCredentialEnded) {
			t.Errorf("the watched context ended by %v", context.Cause(watched))
		}
	case <-time.After(time.Minute):
		t.Error("what was watched goes on")
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the file is back", in(token))
	if err := auth.RevokeToken(file, "alice"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a revoked token is out", func() bool { return !in(token)() })
	if err := auth.RevokeToken(file, "alice"); err == nil {
		t.Error("revoked twice")
	}
}

// A new token with the name of a revoked one is a different token: contexts of the old one
// end.
func TestATokenMadeAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	old, err := auth.NewToken(file, auth.Token{Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.NewToken(file, auth.Token{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	a, _ := newAuth(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	p, err := a.Authenticate(request("Bearer " + old))
	if err != nil {
		t.Fatal(err)
	}
	watched, stop := a.Watch(t.Context(), p, old)
	defer stop()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(old)))
	anew := strings.Replace(string(data), hash, strings.Repeat("ab", 32), 1) // in one write, as by another program
	if err := errors.Join(os.WriteFile(file+".new", []byte(anew), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-watched.Done():
	case <-time.After(time.Minute):
		t.Error("what the revoked token opened goes on")
	}
}

// A change of a token's groups or scopes ends its contexts.
func TestATokenWithOtherRights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token, err := auth.NewToken(file, auth.Token{Name: "alice", Groups: []string{"dev", "ops"}, Scopes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newAuth(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	for _, change := range [][2]string{{"  - ops\n", ""}, {"  - a\n", "  - b\n"}} {
		p, err := a.Authenticate(request("Bearer " + token))
		if err != nil {
			t.Fatal(err)
		}
		watched, stop := a.Watch(t.Context(), p, token)
		defer stop()
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), change[0]) {
			t.Fatalf("%q is not in %s: %v", change[0], data, err)
		}
		changed := strings.Replace(string(data), change[0], change[1], 1)
		if err := errors.Join(os.WriteFile(file+".new", []byte(changed), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
		ends(t, watched)
		if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
			t.Errorf("the token itself is as good as before: %v", err)
		}
	}
}

// ends waits until a watched context ends with its credential.
func ends(t *testing.T, watched context.Context) {
	t.Helper()
	select {
	case <-watched.Done():
		if !errors.Is(context.Cause(watched), auth.ErrCredentialEnded) {
			t.Errorf("it ended by %v", context.Cause(watched))
		}
	case <-time.After(time.Minute):
		t.Error("what was opened goes on")
	}
}

// Contexts of an issuer's token end when the issuer revokes the token, a scope or group, or the key, also
// if the token has no expiry. They do not end while the issuer is down.
func TestContextsEndWhenTheIssuerRevokes(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.IntrospectionURL = issuer.URL + "/introspect"
	a, clock := newAuth(t, cfg)
	open := func(token string) context.Context {
		t.Helper()
		p, err := a.Authenticate(request("Bearer " + token))
		if err != nil {
			t.Fatal(err)
		}
		watched, stop := a.Watch(t.Context(), p, token)
		t.Cleanup(stop)
		return watched
	}
	issuer.Opaque("revoked", map[string]any{"sub": "alice", "scope": "x", "aud": audience})
	issuer.Opaque("less", map[string]any{"sub": "bob", "scope": "x y", "aud": audience})
	issuer.Opaque("kept", map[string]any{"sub": "carol", "scope": "x y", "aud": audience})
	revoked, less, kept := open("revoked"), open("less"), open("kept")
	signed := open(issuer.Token(t, audience, map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()}))

	issuer.SetDown(true)
	before := issuer.Questions()
	clock.move(61 * time.Second)
	testkit.Eventually(t, "the issuer is asked though it is down", func() bool { return issuer.Questions() > before+1 })
	for _, watched := range []context.Context{revoked, less, kept, signed} {
		if watched.Err() != nil {
			t.Error("what was opened ends while the issuer is down")
		}
	}

	issuer.Revoke("revoked")
	issuer.Opaque("less", map[string]any{"sub": "bob", "scope": "x", "aud": audience})
	issuer.Opaque("kept", map[string]any{"sub": "carol", "scope": "y x", "aud": audience})
	issuer.Rotate(t, true)
	issuer.SetDown(false)
	clock.move(11 * time.Minute)
	ends(t, revoked)
	ends(t, less)
	ends(t, signed)
	if kept.Err() != nil {
		t.Error("what was opened with a token that is as good as before has ended")
	}
}

// A tokens file behind a symbolic link is replaced, and the link is kept.
func TestATokensFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "kept", "tokens.yaml")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("tokens: []"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept/tokens.yaml", link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if _, err := auth.NewToken(link, auth.Token{Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if tokens, err := auth.ReadTokens(file); err != nil || len(tokens) != 1 {
		t.Errorf("the file has %v, %v", tokens, err)
	}
}

// A file that is empty while it is being written refuses no token.
func TestAnEmptyTokensFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token, err := auth.NewToken(file, auth.Token{Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newAuth(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // that nothing changes cannot be waited for
	if _, err := a.Authenticate(request("Bearer " + token)); err != nil {
		t.Errorf("an empty file sends alice away: %v", err)
	}
	if err := os.WriteFile(file, []byte("tokens: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a file that says so has no tokens", func() bool { _, err := a.Authenticate(request("Bearer " + token)); return err != nil })
}

func TestTokensFilesAreReadStrictly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	hash := strings.Repeat("ab", 32)
	for _, tt := range []struct{ text, want string }{
		{"tokens: [{name: a, sha256: 12}]", "sha256"},
		{"tokens: [{name: a, sha256: " + hash + "}, {name: a, sha256: " + strings.Repeat("cd", 32) + "}]", `tokens[1].name: "a" is already the name of tokens[0]`},
		{"tokens: [{name: a, sha256: " + hash + "}, {name: b, sha256: " + hash + "}]", "tokens[1].sha256: the same token as tokens[0]"},
		{"tokens: [{name: 'a b', sha256: " + hash + "}]", "tokens[0].name: want"},
		{"tokens: [{name: a, sha256: " + hash + ", admin: true}]", "admin"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := auth.ReadTokens(file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

// Principals whose issuer and subject are equal when joined have different keys.
func TestKeysCannotBeForged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	one, _ := auth.NewToken(file, auth.Token{Name: "a"})
	two, _ := auth.NewToken(file, auth.Token{Name: "b"})
	a, _ := newAuth(t, config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}})
	p, err := a.Verify(t.Context(), one)
	q, err2 := a.Verify(t.Context(), two)
	if err != nil || err2 != nil || p.Key() == q.Key() || p.Key() == "" {
		t.Errorf("keys %q and %q: %v %v", p.Key(), q.Key(), err, err2)
	}
	var nobody *auth.Principal
	if nobody.Key() != "" {
		t.Error("anonymous has a key")
	}
}

func TestMetadata(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	a, _ := newAuth(t, oidc(issuer))
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource": 200, "/.well-known/oauth-protected-resource/mcp": 200, "/.well-known/oauth-protected-resource/other": 404,
	} {
		w := httptest.NewRecorder()
		a.ServeMetadata(w, httptest.NewRequest(http.MethodGet, path, nil), nil)
		if w.Code != want {
			t.Errorf("%s: got %d, want %d", path, w.Code, want)
		}
		preflight := httptest.NewRecorder()
		a.ServeMetadata(preflight, httptest.NewRequest(http.MethodOptions, path, nil), nil)
		if allowed := preflight.Header().Get("Access-Control-Allow-Headers"); want == 200 && (preflight.Code != 204 || !strings.Contains(allowed, "Mcp-Protocol-Version")) {
			t.Errorf("a page may not ask for %s: %d, headers %q", path, preflight.Code, allowed)
		}
		if want == 200 && (!strings.Contains(w.Body.String(), `"authorization_servers":["`+issuer.URL+`"]`) || w.Header().Get("Access-Control-Allow-Origin") != "*") {
			t.Errorf("%s: %s %v", path, w.Body, w.Header())
		}
	}
}

func TestPrivateAddressesAreNotAsked(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.JWKSAllowPrivateIP = false
	a, _ := newAuth(t, cfg)
	_, err := a.Authenticate(request("Bearer " + issuer.Token(t, audience, nil)))
	if answered(a, err) != "503 retry 5" || issuer.Fetches() != 0 || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "jwksAllowPrivateIp") {
		t.Errorf("got %v (%v), %d fetches", err, errors.Unwrap(err), issuer.Fetches())
	}
}

func BenchmarkCachedToken(b *testing.B) {
	file := filepath.Join(b.TempDir(), "t.yaml")
	token, err := auth.NewToken(file, auth.Token{Name: "a"})
	if err != nil {
		b.Fatal(err)
	}
	a, err := auth.New(config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}}, auth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	r := request("Bearer " + token)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("Bearer eyJhbGciOiJSUzI1NiJ9.e30.AA")
	f.Add("bearer a.b.c")
	f.Fuzz(func(t *testing.T, header string) {
		cfg := config.IncomingAuth{Type: "oidc", OIDC: config.OIDC{Issuer: "http://127.0.0.1:1", Audience: "x"}}
		a, err := auth.New(cfg, auth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if p, err := a.Authenticate(request(header)); err == nil {
			t.Errorf("%q came in as %v", header, p)
		}
	})
}

// A tokens file with any content is refused, or each of its rows has a unique token and name.
func FuzzTokensFile(f *testing.F) {
	hash := strings.Repeat("0a", sha256.Size)
	f.Add([]byte("tokens: []"))
	f.Add([]byte("tokens: [{name: a, sha256: " + hash + ", groups: [x], expires: 2027-01-01T00:00:00Z}]"))
	f.Add([]byte("tokens: [{name: a, sha256: &h " + hash + "}, {name: b, sha256: *h}]"))
	f.Add([]byte("{\"tokens\":[{\"name\":\"a\",\"SHA256\":null}]}"))
	path := filepath.Join(f.TempDir(), "tokens.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := auth.ReadTokens(path)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, row := range rows {
			raw, err := hex.DecodeString(row.SHA256)
			if err != nil || len(raw) != sha256.Size || row.Name == "" || seen[row.Name] || seen[row.SHA256] {
				t.Errorf("%q has the row %+v", text, row)
			}
			seen[row.Name], seen[row.SHA256] = true, true
		}
	})
}

// A connection may outlive its certificate, and a certificate may have no name: both are refused,
// with the reason in the log.
func TestCertificatesThatDoNotComeIn(t *testing.T) {
	a, clock := newAuth(t, config.IncomingAuth{Type: "mtls"})
	with := func(uris ...string) *http.Request {
		cert := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
		for _, u := range uris {
			cert.URIs = append(cert.URIs, &url.URL{Scheme: "spiffe", Host: "example.com", Path: u})
		}
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
		return r
	}
	if p, err := a.Authenticate(with("/agent")); err != nil || p.Subject != "spiffe://example.com/agent" {
		t.Errorf("got %+v, %v", p, err)
	}
	refused := func(r *http.Request, why string) {
		t.Helper()
		_, err := a.Authenticate(r)
		refusal, ok := errors.AsType[*auth.Refusal](err)
		if !ok || refusal.Status != 401 || refusal.Cause == nil || !strings.Contains(refusal.Cause.Error(), why) {
			t.Errorf("got %v, want a cause with %q", err, why)
		}
	}
	refused(with("/one", "/two"), "has 2 URIs: want one, a SPIFFE ID")
	refused(with(), "has 0 URIs")
	clock.move(2 * time.Hour)
	refused(with("/agent"), "has expired")
}

// TestNoChallengeForATokenWhereOnlyCertificatesAreTaken, over HTTP and on standard input.
func TestNoChallengeForATokenWhereOnlyCertificatesAreTaken(t *testing.T) {
	a, _ := newAuth(t, config.IncomingAuth{Type: "mtls"})
	_, overHTTP := a.Authenticate(httptest.NewRequest(http.MethodPost, "/mcp", nil))
	_, onStdio := a.Verify(t.Context(), "")
	for _, err := range []error{overHTTP, onStdio} {
		refusal, ok := errors.AsType[*auth.Refusal](err)
		if !ok || refusal.Status != 401 || !refusal.NoToken || refusal.Error() != "a client certificate is required" {
			t.Errorf("got %+v", err)
			continue
		}
		h := http.Header{}
		refusal.SetHeader(h, "https://mcp.example.com/.well-known/oauth-protected-resource")
		if len(h) != 0 {
			t.Errorf("headers %v", h)
		}
	}
}
