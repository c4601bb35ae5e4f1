package outgoing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// recordTo is the environment variable that makes a child of the tests an MCP server, with the file to which it
// writes all its input.
const recordTo = "OUTGOING_RECORD"

func TestMain(m *testing.M) {
	path := os.Getenv(recordTo)
	if path == "" {
		testmode.SideBySide(8)
		os.Exit(m.Run())
	}
	record, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(record, os.Environ())
	s := &raw.Server{Modern: os.Getenv("OUTGOING_MODERN") != ""}
	s.Handle = func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return s.List("tools", `{"name":"who","inputSchema":{"type":"object"}}`), nil
		case "tools/call":
			var p struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
			if err := json.Unmarshal(c.Params, &p); err != nil {
				return "", err
			}
			text, _ := json.Marshal(string(p.Meta["dev.vmcp/principal"]))
			result := `{"content":[{"type":"text","text":` + string(text) + `}]`
			if s.Modern {
				result += `,"resultType":"complete"`
			}
			return result + "}", nil
		}
		return "", raw.ErrDefault
	}
	_ = s.ServeStdio(io.TeeReader(os.Stdin, record), os.Stdout)
}

// recording is a backend in a process that records its requests.
func recording(t *testing.T, modern bool) (b config.Backend, record func() string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "record")
	b = config.Backend{Name: "child", Command: self, Env: map[string]string{recordTo: file}}
	if modern {
		b.Env["OUTGOING_MODERN"] = "1"
	}
	return b, func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

// sseServer is a server of HTTP+SSE that accepts the tokens of e and records its requests.
func sseServer(t *testing.T, e *endpoint) *guarded {
	g := takesTokens(t, false, e)
	g.handler = mcp.NewSSEHandler(func(r *http.Request) *mcp.Server {
		text := r.Header.Get("Authorization") // of the stream
		s := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "old"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
		return s
	}, nil)
	return g
}

// The token of a client is in no request to a backend, over any transport, with and without token
// exchange.
func TestNoInboundTokenGoesOut(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	over, old, plain := takesTokens(t, false, e), sseServer(t, e), newGuarded(t, true, nil)
	cfg := exchanging(over.URL, issuer, e)
	cfg.OutgoingAuth.Default = cfg.OutgoingAuth.Backends["b"]
	cfg.OutgoingAuth.Backends["plain"] = config.OutgoingStrategy{Type: "unauthenticated"}
	child, record := recording(t, false)
	modernChild, modernRecord := recording(t, true)
	child.PassPrincipal, modernChild.Name = true, "newchild"
	cfg.Backends = append(cfg.Backends, config.Backend{Name: "old", URL: old.URL, Transport: "sse"}, config.Backend{Name: "plain", URL: plain.URL}, child, modernChild)
	cfg.PassthroughHeaders = []string{"X-Request-Id"}
	v := serve(t, cfg)
	inbound := map[string]string{}
	var all sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		inbound[name] = tokenOf(t, issuer, name)
		for _, revision := range []string{legacy, raw.Modern} {
			c := v.client(t, revision, inbound[name])
			all.Go(func() {
				for _, tool := range []string{"b_who", "old_old", "plain_who", "child_who", "newchild_who"} {
					result, err := c.Call(t.Context(), "tools/call", `{"name":"`+tool+`","arguments":{}}`)
					if err != nil {
						t.Errorf("%s of %s: %v", tool, name, err)
					}
					if tool == "old_old" && !strings.Contains(string(result), "t0ken-"+name) {
						t.Errorf("over SSE %s called with %s", name, result)
					}
				}
			})
		}
	}
	all.Wait()
	noInbound(t, inbound, over, old, plain)
	streams := map[string]string{}
	for _, s := range old.seen("") {
		if s.query == "" {
			continue
		}
		if before, ok := streams[s.query]; ok && before != s.authorization {
			t.Errorf("one SSE stream carries %q and %q", before, s.authorization)
		}
		streams[s.query] = s.authorization
	}
	for name, text := range map[string]string{"child": record(), "newchild": modernRecord()} {
		if !strings.Contains(text, "tools/call") {
			t.Errorf("%s recorded nothing", name)
		}
		for who, token := range inbound {
			if strings.Contains(text, token) {
				t.Errorf("%s got the token of %s", name, who)
			}
		}
		if strings.Contains(text, "t0ken-") {
			t.Errorf("%s got a token of another backend", name)
		}
	}
}

// A stdio backend gets the principal in _meta where the configuration says so, and never a principal that a client
// has sent.
func TestAProcessIsToldWhoCalls(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	receives, _ := recording(t, false)
	receives.PassPrincipal = true
	receivesModern, _ := recording(t, true)
	receivesModern.Name, receivesModern.PassPrincipal = "modern", true
	silent, _ := recording(t, false)
	silent.Name = "silent"
	cfg := exchanging("http://127.0.0.1:1/mcp", issuer, e)
	cfg.Backends = []config.Backend{receives, receivesModern, silent}
	cfg.OutgoingAuth = config.OutgoingAuth{}
	v := serve(t, cfg)
	const forged = `{"issuer":"evil","subject":"root"}`
	metas := []string{
		``, `"_meta":{"dev.vmcp/principal":` + forged + `},`, `"_meta":{"dev.vmcp\/principal":` + forged + `},`,
		`"_meta":{"a":1,"dev.vmcp\u002fprincipal":` + forged + `,"b":2},`, `"_meta":{"dev.vmcp/principal":1,"dev.vmcp/principal":` + forged + `},`,
		`"_met\u0061":{"dev.vmcp/principal":` + forged + `},`, `"_meta":{},"_meta":{"dev.vmcp/principal":` + forged + `},`, `"_meta":{"x":1},"\u005fmeta":{"dev.vmcp/principal":` + forged + `},`,
	}
	for _, name := range []string{"alice", `b"ob`} {
		c := v.client(t, legacy, tokenOf(t, issuer, name))
		want, _ := json.Marshal(map[string]string{"issuer": issuer.URL, "subject": name})
		for _, meta := range metas {
			for tool, want := range map[string]string{"child_who": string(want), "modern_who": string(want), "silent_who": ""} {
				result, err := c.Call(t.Context(), "tools/call", `{`+meta+`"name":"`+tool+`","arguments":{}}`)
				var r struct{ Content []struct{ Text string } }
				_ = json.Unmarshal(result, &r)
				switch {
				case err != nil && strings.Contains(err.Error(), "-32602"), err != nil && strings.Contains(err.Error(), "-32600"):
				case err != nil || len(r.Content) != 1 || r.Content[0].Text != want:
					t.Errorf("%s for %s with %s says %s, %v, want %s", tool, name, meta, result, err, want)
				}
			}
		}
	}
}

// The example of the documentation works as documented, with servers of the test in place of its URLs.
func TestTheExampleRuns(t *testing.T) {
	issuer, e := authtest.NewIssuer(t), newEndpoint(t)
	for name, value := range map[string]string{"GITHUB_TOKEN": "from-github", "CRM_SECRET": clientSecret, "HR_SECRET": clientSecret, "HR_LIST": "list-only", "VMCP_KEY": newKeyText()} {
		t.Setenv(name, value)
	}
	cfg, err := config.Load("../../examples/outgoing/vmcp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	github := newGuarded(t, true, func(a string) bool { return a == "Bearer from-github" })
	crm, hr := takesTokens(t, false, e), takesTokens(t, false, e)
	p := newProvider(t)
	wiki := loginServer(t, p)
	child, record := recording(t, false)
	for i := range cfg.Backends {
		b := &cfg.Backends[i]
		switch b.Name {
		case "github":
			b.URL = github.URL
		case "crm":
			b.URL = crm.URL
			b.Outgoing.ClientCredentials.TokenURL = e.URL + "/token"
		case "hr":
			b.URL = hr.URL
			b.Outgoing.TokenExchange.TokenURL = e.URL + "/token"
		case "wiki":
			b.URL = wiki.URL + "/mcp"
			cfg.TokenStore.File = filepath.Join(t.TempDir(), "tokens.db")
			storeOneLogin(t, cfg, *b)
		case "files":
			b.Command, b.Args, b.Env = child.Command, nil, child.Env
		}
	}
	for name, s := range cfg.OutgoingAuth.Backends {
		s.ClientCredentials.TokenURL, s.TokenExchange.TokenURL = e.URL+"/token", e.URL+"/token"
		cfg.OutgoingAuth.Backends[name] = s
	}
	o := &cfg.IncomingAuth.OIDC
	o.Issuer, o.InsecureAllowHTTP, o.JWKSAllowPrivateIP = issuer.URL, true, true
	v := serve(t, cfg)
	c := v.client(t, legacy, tokenOf(t, issuer, "alice"))
	for tool, want := range map[string]string{"github_who": "Bearer from-github", "crm_who": "Bearer t0ken-vmcp-", "hr_who": "Bearer t0ken-alice-", "files_who": `"text":""`} {
		if got, err := c.Call(t.Context(), "tools/call", `{"name":"`+tool+`","arguments":{}}`); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v, want %q", tool, got, err, want)
		}
	}
	if _, err := c.Call(t.Context(), "tools/call", `{"name":"wiki_who","arguments":{}}`); err == nil || !strings.Contains(err.Error(), "alice has to log in at this backend: open ") {
		t.Errorf("wiki_who: %v", err)
	}
	if text := record(); strings.Contains(text, clientSecret) || strings.Contains(text, "from-github") {
		t.Error("the process has a credential of another backend")
	}
}

// storeOneLogin stores a login of this proxy at a backend.
func storeOneLogin(t *testing.T, cfg *config.Config, b config.Backend) {
	store, err := credentials.OpenStore(cfg.TokenStore)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := credentials.LogIn(t.Context(), credentials.Consent{Backend: b, Redirect: "http://127.0.0.1:1/callback", Ask: browse})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), b.Name, "", grant); err != nil {
		t.Fatal(err)
	}
}
