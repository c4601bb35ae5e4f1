package outgoing_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// provider is an authorization server with metadata, registration, PKCE and refresh tokens for a single
// use.
type provider struct {
	*httptest.Server

	mu        sync.Mutex
	codes     map[string]url.Values // by code: what authorize was asked. Guarded by mu, like all below
	refresh   map[string]bool       // refresh tokens that are good
	access    map[string]string     // access tokens that are good → scopes
	n         int
	refreshes int
	reused    int // refresh tokens that were used twice
	life      time.Duration
	forms     []url.Values // that the token endpoint got
	registers int
}

func newProvider(t *testing.T) *provider {
	p := &provider{codes: map[string]url.Values{}, refresh: map[string]bool{}, access: map[string]string{}, life: time.Hour}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register",
			"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true, "scopes_supported": []string{"notes", "offline_access"},
		})
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.registers++
		p.mu.Unlock()
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		m["client_id"] = "registered-client"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(m)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		code := rand.Text()
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		back, _ := url.Parse(q.Get("redirect_uri"))
		back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
		http.Redirect(w, r, back.String(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	f := r.PostForm
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forms = append(p.forms, f)
	scope := ""
	switch f.Get("grant_type") {
	case "authorization_code":
		q, ok := p.codes[f.Get("code")]
		delete(p.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != f.Get("redirect_uri") {
			fail(w, 400, "invalid_grant")
			return
		}
		scope = q.Get("scope")
	case "refresh_token":
		p.refreshes++
		if !p.refresh[f.Get("refresh_token")] {
			p.reused++
			fail(w, 400, "invalid_grant")
			return
		}
		delete(p.refresh, f.Get("refresh_token"))
	default:
		fail(w, 400, "unsupported_grant_type")
		return
	}
	p.n++
	access, refresh := fmt.Sprintf("acc3ss-%d-%s", p.n, rand.Text()), fmt.Sprintf("r3fresh-%d-%s", p.n, rand.Text())
	p.access[access], p.refresh[refresh] = scope, true
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "token_type": "bearer", "expires_in": int(p.life / time.Second), "refresh_token": refresh})
}

func (p *provider) good(authorization string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.access[strings.TrimPrefix(authorization, "Bearer ")]
	return ok
}

// loginServer is a backend that requires a login at p.
func loginServer(t *testing.T, p *provider) *guarded {
	g := newGuarded(t, false, p.good)
	g.refuse = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+g.URL+`/.well-known/oauth-protected-resource/mcp", scope="notes"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
	g.open = map[string]http.HandlerFunc{"/.well-known/oauth-protected-resource/mcp": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["notes"]}`, g.URL+"/mcp", p.URL)
	}}
	return g
}

// browse acts as a person who agrees to everything: it opens a page and returns the query of the
// redirect, without following it.
func browse(ctx context.Context, page string) (url.Values, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	c := http.Client{Transport: http.DefaultClient.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		return nil, err
	}
	return back.Query(), nil
}

func newKeyText() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// loggingIn is a configuration of a backend with a login, and its store.
func loggingIn(t *testing.T, g *guarded) (*config.Config, *credentials.Store) {
	cfg := with(config.Backend{URL: g.URL + "/mcp"}, config.OutgoingStrategy{Type: "oauth"})
	cfg.TokenStore = config.TokenStore{File: filepath.Join(t.TempDir(), "tokens.db"), KeyEnv: "K", Key: newKeyText()}
	cfg.Complete()
	store, err := credentials.OpenStore(cfg.TokenStore)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, store
}

func logIn(t *testing.T, cfg *config.Config, store *credentials.Store, scopes ...string) {
	t.Helper()
	grant, err := credentials.LogIn(t.Context(), credentials.Consent{Backend: cfg.Backends[0], Redirect: "http://127.0.0.1:1/callback", Ask: browse, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), "b", "", grant); err != nil {
		t.Fatal(err)
	}
}

// Before a login the error of the backend has the command; after it, the backend connects without a restart; many concurrent calls
// renew the tokens once, the new ones are on disk before they are used, and a logout ends the use.
func TestALogin(t *testing.T) {
	p := newProvider(t)
	g := loginServer(t, p)
	cfg, store := loggingIn(t, g)
	v := serve(t, cfg)
	if b := v.Status().Backends[0]; b.State != "down" || b.Error != "needs login: vmcp login b" {
		t.Errorf("before the login: %+v", b)
	}
	logIn(t, cfg, store)
	testkit.Eventually(t, "the backend", func() bool { return v.Status().Backends[0].State == "ready" })
	c := v.client(t, legacy, "")
	first, err := who(t, c)
	if err != nil || !p.good(first) {
		t.Fatalf("after the login: %q, %v", first, err)
	}
	p.mu.Lock()
	if f := p.forms[0]; f.Get("resource") != g.URL+"/mcp" || f.Get("client_id") != "registered-client" || p.registers != 1 {
		t.Errorf("the code was exchanged with %v, %d registrations", f, p.registers)
	}
	if scope := p.access[strings.TrimPrefix(first, "Bearer ")]; scope != "notes offline_access" && scope != "offline_access notes" {
		t.Errorf("scope %q", scope)
	}
	p.access = map[string]string{} // all access tokens end
	p.mu.Unlock()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := who(t, c); err != nil || !p.good(got) {
				t.Errorf("after the token's end: %q, %v", got, err)
			}
		})
	}
	all.Wait()
	p.mu.Lock()
	if p.refreshes != 1 || p.reused != 0 || p.forms[1].Get("resource") != g.URL+"/mcp" {
		t.Errorf("%d refreshes, %d of them with a used token: %v", p.refreshes, p.reused, p.forms[1:])
	}
	grant, err := store.Find(t.Context(), "b", "")
	if err != nil || !p.refresh[grant.Refresh] {
		t.Errorf("the refresh token on disk is not the good one: %v", err)
	}
	p.access, p.refresh = map[string]string{}, map[string]bool{}
	p.mu.Unlock()
	if _, err := who(t, c); err == nil || !strings.Contains(err.Error(), "needs login: vmcp login b") {
		t.Errorf("after the login's end: %v", err)
	}
	logIn(t, cfg, store)
	testkit.Eventually(t, "the new login", func() bool { got, err := who(t, v.client(t, legacy, "")); return err == nil && p.good(got) })
	if n, err := store.Remove(t.Context(), "b", ""); n != 1 || err != nil {
		t.Errorf("logout: %d, %v", n, err)
	}
	if g, err := store.Find(t.Context(), "b", ""); g != nil || err != nil {
		t.Errorf("after the logout: %v, %v", g, err)
	}
}

// The file has no token in plain text, a record cannot replace another one, and keys can be rotated.
func TestTheTokenStoreIsSealed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.db")
	open := func(keys ...string) *credentials.Store {
		s, err := credentials.OpenStore(config.TokenStore{File: file, Key: strings.Join(keys, ", ")})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old, next := newKeyText(), newKeyText()
	s := open(old)
	grant := &credentials.Grant{Issuer: "https://idp", Access: "acc3ss-t0ken", Refresh: "r3fresh-t0ken", ClientSecret: "cl1ent"}
	for _, of := range [][2]string{{"b", ""}, {"b", "alice"}, {"b", "bob"}, {"c", "alice"}} {
		g := *grant
		g.Access += of[0] + of[1]
		if err := s.Put(t.Context(), of[0], of[1], &g); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || bytes.Contains(data, []byte("t0ken")) || bytes.Contains(data, []byte("cl1ent")) {
		t.Errorf("%v, mode %v:\n%s", err, info.Mode(), data)
	}
	if _, err := open(next).Find(t.Context(), "b", "alice"); err == nil || !strings.Contains(err.Error(), "a key that is not configured") {
		t.Errorf("with another key: %v", err)
	}
	if g, err := open(next, old).Find(t.Context(), "b", "alice"); err != nil || g.Access != "acc3ss-t0kenbalice" {
		t.Errorf("with both keys: %+v, %v", g, err)
	}
	both := open(next, old)
	if err := both.Put(t.Context(), "b", "alice", grant); err != nil {
		t.Fatal(err)
	}
	if g, err := open(next).Find(t.Context(), "b", "alice"); err != nil || g.Refresh != grant.Refresh {
		t.Errorf("sealed again: %+v, %v", g, err)
	}
	// Mallory, who can write the file, changes the name of bob's record to alice, and to another issuer.
	for _, change := range [][2]string{{`"principal": "bob"`, `"principal": "carol"`}, {`"backend": "c"`, `"backend": "d"`}, {`https://idp`, `https://evil`}} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.ReplaceAll(string(data), change[0], change[1])
		if changed == string(data) {
			t.Fatalf("there is no %s in\n%s", change[0], data)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		find := [2]string{"b", "carol"}
		if change[0] != `"principal": "bob"` {
			find = [2]string{"d", "alice"}
		}
		if g, err := open(next, old).Find(t.Context(), find[0], find[1]); err == nil {
			t.Errorf("after %v: %+v", change, g)
		}
	}
}

// A running server reads changes of the store: a logout ends the use of a token that is still valid, and
// the next login is used without a restart.
func TestTheServerFollowsTheStore(t *testing.T) {
	testmode.Parallel(t)
	p := newProvider(t)
	g := loginServer(t, p)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	v := serve(t, cfg)
	first, err := who(t, v.client(t, legacy, ""))
	if err != nil {
		t.Fatal(err)
	}
	logIn(t, cfg, store) // as somebody else, perhaps
	testkit.Eventually(t, "the new login", func() bool {
		got, err := who(t, v.client(t, legacy, ""))
		return err == nil && got != first && p.good(got)
	})
	if _, err := store.Remove(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the logout", func() bool {
		_, err := who(t, v.client(t, legacy, ""))
		return err != nil && strings.Contains(err.Error(), "needs login: vmcp login b")
	})
}

// scoped is a backend whose tool needs a scope that it does not name before.
func scoped(t *testing.T, p *provider, challenge string) *guarded {
	g := loginServer(t, p)
	g.deny = func(w http.ResponseWriter, authorization, rpc string) bool {
		p.mu.Lock()
		scopes := strings.Fields(p.access[strings.TrimPrefix(authorization, "Bearer ")])
		p.mu.Unlock()
		if rpc != "tools/call" || slices.Contains(scopes, "notes:write") {
			return false
		}
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	return g
}

// A call that needs more scopes than the login has fails with the command to get them. It is made
// once; after the login it is made again, with a token that also has the old scopes.
func TestACallThatNeedsMoreScopes(t *testing.T) {
	p := newProvider(t)
	g := scoped(t, p, `Bearer error="insufficient_scope", scope="notes:write $(reboot)"`)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	v := serve(t, cfg)
	c := v.client(t, legacy, "")
	_, err := who(t, c)
	if err == nil || !strings.Contains(err.Error(), `backend b: needs a login with more scopes: vmcp login b --scope "notes:write"`) || !strings.Contains(err.Error(), "denied") {
		t.Errorf("got %v", err)
	}
	if n := len(g.seen("tools/call")); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
	logIn(t, cfg, store, "notes", "notes:write")
	got, err := who(t, c)
	if err != nil || !p.good(got) {
		t.Fatalf("after the login: %q, %v", got, err)
	}
	if n := len(g.seen("tools/call")); n > 3 {
		t.Errorf("the two calls were made %d times", n)
	}
	if b := v.Status().Backends[0]; b.State != "ready" {
		t.Errorf("%+v", b)
	}
}

// A 403 that is not about scopes is relayed, and no scopes are requested.
func TestA403WithoutScopes(t *testing.T) {
	p := newProvider(t)
	g := scoped(t, p, `Bearer error="invalid_request", Basic realm="x"`)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	_, err := who(t, serve(t, cfg).client(t, legacy, ""))
	if err == nil || !strings.Contains(err.Error(), "HTTP 403 Forbidden") {
		t.Errorf("got %v", err)
	}
	if n := len(g.seen("tools/call")); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
}

// Two processes that share a store renew a login once, with many waiting calls in both:
// a refresh token for a single use is not used twice.
func TestTwoProcessesRenewOnce(t *testing.T) {
	p := newProvider(t)
	g := loginServer(t, p)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	one, other := serve(t, cfg), serve(t, cfg)
	var clients []*raw.Client
	for _, v := range []*vmcp{one, other} {
		c := v.client(t, legacy, "")
		if _, err := who(t, c); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	p.mu.Lock()
	p.access = map[string]string{} // all access tokens end
	p.mu.Unlock()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if got, err := who(t, clients[i%2]); err != nil || !p.good(got) {
				t.Errorf("after the token's end: %q, %v", got, err)
			}
		})
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refreshes != 1 || p.reused != 0 {
		t.Errorf("%d refreshes, %d of them with a used token", p.refreshes, p.reused)
	}
}

// A refresh token that was refused is not sent again by each call, and a new login is used at once.
func TestARefusedLoginIsNotTriedByEachCall(t *testing.T) {
	p := newProvider(t)
	g := loginServer(t, p)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	c := serve(t, cfg).client(t, legacy, "")
	if _, err := who(t, c); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.access, p.refresh = map[string]string{}, map[string]bool{}
	p.mu.Unlock()
	for range 10 {
		if got, err := who(t, c); err == nil || !strings.Contains(err.Error(), "vmcp login b") {
			t.Fatalf("after the login was revoked: %q, %v", got, err)
		}
	}
	p.mu.Lock()
	refreshes := p.refreshes
	p.mu.Unlock()
	if refreshes != 1 {
		t.Errorf("the refresh token was sent %d times", refreshes)
	}
	logIn(t, cfg, store)
	testkit.Eventually(t, "a call to use the new login", func() bool { // the backend may be down since, until its next attempt
		got, err := who(t, c)
		return err == nil && p.good(got)
	})
}

// The tokens of a login are sent only to the server of the login: a backend whose URL changes needs a new
// login.
func TestALoginIsForOneServer(t *testing.T) {
	p := newProvider(t)
	g, moved := loginServer(t, p), loginServer(t, p)
	cfg, store := loggingIn(t, g)
	logIn(t, cfg, store)
	v := serve(t, cfg)
	if got, err := who(t, v.client(t, legacy, "")); err != nil || !p.good(got) {
		t.Fatalf("%q, %v", got, err)
	}
	next := with(config.Backend{URL: moved.URL + "/mcp"}, config.OutgoingStrategy{Type: "oauth"})
	next.TokenStore = cfg.TokenStore
	v.apply(t, next)
	testkit.Eventually(t, "the need of a login", func() bool {
		_, err := who(t, v.client(t, legacy, ""))
		return err != nil && strings.Contains(err.Error(), "needs login: vmcp login b")
	})
	for _, s := range moved.seen("") {
		if s.authorization != "" {
			t.Errorf("%s %s carries %q", s.method, s.rpc, s.authorization)
		}
	}
}

// The login at a backend with configured certificates uses these, too.
func TestALoginOverTLS(t *testing.T) {
	p, trusted := newProvider(t), testkit.NewAuthority(t)
	g := loginServer(t, p)
	secure := httptest.NewUnstartedServer(g)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{named(t, trusted, "crm.internal")}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	g.refuse = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	g.open["/.well-known/oauth-protected-resource/mcp"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, secure.URL+"/mcp", p.URL)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	trusted.WriteCert(t, ca)
	cfg, store := loggingIn(t, g)
	cfg.Backends[0].URL, cfg.Backends[0].TLS = secure.URL+"/mcp", config.BackendTLS{CA: ca, ServerName: "crm.internal"}
	logIn(t, cfg, store)
	if got, err := who(t, serve(t, cfg).client(t, legacy, "")); err != nil || !p.good(got) {
		t.Errorf("%q, %v", got, err)
	}
}
