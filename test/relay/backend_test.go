package relay

// The state of a backend session belongs to one client: tested with a raw backend that begins
// a session for each initialize, and raw clients.

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// waitTime bounds every wait of a test.
const waitTime = 2 * time.Minute

// backend is a Streamable HTTP server of revision 2025-11-25. Each session has a counter, a
// tool that it may enable, subscriptions, and a stream.
type backend struct {
	stateless bool // it issues no ids
	url       string

	mu       sync.Mutex
	sessions map[string]*state // by id
	opened   int
	deleted  int
}

type state struct {
	count   int
	enabled bool
	level   string
	uris    map[string]bool
	stream  chan string // frames for the GET stream; nil while there is none
}

func newBackend(t *testing.T) *backend {
	b := &backend{sessions: map[string]*state{}}
	s := httptest.NewServer(b)
	b.url = s.URL
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return b
}

// restart drops all sessions and breaks their streams.
func (b *backend) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.stream != nil {
			close(s.stream)
			s.stream = nil
		}
	}
	clear(b.sessions)
}

// all are the current sessions.
func (b *backend) all() []*state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.sessions))
}

// streams is the number of sessions with an open stream.
func (b *backend) streams() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.stream != nil {
			n++
		}
	}
	return n
}

// update notifies every session that has subscribed to the resource; it returns their number.
func (b *backend) update(uri string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.uris[uri] && s.stream != nil {
			s.stream <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
			n++
		}
	}
	return n
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	var m raw.Message
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	b.mu.Lock()
	s := b.sessions[id]
	switch {
	case m.Method == "server/discover":
		s = &state{}
	case b.stateless && r.Method == http.MethodPost:
		s = &state{}
	case m.Method == "initialize":
		s = &state{uris: map[string]bool{}}
		id = rand.Text()
		b.sessions[id] = s
		b.opened++
		w.Header().Set("Mcp-Session-Id", id)
	case r.Method == http.MethodDelete && s != nil:
		delete(b.sessions, id)
		b.deleted++
	}
	b.mu.Unlock()
	switch {
	case b.stateless && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case s == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	case r.Method == http.MethodGet:
		b.get(w, r, s)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		result, code := b.answer(s, &m)
		w.Header().Set("Content-Type", "application/json")
		if code != 0 {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, result)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

// get is the session's stream.
func (b *backend) get(w http.ResponseWriter, r *http.Request, s *state) {
	frames := make(chan string, 100)
	b.mu.Lock()
	s.stream = frames
	b.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	rc.Flush()
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", f)
			rc.Flush()
		case <-r.Context().Done():
			b.mu.Lock()
			if s.stream == frames {
				s.stream = nil
			}
			b.mu.Unlock()
			return
		}
	}
}

const schema = `"inputSchema":{"type":"object"}`

func (b *backend) answer(s *state, m *raw.Message) (result string, code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p struct {
		Name, URI, Level string
		Arguments        struct{ Times int }
	}
	json.Unmarshal(m.Params, &p)
	text := func(v any) string { return fmt.Sprintf(`{"content":[{"type":"text","text":"%v"}]}`, v) }
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"raw","version":"1"}}`, 0
	case "ping":
		return `{}`, 0
	case "tools/list":
		tools := `{"name":"count",` + schema + `},{"name":"enable",` + schema + `}`
		if s.enabled {
			tools += `,{"name":"secret",` + schema + `}`
		}
		return `{"tools":[` + tools + `]}`, 0
	case "resources/list":
		return `{"resources":[{"uri":"test://r","name":"r"}]}`, 0
	case "resources/templates/list":
		return `{"resourceTemplates":[]}`, 0
	case "logging/setLevel":
		s.level = p.Level
		return `{}`, 0
	case "resources/subscribe":
		s.uris[p.URI] = true
		return `{}`, 0
	case "resources/unsubscribe":
		delete(s.uris, p.URI)
		return `{}`, 0
	case "tools/call":
		switch {
		case p.Name == "count":
			s.count++
			return text(s.count), 0
		case p.Name == "enable":
			s.enabled = true
			for range max(1, p.Arguments.Times) {
				if s.stream != nil {
					s.stream <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
				}
			}
			return text("enabled"), 0
		case p.Name == "secret" && s.enabled:
			return text("hidden treasure"), 0
		}
		return "no tool " + p.Name, -32602
	}
	return "no method " + m.Method, -32601
}

// serve starts a proxy in front of a backend.
func serve(t *testing.T, cfg *config.Config) string {
	t.Helper()
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func one(b *backend) *config.Config {
	return &config.Config{Backends: []config.Backend{{Name: "b", URL: b.url}}}
}

// connect opens a client.
func connect(t *testing.T, url, revision, capabilities string) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: url + "/mcp", Revision: revision, Capabilities: capabilities}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// call returns the text of a tool's result.
func call(t *testing.T, c *raw.Client, tool string) (string, error) {
	result, err := c.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":%q}`, tool))
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 {
		t.Fatalf("%s: %s: %v", tool, result, err)
	}
	return r.Content[0].Text, nil
}

func must(t *testing.T, c *raw.Client, tool string) string {
	t.Helper()
	got, err := call(t, c, tool)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return got
}

// tools are the names of tools that are listed for a client.
func tools(t *testing.T, c *raw.Client) string {
	t.Helper()
	result, err := c.Call(t.Context(), "tools/list", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// listen opens a client's stream and returns a channel of the methods of its messages.
func listen(t *testing.T, c *raw.Client) <-chan string {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL, nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", c.Session())
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET: %v %v", res, err)
	}
	got := make(chan string, 100)
	go func() {
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			var m raw.Message
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil {
				got <- m.Method
			}
		}
	}()
	return got
}

// expect waits for a method on a stream.
func expect(t *testing.T, got <-chan string, method string) {
	t.Helper()
	late := time.After(waitTime)
	for {
		select {
		case m := <-got:
			if m == method {
				return
			}
		case <-late:
			t.Fatalf("no %s within %v", method, waitTime)
		}
	}
}
