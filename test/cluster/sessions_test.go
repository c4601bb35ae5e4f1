//go:build suites

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// session is a client with a session, initialized at a URL. It answers every question with the question's message and "!".
func session(t testing.TB, url string) *raw.Client {
	t.Helper()
	c := &raw.Client{URL: url, Revision: legacy, Capabilities: `{"elicitation":{}}`, Asked: agree}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		t.Fatalf("initialize at %s: %v", url, err)
	}
	return c
}

func agree(m raw.Message) string {
	var q struct{ Message string }
	_ = json.Unmarshal(m.Params, &q)
	return fmt.Sprintf(`{"action":"accept","content":{"a":%q}}`, q.Message+"!")
}

// lists makes one request of a session.
func lists(ctx context.Context, c *raw.Client) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	result, err := c.Call(ctx, "tools/list", `{}`)
	if err == nil && !strings.Contains(string(result), `"pay"`) {
		err = fmt.Errorf("tools/list: %.200s", result)
	}
	return err
}

// script runs a scripted tool for a session, and checks its result and effects.
func (w *world) script(ctx context.Context, c *raw.Client, kind, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*testTimeout)
	defer cancel()
	r := w.newRun("", kind, id)
	result, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"id":%q}}`, kind, id))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	a, err := read(result)
	if err != nil {
		return err
	}
	if err := r.ended(a); err != nil {
		return err
	}
	return r.check()
}

// post sends a body for a session to a replica, and returns status and body of the answer.
func post(t testing.TB, url, id, body string) (int, string) {
	t.Helper()
	return request(t, http.MethodPost, url, id, body)
}

func request(t testing.TB, method, url, id, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", legacy)
	r.Header["Mcp-Session-Id"] = []string{id}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// testSessions: sessions work behind a balancer without affinity, and one that was deleted at one replica is unknown at all.
func testSessions(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	for _, kept := range []bool{false, true} {
		b := w.balanced(kept, 0)
		for i := range 20 {
			if err := lists(t.Context(), session(t, b.URL)); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		}
		c := session(t, b.URL)
		if n := len(c.Session()); n == 0 || n > 2048 {
			t.Errorf("a session id of %d bytes", n)
		}
		for i := range 30 {
			if err := lists(t.Context(), c); err != nil {
				t.Errorf("request %d of one session: %v", i, err)
			}
		}
	}
	c := session(t, w.replicas[0].url())
	if code, body := request(t, http.MethodDelete, w.replicas[1].url(), c.Session(), ""); code/100 != 2 {
		t.Fatalf("DELETE at another replica: %d %s", code, body)
	}
	for i, r := range w.replicas {
		if code, body := post(t, r.url(), c.Session(), listing); code != http.StatusNotFound {
			t.Errorf("a deleted session at replica %d: %d %s", i, code, body)
		}
	}
	w.replicas[0].process.Kill() // the replica that deleted it is killed, and it stays deleted
	for _, r := range w.replicas[1:] {
		if code, body := post(t, r.url(), c.Session(), listing); code != http.StatusNotFound {
			t.Errorf("a deleted session after its owner was killed: %d %s", code, body)
		}
	}
}

// testSessionQuestions: scripts of clients with sessions ask, and the answers arrive at any replica.
func testSessionQuestions(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	b := w.balanced(false, 0)
	var all sync.WaitGroup
	for i := range 12 {
		kind := []string{"seq", "par", "nested", "reserves"}[i%4]
		c := session(t, b.URL)
		all.Go(func() {
			if err := w.script(t.Context(), c, kind, fmt.Sprintf("%s-%d", kind, i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// testLiveCalls: a backend with sessions asks in the middle of its call, which is pending at one replica. Clients of 2026-07-28 send
// the answer to any replica, and so do clients with sessions; the backend is called once.
func testLiveCalls(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	b := w.balanced(false, 0)
	var all sync.WaitGroup
	for i := range 12 {
		id := fmt.Sprintf("live-%d", i)
		all.Go(func() {
			var err error
			switch i % 4 {
			case 0, 1: // a script's call
				err = w.newRun(b.URL, "books", id).drive(t.Context())
			case 2:
				err = w.booksDirectly(t.Context(), b.URL, id+"/0")
			case 3:
				err = w.script(t.Context(), session(t, b.URL), "books", id)
			}
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
			for _, what := range []string{id + "/0 begun", id + "/0"} {
				if n := w.ledger.did(what); n != 1 {
					t.Errorf("%s: %d times", what, n)
				}
			}
		})
	}
	all.Wait()
}

// booksDirectly calls the tool of the backend that asks.
func (w *world) booksDirectly(ctx context.Context, url, what string) error {
	c := &raw.Client{URL: url, Revision: raw.Modern, Capabilities: `{"elicitation":{}}`}
	for more := ""; ; {
		result, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":"book","arguments":{"what":%q}%s}`, what, more))
		if err != nil {
			return err
		}
		a, err := read(result)
		if err != nil {
			return err
		}
		if a.ResultType != "input_required" {
			if want := fmt.Sprintf(`{"did":%q}`, what+"!"); string(a.StructuredContent) != want {
				return fmt.Errorf("result %s, want %s", result, want)
			}
			return nil
		}
		more = (&run{asked: map[string]bool{}, answered: map[string]bool{}}).next(a)
	}
}

// A stream is one of server-sent events.
type stream struct {
	body   io.ReadCloser
	events chan raw.Message // closed with the stream
}

// open opens a stream: the GET of a session, or the POST of a body.
func open(t testing.TB, method, url string, header http.Header, body string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %s %s", method, url, resp.Status, text)
	}
	s := &stream{resp.Body, make(chan raw.Message, 100)}
	go s.read()
	t.Cleanup(func() { resp.Body.Close() })
	return s
}

func (s *stream) read() {
	defer close(s.events)
	lines := bufio.NewScanner(s.body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m raw.Message
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && json.Unmarshal([]byte(data), &m) == nil {
			s.events <- m
		}
	}
}

// next waits for a notification.
func (s *stream) next(t testing.TB, method string) raw.Message {
	t.Helper()
	late := time.After(testTimeout)
	for {
		select {
		case m, ok := <-s.events:
			if !ok {
				t.Fatalf("the stream ended without %s", method)
			}
			if m.Method == method {
				return m
			}
		case <-late:
			t.Fatalf("no %s on the stream", method)
		}
	}
}

// listen opens the GET stream of a session at a replica.
func listen(t testing.TB, url, id string) *stream {
	t.Helper()
	return open(t, http.MethodGet, url, http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {legacy}}, "")
}

// subscribe opens a stream of subscriptions/listen for a resource.
func subscribe(t testing.TB, url, uri string) *stream {
	t.Helper()
	h := http.Header{"Mcp-Protocol-Version": {raw.Modern}, "Mcp-Method": {"subscriptions/listen"}}
	s := open(t, http.MethodPost, url, h, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[%q]},"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}}}`, uri, raw.Modern))
	s.next(t, "notifications/subscriptions/acknowledged")
	return s
}

const updated = "notifications/resources/updated"

// testStreams: one replica owns the session, its stream is opened at another, and it subscribes at a third: the update arrives,
// as it does on streams of clients of 2026-07-28 at each replica.
func testStreams(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	const note = "note://one"
	var all []*stream
	for a := range 3 {
		for b := range 3 {
			c := session(t, w.replicas[a].url())
			all = append(all, listen(t, w.replicas[b].url(), c.Session()))
			c.URL = w.replicas[(3-a-b+3)%3].url()
			if _, err := c.Call(t.Context(), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, note)); err != nil {
				t.Fatalf("session of %d, stream at %d: %v", a, b, err)
			}
		}
	}
	for _, r := range w.replicas {
		all = append(all, subscribe(t, r.url(), note))
	}
	w.ledger.touch(t.Context(), note)
	for i, s := range all {
		if m := s.next(t, updated); !strings.Contains(string(m.Params), note) {
			t.Errorf("stream %d: %s", i, m.Params)
		}
	}
}

// A visitor is a client that begins a new session when its session has ended, and retries calls until they are answered.
type visitor struct {
	w      *world
	url    string
	client *raw.Client // nil: it has no session
}

// run runs a scripted tool to its end, under an idempotency key.
func (v *visitor) run(ctx context.Context, kind, id string) (*run, error) {
	r := v.w.newRun(v.url, kind, id)
	params := fmt.Sprintf(`{"name":%q,"arguments":{"id":%q},"_meta":{"dev.vmcp/idempotencyKey":%q}}`, kind, id, id)
	for began := time.Now(); time.Since(began) < 2*testTimeout; <-time.After(20 * time.Millisecond) {
		result, err := v.call(ctx, params)
		if err != nil {
			continue
		}
		a, err := read(result)
		if err != nil {
			return r, err
		}
		r.name = a.Meta.Run.ID
		return r, r.ended(a)
	}
	return r, fmt.Errorf("%s: no end in %s", id, 2*testTimeout)
}

// call makes one call, with a new session where there is none.
func (v *visitor) call(ctx context.Context, params string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout/4)
	defer cancel()
	if v.client == nil {
		c := &raw.Client{URL: v.url, Revision: legacy, Capabilities: `{"elicitation":{}}`, Asked: agree}
		if err := c.Connect(ctx); err != nil {
			return nil, err
		}
		v.client = c
	}
	result, err := v.client.Call(ctx, "tools/call", params)
	if err != nil && strings.Contains(err.Error(), "404") {
		v.client = nil
	}
	return result, err
}
