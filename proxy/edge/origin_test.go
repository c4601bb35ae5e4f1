package edge_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/edge"
)

func request(local, host string, origins ...string) *http.Request {
	r := httptest.NewRequest("POST", "/mcp", nil)
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		panic(err)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
	r.Host = host
	if origins != nil {
		r.Header["Origin"] = origins
	}
	return r
}

const (
	here  = "127.0.0.1:4483"
	there = "192.0.2.1:4483"
)

func TestCheckOfHostAndOrigin(t *testing.T) {
	hosts := []string{"mcp.example.com", "10.0.0.7:9000", "*.internal", "[fd00::1]:4483"}
	pages := []string{"https://app.example.com", "http://page.example:8080", "vscode-webview://abc"}
	for _, tt := range []struct {
		name           string
		hosts, origins []string
		local, host    string
		from           []string
		want           string // of the error; "" is none
	}{
		{name: "loopback", local: here, host: "127.0.0.1:4483"},
		{name: "loopback by name", local: here, host: "LOCALHOST.:1"},
		{name: "loopback, version 6", local: "[::1]:4483", host: "[::1]:4483"},
		{name: "loopback, mapped", local: "[::ffff:127.0.0.1]:4483", host: "[::ffff:7f00:1]"},
		{name: "a page of this machine", local: here, host: "127.0.0.1:4483", from: []string{"http://localhost:6274"}},
		{name: "a rebound name", local: here, host: "evil.example", want: `host "evil.example" is not allowed on a loopback`},
		{name: "no host", local: here, host: "", want: `host ""`},
		{name: "a name that begins like loopback", local: here, host: "127.0.0.1.evil.example", want: "host"},
		{name: "a name that ends like loopback", local: here, host: "x.localhost.evil", want: "host"},
		{name: "a rebound page", local: here, host: "evil.example", from: []string{"http://evil.example"}, want: "host"},
		{name: "a foreign page", local: here, host: "localhost", from: []string{"http://evil.example"}, want: `origin "http://evil.example" is not allowed`},
		{name: "null", local: here, host: "localhost", from: []string{"null"}, want: "origin"},
		{name: "an empty origin", local: here, host: "localhost", from: []string{""}, want: "origin"},
		{name: "a second origin", local: here, host: "localhost", from: []string{"http://localhost", "http://evil.example"}, want: "more than one"},
		{name: "a second origin behind an empty one", local: here, host: "localhost", from: []string{"", "http://evil.example"}, want: "more than one"},
		{name: "a list of origins", local: here, host: "localhost", from: []string{"http://localhost http://evil.example"}, want: "origin"},
		{name: "a host with a tail", local: here, host: "localhost", from: []string{"http://localhost.evil.example"}, want: "origin"},

		{name: "off loopback, any name", local: there, host: "whatever.example"},
		{name: "off loopback, its own origin is worth nothing", local: there, host: "evil.example", from: []string{"http://evil.example"}, want: "origin"},
		{name: "off loopback, a page of the visitor's machine", local: there, host: "192.0.2.1", from: []string{"http://localhost"}, want: "origin"},
		{name: "off loopback, an allowed page", origins: pages, local: there, host: "any.example", from: []string{"https://app.example.com"}},
		{name: "off loopback, allowed in other words", origins: pages, local: there, host: "any.example", from: []string{"HTTPS://APP.example.com:443"}},
		{name: "another scheme of an allowed page", origins: pages, local: there, host: "any.example", from: []string{"http://app.example.com"}, want: "origin"},
		{name: "another port of an allowed page", origins: pages, local: there, host: "any.example", from: []string{"http://page.example"}, want: "origin"},
		{name: "an editor's page", origins: pages, local: here, host: "localhost", from: []string{"vscode-webview://abc"}},
		{name: "null where anything is allowed", origins: []string{"*"}, local: there, host: "any.example", from: []string{"null"}, want: "origin"},
		{name: "anything", origins: []string{"*"}, local: there, host: "any.example", from: []string{"http://evil.example"}},

		{name: "a listed host", hosts: hosts, local: there, host: "mcp.example.com"},
		{name: "a listed host with a port", hosts: hosts, local: there, host: "MCP.example.com:1"},
		{name: "its own page", hosts: hosts, local: there, host: "mcp.example.com", from: []string{"https://mcp.example.com"}},
		{name: "a listed host on loopback", hosts: hosts, local: here, host: "mcp.example.com", from: []string{"https://mcp.example.com"}},
		{name: "loopback beside listed hosts", hosts: hosts, local: here, host: "localhost:4483", from: []string{"http://127.0.0.1:3000"}},
		{name: "a name below", hosts: hosts, local: there, host: "a.b.internal:80"},
		{name: "not the name above", hosts: hosts, local: there, host: "internal", want: "host"},
		{name: "not only the end of a name", hosts: hosts, local: there, host: "evilinternal", want: "host"},
		{name: "the port counts", hosts: hosts, local: there, host: "10.0.0.7:9001", want: `host "10.0.0.7:9001" is not allowed;`},
		{name: "version 6", hosts: hosts, local: there, host: "[fd00::1]:4483"},
		{name: "another host", hosts: hosts, local: there, host: "evil.example", want: "host"},
		{name: "loopback's name from afar", hosts: hosts, local: there, host: "localhost", want: "host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, err := edge.NewOrigins(tt.hosts, tt.origins).Check(request(tt.local, tt.host, tt.from...))
			if tt.want == "" && (err != nil || tt.from != nil && from != tt.from[0]) {
				t.Errorf("Check = %q, %v", from, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check = %q, %v, want %s", from, err, tt.want)
			}
		})
	}
}

// TestIsLocal: requests of a proxy on this machine are not local.
func TestIsLocal(t *testing.T) {
	passed := request(here, "127.0.0.1:4483")
	passed.Header.Set("X-Forwarded-For", "203.0.113.9")
	for _, tt := range []struct {
		name string
		r    *http.Request
		want bool
	}{
		{"this machine", request(here, "localhost:4483"), true},
		{"by a name of ours", request(here, "mcp.example.com"), false},
		{"from afar", request(there, "localhost"), false},
		{"passed on", passed, false},
	} {
		if got := edge.IsLocal(tt.r); got != tt.want {
			t.Errorf("%s: IsLocal = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPreflight: only Mcp-Param headers are reflected.
func TestPreflight(t *testing.T) {
	r := request(here, "localhost", "http://localhost:3000")
	r.Method = http.MethodOptions
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "content-type, Mcp-Param-Region, mcp-param-bad(name), cookie, mcp-param-")
	w := httptest.NewRecorder()
	edge.Preflight(w, r)
	got := w.Header().Get("Access-Control-Allow-Headers")
	if w.Code != 204 || !strings.HasSuffix(got, ", mcp-param-region") || strings.Contains(got, "cookie") || strings.Contains(got, "bad") {
		t.Errorf("%d, Access-Control-Allow-Headers: %s", w.Code, got)
	}
	for _, want := range []string{"Content-Type", "Accept", "Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "Traceparent"} {
		if !strings.Contains(got, want) {
			t.Errorf("Access-Control-Allow-Headers lacks %s: %s", want, got)
		}
	}
	if w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Error("cookies are asked for")
	}
}
