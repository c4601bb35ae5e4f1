package outgoing_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/test/raw"
)

const opensPages = `{"elicitation":{"form":{},"url":{}}}`

// people are principals with tokens for an endpoint whose backend b requires a login of
// each of them.
type people struct {
	*vmcp
	provider *provider
	backend  *guarded
	store    *credentials.Store
	cfg      *config.Config
	tokens   map[string]string
}

func newPeople(t *testing.T, p *provider, g *guarded, names ...string) *people {
	t.Helper()
	cfg, store := loggingIn(t, g)
	cfg.OutgoingAuth.Backends["b"] = config.OutgoingStrategy{Type: "oauth", OAuth: config.OutgoingOAuth{PerUser: true}}
	cfg.IncomingAuth.Type = "tokens"
	cfg.IncomingAuth.Tokens.File = filepath.Join(t.TempDir(), "tokens.yaml")
	all := &people{provider: p, backend: g, store: store, cfg: cfg, tokens: map[string]string{}}
	for _, name := range names {
		token, err := auth.NewToken(cfg.IncomingAuth.Tokens.File, auth.Token{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		all.tokens[name] = token
	}
	logIn(t, cfg, store) // with which the lists are read
	all.vmcp = serve(t, cfg)
	return all
}

// as connects a client of a principal, which opens the URLs of its questions.
func (p *people) as(t *testing.T, name, revision string, open func(page string)) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: p.url, Revision: revision, Capabilities: opensPages, Header: http.Header{"Authorization": {"Bearer " + p.tokens[name]}}}
	c.Asked = func(m raw.Message) string {
		var q struct{ Mode, URL, ElicitationID, Message string }
		_ = json.Unmarshal(m.Params, &q)
		if m.Method != "elicitation/create" || q.Mode != "url" || q.ElicitationID == "" || !strings.Contains(q.Message, "log in") {
			t.Errorf("asked %s %s", m.Method, m.Params)
		}
		if open == nil {
			return `{"action":"decline"}`
		}
		open(q.URL)
		return `{"action":"accept"}`
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// whoOf calls the tool of the backend for a client, and answers questions of a stateless call.
func (p *people) whoOf(t *testing.T, c *raw.Client, open func(page string)) (string, error) {
	params := `"name":"who","arguments":{}`
	for {
		result, err := c.Call(t.Context(), "tools/call", `{`+params+`}`)
		if err != nil {
			return "", err
		}
		var r struct {
			Content       []struct{ Text string }
			ResultType    string
			RequestState  json.RawMessage
			InputRequests map[string]struct {
				Method string
				Params struct{ Mode, URL string }
			}
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return "", err
		}
		if r.ResultType != "input_required" {
			if len(r.Content) != 1 {
				return "", fmt.Errorf("%s", result)
			}
			return r.Content[0].Text, nil
		}
		action := "decline"
		for key, q := range r.InputRequests {
			if q.Method != "elicitation/create" || q.Params.Mode != "url" {
				t.Errorf("asked %s", result)
			}
			if open != nil {
				action = "accept"
				open(q.Params.URL)
			}
			params = fmt.Sprintf(`"name":"who","arguments":{},"requestState":%s,"inputResponses":{%q:{"action":%q}}`, r.RequestState, key, action)
		}
	}
}

// browser is a browser without history.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: http.DefaultClient.Transport}
}

// read returns the status and text of a page.
func read(t *testing.T, resp *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text)
}

// agree opens all pages of a login, as a person does.
func agree(t *testing.T, b *http.Client, page, name string) {
	t.Helper()
	resp, err := b.Get(page)
	if status, text := read(t, resp, err); status != http.StatusOK || !strings.Contains(text, "for <b>"+name+"</b>") || !strings.Contains(text, "Log in at b") {
		t.Errorf("the page is %d %s", status, text)
	}
	resp, err = b.PostForm(page, nil)
	if status, text := read(t, resp, err); status != http.StatusOK || !strings.Contains(text, name+" is logged in at b") {
		t.Errorf("at the end the page is %d %s", status, text)
	}
}

// Each principal is asked once, with a page that names the principal; the calls of each use
// the tokens of its login, over sessions and connections that no other uses.
func TestEachPrincipalLogsIn(t *testing.T) {
	for _, revision := range []string{legacy, raw.Modern} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", revision, modern), func(t *testing.T) {
				t.Parallel()
				provider := newProvider(t)
				g := loginServer(t, provider)
				g.mcp.Modern = modern
				p := newPeople(t, provider, g, "alice", "bob")
				var all sync.WaitGroup
				var mu sync.Mutex
				tokens, asked := map[string]string{}, map[string]int{}
				for name := range p.tokens {
					all.Go(func() {
						open := func(page string) {
							mu.Lock()
							asked[name]++
							mu.Unlock()
							agree(t, browser(t), page, name)
						}
						for range 3 {
							c := p.as(t, name, revision, open)
							got, err := p.whoOf(t, c, open)
							mu.Lock()
							if before := tokens[name]; err != nil || !provider.good(got) || before != "" && before != got {
								t.Errorf("%s called with %q after %q, %v", name, got, before, err)
							}
							tokens[name] = got
							mu.Unlock()
						}
					})
				}
				all.Wait()
				if tokens["alice"] == tokens["bob"] || asked["alice"] != 1 || asked["bob"] != 1 {
					t.Errorf("tokens %v, asked %v", tokens, asked)
				}
				onlyOneEach(t, g)
			})
		}
	}
}

// onlyOneEach fails when a session with the backend, or a connection to it, was used with two
// credentials. Requests without a credential are not counted.
func onlyOneEach(t *testing.T, g *guarded) {
	t.Helper()
	seen := map[string]string{}
	for _, s := range g.seen("") {
		for _, key := range []string{"session " + s.session, "connection " + s.remote} {
			if s.authorization == "" || key == "session " {
				continue
			}
			if before, ok := seen[key]; ok && before != s.authorization {
				t.Errorf("one %s carries %q and %q", key, before, s.authorization)
			}
			seen[key] = s.authorization
		}
	}
}

// If the principal declines, the call fails with that reason, and the backend is not called.
func TestADeclinedLogin(t *testing.T) {
	provider := newProvider(t)
	p := newPeople(t, provider, loginServer(t, provider), "alice")
	for _, revision := range []string{legacy, raw.Modern} {
		_, err := p.whoOf(t, p.as(t, "alice", revision, nil), nil)
		if err == nil || !strings.Contains(err.Error(), "backend b: the login that the call needs was declined") || !strings.Contains(err.Error(), "denied") {
			t.Errorf("got %v", err)
		}
	}
	if n := len(p.backend.seen("tools/call")); n != 0 {
		t.Errorf("the backend was called %d times", n)
	}
}

// A client without elicitation gets an error with the URL of the page; a call after the login succeeds.
func TestAClientThatCannotBeAskedIsToldThePage(t *testing.T) {
	provider := newProvider(t)
	p := newPeople(t, provider, loginServer(t, provider), "alice")
	for _, revision := range []string{legacy, raw.Modern} {
		c := p.client(t, revision, p.tokens["alice"])
		_, err := who(t, c)
		if err == nil {
			continue // logged in by the one before
		}
		_, page, _ := strings.Cut(err.Error(), "alice has to log in at this backend: open ")
		page, _, ok := strings.Cut(page, " in a browser, and call again")
		if !ok {
			t.Fatalf("got %v", err)
		}
		agree(t, browser(t), page, "alice")
		if got, err := who(t, c); err != nil || !provider.good(got) {
			t.Errorf("after the login: %q, %v", got, err)
		}
	}
}

// The pages work only in the browser that agreed, once, and not for requests from other
// sites.
func TestALoginBelongsToItsBrowser(t *testing.T) {
	provider := newProvider(t)
	p := newPeople(t, provider, loginServer(t, provider), "alice", "mallory")
	_, err := who(t, p.client(t, legacy, p.tokens["alice"]))
	if err == nil {
		t.Fatal("there is a login already")
	}
	_, page, _ := strings.Cut(err.Error(), "open ")
	page, _, _ = strings.Cut(page, " ")

	// A page of another principal cannot agree.
	r, _ := http.NewRequest(http.MethodPost, page, nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", "https://evil.example")
	resp, err := http.DefaultClient.Do(r)
	if status, _ := read(t, resp, err); status != http.StatusForbidden {
		t.Errorf("a foreign page may agree: %d", status)
	}
	// Nor may it be shown in a frame of another site, or cached.
	resp, err = http.Get(page)
	if _, text := read(t, resp, err); resp.Header.Get("X-Frame-Options") != "DENY" || resp.Header.Get("Cache-Control") != "no-store" || strings.Contains(text, "alice@") {
		t.Errorf("headers %v", resp.Header)
	}
	for _, wrong := range []string{page + "x", strings.Replace(page, "/b?", "/c?", 1), strings.Replace(page, "id=", "", 1)} {
		resp, err := http.Get(wrong)
		if status, _ := read(t, resp, err); status != http.StatusNotFound {
			t.Errorf("%s is %d", wrong, status)
		}
	}

	// Mallory agrees on the page, and sends alice to the authorization server.
	mallory := browser(t)
	mallory.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err = mallory.PostForm(page, url.Values{})
	if status, _ := read(t, resp, err); status != http.StatusSeeOther {
		t.Fatalf("status %d", status)
	}
	to := resp.Header.Get("Location")
	resp, err = browser(t).Get(to)
	if status, text := read(t, resp, err); status != http.StatusBadRequest || !strings.Contains(text, "begun in another browser") {
		t.Errorf("another browser returns: %d %s", status, text)
	}
	// The browser that agreed may return, once.
	resp, err = mallory.Get(to)
	if status, _ := read(t, resp, err); status != http.StatusFound {
		t.Fatalf("status %d", status)
	}
	back := resp.Header.Get("Location")
	resp, err = mallory.Get(back)
	if status, text := read(t, resp, err); status != http.StatusOK {
		t.Errorf("the browser that agreed: %d %s", status, text)
	}
	resp, err = mallory.Get(back)
	if status, _ := read(t, resp, err); status != http.StatusBadRequest {
		t.Errorf("a second time: %d", status)
	}
}

// The requestState of a question is valid only for the principal who was asked.
func TestAnothersQuestionIsNoLogin(t *testing.T) {
	provider := newProvider(t)
	p := newPeople(t, provider, loginServer(t, provider), "alice", "bob")
	alice := p.as(t, "alice", raw.Modern, nil)
	result, err := alice.Call(t.Context(), "tools/call", `{"name":"who","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		RequestState  string
		InputRequests map[string]struct{ Params struct{ URL string } }
	}
	if err := json.Unmarshal(result, &r); err != nil || r.RequestState == "" {
		t.Fatalf("%s, %v", result, err)
	}
	agree(t, browser(t), r.InputRequests["login"].Params.URL, "alice")
	bob := p.as(t, "bob", raw.Modern, nil)
	result, err = bob.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":"who","arguments":{},"requestState":%q,"inputResponses":{"login":{"action":"accept"}}}`, r.RequestState))
	if err != nil || !strings.Contains(string(result), "input_required") {
		t.Errorf("bob uses the state of alice's question: %s, %v", result, err)
	}
	for _, broken := range []string{"vmcp.login.", "vmcp.login.!!", "vmcp.login.e30", r.RequestState + "x"} {
		result, err := bob.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":"who","arguments":{},"requestState":%q}`, broken))
		if err == nil && !strings.Contains(string(result), "input_required") {
			t.Errorf("state %q: %s", broken, result)
		}
	}
	if n := len(p.backend.seen("tools/call")); n != 0 {
		t.Errorf("the backend was called %d times", n)
	}
}

// A call that needs more scopes than a principal's login has asks the principal again, and is
// retried once.
func TestAPrincipalIsAskedForMoreScopes(t *testing.T) {
	for _, revision := range []string{legacy, raw.Modern} {
		provider := newProvider(t)
		p := newPeople(t, provider, scoped(t, provider, `Bearer error="insufficient_scope", scope="notes:write"`), "alice")
		asked := 0
		open := func(page string) {
			asked++
			agree(t, browser(t), page, "alice")
		}
		got, err := p.whoOf(t, p.as(t, "alice", revision, open), open)
		if err != nil || asked != 2 {
			t.Errorf("%s: %q, %v, asked %d times", revision, got, err, asked)
			continue
		}
		provider.mu.Lock()
		scope := provider.access[strings.TrimPrefix(got, "Bearer ")]
		provider.mu.Unlock()
		if !strings.Contains(scope, "notes:write") || !strings.Contains(scope, "notes ") && !strings.HasSuffix(scope, "notes") {
			t.Errorf("the login has the scopes %q", scope)
		}
	}
}
