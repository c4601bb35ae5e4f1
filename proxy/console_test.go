package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

const asking = `
def run(args):
    a = elicit("Ship " + args.get("what", "it") + "?", {"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]})
    return {"action": a.action, "content": a.content}
`

// console serves scripts, with the page and the API for operators.
func console(t *testing.T, cfg *config.Config) (*proxy.Proxy, string) {
	t.Helper()
	cfg.ScriptedTools = append(cfg.ScriptedTools, config.ScriptedTool{Name: "ask", Script: asking}, config.ScriptedTool{Name: "add", Script: "def run(args): return {\"sum\": args[\"a\"] + 1}"})
	p := proxy.New(proxy.Options{})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(srv.Close)
	return p, srv.URL
}

// api requests a document.
func api[T any](t *testing.T, url string) (document T) {
	t.Helper()
	resp, body := ask(t, "GET", url, "", "")
	if err := json.Unmarshal([]byte(body), &document); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %s %s: %v", url, resp.Status, body, err)
	}
	return document
}

// A call of an operator passes the same door as a client's: it is counted, its run is listed, and its question is
// answered by the next request with the state.
func TestACallOfAnOperator(t *testing.T) {
	_, url := console(t, &config.Config{})
	resp, body := ask(t, "POST", url+"/api/v1/tools/add/call", "", `{"arguments":{"a":9007199254740993}}`)
	if resp.StatusCode != 200 || !strings.Contains(body, `"structuredContent":{"sum":9007199254740994}`) {
		t.Fatalf("%s %s", resp.Status, body)
	}
	_, body = ask(t, "POST", url+"/api/v1/tools/ask/call", "", `{"arguments":{"what":"web"}}`)
	var first struct {
		ResultType, RequestState string
		InputRequests            map[string]struct{ Params struct{ Message string } }
	}
	if err := json.Unmarshal([]byte(body), &first); err != nil || first.ResultType != "input_required" || first.InputRequests["0"].Params.Message != "Ship web?" {
		t.Fatalf("%s: %v", body, err)
	}
	_, body = ask(t, "POST", url+"/api/v1/tools/ask/call", "", fmt.Sprintf(`{"arguments":{"what":"web"},"requestState":%q,"inputResponses":{"0":{"action":"accept","content":{"ship":true}}}}`, first.RequestState))
	if !strings.Contains(body, `"structuredContent":{"action":"accept","content":{"ship":true}}`) {
		t.Errorf("with the answer: %s", body)
	}
	runs := api[struct{ Runs []status.Run }](t, url+"/api/v1/runs").Runs
	if len(runs) != 2 || runs[0].Tool != "ask" || runs[0].State != "done" || runs[1].Tool != "add" || runs[0].Kept == runs[1].Kept {
		t.Errorf("runs: %+v", runs)
	}
	run := api[status.Run](t, url+"/api/v1/runs/"+runs[0].ID)
	if len(run.Steps) != 1 || run.Steps[0].Kind != "elicit" || run.Steps[0].Error != "" || run.Arguments != nil {
		t.Errorf("the run: %+v", run)
	}
	if _, metrics := ask(t, "GET", url+"/metrics", "", ""); !strings.Contains(metrics, `vmcp_script_runs_total{outcome="ok",tool="add"} 1`) {
		t.Errorf("metrics lack the run")
	}
}

// Concurrent calls of operators are bounded; more are refused at once, and accepted when others have ended.
func TestCallsOfOperatorsAreBounded(t *testing.T) {
	const most, more = 64, 6
	cfg := &config.Config{ScriptedTools: []config.ScriptedTool{{Name: "nap", Script: "def run(args): sleep(\"10m\")"}}}
	cfg.Limits.Runs = most + more
	cfg.Limits.Time = limits.Duration(time.Hour)
	_, url := console(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := make(chan string, most+more)
	var calls sync.WaitGroup
	for range most + more {
		calls.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", url+"/api/v1/tools/nap/call", strings.NewReader("{}"))
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err == nil { // the others are cancelled
				refused <- resp.Status
				resp.Body.Close()
			}
		})
	}
	for range more {
		if got := <-refused; got != "503 Service Unavailable" {
			t.Errorf("a call beyond %d: %s", most, got)
		}
	}
	cancel()
	calls.Wait()
	if len(refused) > 0 {
		t.Errorf("another call is answered: %s", <-refused)
	}
	testkit.Eventually(t, "room for a call", func() bool {
		resp, _ := ask(t, "POST", url+"/api/v1/tools/add/call", "", `{"arguments":{"a":1}}`)
		return resp.StatusCode == 200
	})
}

// A question of a kept run is answered once, with a valid answer.
func TestAnAnswerOfAnOperator(t *testing.T) {
	_, url := console(t, &config.Config{Admin: config.Admin{KeepValues: true}})
	ask(t, "POST", url+"/api/v1/tools/ask/call", "", `{"arguments":{"what":"web"}}`)
	run := api[status.Run](t, url+"/api/v1/runs/"+api[struct{ Runs []status.Run }](t, url+"/api/v1/runs").Runs[0].ID)
	if run.State != "waiting" || len(run.Questions) != 1 || run.Questions[0].Message != "Ship web?" || string(run.Arguments) != `{"what":"web"}` {
		t.Fatalf("%+v", run)
	}
	to := url + "/api/v1/runs/" + run.ID + "/answer"
	for _, tt := range []struct {
		body string
		want int
		text string
	}{
		{`{"key":"0","action":"maybe"}`, 400, "want accept, decline or cancel"},
		{`{"key":"0","action":"accept","content":{"ship":"yes"}}`, 400, "does not fit"},
		{`{"key":"7","action":"accept","content":{"ship":true}}`, 409, "no such open question"},
		{`{"key":"0","action":"accept","content":{"ship":true}}`, 204, ""},
	} {
		if resp, body := ask(t, "POST", to, "", tt.body); resp.StatusCode != tt.want || !strings.Contains(body, tt.text) {
			t.Errorf("%s: %s %s", tt.body, resp.Status, body)
		}
	}
	if resp, _ := ask(t, "POST", url+"/api/v1/runs/nobody/answer", "", `{"action":"cancel"}`); resp.StatusCode != 404 {
		t.Errorf("an answer to an unknown run: %s", resp.Status)
	}
	events := follow(t, url)
	for line := range events {
		if strings.Contains(line, run.ID) && strings.Contains(line, `"state":"done"`) {
			break
		}
	}
	if run := api[status.Run](t, url+"/api/v1/runs/"+run.ID); run.State != "done" || !strings.Contains(string(run.Result), `"ship":true`) {
		t.Errorf("%+v", run)
	}
}

// follow returns the lines of the event stream until the test ends.
func follow(t *testing.T, url string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/events", nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("events: %v %v", resp, err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// A configuration that was applied or refused makes an event, and so does a change of a backend.
func TestEventsOfTheConfiguration(t *testing.T) {
	testmode.Parallel(t)
	p, url := console(t, &config.Config{})
	events := follow(t, url)
	await := func(want string) {
		t.Helper()
		for line := range events {
			if strings.HasPrefix(line, "data: ") && strings.Contains(line, want) {
				return
			}
		}
		t.Fatalf("no event with %s", want)
	}
	await(`"generation":1`)
	p.Refused(fmt.Errorf("vmcp.yaml:3:1: error: no such field"))
	await(`"error":"vmcp.yaml:3:1: error: no such field"`)
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "gone", Command: "/nonexistent/server"}}}); err != nil {
		t.Fatal(err)
	}
	await(`"name":"gone","state":"down"`)
}

// An event stream is not a call: it ends when the endpoint drains, and does not delay the shutdown.
func TestEventsEndWithTheEndpoint(t *testing.T) {
	p, url := console(t, &config.Config{})
	events := follow(t, url)
	<-events
	p.Drain()
	for range events {
	}
	if resp, body := ask(t, "GET", url+"/api/v1/events", "", ""); resp.StatusCode != 503 {
		t.Errorf("a stream that begins then: %s %s", resp.Status, body)
	}
}

// Requests from another page, for another host, or in another form are refused.
func TestTheConsoleIsForThisPageOnly(t *testing.T) {
	_, url := console(t, &config.Config{})
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		want                     int
	}{
		{"a foreign host", "GET", "/api/v1/status", "", []string{"Host", "evil.example"}, 403},
		{"a foreign host, the page", "GET", "/tools", "", []string{"Host", "evil.example", "Accept", "text/html"}, 403},
		{"a foreign origin", "POST", "/api/v1/tools/add/call", `{}`, []string{"Origin", "https://evil.example"}, 403},
		{"a page of another port", "POST", "/api/v1/tools/add/call", `{}`, []string{"Origin", "http://localhost:3000"}, 403},
		{"another site", "POST", "/api/v1/tools/add/call", `{}`, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a preflight", "OPTIONS", "/api/v1/tools/add/call", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 403},
		{"a form", "POST", "/api/v1/tools/add/call", `{}`, []string{"Content-Type", "text/plain"}, 415},
		{"no JSON", "POST", "/api/v1/tools/add/call", `{`, nil, 400},
		{"a list", "POST", "/api/v1/tools/add/call", `[]`, nil, 400},
		{"another member", "POST", "/api/v1/tools/add/call", `{"args":{"a":1}}`, nil, 400},
		{"arguments that are no object", "POST", "/api/v1/tools/add/call", `{"arguments":5}`, nil, 400},
		{"arguments that are null", "POST", "/api/v1/tools/add/call", `{"arguments":null}`, nil, 400},
		{"a state that is no text", "POST", "/api/v1/tools/add/call", `{"requestState":5}`, nil, 400},
		{"two objects", "POST", "/api/v1/tools/add/call", `{"arguments":{"a":1}}{}`, nil, 400},
		{"an unknown tool", "POST", "/api/v1/tools/nobody/call", `{}`, nil, 404},
		{"nothing that is there", "POST", "/api/v1/tools/add", `{}`, nil, 404},
		{"a change", "DELETE", "/api/v1/runs/x", "", nil, 405},
		{"a page is read", "POST", "/tools", `{}`, []string{"Accept", "text/html"}, 405},
		{"no page", "GET", "/tools/nobody", "", []string{"Accept", "text/html"}, 404},
	} {
		resp, body := sayAs(t, tt.method, url+tt.path, tt.body, tt.headers...)
		if resp.StatusCode != tt.want || resp.Header.Get("Access-Control-Allow-Origin") != "" || len(body) < 10 || strings.Contains(body, "Go v") {
			t.Errorf("%s: %s %v, want %d: %s", tt.name, resp.Status, resp.Header, tt.want, body)
		}
	}
}

// sayAs is ask with a Host among the headers.
func sayAs(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	if len(headers) >= 2 && headers[0] == "Host" {
		r, _ := http.NewRequest(method, url, strings.NewReader(body))
		r.Host = headers[1]
		for i := 2; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text := make([]byte, 1<<16)
		n, _ := resp.Body.Read(text)
		return resp, string(text[:n])
	}
	return ask(t, method, url, "", body, headers...)
}

// admin.listen moves the page and the API away, page: false leaves the API, tryTools: false leaves what is only read.
func TestWhereTheConsoleIs(t *testing.T) {
	html := []string{"Accept", "text/html"}
	p, url := console(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0"}})
	apart := httptest.NewServer(p.AdminHandler())
	t.Cleanup(apart.Close)
	for _, path := range []string{"/tools", "/runs", "/problems", "/assets/x", "/favicon.ico", "/api/v1/status", "/api/v1/events", "/metrics", "/readyz?tools"} {
		if resp, body := ask(t, "GET", url+path, "", "", html...); resp.StatusCode != 404 || !strings.Contains(body, "not on this port") {
			t.Errorf("%s on the clients' port: %s %s", path, resp.Status, body)
		}
	}
	for _, path := range []string{"/", "/tools", "/runs", "/problems", "/favicon.ico", "/api/v1/status", "/metrics", "/readyz?tools"} {
		if resp, body := ask(t, "GET", apart.URL+path, "", "", html...); resp.StatusCode != 200 {
			t.Errorf("%s on the port for operators: %s %s", path, resp.Status, body)
		}
	}
	if resp, body := ask(t, "GET", url+"/", "", "", html...); resp.StatusCode != 200 || !strings.Contains(body, `"endpoint":"/mcp"`) {
		t.Errorf("/ on the clients' port: %s %s", resp.Status, body)
	}
	if resp, body := ask(t, "GET", url+"/healthz", "", ""); resp.StatusCode != 200 {
		t.Errorf("/healthz on the clients' port: %s %s", resp.Status, body)
	}

	no := false
	_, url = console(t, &config.Config{Admin: config.Admin{Page: &no, TryTools: &no}})
	if resp, _ := ask(t, "GET", url+"/tools", "", "", html...); resp.StatusCode != 404 {
		t.Errorf("a page that is switched off: %s", resp.Status)
	}
	if resp, body := ask(t, "POST", url+"/api/v1/tools/add/call", "", `{}`); resp.StatusCode != 403 || !strings.Contains(body, "admin.tryTools") {
		t.Errorf("calls that are switched off: %s %s", resp.Status, body)
	}
	api[status.Status](t, url+"/api/v1/status")
}

// A browser logs in with the token, from the page that it requested, and then gets it.
func TestTheLoginOfABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-long-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := console(t, &config.Config{Admin: config.Admin{Listen: "127.0.0.1:0", TokenFile: file}})
	srv := httptest.NewServer(p.AdminHandler())
	t.Cleanup(srv.Close)
	resp, body := ask(t, "GET", srv.URL+"/tools", "", "", "Accept", "text/html")
	if resp.StatusCode != 401 || !strings.Contains(body, `name="token"`) || !strings.Contains(body, `name="to" value="/tools"`) || strings.Contains(body, "add") && strings.Contains(body, "data-tool") {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if resp, body := ask(t, "GET", srv.URL+"/api/v1/tools", "", ""); resp.StatusCode != 401 || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") || !strings.HasPrefix(body, `{"error"`) {
		t.Errorf("the API: %s %s", resp.Status, body)
	}
	browser := &http.Client{Transport: http.DefaultClient.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for to, want := range map[string]string{"/tools": "/tools", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/"} {
		login, err := browser.PostForm(srv.URL+"/login", map[string][]string{"token": {"a-long-token"}, "to": {to}})
		if err != nil || login.StatusCode != 303 || login.Header.Get("Location") != want || len(login.Cookies()) != 1 {
			t.Fatalf("login to %s: %v %v", to, login, err)
		}
		if resp, body := ask(t, "GET", srv.URL+"/tools", "", "", "Accept", "text/html", "Cookie", login.Cookies()[0].String()); resp.StatusCode != 200 || !strings.Contains(body, "data-tool") {
			t.Errorf("logged in: %s", resp.Status)
		}
	}
}
