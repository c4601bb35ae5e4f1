//go:build npm

package idp

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

//go:embed npm
var files embed.FS

// testTimeout bounds every wait of a test.
const testTimeout = 60 * time.Second

// world is an identity provider and a vmcp that trusts it.
type world struct {
	t        *testing.T
	issuer   string
	resource string // the URL of vmcp, which tokens have to be for
}

func start(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	vmcp, err := rig.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.provide(ctx)
	w.serve(ctx, vmcp)
	return w
}

// provide starts the identity provider.
func (w *world) provide(ctx context.Context) {
	w.t.Helper()
	provider, err := rig.Program(w.t.Context(), w.t.TempDir(), files, "provider.mjs")
	if err != nil {
		w.t.Fatal(err)
	}
	port := freePort(w.t)
	w.issuer = fmt.Sprintf("http://127.0.0.1:%d", port)
	provider.Args = append(provider.Args, fmt.Sprint(port))
	w.run(ctx, w.issuer+"/jwks", provider)
}

// serve starts vmcp in front of a backend with the tools look and purge; purge needs a scope.
func (w *world) serve(ctx context.Context, vmcp string) {
	w.t.Helper()
	backend := httptest.NewServer(&raw.Server{Handle: func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return `{"tools":[{"name":"look","inputSchema":{"type":"object"}},{"name":"purge","inputSchema":{"type":"object"}}]}`, nil
		case "tools/call":
			if strings.Contains(fmt.Sprint(c.Header), "eyJ") {
				w.t.Error("a token reached the backend")
			}
			return `{"content":[]}`, nil
		}
		return "", raw.ErrDefault
	}})
	w.t.Cleanup(backend.Close)
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	w.resource = "http://" + addr + "/mcp"
	config := filepath.Join(w.t.TempDir(), "vmcp.yaml")
	text := fmt.Sprintf(`name: idp
backends: [{name: b, url: %q}]
incomingAuth:
  type: oidc
  oidc:
    issuer: %q
    audience: %q
    scopes: ["mcp:tools"]
    requiredScopes: ["mcp:tools"]
    clientId: vmcp
    clientSecretEnv: VMCP_IDP_SECRET
    introspectionUrl: %q
    introspectionCache: 1s
    insecureAllowHttp: true
    jwksAllowPrivateIp: true
  authz:
    type: cedar
    allow:
      - {name: developers, groups: [dev], tools: ["b.look"]}
      - {name: purge, groups: [dev], scopes: ["files:admin"], tools: ["b.purge"]}
`, backend.URL, w.issuer, w.resource, w.issuer+"/token/introspection")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(vmcp, "serve", "--config", config, "--listen", addr)
	cmd.Env = append(os.Environ(), "VMCP_IDP_SECRET=s3cret")
	w.run(ctx, "http://"+addr+"/healthz", cmd)
	if err := rig.AwaitReady(ctx, addr); err != nil {
		w.t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// run starts a process and waits until it answers; its output is shown when the test fails.
func (w *world) run(ctx context.Context, url string, cmd *exec.Cmd) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.t.TempDir(), "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := rig.StartCmd(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = p.Stop()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); w.t.Failed() {
			w.t.Logf("%s:\n%s", filepath.Base(cmd.Path), text)
		}
	})
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	if err := p.AwaitHTTP(ctx, url); err != nil {
		w.t.Fatal(err)
	}
}

// post makes a call of a tool in the older era, or sends initialize where tool is "".
func (w *world) post(token, session, tool string) (*http.Response, string) {
	w.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if tool != "" {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.resource, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// session sends initialize and returns the session's id.
func (w *world) session(token string) string {
	w.t.Helper()
	resp, body := w.post(token, "", "")
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("initialize: %s %s %s", resp.Status, resp.Header.Get("WWW-Authenticate"), body)
	}
	return resp.Header.Get("Mcp-Session-Id")
}

// want checks the status of a call.
func (w *world) want(what, token, session, tool string, status int) http.Header {
	w.t.Helper()
	resp, body := w.post(token, session, tool)
	if resp.StatusCode != status {
		w.t.Errorf("%s: %s %s %s, want %d", what, resp.Status, resp.Header.Get("WWW-Authenticate"), body, status)
	}
	return resp.Header
}

// param is a parameter of a challenge.
func param(challenge, name string) string {
	m := regexp.MustCompile(name + `="([^"]*)"`).FindStringSubmatch(challenge)
	if m == nil {
		return ""
	}
	return m[1]
}

// getJSON reads a JSON document.
func (w *world) getJSON(url string, into any) {
	w.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
}

// endpoints of the identity provider.
type endpoints struct {
	Authorize  string `json:"authorization_endpoint"`
	Token      string `json:"token_endpoint"`
	Revocation string `json:"revocation_endpoint"`
}

// discover finds the provider like a client that has vmcp's URL only.
func (w *world) discover() (endpoints, string) {
	w.t.Helper()
	challenge := w.want("without a token", "", "", "", http.StatusUnauthorized).Get("WWW-Authenticate")
	var metadata struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	w.getJSON(param(challenge, "resource_metadata"), &metadata)
	if metadata.Resource != w.resource || len(metadata.Servers) != 1 || metadata.Servers[0] != w.issuer {
		w.t.Fatalf("metadata %+v, want %s and %s", metadata, w.resource, w.issuer)
	}
	var found endpoints
	w.getJSON(metadata.Servers[0]+"/.well-known/openid-configuration", &found)
	return found, param(challenge, "scope")
}

// client is an OAuth client of the provider.
func (w *world) client(e endpoints, id, scope string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: id, Scopes: append(strings.Fields(scope), "openid", "offline_access"), RedirectURL: "http://127.0.0.1:1/callback",
		Endpoint: oauth2.Endpoint{AuthURL: e.Authorize, TokenURL: e.Token, AuthStyle: oauth2.AuthStyleInParams},
	}
}

// login acts as the browser: it follows the provider's redirects to the client's redirect URI, whose
// code is exchanged for tokens (authorization code with PKCE).
func (w *world) login(c *oauth2.Config, resource string) *oauth2.Token {
	w.t.Helper()
	verifier, state := oauth2.GenerateVerifier(), "the-state"
	forResource := oauth2.SetAuthURLParam("resource", resource)
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	var back *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), c.RedirectURL) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		if len(via) > 20 {
			return fmt.Errorf("the provider goes round in circles")
		}
		return nil
	}}
	resp, err := browser.Get(c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), forResource, oauth2.SetAuthURLParam("prompt", "consent")))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if back == nil || back.Query().Get("state") != state || back.Query().Get("iss") != w.issuer || back.Query().Get("code") == "" {
		page, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("the login ended at %v with %s: %.2000s", back, resp.Status, page)
	}
	token, err := c.Exchange(w.t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier), forResource)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// form posts a form to the provider, as a client with a secret if there is one, and returns the
// access token of the response.
func (w *world) form(url, id, secret string, values url.Values) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url, strings.NewReader(values.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if secret != "" {
		r.SetBasicAuth(id, secret)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Access string `json:"access_token"`
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s %s %v", url, resp.Status, body, err)
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &answer); err != nil {
			w.t.Fatal(err)
		}
	}
	return answer.Access
}

func TestIdentityProvider(t *testing.T) {
	w := start(t)
	found, scope := w.discover()
	if scope != "mcp:tools" {
		t.Errorf("the challenge asks for %q", scope)
	}
	t.Run("login, refresh and step-up", func(t *testing.T) { w.as(t).person(found, scope) })
	t.Run("client credentials", func(t *testing.T) { w.as(t).program(found) })
	t.Run("resource indicators", func(t *testing.T) { w.as(t).resources(found, scope) })
	t.Run("introspection", func(t *testing.T) { w.as(t).introspected(found, scope) })
}

// as returns w for a subtest.
func (w *world) as(t *testing.T) *world {
	part := *w
	part.t = t
	return &part
}

// person logs in, refreshes the token in the same session, and gets more scopes when a
// call needs them.
func (w *world) person(e endpoints, scope string) {
	app := w.client(e, "app", scope)
	token := w.login(app, w.resource)
	session := w.session(token.AccessToken)
	w.want("a call", token.AccessToken, session, "look", http.StatusOK)
	if id, _ := token.Extra("id_token").(string); id == "" {
		w.t.Error("the provider gave no ID token")
	} else {
		w.want("the ID token", id, "", "", http.StatusUnauthorized)
	}

	access := w.form(e.Token, "app", "", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}, "client_id": {"app"}, "resource": {w.resource}})
	if access == token.AccessToken {
		w.t.Error("the refreshed token is the same")
	}
	w.want("a refreshed token in the session", access, session, "look", http.StatusOK)

	challenge := w.want("a call that needs a scope", access, session, "purge", http.StatusForbidden).Get("WWW-Authenticate")
	if param(challenge, "error") != "insufficient_scope" {
		w.t.Errorf("challenge %s", challenge)
	}
	more := w.login(w.client(e, "app", param(challenge, "scope")), w.resource)
	w.want("the call with all scopes, in the session", more.AccessToken, session, "purge", http.StatusOK)
}

// program uses client credentials.
func (w *world) program(e endpoints) {
	credentials := func(scope string) string {
		return w.form(e.Token, "service", "s3cret-of-a-program", url.Values{"grant_type": {"client_credentials"}, "scope": {scope}, "resource": {w.resource}})
	}
	token := credentials("mcp:tools")
	w.want("a program's call", token, w.session(token), "look", http.StatusOK)
	challenge := w.want("without the required scope", credentials("files:admin"), "", "", http.StatusForbidden).Get("WWW-Authenticate")
	if param(challenge, "scope") != "mcp:tools" {
		w.t.Errorf("challenge %s", challenge)
	}
}

// resources: a token for another resource is none for this one (RFC 8707).
func (w *world) resources(e endpoints, scope string) {
	other := w.login(w.client(e, "app", scope), "https://other.example.com/mcp")
	challenge := w.want("a token for another resource", other.AccessToken, "", "", http.StatusUnauthorized).Get("WWW-Authenticate")
	if param(challenge, "error") != "invalid_token" || param(challenge, "error_description") != "the token is for another audience" {
		w.t.Errorf("challenge %s", challenge)
	}
}

// introspected: a token that is no JWT is introspected, and refused soon after it is revoked.
func (w *world) introspected(e endpoints, scope string) {
	token := w.login(w.client(e, "opaque", scope), w.resource).AccessToken
	if strings.Count(token, ".") == 2 {
		w.t.Fatal("the token is a JWT")
	}
	session := w.session(token)
	w.want("an opaque token", token, session, "look", http.StatusOK)
	w.form(e.Revocation, "opaque", "", url.Values{"token": {token}, "client_id": {"opaque"}})
	ctx, cancel := context.WithTimeout(w.t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, "a refusal of the revoked token", func() (bool, error) {
		resp, _ := w.post(token, session, "look")
		return resp.StatusCode == http.StatusUnauthorized, nil
	}); err != nil {
		w.t.Error(err)
	}
}
