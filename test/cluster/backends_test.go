package cluster

import (
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
)

// A ledger is what has been done at the backends, which outlive every replica.
type ledger struct {
	mu    sync.Mutex
	times map[string]int // how often something was done, by what
	slow  time.Duration  // of each effect
}

type thing struct {
	What string `json:"what"`
}

func (l *ledger) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[what]++
}

func (l *ledger) did(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[what]
}

// pause lets a kill hit in front of, and behind an effect.
func (l *ledger) pause() { <-time.After(l.slow) }

// bank serves two tools without sessions: pay, which counts each call, and look, which only reads.
func (l *ledger) bank(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	add := func(name string, hints mcp.ToolAnnotations, do func(what string)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(_ context.Context, _ *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			do(in.What)
			return nil, map[string]string{"did": in.What}, nil
		})
	}
	add("pay", mcp.ToolAnnotations{}, func(what string) { l.pause(); l.count(what); l.pause() })
	add("look", mcp.ToolAnnotations{ReadOnlyHint: true}, func(string) {})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return serve(t, handler)
}

// desk serves a tool of a backend with sessions, of 2025-11-25, that asks in the middle of its call.
func (l *ledger) desk(t *testing.T) string {
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

// kiosk serves a tool of a backend of 2026-07-28 that asks: its answer ends with the question.
func (l *ledger) kiosk(t *testing.T) string {
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

// answerSchema is of what every question wants to know.
const answerSchema = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`
