package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
)

// A ledger is what has been done at the backend, which outlives every vmcp.
type ledger struct {
	mu    sync.Mutex
	times map[string]int  // how often something was done, by what
	keys  map[string]bool // idempotency keys that were honoured
	rng   *rand.Rand
}

type thing struct {
	What string `json:"what"`
}

func (l *ledger) did(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[what]
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

// pause lets kills hit in front of, inside of and behind an effect.
func (l *ledger) pause() {
	l.mu.Lock()
	d := time.Duration(l.rng.IntN(12_000)) * time.Microsecond
	l.mu.Unlock()
	<-time.After(d)
}

// backend serves three tools: pay, which counts each call; put, which honours idempotency keys; look, which
// only reads.
func backend(t *testing.T) (*ledger, string) {
	l := &ledger{times: map[string]int{}, keys: map[string]bool{}, rng: rand.New(rand.NewPCG(1, 2))}
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	add := func(name string, hints mcp.ToolAnnotations, do func(req *mcp.CallToolRequest, what string)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(_ context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			l.pause()
			do(req, in.What)
			l.pause()
			return nil, map[string]string{"did": in.What}, nil
		})
	}
	add("pay", mcp.ToolAnnotations{}, func(_ *mcp.CallToolRequest, what string) { l.count(what) })
	add("put", mcp.ToolAnnotations{IdempotentHint: true}, func(req *mcp.CallToolRequest, what string) {
		l.countOnce(what, fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"]))
	})
	add("look", mcp.ToolAnnotations{ReadOnlyHint: true}, func(*mcp.CallToolRequest, string) {})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return l, server.URL
}

// desk serves two tools over sessions that ask before they do something: book, which counts each call, and quote, which
// honours idempotency keys.
func (l *ledger) desk(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	add := func(name string, hints mcp.ToolAnnotations, do func(req *mcp.CallToolRequest, what string)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(ctx context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			a, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: name + " " + in.What + "?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
			if err != nil {
				return nil, nil, err
			}
			l.pause()
			if a.Action == "accept" {
				do(req, in.What)
			}
			l.pause()
			return nil, map[string]string{"did": in.What}, nil
		})
	}
	add("book", mcp.ToolAnnotations{}, func(_ *mcp.CallToolRequest, what string) { l.count(what) })
	add("quote", mcp.ToolAnnotations{IdempotentHint: true}, func(req *mcp.CallToolRequest, what string) {
		l.countOnce(what, fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"]))
	})
	return backendtest.HTTP(t, s, true)
}

// kiosk serves a tool that asks in the stateless way: its answer ends with the question, and it wants its state back.
func (l *ledger) kiosk(t *testing.T) string {
	b := &backendtest.Raw{Modern: true, Tools: `{"name":"reserve","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		what := strings.Trim(x.Param("arguments", "what"), `"`)
		answer, state := x.Param("inputResponses", "sure?", "action"), "state of "+what
		l.pause()
		switch {
		case answer == "":
			x.JSON(fmt.Sprintf(`{"resultType":"input_required","requestState":%q,"inputRequests":{"sure?":{"method":"elicitation/create","params":{"message":"reserve?","requestedSchema":{"type":"object"}}}}}`, state))
		case x.Param("requestState") != fmt.Sprintf("%q", state):
			x.JSON(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"not my state"}]}`)
		default:
			l.count(what)
			l.pause()
			x.JSON(fmt.Sprintf(`{"resultType":"complete","content":[],"structuredContent":{"did":%q}}`, what))
		}
	}}
	return b.Start(t)
}
