//go:build suites

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
)

// A ledger records the effects at the backend, which outlives every vmcp.
type ledger struct {
	mu      sync.Mutex
	times   map[string]int      // how often something was done, by what
	tickets map[string][]string // what the calls returned that did it, or only looked; each is another one
	tokens  map[string][]string // the answers that it was done for
	keys    map[string]string   // idempotency key -> the effect that it was used for
	wrong   []string            // keys that were used for something else, too
	rng     *rand.Rand
}

type thing struct {
	What  string `json:"what"`
	Token string `json:"token,omitempty"` // of the answer that it is done for
}

// keyOf is the idempotency key of a call.
func keyOf(req *mcp.CallToolRequest) string {
	return fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"])
}

func (l *ledger) did(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[what]
}

// record notes an effect, with the answer that it was made for, "" for none, and returns its ticket. With an idempotency
// key the effect is made once for each key.
func (l *ledger) record(what, key, token string, honours bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.keys[key]
	if l.keys[key] = what; known && before != what {
		l.wrong = append(l.wrong, fmt.Sprintf("%s for %s and %s", key, before, what))
	}
	if done := l.tickets[what]; honours && known && len(done) > 0 {
		return done[0]
	}
	l.times[what]++
	if token != "" {
		l.tokens[what] = append(l.tokens[what], token)
	}
	return l.issue(what)
}

// look notes a call that reads, and returns its result.
func (l *ledger) look(what string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.issue(what)
}

// issue returns a new ticket. mu is held.
func (l *ledger) issue(what string) string {
	ticket := fmt.Sprintf("%s#%d", what, len(l.tickets[what]))
	l.tickets[what] = append(l.tickets[what], ticket)
	return ticket
}

// answersFor are the answers for which effects were made.
func (l *ledger) answersFor(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tokens[what])
}

// output is the last output of a call with an effect, as scripts get it.
func (l *ledger) output(what string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.tickets[what]
	return output(what, done[len(done)-1])
}

func output(what, ticket string) string { return fmt.Sprintf(`{"did":%q,"ticket":%q}`, what, ticket) }

// pause sleeps for a short random time, so that kills also hit before, during and after an effect.
func (l *ledger) pause() {
	l.mu.Lock()
	d := time.Duration(l.rng.IntN(12_000)) * time.Microsecond
	l.mu.Unlock()
	<-time.After(d)
}

// backend serves three tools: pay, which counts each call; put, which honours idempotency keys; look, which
// only reads.
func backend(t *testing.T) (*ledger, string) {
	l := &ledger{times: map[string]int{}, tickets: map[string][]string{}, tokens: map[string][]string{}, keys: map[string]string{}, rng: rand.New(rand.NewPCG(1, 2))}
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	add := func(name string, hints mcp.ToolAnnotations, do func(key string, in thing) (ticket string)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(_ context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			l.pause()
			ticket := do(keyOf(req), in)
			l.pause()
			return nil, map[string]string{"did": in.What, "ticket": ticket}, nil
		})
	}
	add("pay", mcp.ToolAnnotations{}, func(key string, in thing) string { return l.record(in.What, key, in.Token, false) })
	add("put", mcp.ToolAnnotations{IdempotentHint: true}, func(key string, in thing) string { return l.record(in.What, key, in.Token, true) })
	add("look", mcp.ToolAnnotations{ReadOnlyHint: true}, func(_ string, in thing) string { return l.look(in.What) })
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return l, server.URL
}

// desk serves two tools over sessions that ask before their effect: book, which counts each call, and quote, which
// honours idempotency keys.
func (l *ledger) desk(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	add := func(name string, hints mcp.ToolAnnotations) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(ctx context.Context, req *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, map[string]string, error) {
			a, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: name + " " + in.What, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"token":{"type":"string"}}}`)})
			if err != nil {
				return nil, nil, err
			}
			l.pause()
			ticket := ""
			if a.Action == "accept" {
				token, _ := a.Content["token"].(string)
				ticket = l.record(in.What, keyOf(req), token, hints.IdempotentHint)
			}
			l.pause()
			return nil, map[string]string{"did": in.What, "ticket": ticket}, nil
		})
	}
	add("book", mcp.ToolAnnotations{})
	add("quote", mcp.ToolAnnotations{IdempotentHint: true})
	return backendtest.HTTP(t, s, true)
}

// kiosk serves a tool that asks in the stateless way: its result is an InputRequiredResult, and it requires its requestState.
func (l *ledger) kiosk(t *testing.T) string {
	b := &backendtest.Raw{Modern: true, Tools: `{"name":"reserve","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		what := strings.Trim(x.Param("arguments", "what"), `"`)
		answer, state := x.Param("inputResponses", "sure?", "action"), "state of "+what
		l.pause()
		switch {
		case answer == "":
			x.JSON(fmt.Sprintf(`{"resultType":"input_required","requestState":%q,"inputRequests":{"sure?":{"method":"elicitation/create","params":{"message":"reserve %s",
				"requestedSchema":{"type":"object","properties":{"token":{"type":"string"}}}}}}}`, state, what))
		case x.Param("requestState") != fmt.Sprintf("%q", state):
			x.JSON(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"not my state"}]}`)
		default:
			key, token := x.Param("_meta", "dev.vmcp/idempotencyKey"), x.Param("inputResponses", "sure?", "content", "token")
			ticket := l.record(what, strings.Trim(key, `"`), strings.Trim(token, `"`), false)
			l.pause()
			x.JSON(fmt.Sprintf(`{"resultType":"complete","content":[],"structuredContent":%s}`, output(what, ticket)))
		}
	}}
	return b.Start(t)
}
