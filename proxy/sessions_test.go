//go:build unix

package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// counters is a backend that counts for each of its sessions, until the session is deleted.
type counters struct {
	mu         sync.Mutex
	sessions   map[string]*counter // guarded by mu
	deleted    int                 // guarded by mu
	subscribed map[string]int      // by session; guarded by mu
}

type counter struct{ n int }

func (c *counters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	if r.Method == http.MethodDelete {
		delete(c.sessions, id)
		c.deleted++
		return
	}
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, _ := wire.Parse(body)
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case m.Method == wire.Initialize:
		id = fmt.Sprintf("backend-%d", len(c.sessions)+c.deleted+1)
		c.sessions[id] = &counter{}
		w.Header().Set("Mcp-Session-Id", id)
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"counters","version":"1"}}`)
	case m.Method == wire.Discover:
		w.WriteHeader(http.StatusBadRequest)
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
	case s == nil:
		w.WriteHeader(http.StatusNotFound)
	case m.Method == wire.ToolsList:
		answer(`{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}`)
	case m.Method == wire.ResourcesList:
		answer(`{"resources":[{"uri":"counter:x","name":"x"}]}`)
	case m.Method == wire.ToolsCall:
		s.n++
		answer(fmt.Sprintf(`{"content":[{"type":"text","text":"%s counts %d"}]}`, id, s.n))
	default:
		if m.Method == wire.Subscribe {
			c.subscribed[id]++
		}
		answer(`{}`)
	}
}

const (
	countText = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"count","arguments":{}}}`
	goneText  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"session not found: begin a new one with initialize"}}`
)

// TestSessionsOfReplicas: a session can be used at every replica: its owner serves it while alive, then the one that
// adopts it.
func TestSessionsOfReplicas(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	backend := &counters{sessions: map[string]*counter{}, subscribed: map[string]int{}}
	srv := httptest.NewServer(backend)
	defer srv.Close()
	file, token := tokens(t, "ann", "bob")
	cfg := config.Config{
		Backends:     []config.Backend{{Name: "b", URL: srv.URL}},
		IncomingAuth: config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}},
	}
	start := func() *replica { return startReplica(t, server, 'k', cfg) }
	a, b, c := start(), start(), start()
	for _, r := range []*replica{a, b, c} {
		r.sees(3)
	}
	open := func(at *replica, capabilities string) string {
		t.Helper()
		resp, body := ask(t, "POST", at.url, token["ann"], strings.Replace(greet, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
		id := resp.Header.Get("Mcp-Session-Id")
		if resp.StatusCode != 200 || id == "" || len(id) > 2048 {
			t.Fatalf("initialize: %d %s, id %q", resp.StatusCode, body, id)
		}
		ask(t, "POST", at.url, token["ann"], `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
		return id
	}
	use := func(at *replica, who, id, body string) (int, string) {
		t.Helper()
		resp, text := ask(t, "POST", at.url, token[who], body, "Mcp-Session-Id", id)
		return resp.StatusCode, text
	}
	counts := func(at *replica, id string, n int) {
		t.Helper()
		if status, body := use(at, "ann", id, countText); status != 200 || !strings.Contains(body, fmt.Sprintf("counts %d", n)) {
			t.Fatalf("call %d: %d %s", n, status, body)
		}
	}
	gone := func(at *replica, who, id string) {
		t.Helper()
		if status, body := use(at, who, id, countText); status != 404 || body != goneText {
			t.Errorf("%d %s, want 404 and\n%s", status, body, goneText)
		}
	}

	// Passed on to its owner.
	id := open(a, `{"elicitation":{}}`)
	for n, at := range []*replica{a, b, c, b, a} {
		counts(at, id, n+1)
	}
	if status, _ := use(b, "ann", id, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); status != 202 {
		t.Errorf("a notification at another replica: %d", status)
	}
	gone(b, "bob", id)
	gone(a, "bob", id)
	for _, body := range []string{`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`, `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"counter:x"}}`} {
		if status, text := use(c, "ann", id, body); status != 200 || strings.Contains(text, `"error":{`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}

	// DELETE at another one: over everywhere.
	short := open(a, `{}`)
	if resp, _ := ask(t, "DELETE", b.url, token["ann"], "", "Mcp-Session-Id", short); resp.StatusCode != 204 {
		t.Errorf("DELETE: %d", resp.StatusCode)
	}
	for _, at := range []*replica{a, b, c} {
		gone(at, "ann", short)
	}

	// Adopted: with what its backend keeps, its log level, its subscription and capabilities that are too large for an id.
	large := open(a, fmt.Sprintf(`{"elicitation":{},"experimental":{"x":{"y":%q}}}`, strings.Repeat("z", 4000)))
	idle := open(a, `{}`)
	forgotten := open(a, `{"roots":{}}`)
	counts(b, large, 1)
	counts(b, forgotten, 1)
	a.Close()
	b.sees(2)
	ended := func() int { backend.mu.Lock(); defer backend.mu.Unlock(); return backend.deleted }
	before := ended()
	stream := listenAt(t, c.url, token["ann"], id)
	counts(b, id, 6)
	counts(c, id, 7)
	counts(c, large, 2)
	stream.until(t, `"notifications/tools/list_changed"`)
	testkit.Eventually(t, "the subscription at the backend", func() bool {
		backend.mu.Lock()
		defer backend.mu.Unlock()
		return backend.subscribed["backend-2"]+backend.subscribed["backend-3"]+backend.subscribed["backend-4"] >= 2
	})
	if status, body := use(b, "ann", idle, pingText); status != 200 {
		t.Errorf("a session that has done nothing: %d %s", status, body)
	}
	gone(b, "bob", id)

	// Never an answer from a fresh state of a backend.
	backend.mu.Lock()
	for sid, s := range backend.sessions {
		if s.n == 1 {
			delete(backend.sessions, sid)
		}
	}
	backend.mu.Unlock()
	gone(c, "ann", forgotten)
	gone(b, "ann", forgotten)
	if n := ended() - before; n != 0 {
		t.Errorf("%d sessions were ended at the backend that go on elsewhere", n)
	}
}

// shellServer is a stdio backend with a tool.
const shellServer = `while read -r l; do
	id=$(printf %s "$l" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
	case "$l" in
	*'"initialize"'*) r='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
	*'"tools/list"'*) r='{"tools":[{"name":"own","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) r='{"content":[]}' ;;
	*'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}'; continue ;;
	*) r='{}' ;;
	esac
	[ -n "$id" ] && echo '{"jsonrpc":"2.0","id":'$id',"result":'"$r"'}'
done`

// TestAdoption: of many requests at two replicas one adopts a session. A session with a backend process cannot be
// adopted, and a stream continues with later events. Without the store nothing is adopted, and own sessions are served.
func TestAdoption(t *testing.T) {
	testmode.NeedThorough(t)
	if _, err := exec.LookPath("sed"); err != nil {
		t.Skip("there is no sed")
	}
	server := runstest.Start(t)
	backend := &counters{sessions: map[string]*counter{}, subscribed: map[string]int{}}
	srv := httptest.NewServer(backend)
	defer srv.Close()
	cfg := config.Config{Backends: []config.Backend{{Name: "b", URL: srv.URL}, {Name: "shell", Command: "sh", Args: []string{"-c", shellServer}}}}
	start := func() *replica { return startReplica(t, server, 'k', cfg) }
	a, b, c := start(), start(), start()
	for _, r := range []*replica{a, b, c} {
		r.sees(3)
	}
	open := func(at *replica, capabilities string) string {
		t.Helper()
		resp, body := ask(t, "POST", at.url, "", strings.Replace(greet, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
		if resp.StatusCode != 200 {
			t.Fatalf("initialize: %d %s", resp.StatusCode, body)
		}
		return resp.Header.Get("Mcp-Session-Id")
	}
	use := func(at *replica, id, body string) (int, string) {
		t.Helper()
		resp, text := ask(t, "POST", at.url, "", body, "Mcp-Session-Id", id)
		return resp.StatusCode, text
	}
	many, process, mine := open(a, `{}`), open(a, `{"elicitation":{}}`), open(b, `{}`)
	use(a, many, calling("b_count"))
	if status, body := use(a, process, calling("shell_own")); status != 200 || strings.Contains(body, "error") {
		t.Fatalf("a call of the process: %d %s", status, body)
	}
	listening := listenAt(t, c.url, "", many)
	a.Close()
	b.sees(2)
	c.sees(2)
	listening.ended()

	const each = 10
	var all sync.WaitGroup
	seen := make(chan string, 2*each)
	var serial atomic.Int64
	for range each {
		for _, at := range []*replica{b, c} {
			all.Go(func() {
				resp, body := ask(t, "POST", at.url, "", strings.Replace(calling("b_count"), `"id":7`, fmt.Sprintf(`"id":%d`, 100+serial.Add(1)), 1), "Mcp-Session-Id", many)
				if resp.StatusCode != 200 {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				seen <- body
			})
		}
	}
	all.Wait()
	close(seen)
	values := map[string]bool{}
	for body := range seen {
		_, n, _ := strings.Cut(body, "counts ")
		n, _, _ = strings.Cut(n, `"`)
		values[n] = true
	}
	if len(values) != 2*each || !values["2"] || !values[fmt.Sprint(2*each+1)] {
		t.Errorf("the backend counted %v", values)
	}
	adopted := 0
	for _, at := range []*replica{b, c} {
		_, page := ask(t, "GET", at.admin+"/metrics", "", "")
		if strings.Contains(page, "vmcp_sessions_adopted_total 1") {
			adopted++
		}
	}
	if adopted != 1 {
		t.Errorf("%d replicas have adopted a session, want one", adopted)
	}
	for _, at := range []*replica{b, c, b} {
		if status, body := use(at, process, countText); status != 404 || body != goneText {
			t.Errorf("a session with a process of its own: %d %s", status, body)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", b.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", many)
	r.Header.Set("Last-Event-ID", "g/41")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("a stream that ended with its replica: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}

	// A replica that ends gives its sessions away, and ends the streams that it has passed on.
	given, late := open(c, `{}`), open(c, `{}`)
	through := listenAt(t, c.url, "", mine)
	c.Drain()
	through.ended()
	if status, body := use(b, given, pingText); status != 200 {
		t.Errorf("a session that was given away: %d %s", status, body)
	}
	c.Close()
	b.sees(1)
	server.Down(t)
	defer server.Up(t) // it is stopped at the end
	if status, body := use(b, mine, pingText); status != 200 {
		t.Errorf("without the store, a session of one's own: %d %s", status, body)
	}
	if resp, body := ask(t, "POST", b.url, "", pingText, "Mcp-Session-Id", late); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("without the store, a session to be adopted: %d %s", resp.StatusCode, body)
	}
}

// calling is a call of a tool.
func calling(tool string) string { return strings.Replace(countText, `"count"`, `"`+tool+`"`, 1) }

// stream is the stream of a session.
type stream struct {
	lines chan string
}

func listenAt(t *testing.T, url, token, id string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Mcp-Session-Id", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("GET: %v %v", resp, err)
	}
	s := &stream{lines: make(chan string, 100)}
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	return s
}

// ended waits for the end of the stream.
func (s *stream) ended() {
	for range s.lines {
	}
}

// until reads events until one has a text.
func (s *stream) until(t *testing.T, text string) {
	t.Helper()
	for line := range s.lines {
		if strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("the stream ended without %s", text)
}
