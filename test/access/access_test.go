// Package access tests the promises of docs/access.md with a running vmcp: authentication, quotas
// and the audit.
package access

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var vmcp string

func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(rig.WithBinary(&vmcp, m.Run))
}

// waitTime bounds every wait of a test.
const waitTime = 90 * time.Second

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), waitTime)
}

// audience is the audience of valid tokens.
const audience = "https://mcp.example.com/mcp"

// challenge is the common part of the challenges of a 401.
const challenge = `scope="mcp:tools", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`

// served is a running `vmcp serve` in front of a backend with the tool t.
type served struct {
	t      *testing.T
	url    string
	dir    string
	config string
	log    string       // its file
	seen   atomic.Int32 // calls that reached the backend
	http   *http.Client // with separate connections
	*rig.Process
}

// serve starts vmcp with a configuration, to which the backend is added.
func serve(t *testing.T, config string) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	backend := httptest.NewServer(&raw.Server{Handle: func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, nil
		case "tools/call":
			s.seen.Add(1)
			return `{"content":[]}`, nil
		}
		return "", raw.ErrDefault
	}})
	t.Cleanup(backend.Close)
	s.config = filepath.Join(s.dir, "vmcp.yaml")
	s.configure(fmt.Sprintf("name: access\nbackends: [{name: b, url: %q}]\nscriptedTools:\n  - name: twice\n    description: calls t twice\n    script: |\n      def run(params):\n          call_tool(\"t\")\n          call_tool(\"t\")\n          return {}\n%s", backend.URL, config))
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s.log = log.Name()
	ctx, cancel := contextOf(t)
	defer cancel()
	p, addr, err := rig.Serve(ctx, log, vmcp, s.config, "VMCP_ACCESS_SECRET=s3cret")
	if err == nil {
		s.Process, s.url = p, "http://"+addr+"/mcp"
		err = rig.AwaitReady(ctx, addr)
	}
	t.Cleanup(func() {
		s.http.CloseIdleConnections() // those that no request was sent on would be waited for, 5 s
		if p != nil {
			_ = p.Stop()
		}
		log.Close()
		if text, _ := os.ReadFile(s.log); t.Failed() {
			t.Logf("log of vmcp:\n%s", text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *served) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// oidc is the configuration for an issuer.
func oidc(i *authtest.Issuer, more string) string {
	return fmt.Sprintf("incomingAuth: {type: oidc, oidc: {issuer: %q, audience: %q, scopes: [\"mcp:tools\"], insecureAllowHttp: true, jwksAllowPrivateIp: true, clientId: vmcp%s}}\n", i.URL, audience, more)
}

// tokenFile writes a tokens file with a token for each name, and returns the configuration that uses it.
func tokenFile(t *testing.T, names ...string) (file, config string, tokens map[string]string) {
	t.Helper()
	file, tokens = filepath.Join(t.TempDir(), "tokens.yaml"), map[string]string{}
	for _, name := range names {
		token, err := auth.NewToken(file, auth.Token{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
	}
	return file, fmt.Sprintf("incomingAuth: {type: tokens, tokens: {file: %q}}\n", file), tokens
}

// client is a client with a token, initialized where its revision has initialize.
func (s *served) client(token, revision string) *raw.Client {
	s.t.Helper()
	c := &raw.Client{URL: s.url, Revision: revision, Header: http.Header{"Authorization": {"Bearer " + token}}, HTTP: s.http}
	if err := c.Connect(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// asked is a request for the list of tools in a revision; with sessions, the initialize.
func asked(revision string) (body string, header http.Header) {
	header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if revision != raw.Modern {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, revision), header
	}
	header.Set("Mcp-Protocol-Version", revision)
	header.Set("Mcp-Method", "tools/list")
	return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, header
}

// ask makes a request with Authorization headers and returns the response with its body.
func (s *served) ask(revision, query string, authorization ...string) (*http.Response, string) {
	s.t.Helper()
	body, header := asked(revision)
	return s.send(query, body, header, authorization...)
}

// call is a stateless call of a tool.
func (s *served) call(token, tool string) (*http.Response, string) {
	s.t.Helper()
	body, header := asked(raw.Modern)
	header.Set("Mcp-Method", "tools/call")
	header.Set("Mcp-Name", tool)
	body = strings.Replace(body, `tools/list","params":{`, fmt.Sprintf(`tools/call","params":{"name":%q,"arguments":{},`, tool), 1)
	return s.send("", body, header, "Bearer "+token)
}

func (s *served) send(query, body string, header http.Header, authorization ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+query, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = header
	r.Header["Authorization"] = authorization
	resp, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(text)
}

// status is the status of a request with a token.
func (s *served) status(token string) int {
	s.t.Helper()
	resp, _ := s.ask(raw.Modern, "", "Bearer "+token)
	return resp.StatusCode
}

// becomes waits until a request with a token has a status.
func (s *served) becomes(what, token string, want int) {
	s.t.Helper()
	ctx, cancel := contextOf(s.t)
	defer cancel()
	last := 0
	err := rig.Poll(ctx, what, func() (bool, error) {
		last = s.status(token)
		return last == want, nil
	})
	if err != nil {
		s.t.Fatalf("%s: %d, want %d: %v", what, last, want, err)
	}
}

// Every row has its status and challenge, in both eras, and no response has a part of the request's token.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	s := serve(t, oidc(issuer, ""))
	rows := issuer.BadRequests(t, audience, challenge)
	if len(rows) < 45 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, bad := range rows {
		for _, revision := range []string{"2025-11-25", raw.Modern} {
			resp, body := s.ask(revision, bad.Query, bad.Authorization...)
			if got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("WWW-Authenticate")); got != bad.Want {
				t.Errorf("%s, %s:\n got %s\nwant %s", bad.Name, revision, got, bad.Want)
			}
			var m raw.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil || m.Error == nil || m.Result != nil || resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s, %s: %s, %v", bad.Name, revision, body, err)
			}
			for _, sent := range bad.Authorization {
				if sent = strings.TrimPrefix(sent, "Bearer "); len(sent) > 8 && strings.Contains(body+fmt.Sprint(resp.Header), sent) {
					t.Errorf("%s, %s: the response has the token: %s", bad.Name, revision, body)
				}
			}
		}
	}
	s.refusesLargeHeader()
	if status := s.status(issuer.Token(t, audience, nil)); status != http.StatusOK {
		t.Errorf("a good token after all that: %d", status)
	}
	log, err := os.ReadFile(s.log)
	if err != nil || bytes.Contains(log, []byte("eyJ")) || bytes.Contains(log, []byte("access_token")) {
		t.Errorf("the log has a token or the query (%v):\n%s", err, log)
	}
}

// refusesLargeHeader sends a token of 2 MB, which the server need not read completely: it answers
// 431 or resets the connection.
func (s *served) refusesLargeHeader() {
	s.t.Helper()
	body, header := asked(raw.Modern)
	r, _ := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	r.Header = header
	r.Header.Set("Authorization", "Bearer "+strings.Repeat("a", 2<<20))
	resp, err := s.http.Do(r)
	if err != nil {
		return
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		s.t.Errorf("a token of 2 MB: %s", resp.Status)
	}
}

func TestGoodRequests(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewIssuer(t)
	s := serve(t, oidc(issuer, ""))
	now := time.Now().Unix()
	good := map[string]string{
		"RS256":                     issuer.Token(t, audience, nil),
		"audience in a list":        issuer.Token(t, audience, map[string]any{"aud": []string{"x", audience}}),
		"scp":                       issuer.Token(t, audience, map[string]any{"scope": nil, "scp": []string{"mcp:tools"}}),
		"expired, within the skew":  issuer.Token(t, audience, map[string]any{"exp": now - 5}),
		"not yet, within the skew":  issuer.Token(t, audience, map[string]any{"nbf": now + 10}),
		"issued in the near future": issuer.Token(t, audience, map[string]any{"iat": now + 10}),
	}
	issuer.UseECDSA(t)
	good["ES256"] = issuer.Token(t, audience, nil)
	for name, token := range good {
		for _, revision := range []string{"2025-11-25", raw.Modern} {
			for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} {
				if resp, body := s.ask(revision, "", scheme+token); resp.StatusCode != http.StatusOK {
					t.Errorf("%s, %s, %s: %s %s %s", name, revision, scheme, resp.Status, resp.Header.Get("WWW-Authenticate"), body)
				}
			}
		}
	}
}
