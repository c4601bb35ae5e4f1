package backends_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// oldServer is an HTTP+SSE server of 2024-11-05 at /sse, independent of our code but for the
// parser of messages. It responds to a POST there with the status refusal.
func oldServer(t *testing.T, refusal int, gets *atomic.Int32) string {
	frames := make(chan string, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sse", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(refusal)
		io.WriteString(w, "<!DOCTYPE html><pre>Cannot POST /sse</pre>")
	})
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		gets.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /messages?sessionId=1\n\n")
		w.(http.Flusher).Flush()
		for {
			select {
			case frame := <-frames:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", frame)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := wire.Parse(body)
		w.WriteHeader(http.StatusAccepted)
		result := map[string]string{
			"initialize": `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"old"}]}`,
			"ping":       `{}`,
		}[m.Method]
		if m.ID != nil && result != "" {
			frames <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL + "/sse"
}

// TestURLOfAnOldServer: without a configured transport the proxy detects HTTP+SSE.
func TestURLOfAnOldServer(t *testing.T) {
	for _, refusal := range []int{400, 404, 405} {
		var gets atomic.Int32
		b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: oldServer(t, refusal, &gets)})
		if got := text(t, b, tool("t", `{}`, nil)); got != "old" {
			t.Errorf("t: %q", got)
		}
		if state := b.State(); state.Transport != backends.TransportSSE || state.Revision != "2024-11-05" {
			t.Errorf("transport %s, revision %s", state.Transport, state.Revision)
		}
	}
}

// TestURLOfNoServer: the error names both transports; for a server that asks for
// credentials, or with a configured transport, only one is tried.
func TestURLOfNoServer(t *testing.T) {
	for want, cfg := range map[string]config.Backend{
		"initialize: HTTP 404 Not Found (nor does it support HTTP+SSE: HTTP 404 Not Found)": {URL: httptestNotFound(t)},
		"HTTP 401": {URL: oldServer(t, 401, new(atomic.Int32))},
		"HTTP 405": {URL: oldServer(t, 405, new(atomic.Int32)), Transport: backends.TransportHTTP},
	} {
		cfg.Name = "b"
		s, changes := newSet(t, backends.Options{}, cfg)
		b := s.All()[0]
		waitFor(t, changes, "the first attempt", func() bool { return b.State().Status == backends.Down })
		if got := b.State().Err.Error(); !strings.Contains(got, want) || !strings.Contains(want, "nor") && strings.Contains(got, "SSE") {
			t.Errorf("%s, want %s", got, want)
		}
		if b.State().Transport != backends.TransportHTTP {
			t.Errorf("transport %s", b.State().Transport)
		}
	}
}

func httptestNotFound(t *testing.T) string {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}
