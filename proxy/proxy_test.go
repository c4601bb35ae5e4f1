package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

// sdkBackend serves an SDK server over Streamable HTTP: stateless ones speak 2026-07-28.
func sdkBackend(t *testing.T, s *mcp.Server, stateless bool) string {
	t.Helper()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: true})
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// start runs a proxy over a configuration and returns the address of its endpoint. It
// waits until every backend is ready.
func start(t *testing.T, cfg *config.Config) (*proxy.Proxy, string) {
	t.Helper()
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Version: "test"})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		srv.Close()
	})
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil || !p.Status().Ready {
		t.Fatalf("not every backend is ready: %+v, %v", p.Status().Backends, err)
	}
	return p, srv.URL + "/mcp"
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// connect opens an SDK client session of one revision.
func connect(t *testing.T, url, revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect with %s: %v", revision, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func text(t *testing.T, r *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, c.(*mcp.TextContent).Text)
	}
	return strings.Join(parts, "\n")
}

type echoArgs struct {
	Text string `json:"text"`
}

func echoServer(name string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "says it again"}, func(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + ": " + a.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
		if r.ProtocolVersion() >= "2026-07-28" {
			return askModern(r, a)
		}
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: a.Text})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %v", res.Action, res.Content["answer"])}}}, nil, nil
	})
	return s
}

func askModern(r *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
	if in, ok := r.Params.InputResponses["q"]; ok {
		res := in.(*mcp.ElicitResult)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %v", res.Action, res.Content["answer"])}}}, nil, nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: a.Text}}, RequestState: "s"}, nil, nil
}

func askedBy(seen *atomic.Int32) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		seen.Add(1)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "to " + r.Params.Message}}, nil
	}}
}

// TestEveryCell calls and asks through the proxy in every pair of revisions.
func TestEveryCell(t *testing.T) {
	for _, client := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		for _, stateless := range []bool{false, true} {
			t.Run(fmt.Sprintf("client %s stateless backend %v", client, stateless), func(t *testing.T) {
				_, url := start(t, &config.Config{Backends: []config.Backend{
					{Name: "one", URL: sdkBackend(t, echoServer("one"), stateless)},
					{Name: "two", URL: sdkBackend(t, echoServer("two"), stateless)},
				}})
				var asked atomic.Int32
				s := connect(t, url, client, askedBy(&asked))
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "two_echo", Arguments: echoArgs{"hi"}})
				if got := text(t, r, err); got != "two: hi" {
					t.Errorf("two_echo: %q", got)
				}
				if client < "2025-06-18" {
					return // has no elicitation
				}
				r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "one_ask", Arguments: echoArgs{"why"}})
				if got := text(t, r, err); got != "accept to why" || asked.Load() != 1 {
					t.Errorf("one_ask: %q, asked %d times", got, asked.Load())
				}
			})
		}
	}
}

func TestScriptedTool(t *testing.T) {
	cfg := &config.Config{
		Backends: []config.Backend{
			{Name: "one", URL: sdkBackend(t, echoServer("one"), false)},
			{Name: "two", URL: sdkBackend(t, echoServer("two"), true)},
		},
		ScriptedTools: []config.ScriptedTool{
			{Name: "both", Description: "asks both", Script: `
def run(params):
    return {"said": [call_tool(n, {"text": params["text"]})["text"] for n in ["one_echo", "two.echo"]]}
`},
			{Name: "broken", Description: "fails", Script: "def run(params):\n    return call_tool('one_ecko', {})\n"},
		},
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		_, url := start(t, cfg)
		s := connect(t, url, revision, nil)
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "both", Arguments: echoArgs{"hi"}})
		if got, want := text(t, r, err), `{"said":["one: hi","two: hi"]}`; got != want {
			t.Errorf("text %s, want %s", got, want)
		}
		structured, _ := json.Marshal(r.StructuredContent)
		if got, want := string(structured), `{"said":["one: hi","two: hi"]}`; got != want {
			t.Errorf("structured %s, want %s", got, want)
		}
		r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "broken"})
		if got := text(t, r, err); !r.IsError || !strings.Contains(got, "broken.star:2:21") || !strings.Contains(got, `did you mean "one_echo"?`) {
			t.Errorf("broken: isError %v: %s", r.IsError, got)
		}
	}
}

func TestListChangedReachesEveryRevision(t *testing.T) {
	testmode.Parallel(t)
	for _, client := range []string{"2025-11-25", "2026-07-28"} {
		for _, stateless := range []bool{false, true} {
			t.Run(fmt.Sprintf("client %s stateless backend %v", client, stateless), func(t *testing.T) {
				backend := echoServer("one")
				_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "one", URL: sdkBackend(t, backend, stateless)}}})
				changed := make(chan struct{}, 8)
				s := connect(t, url, client, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
				mcp.AddTool(backend, &mcp.Tool{Name: "late"}, func(context.Context, *mcp.CallToolRequest, echoArgs) (*mcp.CallToolResult, any, error) {
					return &mcp.CallToolResult{}, nil, nil
				})
				for n := 0; n != 3; { // a notification of what was there before may come first
					select {
					case <-changed:
					case <-time.After(time.Minute):
						t.Fatalf("no tools/list_changed after the change: %d tools", n)
					}
					tools, err := s.ListTools(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					n = len(tools.Tools)
				}
			})
		}
	}
}

// slowBackend has a tool that reports progress and then waits until it is released.
func slowBackend(t *testing.T, release <-chan struct{}) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "work"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "worked"}}}, nil, nil
	})
	return sdkBackend(t, s, false)
}

// TestRootsThatChange: a backend is notified that a client's roots have changed, and requests them while no call is
// running.
func TestRootsThatChange(t *testing.T) {
	seen := make(chan string, 8)
	backend := mcp.NewServer(&mcp.Implementation{Name: "rooted", Version: "1"}, &mcp.ServerOptions{
		RootsListChangedHandler: func(ctx context.Context, r *mcp.RootsListChangedRequest) {
			res, err := r.Session.ListRoots(ctx, nil)
			if err != nil {
				seen <- err.Error()
				return
			}
			seen <- fmt.Sprint(len(res.Roots), " ", res.Roots[len(res.Roots)-1].URI)
		},
	})
	mcp.AddTool(backend, &mcp.Tool{Name: "hello"}, noop)
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "rooted", URL: sdkBackend(t, backend, false)}}})
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	c.AddRoots(&mcp.Root{URI: "file:///a"})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"}); err != nil {
		t.Fatal(err)
	}
	c.AddRoots(&mcp.Root{URI: "file:///b"})
	select {
	case got := <-seen:
		if got != "2 file:///b" {
			t.Errorf("the backend got %q", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the backend was not told")
	}
}
