//go:build suites

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// A ledger records the effects at the backends, which outlive every replica.
type ledger struct {
	mu    sync.Mutex
	times map[string]int  // how often something was done, by what
	keys  map[string]bool // idempotency keys that were honoured
	slow  time.Duration   // of each effect
	notes *mcp.Server
	gate  chan struct{} // nil: open. Calls of the bank wait until it is closed
	calls int           // of the bank, under way
}

type thing struct {
	What string `json:"what"`
}

func (l *ledger) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[what]++
}

// countOnce counts a call of a tool that honours idempotency keys.
func (l *ledger) countOnce(what, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.keys[key] {
		l.keys[key] = true
		l.times[what]++
	}
}

func (l *ledger) did(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[what]
}

// pause sleeps for a short random time, so that kills also hit before and after an effect.
func (l *ledger) pause() { <-time.After(l.slow) }

// shut blocks calls of the bank until the returned function is called.
func (l *ledger) shut(t testing.TB) (open func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gate := make(chan struct{})
	l.gate, open = gate, sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return open
}

// enter waits until the gate is open.
func (l *ledger) enter(ctx context.Context) {
	l.mu.Lock()
	gate := l.gate
	l.calls++
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
}

// inside is the number of calls that wait for the gate.
func (l *ledger) inside() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// bank serves tools without sessions: pay, which counts each call, put, which honours idempotency keys, and look, which only
// reads.
func (l *ledger) bank(t testing.TB) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	add := func(name string, hints mcp.ToolAnnotations, do func(what, key string)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(ctx context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			l.enter(ctx)
			l.pause()
			do(in.What, fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"]))
			l.pause()
			return nil, map[string]string{"did": in.What}, nil
		})
	}
	add("pay", mcp.ToolAnnotations{}, func(what, _ string) { l.count(what) })
	add("put", mcp.ToolAnnotations{IdempotentHint: true}, l.countOnce)
	add("look", mcp.ToolAnnotations{ReadOnlyHint: true}, func(string, string) {})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return serve(t, handler)
}

// desk serves a tool of a backend with sessions, of 2025-11-25, that asks in the middle of its call.
func (l *ledger) desk(t testing.TB) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	mcp.AddTool(s, &mcp.Tool{Name: "book"}, func(ctx context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
		l.count(in.What + " begun")
		a, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.What, RequestedSchema: json.RawMessage(answerSchema)})
		if err != nil {
			return nil, nil, err
		}
		l.count(in.What)
		return nil, map[string]string{"did": fmt.Sprint(a.Content["a"])}, nil
	})
	return backendtest.HTTP(t, s, true)
}

// kiosk serves a tool of a backend of 2026-07-28 that asks: its result is an InputRequiredResult.
func (l *ledger) kiosk(t testing.TB) string {
	b := &backendtest.Raw{Modern: true, Tools: `{"name":"reserve","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		what := strings.Trim(x.Param("arguments", "what"), `"`)
		if x.Param("inputResponses", "sure?", "action") == "" {
			x.JSON(fmt.Sprintf(`{"resultType":"input_required","requestState":%q,"inputRequests":{"sure?":{"method":"elicitation/create","params":{"message":%q,"requestedSchema":%s}}}}`, "state of "+what, what, answerSchema))
			return
		}
		l.count(what)
		x.JSON(fmt.Sprintf(`{"resultType":"complete","content":[],"structuredContent":{"did":%s}}`, x.Param("inputResponses", "sure?", "content", "a")))
	}}
	return b.Start(t)
}

// works serves a tool that begins a task, of 2026-07-28, or of 2025-11-25 when a client asks for one. Requests about a task wait for
// the gate, and so does a call with the argument held.
func (l *ledger) works(t testing.TB, modern bool) string {
	tool, complete, begun := "begin", `"resultType":"complete",`, `{"resultType":"task","taskId":%q,"status":"working"}`
	s := &raw.Server{Modern: modern, Capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	if !modern {
		tool, complete, begun = "job", "", `{"task":{"taskId":%q,"status":"working","ttl":60000}}`
		s.Capabilities = `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	}
	s.Handle = func(c *raw.Call) (string, error) {
		var p struct {
			TaskID    string
			Arguments thing
		}
		if err := json.Unmarshal(c.Params, &p); err != nil && len(c.Params) > 0 {
			return "", err
		}
		id := cmp.Or(p.TaskID, p.Arguments.What, "t-1")
		if c.Method == "tools/call" || p.TaskID != "" {
			l.count(c.Method + " " + id)
		}
		if p.TaskID != "" || id == "held" {
			l.enter(c)
		}
		switch c.Method {
		case "tools/list":
			return s.List("tools", fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, tool)), nil
		case "tools/call":
			return fmt.Sprintf(begun, id), nil
		case "tasks/get":
			return fmt.Sprintf(`{%s"taskId":%q,"status":"completed","result":{"content":[]}}`, complete, id), nil
		case "tasks/result":
			return `{"content":[{"type":"text","text":"done"}]}`, nil
		case "tasks/cancel":
			return fmt.Sprintf(`{%s"taskId":%q,"status":"cancelled"}`, complete, id), nil
		}
		return "", raw.ErrDefault
	}
	return serve(t, s)
}

// shelf serves a resource, over sessions, and notifies of its changes.
func (l *ledger) shelf(t testing.TB) string {
	nothing := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	l.notes = mcp.NewServer(&mcp.Implementation{Name: "shelf", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{legacy}, SubscribeHandler: nothing,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	l.notes.AddResource(&mcp.Resource{URI: "note://one", Name: "one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://one", Text: "one"}}}, nil
	})
	return backendtest.HTTP(t, l.notes, true)
}

// touch notifies that a resource has changed.
func (l *ledger) touch(ctx context.Context, uri string) {
	_ = l.notes.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
}

// answerSchema is the schema of every question.
const answerSchema = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`
