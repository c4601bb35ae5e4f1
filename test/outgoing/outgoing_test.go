package outgoing_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
)

const legacy = "2025-11-25"

// The credential replaces a configured header of the same name.
func TestAHeaderIsInjected(t *testing.T) {
	for _, modern := range []bool{false, true} {
		g := newGuarded(t, modern, func(a string) bool { return a == "Bearer s3cret-value" })
		v := serve(t, with(config.Backend{URL: g.URL, Headers: map[string]string{"X-Tenant": "one"}}, config.OutgoingStrategy{
			Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "authorization", HeaderValue: "s3cret-value", HeaderValuePrefix: "Bearer "}}))
		for _, revision := range []string{legacy, raw.Modern} {
			mustBe(t, v.client(t, revision, ""), "Bearer s3cret-value")
		}
		for _, s := range g.seen("") {
			if s.authorization != "Bearer s3cret-value" || s.header.Get("X-Tenant") != "one" {
				t.Errorf("%s %s arrived with %v", s.method, s.rpc, s.header)
			}
		}
	}
}

// A file with a header's value is read again, at once when the backend refuses the old value.
func TestAHeaderFileIsReadAnew(t *testing.T) {
	file, good := filepath.Join(t.TempDir(), "gh.token"), "first-value"
	var mu sync.Mutex
	g := newGuarded(t, false, func(a string) bool {
		mu.Lock()
		defer mu.Unlock()
		return a == "token "+good
	})
	write := func(value string) {
		mu.Lock()
		defer mu.Unlock()
		good = value
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-value")
	v := serve(t, with(config.Backend{URL: g.URL}, config.OutgoingStrategy{
		Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "Authorization", HeaderValueFile: file, HeaderValuePrefix: "token "}}))
	c := v.client(t, legacy, "")
	mustBe(t, c, "token first-value")
	write("second-value")
	mustBe(t, c, "token second-value")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	mustBe(t, c, "token second-value") // until there is a new one
}

// Fifty concurrent calls of five sessions fetch one token; a change of another part of the
// configuration keeps the token.
func TestOneTokenForAllCalls(t *testing.T) {
	e := newEndpoint(t)
	g := newGuarded(t, false, func(a string) bool { return e.owner(strings.TrimPrefix(a, "Bearer ")) == "vmcp" })
	cfg := with(config.Backend{URL: g.URL}, credentialsOf(e))
	v := serve(t, cfg)
	var all sync.WaitGroup
	for range 5 {
		c := v.client(t, legacy, "")
		for range 10 {
			all.Go(func() {
				if got, err := who(t, c); err != nil || !strings.HasPrefix(got, "Bearer t0ken-vmcp-") {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
	}
	all.Wait()
	changed := with(config.Backend{URL: g.URL, Timeout: config.Duration(time.Minute), Headers: map[string]string{"X-New": "1"}}, credentialsOf(e))
	v.apply(t, changed)
	testkit.Eventually(t, "the new header", func() bool {
		_, err := who(t, v.client(t, legacy, ""))
		calls := g.seen("tools/call")
		return err == nil && calls[len(calls)-1].header.Get("X-New") == "1"
	})
	asked := e.requests()
	if len(asked) != 1 {
		t.Fatalf("%d requests for a token", len(asked))
	}
	if f := asked[0]; f.Get("grant_type") != "client_credentials" || f.Get("scope") != "crm" || f.Get("audience") != "https://crm.example.com" {
		t.Errorf("asked for %v", f)
	}
}

// After a 401 the call is retried once with a new token; a backend that always answers 401 is
// called twice.
func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	e := newEndpoint(t)
	g := newGuarded(t, false, func(a string) bool { return e.owner(strings.TrimPrefix(a, "Bearer ")) != "" })
	v := serve(t, with(config.Backend{URL: g.URL}, credentialsOf(e)))
	c := v.client(t, legacy, "")
	first, err := who(t, c)
	if err != nil {
		t.Fatal(err)
	}
	before := len(g.seen("tools/call"))
	e.revoke()
	second, err := who(t, c)
	if err != nil || second == first {
		t.Fatalf("after a revocation: %q, %v", second, err)
	}
	if n := len(g.seen("tools/call")) - before; n != 2 {
		t.Errorf("the call was made %d times, want 2", n)
	}
	g.good = func(string) bool { return false }
	before, asked := len(g.seen("tools/call")), len(e.requests())
	_, err = who(t, c)
	if err == nil || !strings.Contains(err.Error(), "backend b: tools/call: HTTP 401 Unauthorized") {
		t.Errorf("an endless 401 is %v", err)
	}
	if n := len(g.seen("tools/call")) - before; n != 2 {
		t.Errorf("a call that is always refused was made %d times, want 2", n)
	}
	if n := len(e.requests()) - asked; n < 1 {
		t.Errorf("%d tokens were fetched, want one more", n)
	}
}

// While the token endpoint is down, calls fail as unavailable, and the backend is not reported as failed.
func TestATokenEndpointThatIsDown(t *testing.T) {
	testmode.Parallel(t)
	e := newEndpoint(t)
	e.life = time.Second
	g := newGuarded(t, false, func(a string) bool { return e.owner(strings.TrimPrefix(a, "Bearer ")) != "" })
	cfg := with(config.Backend{URL: g.URL}, credentialsOf(e))
	cfg.Operational.FailureHandling.CircuitBreaker = &config.CircuitBreaker{Enabled: true, FailureThreshold: 2, Timeout: config.Duration(time.Hour)}
	v := serve(t, cfg)
	c := v.client(t, legacy, "")
	if _, err := who(t, c); err != nil {
		t.Fatal(err)
	}
	e.set(func(e *endpoint) {
		e.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	})
	var err error
	testkit.Eventually(t, "the token's end", func() bool { _, err = who(t, c); return err != nil })
	for range 5 {
		_, err = who(t, c)
	}
	if err == nil || !strings.Contains(err.Error(), "backend b: token endpoint "+e.URL+"/token: HTTP 502 Bad Gateway") || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("got %v", err)
	}
	e.set(func(e *endpoint) { e.answer = nil })
	if _, err := who(t, c); err != nil {
		t.Errorf("the endpoint is back: %v", err)
	}
}

// For every invalid response of a token endpoint, a call fails with an error that names the endpoint and the
// reason, and no other host is contacted.
func TestTokenEndpointsThatMisbehave(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, text)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "redirects of an authorization server are not followed"},
		{"too much", body(`{"access_token":"` + strings.Repeat("x", 1<<20) + `"}`), "response of 1048576 bytes or more"},
		{"no token", body(`{"token_type":"Bearer"}`), "the response is not a token"},
		{"no JSON", body(`hello`), "the response is not a token"},
		{"another type", body(`{"access_token":"abcdef","token_type":"DPoP"}`), "the token's type is not Bearer"},
		{"a line break", body(`{"access_token":"abcdef\nX: y","token_type":"Bearer"}`), "the token has characters that are not allowed in a header"},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusBadRequest, "invalid_scope") }, "refuses a token: invalid_scope (HTTP 400 Bad Request)"},
		{"a code that repeats", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusBadRequest, clientSecret) }, "refuses a token: HTTP 400 Bad Request"},
		{"busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "HTTP 429 Too Many Requests"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t)
			e.answer = tt.answer
			g := newGuarded(t, false, nil)
			v := serve(t, with(config.Backend{URL: g.URL}, credentialsOf(e)))
			if b := v.Status().Backends[0]; b.State != "down" || !strings.Contains(b.Error, "token endpoint "+e.URL+"/token") || !strings.Contains(b.Error, tt.want) {
				t.Errorf("%+v, want %q", b, tt.want)
			}
			if all := g.seen(""); len(all) > 0 || elsewhere.Load() > 0 {
				t.Errorf("the backend was asked %d times, another server %d times", len(all), elsewhere.Load())
			}
		})
	}
}
