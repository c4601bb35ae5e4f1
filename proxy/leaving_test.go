package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"

	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// A slow backend has a session for each client; calls of its tools act and see block until the test releases them.
type slow struct {
	underWay, end chan struct{}

	mu          sync.Mutex
	acted, then int
}

func newSlow() *slow { return &slow{underWay: make(chan struct{}, 8), end: make(chan struct{})} }

// serve is the URL of the backend, whose tool is called after act.
func (b *slow) serve(t *testing.T, hints mcp.ToolAnnotations) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	for name, hints := range map[string]mcp.ToolAnnotations{"act": hints, "see": {ReadOnlyHint: true}} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
			b.mu.Lock()
			b.acted++
			b.mu.Unlock()
			b.underWay <- struct{}{}
			<-b.end
			return nil, map[string]string{"did": "it"}, nil
		})
	}
	mcp.AddTool(s, &mcp.Tool{Name: "then"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.then++
		return nil, map[string]string{"did": "more"}, nil
	})
	return backendtest.HTTP(t, s, true)
}

func (b *slow) counts() (acted, then int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acted, b.then
}

// deleted ends a session as its client does.
func deleted(t *testing.T, url, id string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "DELETE", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE: %s", resp.Status)
	}
}

// shows waits until a metric has a value.
func shows(t *testing.T, url, name, value string) {
	t.Helper()
	for metric(t, url, name) != value {
		if err := context.Cause(t.Context()); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// TestASessionThatEndsInACall: the client of a run ends its session during a call of the run to a backend with private
// sessions. The call ends as usual, and the next request resumes the run.
func TestASessionThatEndsInACall(t *testing.T) {
	for name, hints := range map[string]mcp.ToolAnnotations{"once": {}, "idempotent": {IdempotentHint: true}} {
		for _, onDisconnect := range []string{"pause", "continue"} {
			t.Run(fmt.Sprint(name, " ", onDisconnect), func(t *testing.T) {
				b := newSlow()
				_, kept, url := startKept(t, "def run(params):\n    call_tool(\"act\")\n    return call_tool(\"then\")\n", func(c *config.Config) {
					c.Backends = []config.Backend{{Name: "slow", URL: b.serve(t, hints)}}
					c.Runs.OnDisconnect = onDisconnect
				})
				call := &mcp.CallToolParams{Meta: mcp.Meta{"dev.vmcp/idempotencyKey": "k"}, Name: "asking"}
				first := connect(t, url, "2025-11-25", nil)
				left := make(chan error, 1)
				go func() {
					_, err := first.CallTool(t.Context(), call)
					left <- err
				}()
				<-b.underWay
				deleted(t, url, first.ID())
				<-left
				if list, _, err := kept.List(t.Context(), durablepkg.Filter{}); err != nil || len(list) != 1 || list[0].State != durablepkg.Running {
					t.Errorf("while the call is under way the run is %+v, %v; want it running", list, err)
				}
				close(b.end)
				second := connect(t, url, "2025-11-25", nil)
				r, err := second.CallTool(t.Context(), call)
				if got := fmt.Sprint(r, err); err != nil || r.IsError || !strings.Contains(got, "more") && !strings.Contains(fmt.Sprint(r.StructuredContent), "more") {
					t.Errorf("who asks for the run has %+v, %v", r, err)
				}
				if acted, then := b.counts(); acted != 1 || then != 1 {
					t.Errorf("the tools were called %d and %d times, want once each", acted, then)
				}
				second.Close()
				shows(t, url, `vmcp_backend_sessions{backend="slow"}`, "0") // nothing is left of what was the clients'
			})
		}
	}
}

// TestAClientThatCancels: without a database a run ends with its client, which cancels its request or disconnects, and so does the
// backend's call. One whose request has an idempotency key is paused after that call, and resumed by the same request.
func TestAClientThatCancels(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for key, want := range map[string]durablepkg.State{"": durablepkg.Cancelled, "k": durablepkg.Paused} {
			t.Run(revision+" "+key, func(t *testing.T) {
				underWay, cancelled, end, later := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}), atomic.Int32{}
				s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
				mcp.AddTool(s, &mcp.Tool{Name: "act"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, map[string]string, error) {
					underWay <- struct{}{}
					select {
					case <-ctx.Done():
						close(cancelled)
					case <-end:
					}
					return nil, map[string]string{"did": "it"}, nil
				})
				mcp.AddTool(s, &mcp.Tool{Name: "then"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
					later.Add(1)
					return nil, map[string]string{"did": "more"}, nil
				})
				_, _, url := startKept(t, "def run(params):\n    call_tool(\"act\")\n    return call_tool(\"then\")\n", func(c *config.Config) {
					c.Backends = []config.Backend{{Name: "slow", URL: backendtest.HTTP(t, s, true)}}
					c.SessionStorage.Provider = config.StorageMemory
				})
				call := &mcp.CallToolParams{Name: "asking"}
				if key != "" {
					call.Meta = mcp.Meta{"dev.vmcp/idempotencyKey": key}
				}
				client := connect(t, url, revision, nil)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-underWay; cancel() }()
				if r, err := client.CallTool(ctx, call); err == nil {
					t.Errorf("who cancels has %+v", r)
				}
				if key == "" {
					<-cancelled
				}
				shows(t, url, `vmcp_requests_running{method="tools/call"}`, "0")
				close(end)
				shows(t, url, fmt.Sprintf(`vmcp_runs{state=%q}`, want), "1")
				if later.Load() != 0 {
					t.Error("the next tool was called")
				}
				if key == "" {
					return
				}
				if r, err := client.CallTool(t.Context(), call); err != nil || r.IsError || later.Load() != 1 {
					t.Errorf("the same request has %+v, %v; the next tool was called %d times", r, err, later.Load())
				}
			})
		}
	}
}

// TestCutCallsAreAnswered: what still runs when the time of the drain is over is broken off. A client with a session gets an
// error: one that only lost its stream would wait for an answer. A kept run is left to the next process.
func TestCutCallsAreAnswered(t *testing.T) {
	for _, tool := range []string{"asking", "slow_act"} {
		t.Run(tool, func(t *testing.T) {
			b := newSlow()
			_, kept, url, p := startKeptProxy(t, "def run(params):\n    call_tool(\"slow.act\")\n    return call_tool(\"slow.act\")\n", func(c *config.Config) {
				c.Backends = append(c.Backends, config.Backend{Name: "slow", URL: b.serve(t, mcp.ToolAnnotations{})})
			})
			s := connect(t, url, "2025-11-25", nil)
			answered := make(chan string, 1)
			go func() {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
				answered <- fmt.Sprint(r, err)
			}()
			<-b.underWay
			p.Drain()
			p.Cut()
			if got := <-answered; !strings.Contains(got, "the server is shutting down") {
				t.Errorf("the client has %s", got)
			}
			close(b.end)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			list, _, err := kept.List(t.Context(), durablepkg.Filter{})
			if err != nil || tool == "asking" && (len(list) != 1 || list[0].State != durablepkg.Running) {
				t.Errorf("the runs are %+v, %v", list, err)
			}
		})
	}
}

// TestABackendThatWasAwayForAReload: a configuration without a backend was applied for a moment during a call of a run.
// The run finds the backend of the current configuration, as after a restart.
func TestABackendThatWasAwayForAReload(t *testing.T) {
	b, later := newSlow(), newSlow()
	close(later.end)
	var cfg config.Config
	_, _, url, p := startKeptProxy(t, "def run(params):\n    call_tool(\"slow.act\")\n    return call_tool(\"later.then\")\n", func(c *config.Config) {
		c.Backends = []config.Backend{{Name: "slow", URL: b.serve(t, mcp.ToolAnnotations{})}, {Name: "later", URL: later.serve(t, mcp.ToolAnnotations{})}}
		cfg = *c
	})
	answered := make(chan string, 1)
	go func() {
		result, failure := modernCall(t, url, "asking", "")
		answered <- string(result) + string(failure)
	}()
	<-b.underWay
	for _, backends := range [][]config.Backend{cfg.Backends[:1], cfg.Backends} {
		next := cfg
		next.Backends = backends
		if err := errors.Join(p.Apply(&next), p.Settled(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	close(b.end)
	if got := <-answered; !strings.Contains(got, `"did":"more"`) {
		t.Errorf("the run has %s", got)
	}
}

// TestBackendsThatEndBesideTheProcess: backends may be stopped together with this process, during the drain time. A run
// whose call was lost then, or could not be made, is resumed by the next process; the client of one that is not kept,
// which has done nothing, is told to send the request again.
func TestBackendsThatEndBesideTheProcess(t *testing.T) {
	for _, tt := range []struct{ name, act, then, want string }{
		{"lost", "slow.act", "till.put", "input_required"},
		{"not made", "slow.act", "till.pay", "input_required"},
		{"not kept", "slow.see", "till.look", "the server is shutting down, and the run ended with it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newSlow()
			c, kept, url, p := startKeptProxy(t, fmt.Sprintf("def run(params):\n    call_tool(%q)\n    return call_tool(%q)\n", tt.act, tt.then), func(cfg *config.Config) {
				cfg.Backends = append(cfg.Backends, config.Backend{Name: "slow", URL: b.serve(t, mcp.ToolAnnotations{})})
			})
			answered := make(chan string, 1)
			go func() {
				result, failure := modernCall(t, url, "asking", "")
				answered <- string(result) + string(failure)
			}()
			<-b.underWay
			p.Drain()
			c.broken.Store(tt.name == "lost")
			c.refuses.Store(tt.name != "lost")
			close(b.end)
			if got := <-answered; !strings.Contains(got, tt.want) {
				t.Errorf("the client has %s, want %q", got, tt.want)
			}
			list, _, err := kept.List(t.Context(), durablepkg.Filter{})
			if err != nil || len(list) > 1 || len(list) == 0 != (tt.name == "not kept") || len(list) == 1 && list[0].State != durablepkg.Running {
				t.Errorf("the runs are %+v, %v", list, err)
			}
		})
	}
}
