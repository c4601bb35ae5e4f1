package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// heard are the notifications of a client, in order.
type heard struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (h *heard) note(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, event)
}

func (h *heard) count(event string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		if e == event {
			n++
		}
	}
	return n
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.all)
}

// read records the notifications of a stream of events.
func (h *heard) read(t *testing.T, r *http.Request, token string, begun chan<- struct{}) {
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		close(begun)
		return
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%s %s instead of a stream", resp.Status, resp.Header.Get("Content-Type"))
	}
	if r.Method == "GET" {
		close(begun)
	}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		if !ok {
			continue
		}
		event := strings.TrimPrefix(jsonscan.GetString([]byte(data), "method"), "notifications/")
		if event == "subscriptions/acknowledged" {
			close(begun)
		}
		h.note(strings.TrimSpace(event + " " + jsonscan.GetString(jsonscan.Get([]byte(data), "params"), "uri")))
	}
}

// listens opens the stream of a session, or a subscriptions/listen stream for all lists and these resources.
func (v *visitor) listens(uris ...string) *heard {
	v.o.t.Helper()
	h := &heard{}
	r, _ := http.NewRequestWithContext(v.o.t.Context(), "GET", v.o.url, nil)
	if v.session == "" {
		var quoted []string
		for _, u := range uris {
			quoted = append(quoted, fmt.Sprintf("%q", u))
		}
		body := `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[` + strings.Join(quoted, ",") + `]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		r, _ = http.NewRequestWithContext(v.o.t.Context(), "POST", v.o.url, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "subscriptions/listen")
	} else {
		r.Header.Set("Mcp-Session-Id", v.session)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	begun := make(chan struct{})
	go h.read(v.o.t, r, v.o.token[v.who], begun)
	<-begun
	for _, u := range uris {
		if v.session != "" {
			if r := v.ask("resources/subscribe", fmt.Sprintf(`{"uri":%q}`, u)); r.result() == nil {
				v.o.t.Fatalf("%s subscribes to %s: %v", v.who, u, r)
			}
		}
	}
	return h
}

// changing is a backend whose lists change, and whose resources are updated.
func changing(t *testing.T) (*mcp.Server, string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "changing", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for _, name := range []string{"read", "hidden"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, noop)
	}
	addPrompt(s, "p0")
	for _, uri := range []string{"test://a", "test://b"} {
		s.AddResource(&mcp.Resource{Name: "r", URI: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		})
	}
	return s, sdkBackend(t, s, false)
}

func addPrompt(s *mcp.Server, name string) {
	s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
}

// Clients are notified of lists that differ for them, and of updates of resources that they may read at that moment.
func TestNotificationsTellNothingHidden(t *testing.T) {
	testmode.Parallel(t)
	s, url := changing(t)
	o := &office{t: t, out: &testkit.Buffer{}, token: map[string]string{}}
	backends := fmt.Sprintf("backends:\n  - {name: c, url: %q, sessions: shared}\n", url)
	const rules = `
allow:
  - {name: dev, groups: [dev], tools: ["*"], prompts: ["*"], resources: ["*"]}
  - {name: all, tools: ["c.read"], prompts: ["*"], resources: ["c.%s"]}
`
	o.serve(backends, fmt.Sprintf(rules, "test://a"), "")
	alice := []*heard{o.session("alice").listens("test://a", "test://b"), o.stateless("alice").listens("test://a", "test://b")}
	bob := []*heard{o.session("bob").listens("test://a"), o.stateless("bob").listens("test://a", "test://b")}
	everybody := slices.Concat(alice, bob)
	marks := 0
	mark := func() { // what comes before it has arrived when it has
		t.Helper()
		marks++
		addPrompt(s, fmt.Sprintf("p%d", marks))
		comesTrue(t, func() bool {
			return !slices.ContainsFunc(everybody, func(h *heard) bool { return h.count("prompts/list_changed") < marks })
		})
	}
	count := func(what, event string, ofAlice, ofBob int) {
		t.Helper()
		for i := range alice {
			if a, b := alice[i].count(event), bob[i].count(event); a != ofAlice || b != ofBob {
				t.Errorf("%s: alice was told %d times of %s, bob %d times; want %d and %d\n%v\n%v", what, a, event, b, ofAlice, ofBob, alice[i], bob[i])
			}
		}
	}
	updated := func(uri string) {
		t.Helper()
		if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}

	mcp.AddTool(s, &mcp.Tool{Name: "hidden", Description: "other"}, noop)
	comesTrue(t, func() bool {
		return alice[0].count("tools/list_changed") == 1 && alice[1].count("tools/list_changed") == 1
	})
	mark()
	count("a hidden tool changes", "tools/list_changed", 1, 0)
	mcp.AddTool(s, &mcp.Tool{Name: "read", Description: "other"}, noop)
	comesTrue(t, func() bool { return bob[0].count("tools/list_changed") == 1 && bob[1].count("tools/list_changed") == 1 })
	mark()
	count("a tool of everybody changes", "tools/list_changed", 2, 1)

	updated("test://a")
	updated("test://b")
	comesTrue(t, func() bool {
		return alice[0].count("resources/updated test://b") == 1 && alice[1].count("resources/updated test://b") == 1
	})
	mark()
	count("a resource of everybody is updated", "resources/updated test://a", 1, 1)
	count("a hidden resource is updated", "resources/updated test://b", 1, 0)

	text, _ := os.ReadFile(o.file)
	before, _, _ := strings.Cut(string(text), "incomingAuth:")
	o.write(before, fmt.Sprintf(rules, "test://x"), "")
	if err := o.apply(); err != nil {
		t.Fatal(err)
	}
	comesTrue(t, func() bool {
		return bob[0].count("resources/list_changed") == 1 && bob[1].count("resources/list_changed") == 1
	})
	count("bob loses a resource", "resources/list_changed", 0, 1)
	count("bob loses a resource", "tools/list_changed", 2, 1)
	updated("test://a")
	comesTrue(t, func() bool {
		return alice[0].count("resources/updated test://a") == 2 && alice[1].count("resources/updated test://a") == 2
	})
	mark()
	count("a resource is updated that bob has lost", "resources/updated test://a", 2, 1)
}
