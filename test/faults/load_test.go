package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// crowd is the number of clients that call without pause.
const crowd = 8

// A load is a crowd of clients each of whose calls uses a new connection, and has to return the text that it sent.
type load struct {
	url      string
	work     sync.WaitGroup
	answered atomic.Int64
	enough   chan struct{} // closed: no more calls

	mu      sync.Mutex
	refused int     // guarded by mu: calls that found no port
	lost    []error // guarded by mu: the others that were not answered
}

// begin sends calls until end, or until a connection is refused.
func begin(url string) *load {
	l := &load{url: url, enough: make(chan struct{})}
	for i := range crowd {
		l.work.Go(func() { l.run(i) })
	}
	return l
}

func (l *load) run(client int) {
	c := &raw.Client{URL: l.url, Revision: raw.Modern, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for n := 0; ; n++ {
		select {
		case <-l.enough:
			return
		default:
		}
		want := fmt.Sprintf("%d of client %d", n, client)
		got, err := text(context.Background(), c, "b_echo", fmt.Sprintf(`{"text":%q}`, want))
		if err == nil && got == want {
			l.answered.Add(1)
			continue
		}
		l.note(fmt.Errorf("call %s: %q: %w", want, got, err))
		return
	}
}

// note counts a call that was not answered. A connection that the kernel has accepted and the process has not is reset
// when the port closes: that call has not begun, either.
func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		l.refused++
		return
	}
	l.lost = append(l.lost, err)
}

// more waits for a number of answers from now on.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	from := l.answered.Load()
	if err := rig.Poll(ctx, fmt.Sprintf("%d more answers", n), func() (bool, error) { return l.answered.Load() >= from+n, nil }); err != nil {
		l.end()
		t.Fatalf("%v; lost: %v", err, l.lost)
	}
}

// end waits for the last answers. It may be called again.
func (l *load) end() {
	select {
	case <-l.enough:
	default:
		close(l.enough)
	}
	l.work.Wait()
}

// asking is a scripted tool that asks its client.
const asking = `scriptedTools:
  - name: ask
    description: Asks whether to go on.
    script: |
      def run(params):
          return elicit("Go on?", {"type": "object", "properties": {}}).action
`

// serveLoaded starts a proxy whose backend writes the arguments of each call to the returned file.
func serveLoaded(t *testing.T, flags ...string) (*served, string) {
	t.Helper()
	calls := filepath.Join(t.TempDir(), "calls")
	s := serveWith(t, flags, strings.Replace(stdioBackend(t, "b", "good"), "env: {", fmt.Sprintf("env: {%s: %q, ", noteCalls, calls), 1), urlBackend("none", "http://127.0.0.1:1/mcp"), "operational: {timeouts: {default: 10m}}\n", asking)
	await(t, s.connect(t, raw.Modern), "b_echo")
	return s, calls
}

// begun is the number of calls of the load that reached the backend.
func begun(t *testing.T, calls string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	return int64(strings.Count(string(text), "of client"))
}

// TestDrainUnderLoad: with a shutdown delay no request is lost: every call on a new connection is answered while /readyz answers
// 503, an answer to a question still reaches its script, and streams end regularly.
func TestDrainUnderLoad(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	const listeners, questions = 3, 3
	const delay = 30 * time.Second
	s, calls := serveLoaded(t, "--shutdown-delay", delay.String(), "--drain-time", "10m")
	var streams []<-chan error
	for range listeners {
		streams = append(streams, s.listen(t), s.subscribe(t))
	}
	var asked []*question
	for range questions {
		asked = append(asked, s.ask(t))
	}
	c := s.connect(t, "2025-11-25")
	long := holdUntil(t, func(params string) error {
		_, err := c.Call(t.Context(), "tools/call", params)
		return err
	})
	l := begin(s.url)
	l.more(t, 100)
	s.signal(t)
	signalled := time.Now()
	s.draining(t)
	l.more(t, 200)
	<-time.After(time.Until(signalled.Add(delay / 3))) // it goes on: how much that is depends on the machine
	for _, q := range asked {
		q.reply(t)
	}
	l.end()
	if l.refused != 0 || len(l.lost) != 0 {
		t.Errorf("within the delay %d calls were refused, and %d lost: %v", l.refused, len(l.lost), l.lost)
	}
	if n := begun(t, calls); n != l.answered.Load() {
		t.Errorf("%d calls began and %d were answered", n, l.answered.Load())
	}
	for i, ended := range streams {
		if err := <-ended; err != nil {
			t.Errorf("stream %d of %d: %v", i, len(streams), err)
		}
	}
	long.letGo(t) // the port is closed, and what runs has drainTime
	if <-s.Done(); s.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("vmcp serve ended with %s", s.Cmd.ProcessState)
	}
}

// TestEndUnderLoad: without a delay the port closes at once. Every call that was begun is answered, a question without an answer ends
// with an error, and a call that takes longer than drainTime is cancelled, which is no failure.
func TestEndUnderLoad(t *testing.T) {
	t.Parallel()
	drain := fmt.Sprintf("%ds", testmode.Count(1, 4)) // in which the calls that were begun have to be answered
	for range testmode.Count(2, 15) {
		s, calls := serveLoaded(t, "--drain-time", drain)
		stream, q, l := s.listen(t), s.ask(t), begin(s.url)
		c := s.connect(t, "2025-11-25")
		long := holdUntil(t, func(params string) error {
			_, err := c.Call(t.Context(), "tools/call", params)
			return err
		})
		l.more(t, 100)
		s.signal(t)
		l.work.Wait() // each has found no port
		if l.refused != crowd || len(l.lost) != 0 {
			t.Errorf("%d of %d clients found no port, and %d calls were lost: %v", l.refused, crowd, len(l.lost), l.lost)
		}
		if n := begun(t, calls); n != l.answered.Load() {
			t.Errorf("%d calls began and %d were answered", n, l.answered.Load())
		}
		if err := <-stream; err != nil {
			t.Errorf("a stream: %v", err)
		}
		if err := <-q.ended; err == nil {
			t.Error("a question without an answer has one")
		}
		if err := <-long.ended; err == nil {
			t.Error("a call that was cancelled has a result")
		}
		if <-s.Done(); s.Cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("vmcp serve ended with %s", s.Cmd.ProcessState)
		}
		s.logged(t, "some calls were cancelled: they took longer than "+drain)
	}
}

// TestSecondSignalUnderLoad: a second signal ends the process at once, with calls that would take long.
func TestSecondSignalUnderLoad(t *testing.T) {
	t.Parallel()
	s, _ := serveLoaded(t, "--shutdown-delay", "1h", "--drain-time", "1h")
	q, l := s.ask(t), begin(s.url)
	defer l.end()
	s.signal(t)
	s.draining(t)
	l.more(t, 50)
	s.signal(t)
	if <-s.Done(); s.Cmd.ProcessState.Success() {
		t.Errorf("after the second signal: %s", s.Cmd.ProcessState)
	}
	if err := <-q.ended; err == nil {
		t.Error("a question without an answer has one")
	}
}

// TestStdioQuestionBeforeTheEnd: over stdio the answer to a question arrives on the same pipe as the call, and still reaches its
// script when the process is shutting down.
func TestStdioQuestionBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := serveStdio(t, "2025-11-25", "backends:\n"+urlBackend("none", "http://127.0.0.1:1/mcp")+asking, "--drain-time", "10m")
	c := s.client
	c.Capabilities = `{"elicitation":{}}`
	c.Asked = func(raw.Message) string {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		s.awaitLine("vmcp: stopping")
		return `{"action":"accept","content":{}}`
	}
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Call("tools/call", `{"name":"ask","arguments":{}}`); err != nil || !strings.Contains(string(got), "accept") {
		t.Errorf("a question that was answered before the end: %s %v", got, err)
	}
	s.wait(t)
}

// listen opens the stream of a session. The channel gets its error when it ends: nil for a regular end.
func (s *served) listen(t *testing.T) <-chan error {
	t.Helper()
	c := s.connect(t, "2025-11-25")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", c.Revision)
	r.Header.Set("Mcp-Session-Id", c.Session())
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET: %v %v", res, err)
	}
	ended := make(chan error, 1)
	go func() {
		defer res.Body.Close()
		_, err := io.Copy(io.Discard, res.Body)
		ended <- err
	}()
	return ended
}

// subscribe is listen for a client without a session.
func (s *served) subscribe(t *testing.T) <-chan error {
	t.Helper()
	acknowledged := make(chan struct{}, 100)
	c := s.connect(t, raw.Modern)
	c.Notified = func(raw.Message) { acknowledged <- struct{}{} }
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		ended <- err
	}()
	select {
	case <-acknowledged:
	case err := <-ended:
		t.Fatalf("subscriptions/listen: %v", err)
	}
	return ended
}

// A question is a call of the tool ask that has asked.
type question struct {
	answer chan string
	ended  chan error
	result json.RawMessage // set before ended is sent
}

// ask returns when the client is asked.
func (s *served) ask(t *testing.T) *question {
	t.Helper()
	q := &question{make(chan string), make(chan error, 1), nil}
	asked := make(chan struct{})
	c := &raw.Client{URL: s.url, Revision: "2025-11-25", Capabilities: `{"elicitation":{}}`, Asked: func(raw.Message) string { close(asked); return q.wait(s.Done()) }}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		q.result, err = c.Call(t.Context(), "tools/call", `{"name":"ask","arguments":{}}`)
		q.ended <- err
	}()
	select {
	case <-asked:
	case err := <-q.ended:
		t.Fatalf("ask: %s %v", q.result, err)
	}
	return q
}

// wait waits for the result of the call.
func (q *question) wait(over <-chan struct{}) string {
	select {
	case a := <-q.answer:
		return a
	case <-over:
		return "{}"
	}
}

// reply answers yes, with which the call must end.
func (q *question) reply(t *testing.T) {
	t.Helper()
	q.answer <- `{"action":"accept","content":{}}`
	if err := <-q.ended; err != nil || !strings.Contains(string(q.result), "accept") {
		t.Errorf("a call that was answered while the process ends: %s %v", q.result, err)
	}
}

// logged checks that the log has a text.
func (s *served) logged(t *testing.T, want string) {
	t.Helper()
	if text, err := os.ReadFile(s.log.Name()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the log does not say %q: %v", want, err)
	}
}
