//go:build suites

package floods

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
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

// asStdioServer is such a server over stdio, which sends requests with a method. It does not read any more once its tool is
// called, if the tool has no number of questions as its argument. Else it sends that number, with as many open as the window
// says, and reads; the result says how many got an error, once all have a response but those that it leaves.
func asStdioServer(method string) {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	var asked request
	var open chan struct{}
	left, refused := 0, 0
	for {
		line, err := in.ReadBytes('\n')
		var m request
		if err != nil || json.Unmarshal(line, &m) != nil {
			return
		}
		switch args := m.Params.Arguments; {
		case m.Method == "tools/call" && args.Questions > 0:
			asked, left, open = m, args.Questions, make(chan struct{}, args.Window)
			go askOver(method, args.Questions, args.Bytes, open)
		case m.Method == "tools/call":
			askOver(method, math.MaxInt, 0, make(chan struct{}, math.MaxInt32))
			return
		case m.Method == "" && asked.ID != nil:
			if <-open; m.Error != nil {
				refused++
			}
			if left--; left == asked.Params.Arguments.Left {
				fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%d refused\"}]}}\n", asked.ID, refused)
				asked.ID = nil
			}
		case m.ID != nil:
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, lone(&m))
		}
	}
}

// askOver sends n requests with a text of a size, each when it fits in open.
func askOver(method string, n, size int, open chan struct{}) {
	text := strings.Repeat("x", size)
	for i := range n {
		open <- struct{}{}
		if _, err := fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":\"q%d\",\"method\":%q,\"params\":{\"text\":%q}}\n", i, method, text); err != nil {
			return
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
			var s *served
			if a != nil {
				newAsking(t, a)
				s = serveBoth(t, "url: "+a.url)
			} else {
				s = serveBeside(t, "ping")
			}
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

// serveBeside is serve with a process that asks by a method.
func serveBeside(t *testing.T, method string) *served {
	t.Helper()
	return serveBoth(t, fmt.Sprintf("command: %q, env: {VMCP_TEST_ASKING: %s}", os.Args[0], method))
}

// serveBoth is serve with a second backend, which asks.
func serveBoth(t *testing.T, asking string) *served {
	t.Helper()
	b := newBackend(t)
	b.beside = "{name: asking, " + asking + ", timeout: 30s}"
	return serve(t, b, "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, asking]}}\n")
}

// flooding are the arguments of a call with n questions at once, of which 128 may wait for the client.
func flooding(n, size int) string {
	return fmt.Sprintf(`{"questions":%d,"window":%[1]d,"left":128,"bytes":%d}`, n, size)
}

// TestAHundredQuestionsAreAnswered: a process that always has a hundred requests open gets no error, if its client answers them.
func TestAHundredQuestionsAreAnswered(t *testing.T) {
	s := serveBeside(t, "roots/list")
	client := raw.Client{URL: s.url(), Revision: "2025-06-18", Capabilities: `{"roots":{}}`, Asked: func(raw.Message) string { return `{"roots":[]}` }}
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := client.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":"flood","arguments":{"questions":%d,"window":100}}`, testmode.Count(1000, 10_000)))
	if err != nil || !strings.Contains(string(m), `"0 refused"`) {
		t.Errorf("the call: %s, %v; want a result with 0 refused", m, err)
	}
}

// TestQuestionsOfProcesses: processes that ask the clients of their calls more than these answer cost little memory, and delay no
// other backend's call. A process that reads gets a response to every request beyond the bounds, and its call a result.
func TestQuestionsOfProcesses(t *testing.T) {
	const clients = 4
	for _, tt := range []struct {
		name, method, arguments, want string
	}{
		{"small", "roots/list", flooding(testmode.Count(30_000, 100_000), 0), " refused"},
		{"large", "sampling/createMessage", flooding(testmode.Count(1000, 4000), 50_000), " refused"},
		{"unread", "roots/list", `{}`, "does not take the responses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveBeside(t, tt.method)
			end := s.bystander(t)
			var calls sync.WaitGroup
			for range clients {
				session, _ := s.session(t, `,"capabilities":{"roots":{},"sampling":{}}`)
				calls.Go(func() {
					if last := s.unanswering(t, session, tt.arguments); !strings.Contains(last, tt.want) {
						t.Errorf("the call ended with %.300s, want %s", last, tt.want)
					}
				})
			}
			calls.Wait()
			s.report(t, 120<<20, end)
		})
	}
}

// unanswering calls the tool flood for a session, reads all of its stream, answers no request in it and returns the last event.
func (s *served) unanswering(t *testing.T, session, arguments string) (last string) {
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"flood","arguments":` + arguments + `}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(), strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = data
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return last
}

func (s *served) fds(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
