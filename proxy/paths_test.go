package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// elsewhere is a listener on this machine whose connections report a non-loopback local address.
type elsewhere struct{ net.Listener }

type outside struct{ net.Conn }

func (l elsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return outside{c}, err
}

func (outside) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4483} }

// port serves a handler and returns its address.
func port(t *testing.T, h http.Handler, reachable bool) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	if reachable {
		srv.Listener = elsewhere{srv.Listener}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// say sends exactly these lines and returns the response.
func say(t *testing.T, addr, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := ""
	if method == "POST" {
		body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n\r\n%s",
		method, path, len(body), strings.Join(headers, "\r\n"), body)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s %q: %v", method, path, headers, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func newProxy(t *testing.T, cfg *config.Config) *proxy.Proxy {
	t.Helper()
	p := proxy.New(proxy.Options{Version: "test"})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHostAndOriginOnEveryPath: every request but a health check is refused for unknown hosts and origins, on every
// path and with every method.
func TestHostAndOriginOnEveryPath(t *testing.T) {
	p := newProxy(t, &config.Config{})
	named := newProxy(t, &config.Config{Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"}})
	const good, page = "Host: localhost:4483", "Origin: http://localhost:3000"
	ports := []struct {
		name, addr string
		refused    [][]string
		accepted   [][]string
	}{
		{"loopback", port(t, p, false), [][]string{
			{"Host: evil.example"}, {good, "Origin: http://evil.example"}, {good, "Origin: null"}, {good, page, "Origin: http://evil.example"},
			{"Host: evil.example", "Origin: http://evil.example"}, {good, "Origin: "}, {"Host:"},
		}, [][]string{{good}, {good, page}, {"Host: 127.0.0.1"}, {"Host: [::1]:9", "Origin: http://[::1]:9"}}},
		{"reachable", port(t, p, true), [][]string{
			{"Host: evil.example", "Origin: http://evil.example"}, {good, page}, {good, "Origin: null"},
			{good, "Origin: http://a", "Origin: http://b"},
		}, [][]string{{good}, {"Host: any.example"}}},
		{"reachable by name", port(t, named, true), [][]string{
			{"Host: evil.example"}, {good}, {"Host: mcp.example.com", "Origin: https://evil.example"}, {"Host: mcp.example.com", "Origin: null"},
		}, [][]string{{"Host: mcp.example.com"}, {"Host: mcp.example.com", "Origin: https://mcp.example.com"}, {"Host: mcp.example.com:1", "Origin: https://app.example.com"}}},
		{"for operators", port(t, p.AdminHandler(), false), [][]string{
			{"Host: evil.example"}, {good, "Origin: http://evil.example"}, {good, page, page},
		}, [][]string{{good}, {good, page}}},
	}
	for _, at := range ports {
		for _, path := range []string{"/mcp", "/", "/metrics", "/readyz?tools", "/readyz?tools=x&y", "/mcp/", "/nothing", "/debug/pprof/"} {
			for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "PUT"} {
				for _, h := range at.refused {
					if resp, body := say(t, at.addr, method, path, h...); resp.StatusCode != 403 && !(h[0] == "Host:" && resp.StatusCode == 400) || resp.Header.Get("Access-Control-Allow-Origin") != "" {
						t.Errorf("%s: %s %s %q: %d %s, want 403", at.name, method, path, h, resp.StatusCode, body)
					}
				}
				for _, h := range at.accepted {
					if path == "/" && at.name == "for operators" && len(h) > 1 {
						continue // the page is for no other origin, whatever clients may have
					}
					if resp, body := say(t, at.addr, method, path, h...); resp.StatusCode == 403 {
						t.Errorf("%s: %s %s %q: %s", at.name, method, path, h, body)
					}
				}
			}
		}
		for _, h := range slices.Concat(at.refused, at.accepted) {
			if h[0] == "Host:" {
				continue
			}
			for _, path := range []string{"/healthz", "/health"} {
				if resp, body := say(t, at.addr, "GET", path, h...); resp.StatusCode != 200 || body != "ok\n" {
					t.Errorf("%s: %s %q: %d %s", at.name, path, h, resp.StatusCode, body)
				}
			}
		}
		if at.name == "for operators" {
			continue
		}
		for _, h := range at.refused {
			resp, body := say(t, at.addr, "GET", "/readyz", h...)
			if h[0] != "Host:" && (resp.StatusCode != 200 || body != `{"ready":true,"draining":false}`+"\n") {
				t.Errorf("%s: /readyz %q: %d %s", at.name, h, resp.StatusCode, body)
			}
		}
	}
}

// TestWhoSeesDetails: /metrics and the details of /readyz are for this machine, or on a separate port.
func TestWhoSeesDetails(t *testing.T) {
	plain := newProxy(t, &config.Config{Hosts: []string{"mcp.example.com"}})
	apart := newProxy(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0"}})
	const here = "Host: localhost"
	for _, tt := range []struct {
		name, addr string
		headers    []string
		details    bool
		hint       string
	}{
		{"loopback", port(t, plain, false), []string{here}, true, ""},
		{"loopback, a public name", port(t, plain, false), []string{"Host: mcp.example.com"}, false, "set admin.listen"},
		{"loopback, passed on by a proxy", port(t, plain, false), []string{here, "X-Forwarded-For: 203.0.113.9"}, false, "set admin.listen"},
		{"reachable", port(t, plain, true), []string{"Host: mcp.example.com"}, false, "set admin.listen"},
		{"loopback, beside a port for operators", port(t, apart, false), []string{here}, false, "not on this port"},
		{"the port for operators", port(t, apart.AdminHandler(), false), []string{here}, true, ""},
	} {
		for path, want := range map[string]string{"/metrics": "vmcp_requests_total", "/readyz": `"backends": []`, "/readyz?tools": `"backends": []`} {
			resp, body := say(t, tt.addr, "GET", path, tt.headers...)
			switch has := strings.Contains(body, want); {
			case has != tt.details:
				t.Errorf("%s: %s has details: %v, want %v\n%s", tt.name, path, has, tt.details, body)
			case path == "/readyz" && resp.StatusCode != 200:
				t.Errorf("%s: %s: %d", tt.name, path, resp.StatusCode)
			case path != "/readyz" && !has && (resp.StatusCode != 404 || !strings.Contains(body, tt.hint)):
				t.Errorf("%s: %s: %d %s, want 404 and a hint", tt.name, path, resp.StatusCode, body)
			}
		}
	}
	if resp, _ := say(t, port(t, apart.AdminHandler(), false), "POST", "/mcp", here); resp.StatusCode != 404 {
		t.Errorf("/mcp on the port for operators: %d", resp.StatusCode)
	}
	if resp, body := say(t, port(t, apart, true), "GET", "/", here); resp.StatusCode != 200 || body != `{"name":"vmcp","version":"test","endpoint":"/mcp"}`+"\n" {
		t.Errorf("/: %d %s", resp.StatusCode, body)
	}
}

// TestPagesMayReadAnswers: an accepted origin gets the CORS headers, also with errors.
func TestPagesMayReadAnswers(t *testing.T) {
	p := newProxy(t, &config.Config{Origins: []string{"https://app.example.com"}})
	addr := port(t, p, true)
	const page = "Origin: https://app.example.com"
	for _, h := range [][]string{{"POST", "/mcp"}, {"GET", "/mcp"}, {"GET", "/"}, {"GET", "/nothing"}} {
		resp, _ := say(t, addr, h[0], h[1], "Host: mcp.example.com", page)
		got := resp.Header
		if got.Get("Access-Control-Allow-Origin") != "https://app.example.com" || !slices.Contains(got.Values("Vary"), "Origin") ||
			!strings.Contains(got.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") || !strings.Contains(got.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") ||
			got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%q: %v", h, got)
		}
	}
	resp, _ := say(t, addr, "OPTIONS", "/mcp", "Host: x", page, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type,mcp-session-id")
	if got := resp.Header; resp.StatusCode != 204 || !strings.Contains(got.Get("Access-Control-Allow-Methods"), "DELETE") || got.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("preflight: %d %v", resp.StatusCode, got)
	}
	if resp, _ := say(t, addr, "GET", "/", "Host: x"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a request without an origin gets one")
	}
}

// TestEdgesAreReloaded: hosts and origins of a new configuration are used at once.
func TestEdgesAreReloaded(t *testing.T) {
	p := newProxy(t, &config.Config{})
	addr := port(t, p, false)
	status := func() int {
		resp, _ := say(t, addr, "GET", "/", "Host: mcp.example.com", "Origin: https://app.example.com")
		return resp.StatusCode
	}
	if got := status(); got != 403 {
		t.Errorf("before: %d", got)
	}
	if err := p.Apply(&config.Config{Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"}}); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != 200 {
		t.Errorf("after: %d", got)
	}
}

// TestAdminsOnTheirPort: if other machines reach the port for operators, the token of an admin is accepted like that of
// admin.tokenFile, for everything there; other tokens are refused, and so is a request without one.
func TestAdminsOnTheirPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	token := map[string]string{}
	for name, groups := range map[string][]string{"ann": {"ops"}, "bob": nil} {
		text, err := auth.NewToken(file, auth.Token{Name: name, Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		token[name] = "Authorization: Bearer " + text
	}
	in := config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}, Authz: config.Authz{Admins: config.Admins{Groups: []string{"ops"}}}}
	admins := port(t, newProxy(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0"}, IncomingAuth: in}).AdminHandler(), true)
	nobody := port(t, newProxy(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0"}}).AdminHandler(), true)
	for path, has := range map[string]string{"/metrics": "vmcp_requests_total", "/readyz": `"backends"`, "/api/v1/status": `"backends"`} {
		for _, tt := range []struct {
			addr    string
			headers []string
			status  []int
		}{
			{admins, []string{token["ann"]}, []int{200}},
			{admins, []string{token["bob"]}, []int{401, 403}},
			{admins, []string{"Authorization: Bearer vmcp_none"}, []int{401}},
			{admins, nil, []int{401}},
			{nobody, nil, []int{401, 403}},
			{nobody, []string{token["ann"]}, []int{401, 403}},
		} {
			resp, body := say(t, tt.addr, "GET", path, append(tt.headers, "Host: x")...)
			if !slices.Contains(tt.status, resp.StatusCode) || strings.Contains(body, has) != (tt.status[0] == 200) {
				t.Errorf("%s %q: %d %s, want %v", path, tt.headers, resp.StatusCode, body, tt.status)
			}
		}
	}
}

// TestAdminToken: the port for operators requires its token, and reads the file again when it changes.
func TestAdminToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	p := newProxy(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0", TokenFile: file}})
	addr := port(t, p.AdminHandler(), true)
	check := func(want int, headers ...string) {
		t.Helper()
		resp, body := say(t, addr, "GET", "/metrics", append(headers, "Host: x")...)
		if resp.StatusCode != want || want == 401 && (resp.Header.Get("WWW-Authenticate") == "" || strings.Contains(body, "vmcp_")) {
			t.Errorf("%q: %d %v, want %d", headers, resp.StatusCode, resp.Header, want)
		}
	}
	check(401)
	check(200, "Authorization: Bearer first")
	check(200, "Authorization: bearer  first")
	check(401, "Authorization: Bearer firs")
	check(401, "Authorization: Basic first")
	check(401, "Authorization: Bearer first", "Authorization: Bearer second")
	check(401, "Authorization: Bearer ")
	write("other")
	check(401, "Authorization: Bearer first")
	check(200, "Authorization: Bearer other")
	write("")
	check(401, "Authorization: Bearer ")
	check(401, "Authorization: Bearer other")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check(401, "Authorization: Bearer other")
	write("back")
	check(200, "Authorization: Bearer back")
	if resp, _ := say(t, addr, "GET", "/healthz", "Host: x"); resp.StatusCode != 200 {
		t.Errorf("/healthz: %d", resp.StatusCode)
	}
}
