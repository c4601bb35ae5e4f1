package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// request is a request to an address; headers come in pairs, Host among them.
func request(t *testing.T, method, local string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1/status", nil)
	var addr net.Addr = &net.UnixAddr{Name: local, Net: "unix"}
	if strings.Contains(local, ":") {
		tcp, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		addr = tcp
	}
	r.Host = "127.0.0.1:4483"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
}

const (
	here  = "127.0.0.1:4483"
	there = "192.0.2.7:4483"
)

// rules are the rules of a configuration.
func rules(t *testing.T, cfg *config.Config) *Rules {
	t.Helper()
	a, err := auth.New(cfg.IncomingAuth, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return &Rules{Policy: NewOrigins(cfg.Hosts, cfg.Origins), Auth: a, Admins: cfg.IncomingAuth.Authz.Admins, Apart: cfg.Admin.Listen != "", Token: newToken(cfg.Admin.TokenFile)}
}

func status(err error) int {
	var refusal *GateRefusal
	if errors.As(err, &refusal) {
		return refusal.Status
	}
	if err != nil {
		return -1
	}
	return 200
}

func TestWhoComesIn(t *testing.T) {
	dir := t.TempDir()
	tokenFile, staticFile := filepath.Join(dir, "admin.token"), filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(tokenFile, []byte("secret-of-operators\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	static := map[string]string{}
	for _, name := range []string{"boss", "worker"} {
		token, err := auth.NewToken(staticFile, auth.Token{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		static[name] = "Bearer " + token
	}
	open := &config.Config{}
	apart := &config.Config{Admin: config.Admin{Listen: "127.0.0.1:1"}}
	token := &config.Config{Admin: config.Admin{Listen: "0.0.0.0:1", TokenFile: tokenFile}}
	asked := &config.Config{IncomingAuth: config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: staticFile}, Authz: config.Authz{Admins: config.Admins{Subjects: []string{"boss"}}}}}
	askedApart := &config.Config{IncomingAuth: asked.IncomingAuth, Admin: apart.Admin}
	local := &config.Config{IncomingAuth: config.IncomingAuth{Type: "local"}}
	const bearer = "Authorization"
	for _, tt := range []struct {
		name    string
		cfg     *config.Config
		port    Port
		method  string
		local   string
		headers []string
		want    int
	}{
		{"this machine", open, Clients, "GET", here, nil, 200},
		{"this machine by name", open, Clients, "GET", here, []string{"Host", "localhost:4483"}, 200},
		{"the user of this machine", local, Clients, "GET", here, nil, 200},
		{"a socket", open, Clients, "GET", "/run/vmcp.sock", []string{"Host", "vmcp"}, 200},
		{"another machine", open, Clients, "GET", there, []string{"Host", "192.0.2.7:4483"}, 403},
		{"another machine that says it is this one", open, Clients, "GET", there, nil, 403},
		{"a rebound name", open, Clients, "GET", here, []string{"Host", "evil.example"}, 403},
		{"a proxy on this machine", open, Clients, "GET", here, []string{"X-Forwarded-For", "203.0.113.5"}, 403},
		{"another port", apart, Clients, "GET", here, nil, 404},

		{"a page of ours", open, Clients, "POST", here, []string{"Origin", "http://127.0.0.1:4483", "Sec-Fetch-Site", "same-origin"}, 200},
		{"a form of ours, without referrer", open, Clients, "POST", here, []string{"Origin", "null", "Sec-Fetch-Site", "same-origin"}, 200},
		{"a sandboxed frame", open, Clients, "POST", here, []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403},
		{"an old browser's sandboxed frame", open, Clients, "POST", here, []string{"Origin", "null"}, 403},
		{"another port's page", open, Clients, "POST", here, []string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site"}, 403},
		{"another port's page reads", open, Clients, "GET", here, []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"the same name of this machine, spelt otherwise", open, Clients, "POST", here, []string{"Origin", "http://localhost:4483"}, 403},
		{"another scheme", open, Clients, "POST", here, []string{"Origin", "https://127.0.0.1:4483"}, 403},
		{"a foreign page", open, Clients, "POST", here, []string{"Origin", "https://evil.example"}, 403},
		{"a second origin", open, Clients, "POST", here, []string{"Origin", "http://127.0.0.1:4483", "Origin", "https://evil.example"}, 403},
		{"a foreign page, without Origin", open, Clients, "POST", here, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a foreign form", open, Clients, "POST", here, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		{"typed by nobody", open, Clients, "POST", here, []string{"Sec-Fetch-Site", "none"}, 403},
		{"a link from elsewhere", open, Clients, "GET", here, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"a frame elsewhere", open, Clients, "GET", here, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"an image elsewhere", open, Clients, "GET", here, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"typed", open, Clients, "GET", here, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		{"a listed origin is for clients only", &config.Config{Origins: []string{"*"}}, Clients, "POST", here, []string{"Origin", "https://app.example"}, 403},

		{"the port for operators", apart, operators, "GET", here, nil, 200},
		{"the port for operators, a rebound name", apart, operators, "GET", here, []string{"Host", "evil.example"}, 403},
		{"the port for operators, reachable and open", apart, operators, "GET", there, []string{"Host", "192.0.2.7"}, 403},
		{"without the token", token, operators, "GET", there, []string{"Host", "192.0.2.7"}, 401},
		{"with the token", token, operators, "GET", there, []string{"Host", "192.0.2.7", bearer, "Bearer secret-of-operators"}, 200},
		{"with another token", token, operators, "GET", there, []string{"Host", "192.0.2.7", bearer, "Bearer secret-of-nobody"}, 401},
		{"with the token as a password", token, operators, "GET", there, []string{"Host", "192.0.2.7", bearer, "Basic secret-of-operators"}, 401},
		{"with two tokens", token, operators, "GET", there, []string{"Host", "192.0.2.7", bearer, "Bearer secret-of-operators", bearer, "Bearer x"}, 401},
		{"with somebody's cookie", token, operators, "GET", there, []string{"Host", "192.0.2.7", "Cookie", "vmcp_admin=secret-of-operators"}, 401},

		{"clients are asked", asked, Clients, "GET", here, nil, 401},
		{"an admin", asked, Clients, "GET", here, []string{bearer, static["boss"]}, 200},
		{"no admin", asked, Clients, "GET", here, []string{bearer, static["worker"]}, 403},
		{"an admin on another machine", asked, Clients, "GET", there, []string{"Host", "192.0.2.7", bearer, static["boss"]}, 403},
		{"clients are asked, on the port for operators", askedApart, operators, "GET", here, nil, 401},
		{"an admin, on the port for operators", askedApart, operators, "GET", here, []string{bearer, static["boss"]}, 200},
		{"an admin on another machine, on the port for operators", askedApart, operators, "GET", there, []string{"Host", "192.0.2.7", bearer, static["boss"]}, 200},
		{"no admin, on the port for operators", askedApart, operators, "GET", here, []string{bearer, static["worker"]}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewGate().Admit(request(t, tt.method, tt.local, tt.headers...), rules(t, tt.cfg), tt.port)
			if got := status(err); got != tt.want {
				t.Errorf("Admit = %d %v, want %d", got, err, tt.want)
			}
		})
	}
}

// A browser that has sent the token has a cookie, which is HttpOnly and SameSite, until it logs out or the token
// changes.
func TestALogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("the-first-token")
	rules, g := rules(t, &config.Config{Admin: config.Admin{Listen: here, TokenFile: file}}), NewGate()
	login := func(token string) (*http.Cookie, error) {
		w := httptest.NewRecorder()
		r := request(t, "POST", here, "Origin", "null", "Sec-Fetch-Site", "same-origin")
		r.TLS = &tls.ConnectionState{}
		err := g.Login(w, r, rules, operators, token)
		if all := w.Result().Cookies(); len(all) > 0 {
			return all[0], err
		}
		return nil, err
	}
	if c, err := login("wrong"); status(err) != 401 || c != nil {
		t.Errorf("a wrong token: %v, %v", c, err)
	}
	c, err := login("the-first-token")
	if err != nil || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.String(), "the-first") || len(c.Value) < 40 {
		t.Fatalf("Login set %v: %v", c, err)
	}
	admitted := func() int {
		_, err := g.Admit(request(t, "GET", here, "Cookie", c.Name+"="+c.Value), rules, operators)
		return status(err)
	}
	if got := admitted(); got != 200 {
		t.Errorf("with the cookie: %d", got)
	}
	write("the-second-token")
	if got := admitted(); got != 401 {
		t.Errorf("with the cookie of a token that is gone: %d", got)
	}
	c, err = login("the-second-token")
	if err != nil || admitted() != 200 {
		t.Fatalf("with the second token: %v", err)
	}
	g.Logout(httptest.NewRecorder(), request(t, "POST", here, "Cookie", c.Name+"="+c.Value))
	if got := admitted(); got != 401 {
		t.Errorf("behind the logout: %d", got)
	}
	foreign := request(t, "POST", here, "Origin", "https://evil.example")
	if err := g.Login(httptest.NewRecorder(), foreign, rules, operators, "the-second-token"); status(err) != 403 {
		t.Errorf("a login that another site sends: %v", err)
	}
}

// Attempts to log in are limited, and sessions are bounded.
func TestLoginsAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, g := rules(t, &config.Config{Admin: config.Admin{Listen: here, TokenFile: file}}), NewGate()
	last := 0
	for range loginBurst + 5 {
		last = status(g.Login(httptest.NewRecorder(), request(t, "POST", here), rules, operators, "guess"))
	}
	if last != 429 {
		t.Errorf("guess %d is answered %d", loginBurst+5, last)
	}
	g.sessions.tries.SetLimit(1e9)
	for range 3 * maxSessions {
		if err := g.Login(httptest.NewRecorder(), request(t, "POST", here), rules, operators, "right"); err != nil && status(err) != 429 {
			t.Fatal(err)
		}
	}
	if n := len(g.sessions.all); n > maxSessions || n < 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestScheme: behind TLS the origin is https.
func TestScheme(t *testing.T) {
	r := request(t, "POST", here, "Origin", "https://127.0.0.1:4483")
	r.TLS = &tls.ConnectionState{}
	if err := fromHere(r); err != nil {
		t.Error(err)
	}
}
