//go:build suites

package floods

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// backend is a server of 2025-11-25 with sessions whose tools return results of any size, as JSON
// or on a stream, without having them in memory.
type backend struct {
	url    string
	began  atomic.Int64  // calls that were received
	open   atomic.Int64  // of them, those that are being answered
	pushed chan struct{} // closed to begin with the flood on GET streams
	beside string        // the entry of another backend, if any
}

// others are the further lines of the list of backends.
func (b *backend) others() string {
	if b.beside == "" {
		return ""
	}
	return "  - " + b.beside + "\n"
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{pushed: make(chan struct{})}
	srv := httptest.NewServer(b)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	b.url = srv.URL
	return b
}

type request struct {
	ID     json.RawMessage
	Method string
	Error  json.RawMessage // of a response
	Params struct {
		Name      string
		Arguments struct{ Bytes, Notes, Questions, Window, Left int }
		Meta      struct {
			ProgressToken json.RawMessage
		} `json:"_meta"`
	}
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		b.push(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m request
	if json.Unmarshal(body, &m) != nil || m.ID == nil || m.Method == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := ""
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(time.Now().UnixNano()))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"flood","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"json","inputSchema":{"type":"object"}},{"name":"stream","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		b.began.Add(1)
		b.open.Add(1)
		defer b.open.Add(-1)
		b.call(w, &m)
		return
	default:
		result = `{}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// call answers with the number of notifications and of bytes in the arguments.
func (b *backend) call(w http.ResponseWriter, m *request) {
	head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
	const tail = `"}]}}`
	n := m.Params.Arguments.Bytes
	if m.Params.Name == "json" {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(head)+n+len(tail)))
		io.WriteString(w, head)
		fill(w, n)
		io.WriteString(w, tail)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if token := m.Params.Meta.ProgressToken; token != nil {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", token)
		w.(http.Flusher).Flush()
	}
	for i := range m.Params.Arguments.Notes {
		if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%d %s\"}}\n\n", i, block[:10_000]); err != nil {
			return
		}
	}
	io.WriteString(w, "data: "+head)
	fill(w, n)
	io.WriteString(w, tail+"\n\n")
}

var block = bytes.Repeat([]byte("x"), 64<<10)

func fill(w io.Writer, n int) {
	for n > 0 {
		m, err := w.Write(block[:min(n, len(block))])
		if err != nil {
			return
		}
		n -= m
	}
}

// push floods a GET stream with log messages after a call of a tool.
func (b *backend) push(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	select {
	case <-b.pushed:
	case <-r.Context().Done():
	}
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"flood\"}}\n\n"); err != nil {
			return
		}
	}
}
