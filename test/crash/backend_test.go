package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	add("pay", mcp.ToolAnnotations{}, func(_ *mcp.CallToolRequest, what string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.times[what]++
	})
	add("put", mcp.ToolAnnotations{IdempotentHint: true}, func(req *mcp.CallToolRequest, what string) {
		key := fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"])
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.keys[key] {
			l.keys[key] = true
			l.times[what]++
		}
	})
	add("look", mcp.ToolAnnotations{ReadOnlyHint: true}, func(*mcp.CallToolRequest, string) {})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return l, server.URL
}
