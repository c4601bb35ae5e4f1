package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// benched is an endpoint for a benchmark.
type benched struct {
	b       *testing.B
	handler http.Handler
	tokens  []string
	session []string
	took    time.Duration
	address string // "": the handler is called
}

// bench starts an endpoint over one backend with n tools. Each of its tokens has one group.
func bench(b *testing.B, tools int, groups []string, change func(*config.Config)) *benched {
	var offer strings.Builder
	for i := range tools {
		fmt.Fprintf(&offer, `,{"name":"t%d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string","description":%q}}}}`, i, strings.Repeat("d", 300), strings.Repeat("p", 300))
	}
	backend := httptest.NewServer(&wiretest.Server{Handle: func(c *wiretest.Call) (string, error) {
		switch c.Method {
		case wire.ToolsList:
			return `{"tools":[` + offer.String()[1:] + `]}`, nil
		case wire.ToolsCall:
			return `{"content":[{"type":"text","text":"done"}]}`, nil
		}
		return "", wiretest.ErrDefault
	}})
	b.Cleanup(backend.Close)
	cfg := &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}}
	d := &benched{b: b, tokens: []string{""}}
	if groups != nil {
		d.tokens = nil
		file := filepath.Join(b.TempDir(), "tokens.yaml")
		for i, g := range groups {
			token, err := auth.NewToken(file, auth.Token{Name: fmt.Sprint("p", i), Groups: strings.Fields(g)})
			if err != nil {
				b.Fatal(err)
			}
			d.tokens = append(d.tokens, token)
		}
		cfg.IncomingAuth = config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}}
	}
	if change != nil {
		change(cfg)
	}
	p := proxy.New(proxy.Options{AuditOut: io.Discard})
	b.Cleanup(func() { p.Close() })
	if err := p.Apply(cfg); err != nil {
		b.Fatal(err)
	}
	if err := p.Settled(b.Context()); err != nil {
		b.Fatal(err)
	}
	d.handler, d.session = p, make([]string, len(d.tokens))
	for i := range d.tokens {
		d.session[i] = d.ask(i, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	}
	d.took = 0
	return d
}

// ask sends the request of the i-th principal and returns the session that it opens.
func (d *benched) ask(i int, body string) string {
	r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", d.session[i])
	if d.tokens[i] != "" {
		r.Header.Set("Authorization", "Bearer "+d.tokens[i])
	}
	began := time.Now()
	status, header := d.serve(r)
	d.took += time.Since(began)
	if status != 200 {
		d.b.Fatal(status)
	}
	return header.Get("Mcp-Session-Id")
}

// serve lets the endpoint serve a request, over a connection if there is an address.
func (d *benched) serve(r *http.Request) (status int, header http.Header) {
	if d.address == "" {
		w := httptest.NewRecorder()
		w.Body = nil
		d.handler.ServeHTTP(w, r)
		return w.Code, w.Header()
	}
	r.RequestURI, r.URL.Host, r.Host = "", d.address, d.address
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.b.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header
}

// connect makes later requests use a connection.
func (d *benched) connect() {
	srv := httptest.NewServer(d.handler)
	d.b.Cleanup(srv.Close)
	d.address = srv.Listener.Addr().String()
}

// BenchmarkAccess measures the cost of a token, a rule and the audit for a relayed call; both endpoints are called in
// turn.
func BenchmarkAccess(b *testing.B) {
	rule := config.Authz{Allow: []config.AllowRule{{Name: "dev", Groups: []string{"dev"}, Tools: []string{"b.*"}}}}
	byArgument := config.Authz{Policies: []string{`permit(principal in THVGroup::"dev", action, resource) when { context has arg_a && context.arg_a like "x*" };`}}
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
	}{
		{"token", nil},
		{"token+rule", func(c *config.Config) { c.IncomingAuth.Authz = rule }},
		{"token+argument", func(c *config.Config) { c.IncomingAuth.Authz = byArgument }},
		{"token+rule+audit", func(c *config.Config) { c.IncomingAuth.Authz = rule; c.Audit = config.Audit{Enabled: true} }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			plain, guarded := bench(b, 10, nil, nil), bench(b, 10, []string{"dev"}, tt.change)
			const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t3","arguments":{"a":"xyz"}}}`
			n := 0
			for b.Loop() {
				plain.ask(0, call)
				guarded.ask(0, call)
				n++
			}
			b.ReportMetric(float64((guarded.took-plain.took).Nanoseconds())/float64(n), "ns-more/op")
			b.ReportMetric(float64(guarded.took)/float64(plain.took), "ratio")
		})
	}
}

// BenchmarkListsOfManyClasses measures tools/list over 1,000 tools, by 256 classes of principals in turn, with and
// without policies.
func BenchmarkListsOfManyClasses(b *testing.B) {
	var groups []string
	var rules []config.AllowRule
	for bit := range 8 {
		rules = append(rules, config.AllowRule{Name: fmt.Sprint("r", bit), Groups: []string{fmt.Sprint("g", bit)}, Tools: []string{fmt.Sprintf("b.*%d", bit)}})
	}
	for class := range 256 {
		var of []string
		for bit := range 8 {
			if class>>bit&1 == 1 {
				of = append(of, fmt.Sprint("g", bit))
			}
		}
		groups = append(groups, strings.Join(of, " "))
	}
	rules = append(rules, config.AllowRule{Name: "most", Tools: []string{"b.*8", "b.*9", "b.t1*", "b.t2*", "b.t3*", "b.t4*", "b.t5*", "b.t6*"}})
	plain, guarded := bench(b, 1000, nil, nil), bench(b, 1000, groups, func(c *config.Config) { c.IncomingAuth.Authz = config.Authz{Allow: rules} })
	plain.connect()
	guarded.connect()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	for i := range groups {
		guarded.ask(i, list)
	}
	guarded.took = 0
	n := 0
	for b.Loop() {
		plain.ask(0, list)
		guarded.ask(n%256, list)
		n++
	}
	b.ReportMetric(float64(plain.took.Nanoseconds())/float64(n), "ns-without/op")
	b.ReportMetric(float64(guarded.took)/float64(plain.took), "ratio")
}
