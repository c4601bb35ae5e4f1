//go:build suites

package floods

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lone is what a server of 2025-11-25 without sessions answers to everything but its tool flood.
func lone(m *request) string {
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asking","version":"1"}}`
	case "tools/list":
		return `{"tools":[{"name":"flood","inputSchema":{"type":"object"}}]}`
	}
	return `{}`
}

// asking is a server whose tool sends requests to its client on the stream of the call, as fast as they are read.
type asking struct {
	url      string
	method   string
	hangs    bool          // it takes the responses, and never answers the POSTs that bring them
	during   time.Duration // of the flood
	asked    atomic.Int64  // requests that were sent
	answered atomic.Int64  // responses that came
}

func newAsking(t *testing.T, a *asking) {
	t.Helper()
	srv := httptest.NewServer(a)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	a.url = srv.URL
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m request
	switch err := json.Unmarshal(body, &m); {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case err != nil || m.Method == "": // a response
		if a.answered.Add(1); a.hangs {
			<-r.Context().Done()
			return
		}
		fallthrough
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method != "tools/call" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, lone(&m))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for end := time.Now().Add(a.during); time.Now().Before(end); {
		if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":%q}\n\n", a.asked.Add(1), a.method); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", m.ID)
}

// asStdioServer is such a server over stdio, which does not read any more once its tool is called.
func asStdioServer() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var m request
		if err != nil || json.Unmarshal(line, &m) != nil {
			return
		}
		for n := 0; m.Method == "tools/call"; n++ {
			if _, err := fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n", n); err != nil {
				return
			}
		}
		if m.ID != nil {
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, lone(&m))
		}
	}
}

// descriptors counts the open descriptors of the process repeatedly; the returned function ends it and returns the most.
func (s *served) descriptors(t *testing.T) (most func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	peak, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
			peak = max(peak, len(open))
		}
	}()
	return func() int { cancel(); <-done; return peak }
}

// TestRequestsOfABackend: a backend that sends requests during a call, and takes the responses at once, never, or does not read,
// costs no descriptors and no memory for each, and delays no other backend's call. All are answered that it takes.
func TestRequestsOfABackend(t *testing.T) {
	for name, a := range map[string]*asking{
		"ping, at once":       {method: "ping", during: 4 * time.Second},
		"roots/list, at once": {method: "roots/list", during: 4 * time.Second},
		"ping, never":         {method: "ping", hangs: true, during: 20 * time.Second},
		"an unknown method":   {method: "no/such", hangs: true, during: 20 * time.Second},
		"stdio, unread":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			if a != nil {
				newAsking(t, a)
				b.beside = "{name: asking, url: " + a.url + ", timeout: 30s}"
			} else {
				b.beside = fmt.Sprintf("{name: asking, command: %q, env: {VMCP_TEST_ASKING: '1'}, timeout: 30s}", os.Args[0])
			}
			s := serve(t, b, "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, asking]}}\n")
			before, end, most := s.fds(t), s.bystander(t), s.descriptors(t)
			_, err := s.client().Call(t.Context(), "tools/call", `{"name":"flood","arguments":{}}`)
			peak := most()
			s.report(t, 64<<20, end)
			t.Logf("descriptors %d, then at most %d; the call: %v", before, peak, err)
			if peak > before+100 {
				t.Errorf("%d descriptors were open, %d before: want at most 100 more", peak, before)
			}
			if a != nil {
				t.Logf("%d requests, %d responses", a.asked.Load(), a.answered.Load())
			}
			if a != nil && !a.hangs && (err != nil || a.answered.Load() < a.asked.Load()-200 || a.asked.Load() < 1000) {
				t.Errorf("%d requests, %d responses, the call: %v; want a result, and all answered but those on their way", a.asked.Load(), a.answered.Load(), err)
			}
			if (a == nil || a.hangs) && (err == nil || !strings.Contains(err.Error(), "does not take the responses")) {
				t.Errorf("the call of a server that does not take the responses: %v", err)
			}
		})
	}
}

func (s *served) fds(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
