package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// crowd is how many clients call without pause.
const crowd = 8

// A load is a crowd of clients each of whose calls comes over a new connection, and brings back the text that it sent.
type load struct {
	url      string
	work     sync.WaitGroup
	answered atomic.Int64
	enough   chan struct{} // closed: no more calls

	mu      sync.Mutex
	refused int     // guarded by mu: calls that found no port
	lost    []error // guarded by mu: the others that were not answered
}

// begin sends calls until end, or until one finds no port.
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

// note counts a call that was not answered. A connection that the kernel has taken and the process has not is reset
// when the port closes: that call has not begun either.
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

// serveLoaded starts a proxy whose backend notes in the file that is returned what it was called with.
func serveLoaded(t *testing.T, flags ...string) (*served, string) {
	t.Helper()
	calls := filepath.Join(t.TempDir(), "calls")
	s := serveWith(t, flags, strings.Replace(stdioBackend(t, "b", "good"), "env: {", fmt.Sprintf("env: {%s: %q, ", noteCalls, calls), 1), urlBackend("none", "http://127.0.0.1:1/mcp"), asking)
	await(t, s.connect(t, raw.Modern), "b_echo")
	return s, calls
}

// begun is how many calls of the load reached the backend.
func begun(t *testing.T, calls string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	return int64(strings.Count(string(text), "of client"))
}

// TestDrainUnderLoad: with a delay nobody loses anything: every call on a new connection is answered while /readyz says
// 503, a question that is answered then reaches its script, and what only listens ends whole.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	const listeners, questions = 3, 3
	s, calls := serveLoaded(t, "--shutdown-delay", fmt.Sprintf("%ds", testmode.Count(3, 15)), "--drain-time", "10m")
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
	s.draining(t)
	l.more(t, int64(testmode.Count(200, 5000)))
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

// TestEndUnderLoad: without a delay the port closes at once. Every call that was begun is answered, and a question that
// nobody answers is cut after drainTime, which is no failure.
func TestEndUnderLoad(t *testing.T) {
	t.Parallel()
	for range testmode.Count(2, 20) {
		s, calls := serveLoaded(t, "--drain-time", "500ms")
		stream, q, l := s.listen(t), s.ask(t), begin(s.url)
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
			t.Error("a question that nobody answered has an answer")
		}
		if <-s.Done(); s.Cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("vmcp serve ended with %s", s.Cmd.ProcessState)
		}
		s.logged(t, "some calls are cut: they took longer than 500ms")
	}
}

// TestSecondSignalUnderLoad ends at once what has long to go.
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
		t.Error("a question that nobody answered has an answer")
	}
}

// TestStdioQuestionBeforeTheEnd: over stdio the answer to a question comes the way of the call, and still reaches its
// script when the process is about to end.
func TestStdioQuestionBeforeTheEnd(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte("backends:\n"+urlBackend("none", "http://127.0.0.1:1/mcp")+asking), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(vmcp, "serve", "--stdio", "--config", file, "--drain-time", "10m")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := raw.NewStdioClient("2025-11-25", out, in)
	c.Capabilities = `{"elicitation":{}}`
	c.Asked = func(raw.Message) string {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for lines := bufio.NewScanner(log); lines.Scan() && !strings.Contains(lines.Text(), "vmcp: stopping"); {
		}
		go io.Copy(io.Discard, log)
		return `{"action":"accept","content":{}}`
	}
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Call("tools/call", `{"name":"ask","arguments":{}}`); err != nil || !strings.Contains(string(got), "accept") {
		t.Errorf("a question that was answered before the end: %s %v", got, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("vmcp serve --stdio: %v", err)
	}
}

// listen opens the stream of a session. What it ends with is sent: nil if it ends whole.
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

// wait is the answer, or nothing that could still be sent.
func (q *question) wait(over <-chan struct{}) string {
	select {
	case a := <-q.answer:
		return a
	case <-over:
		return "{}"
	}
}

// reply says yes, and the call must end with it.
func (q *question) reply(t *testing.T) {
	t.Helper()
	q.answer <- `{"action":"accept","content":{}}`
	if err := <-q.ended; err != nil || !strings.Contains(string(q.result), "accept") {
		t.Errorf("a call that was answered while the process ends: %s %v", q.result, err)
	}
}

// logged checks what the log says.
func (s *served) logged(t *testing.T, want string) {
	t.Helper()
	if text, err := os.ReadFile(s.log.Name()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the log does not say %q: %v", want, err)
	}
}
