package backendtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Raw is an HTTP backend that responds with the bytes that a test wants. It handles
// handshakes and lists itself; Handle handles all other requests.
type Raw struct {
	Modern  bool              // supports 2026-07-28 only, else 2025-11-25 only
	Session string            // session id to issue; "" for none
	Tools   string            // the array of tools/list; "" for none
	Also    []string          // capabilities beside tools and logging; before 2026-07-28
	Handle  func(x *Exchange) // other requests, and GETs: their Message has no method
	// First, when set, is called first with every request; true means that it has
	// responded.
	First func(x *Exchange) bool

	mu   sync.Mutex
	seen []Seen // guarded by mu
}

// Seen is a request that a Raw has received.
type Seen struct {
	HTTP    string // its HTTP method
	Method  string // its JSON-RPC method
	Header  http.Header
	Message wire.Message
}

// Exchange is one HTTP request with its response.
type Exchange struct {
	http.ResponseWriter
	Request *http.Request
	Message wire.Message
}

// JSON responds with a result.
func (x *Exchange) JSON(result string) {
	x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.Message.ID, result))
}

// Raw responds with a body of type application/json.
func (x *Exchange) Raw(body string) {
	x.Header().Set("Content-Type", "application/json")
	io.WriteString(x, body)
}

// Event sends one server-sent event. An empty id is left out.
func (x *Exchange) Event(id, data string) {
	x.Header().Set("Content-Type", "text/event-stream")
	if id != "" {
		fmt.Fprintf(x, "id: %s\n", id)
	}
	fmt.Fprintf(x, "data: %s\n\n", data)
	x.ResponseWriter.(http.Flusher).Flush()
}

// EventResult sends the result as an event.
func (x *Exchange) EventResult(result string) {
	x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.Message.ID, result))
}

// Param is a member of the request's params.
func (x *Exchange) Param(keys ...string) string {
	return string(jsonscan.GetPath(x.Message.Params, keys...))
}

// Start serves r and returns its URL.
func (r *Raw) Start(t testing.TB) string { return serve(t, r) + "/mcp" }

// Seen returns the requests so far with the given JSON-RPC method ("" for all).
func (r *Raw) Seen(method string) []Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	var some []Seen
	for _, s := range r.seen {
		if method == "" || s.Method == method {
			some = append(some, s)
		}
	}
	return some
}

func (r *Raw) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	x := &Exchange{ResponseWriter: w, Request: req}
	x.Message, _ = wire.Parse(body)
	r.mu.Lock()
	r.seen = append(r.seen, Seen{req.Method, x.Message.Method, req.Header.Clone(), x.Message})
	r.mu.Unlock()
	if r.First == nil || !r.First(x) {
		r.answer(x)
	}
}

func (r *Raw) answer(x *Exchange) {
	switch method := x.Message.Method; {
	case x.Request.Method == http.MethodDelete:
	case x.Request.Method == http.MethodPost && x.Message.ID == nil, x.Message.IsResponse():
		x.WriteHeader(http.StatusAccepted)
	case method == wire.Initialize && !r.Modern:
		r.initialize(x)
	case method == wire.Discover && r.Modern:
		x.JSON(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`)
	case method == wire.ToolsList:
		x.JSON(`{"tools":[` + r.Tools + `]}`)
	case method == wire.Ping && !r.Modern:
		x.JSON(`{}`)
	case r.Handle != nil && (method == "" || method != wire.Discover && method != wire.Initialize):
		r.Handle(x)
	case x.Request.Method != http.MethodPost:
		x.WriteHeader(http.StatusMethodNotAllowed)
	default:
		x.WriteHeader(http.StatusNotFound)
		x.Raw(string(wire.Failure(x.Message.ID, wire.Errorf(wire.MethodNotFound, "no such method"))))
	}
}

func (r *Raw) initialize(x *Exchange) {
	if r.Session != "" {
		x.Header().Set(wire.HeaderSession, r.Session)
	}
	capabilities := map[string]any{"tools": struct{}{}, "logging": struct{}{}}
	for _, c := range r.Also {
		capabilities[c] = struct{}{}
	}
	result, _ := json.Marshal(map[string]any{
		"protocolVersion": wire.Rev2511, "capabilities": capabilities,
		"serverInfo": map[string]any{"name": "raw", "version": "1"},
	})
	x.JSON(string(result))
}
