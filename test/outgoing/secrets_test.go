package outgoing_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// forms are the encodings in which a peer writes a secret.
func forms(s string) []string {
	quoted, _ := json.Marshal(s)
	return []string{s, url.QueryEscape(s), url.PathEscape(s), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte("Bearer " + s))}
}

// repeated is a credential in all forms, as a backend may repeat it.
func repeated(credential string) string {
	secret := credential[strings.IndexByte(credential, ' ')+1:]
	return "bad credential " + credential + " " + strings.Join(forms(secret), " ") + strings.Repeat("x", 150) + secret // over the place where a line is cut
}

// echoes are the ways in which a backend repeats a credential, for a request with an id.
var echoes = map[string]func(w http.ResponseWriter, id json.RawMessage, said string){
	"401": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="`+said+`"`)
		w.WriteHeader(401)
		io.WriteString(w, said)
	},
	"403": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.WriteHeader(403)
		io.WriteString(w, said)
	},
	"500": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.WriteHeader(500)
		io.WriteString(w, said)
	},
	"an error": func(w http.ResponseWriter, id json.RawMessage, said string) {
		e, _ := json.Marshal(map[string]any{"code": -32000, "message": said, "data": map[string]any{"you": []string{said}, said: 1}})
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, e)
	},
	"a redirect": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.Header().Set("Location", "http://elsewhere.invalid/?t="+url.QueryEscape(said))
		w.WriteHeader(307)
	},
	"a content type": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "text/"+said)
		io.WriteString(w, said)
	},
	"no JSON": func(w http.ResponseWriter, id json.RawMessage, said string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s`, id, said)
	},
	"a broken event": func(w http.ResponseWriter, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":%s\n\n", said)
	},
}

// echoing repeats the credentials of the requests with a method.
type echoing struct {
	guarded *guarded
	method  string
	echo    func(w http.ResponseWriter, id json.RawMessage, said string)

	mu     sync.Mutex
	echoed int             // guarded by mu
	got    map[string]bool // guarded by mu: the secrets of all requests
}

func (b *echoing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	credential := r.Header.Get("Authorization")
	b.mu.Lock()
	if credential != "" {
		b.got[credential[strings.IndexByte(credential, ' ')+1:]] = true
	}
	if m.Method == b.method {
		b.echoed++
	}
	b.mu.Unlock()
	if m.Method == b.method {
		b.echo(w, m.ID, repeated(credential))
		return
	}
	b.guarded.ServeHTTP(w, r)
}

// strategies are the kinds of credentials of a backend.
func strategies(t *testing.T, e *endpoint) map[string]config.OutgoingStrategy {
	file := filepath.Join(t.TempDir(), "header")
	if err := os.WriteFile(file, []byte("fr0m/a+file=="), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]config.OutgoingStrategy{
		"a value":            {Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "Authorization", HeaderValue: "fr0m/the+configuration", HeaderValuePrefix: "Bearer "}},
		"a file":             {Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "Authorization", HeaderValueFile: file, HeaderValuePrefix: "Bearer "}},
		"client credentials": credentialsOf(e),
		"token exchange":     exchanging("", authtest.NewIssuer(t), e).OutgoingAuth.Backends["b"],
		"a login":            {Type: "oauth"},
		"a login of alice":   {Type: "oauth", OAuth: config.OutgoingOAuth{PerUser: true}},
	}
}

// stored are the secrets of logins: access and refresh tokens.
var stored = []string{"st0red/access+t0ken==", "st0red/refresh+t0ken==", "st0red/client+s3cret=="}

// storeLogins stores a login of this proxy and one of alice, whose access tokens are valid until
// end.
func storeLogins(t *testing.T, cfg *config.Config, issuer *authtest.Issuer, e *endpoint, end time.Time) {
	cfg.TokenStore = config.TokenStore{File: filepath.Join(t.TempDir(), "tokens.db"), KeyEnv: "K", Key: newKeyText()}
	s, err := credentials.OpenStore(cfg.TokenStore)
	if err != nil {
		t.Fatal(err)
	}
	known, err := auth.New(cfg.IncomingAuth, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	alice, err := known.Verify(t.Context(), tokenOf(t, issuer, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	for _, principal := range []string{"", alice.Key()} {
		g := &credentials.Grant{Issuer: e.URL, TokenURL: e.URL + "/token", ClientID: "vmcp", Access: stored[0], Refresh: stored[1], ClientSecret: stored[2], Renew: end, Expires: end}
		if err := s.Put(t.Context(), "b", principal, g); err != nil {
			t.Fatal(err)
		}
	}
}

// Backends that repeat their credentials, and a token endpoint that repeats its requests, in
// every form: no output has a part of them.
func TestNoCredentialInAnyOutput(t *testing.T) {
	testmode.Parallel(t)
	for name := range strategies(t, newEndpoint(t)) {
		for how, echo := range echoes {
			for _, method := range []string{"initialize", "tools/call"} {
				if how != "401" && !testmode.Thorough() {
					continue
				}
				t.Run(name+"/"+how+" to "+method, func(t *testing.T) {
					t.Parallel()
					e := newEndpoint(t)
					b := &echoing{guarded: newGuarded(t, false, nil), method: method, echo: echo, got: map[string]bool{}}
					srv := httptest.NewServer(b)
					t.Cleanup(srv.Close)
					issuer := authtest.NewIssuer(t)
					cfg := exchanging(srv.URL, issuer, e)
					cfg.OutgoingAuth.Backends["b"] = strategies(t, e)[name]
					storeLogins(t, cfg, issuer, e, time.Now().Add(time.Hour))
					out, inbound := everything(t, cfg, issuer)
					b.mu.Lock()
					defer b.mu.Unlock()
					if b.echoed == 0 || len(b.got) == 0 {
						t.Fatalf("the backend repeated nothing: %d times, %d secrets", b.echoed, len(b.got))
					}
					secrets := append([]string{inbound, clientSecret}, keys(b.got)...)
					check(t, out, secrets)
				})
			}
		}
	}
}

func TestNoSecretOfATokenEndpoint(t *testing.T) {
	for _, name := range []string{"client credentials", "token exchange", "a login", "a login of alice"} {
		if !testmode.Thorough() && (name == "token exchange" || name == "a login") {
			continue
		}
		for how, answer := range map[string]func(w http.ResponseWriter, said string){
			"description": func(w http.ResponseWriter, said string) {
				text, _ := json.Marshal(said)
				w.WriteHeader(400)
				fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%s}`, text)
			},
			"code": func(w http.ResponseWriter, said string) {
				text, _ := json.Marshal(said)
				w.WriteHeader(401)
				fmt.Fprintf(w, `{"error":%s}`, text)
			},
			"text": func(w http.ResponseWriter, said string) { w.WriteHeader(500); io.WriteString(w, said) },
			"redirect": func(w http.ResponseWriter, said string) {
				w.Header().Set("Location", "/?"+url.QueryEscape(said))
				w.WriteHeader(302)
			},
			"type": func(w http.ResponseWriter, said string) {
				text, _ := json.Marshal(said)
				fmt.Fprintf(w, `{"access_token":"abcdef","token_type":%s}`, text)
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				secrets := []string{clientSecret}
				if strings.HasPrefix(name, "a login") {
					secrets = stored
				}
				e := newEndpoint(t)
				e.answer = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					said := ""
					for _, secret := range append([]string{r.PostForm.Get("subject_token")}, secrets...) {
						said += " " + repeated("x "+secret)
					}
					answer(w, said)
				}
				issuer := authtest.NewIssuer(t)
				cfg := exchanging(newGuarded(t, false, nil).URL, issuer, e)
				cfg.OutgoingAuth.Backends["b"] = strategies(t, e)[name]
				storeLogins(t, cfg, issuer, e, time.Now().Add(-time.Hour))
				out, inbound := everything(t, cfg, issuer)
				if len(e.requests()) == 0 {
					t.Fatal("the token endpoint was not asked")
				}
				check(t, out, append([]string{inbound}, secrets...))
			})
		}
	}
}

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

func check(t *testing.T, out map[string]string, secrets []string) {
	t.Helper()
	for where, text := range out {
		for _, secret := range secrets {
			for _, form := range forms(secret) {
				if strings.Contains(text, form) {
					t.Errorf("%s has %q:\n%.2000s", where, form, text)
				}
			}
		}
	}
}

// everything calls the tool in every way and returns all outputs: results, logs, metrics and pages.
func everything(t *testing.T, cfg *config.Config, issuer *authtest.Issuer) (out map[string]string, inbound string) {
	spans, log := tracetest.NewInMemoryExporter(), &testkit.Buffer{}
	cfg.ScriptedTools = []config.ScriptedTool{
		{Name: "looks", Description: "d", Script: "def run(params):\n    r = try_call_tool('b.who')\n    return {'error': r.error, 'kind': r.kind}\n"},
		{Name: "fails", Description: "d", Script: "def run(params):\n    return call_tool('b.who')\n"},
	}
	cfg.Admin.Listen = "127.0.0.1:0"
	audited := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Audit = config.Audit{Enabled: true, LogFile: audited, IncludeRequestData: true, IncludeResponseData: true, MaxDataSize: 1 << 20}
	p := proxy.New(proxy.Options{
		Log:    slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	srv, admin := httptest.NewServer(p), httptest.NewServer(p.AdminHandler())
	defer srv.Close()
	defer admin.Close()
	closed := false
	end := func() {
		if !closed {
			closed = true
			p.Close()
		}
	}
	defer end()
	v := &vmcp{Proxy: p, url: srv.URL + "/mcp"}
	v.apply(t, cfg)
	inbound = tokenOf(t, issuer, "alice")
	out = map[string]string{}
	for _, revision := range []string{legacy, raw.Modern} {
		c := v.client(t, revision, inbound)
		for _, tool := range []string{"who", "looks", "fails"} {
			result, err := c.Call(t.Context(), "tools/call", `{"name":"`+tool+`","arguments":{},"_meta":{"vmcp.dev/trace":true}}`)
			out[tool+" "+revision] = fmt.Sprintf("%s %v", result, err)
		}
	}
	for _, page := range []string{"/readyz", "/readyz?tools", "/metrics"} {
		resp, err := http.Get(admin.URL + page)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		out[page] = string(body)
	}
	end()
	all, err := json.Marshal(spans.GetSpans())
	if err != nil {
		t.Fatal(err)
	}
	out["spans"], out["log"] = string(all), log.String()
	lines, err := os.ReadFile(audited)
	if err != nil || len(lines) == 0 {
		t.Errorf("nothing was audited: %v", err)
	}
	out["audit"] = string(lines)
	return out, inbound
}
