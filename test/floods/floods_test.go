//go:build suites

package floods

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var vmcp string // the binary under test

func TestMain(m *testing.M) {
	if os.Getenv("VMCP_TEST_ASKING") != "" {
		asStdioServer(os.Getenv("VMCP_TEST_ASKING"))
		return
	}
	testmode.SideBySide(testmode.Count(4, 8))
	os.Exit(rig.WithBinary(&vmcp, m.Run))
}

// waitTime bounds every wait of a test.
const waitTime = 2 * time.Minute

// served is a running `vmcp serve` in front of a backend.
type served struct {
	*rig.Process
	addr, log string
	before    int64 // resident bytes when the flood began
}

func serve(t *testing.T, b *backend, more string) *served {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "vmcp.yaml")
	if err := os.WriteFile(config, []byte("backends:\n  - {name: b, url: "+b.url+", timeout: 30s}\n"+b.others()+more), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	p, addr, err := rig.Serve(ctx, log, vmcp, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	s := &served{Process: p, addr: addr, log: log.Name()}
	if err := rig.AwaitReady(ctx, addr); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client().Call(ctx, "tools/call", `{"name":"json","arguments":{"bytes":10}}`); err != nil {
		t.Fatal(err)
	}
	s.before = s.status(t, "VmRSS")
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Cmd.Process.Pid), []byte("5"), 0) // reset the peak
	return s
}

func (s *served) url() string { return "http://" + s.addr + "/mcp" }

// client is a client apart from the flood, without a session.
func (s *served) client() *raw.Client { return &raw.Client{URL: s.url(), Revision: raw.Modern} }

// status is a number of bytes in /proc/PID/status.
func (s *served) status(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatalf("the process has ended: %v", err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in %s", name, text)
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10
}

// grown is the difference of the peak resident memory to the memory before.
func (s *served) grown(t *testing.T) int64 { return s.status(t, "VmHWM") - s.before }

// metric is a value of /metrics.
func (s *served) metric(t *testing.T, name string) float64 {
	t.Helper()
	res, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	m := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Errorf("/metrics has no %s", name)
		return 0
	}
	v, _ := strconv.ParseFloat(string(m[1]), 64)
	return v
}

// bystander calls a small tool repeatedly; the returned function ends it and returns
// the durations of its calls.
func (s *served) bystander(t *testing.T) (end func() (p99, most time.Duration)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var took []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := s.client()
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			began := time.Now()
			_, err := c.Call(ctx, "tools/call", `{"name":"json","arguments":{"bytes":100}}`)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("the bystander: %v", err)
			}
			took = append(took, time.Since(began))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() (p99, most time.Duration) {
		cancel()
		<-done
		slices.Sort(took)
		if len(took) == 0 {
			return 0, 0
		}
		return took[len(took)*99/100], took[len(took)-1]
	}
}

// report logs the cost of a flood, and fails the test if it is too high.
func (s *served) report(t *testing.T, limit int64, end func() (p99, most time.Duration)) {
	t.Helper()
	p99, most := end()
	grown := s.grown(t)
	t.Logf("peak +%d MB (of at most %d), bystander p99 %v, longest %v", grown>>20, limit>>20, p99.Round(100*time.Microsecond), most.Round(100*time.Microsecond))
	if grown > limit {
		t.Errorf("the peak is %d MB above the memory before, want at most %d MB", grown>>20, limit>>20)
	}
	// A call that is blocked by a client that does not read is so until that client's connection is closed, after
	// half a minute.
	if most > 20*time.Second {
		t.Errorf("a bystander's call took %v", most)
	}
}

// session opens a session with an amount of additional data in initialize, and returns its id and the status.
func (s *served) session(t *testing.T, params string) (id string, status int) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"f","version":"1"}` + params + `}}`
	res, err := http.Post(s.url(), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.Header.Get("Mcp-Session-Id"), res.StatusCode
}

// dial opens a connection.
func (s *served) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// unread is a connection with the smallest receive buffer.
func unread(c net.Conn) { c.(*net.TCPConn).SetReadBuffer(4 << 10) }

// call writes a tools/call of a session and does not read the response.
func (s *served) call(t *testing.T, session, tool string, size, notes int) net.Conn {
	t.Helper()
	c := s.dial(t)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"bytes":%d,"notes":%d},"_meta":{"progressToken":1}}}`, time.Now().UnixNano(), tool, size, notes)
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", session, len(body), body)
	return c
}

// quiesce waits until the backend has no running request.
func quiesce(t *testing.T, b *backend, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := rig.Poll(ctx, "the calls at the backend to end", func() (bool, error) { return b.open.Load() == 0, nil }); err != nil {
		t.Errorf("%v: %d are open", err, b.open.Load())
	}
}

// Tests that wait for deadlines of half a minute run in parallel in both forms: each has a
// separate process.

// TestUnreadAnswers: clients that call and do not read use bounded memory, and their calls
// of the backend end after a while.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"stream", "json"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			s := serve(t, b, "")
			session, _ := s.session(t, "")
			before := b.began.Load()
			for range testmode.Count(20, 100) {
				unread(s.call(t, session, tool, 20<<20, 0))
			}
			end := s.bystander(t)
			ctx, cancel := context.WithTimeout(t.Context(), waitTime)
			defer cancel()
			rig.Poll(ctx, "the calls to reach the backend", func() (bool, error) { return b.began.Load()-before >= int64(testmode.Count(20, 100)), nil })
			rest(t, time.Duration(testmode.Count(300, 8000))*time.Millisecond)
			if testmode.Thorough() {
				quiesce(t, b, waitTime)
			}
			s.report(t, 400<<20, end)
		})
	}
}

// rest waits while the flood continues: there is no event for memory that does not grow.
func rest(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestUnfinishedBodies: clients that announce a large body and stop sending use little memory, and are disconnected soon.
func TestUnfinishedBodies(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"announced": "Content-Length: 4194304\r\n\r\n{", "chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, newBackend(t), "")
			end := s.bystander(t)
			var conns []net.Conn
			for range testmode.Count(50, 200) {
				c := s.dial(t)
				io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+head)
				conns = append(conns, c)
			}
			rest(t, time.Duration(testmode.Count(300, 2000))*time.Millisecond)
			if testmode.Thorough() {
				open := 0
				deadline := time.Now().Add(waitTime)
				for _, c := range conns {
					c.SetReadDeadline(deadline)
					if _, err := io.ReadAll(c); err != nil {
						open++
					}
				}
				if open > 0 {
					t.Errorf("%d of %d are open after %v", open, len(conns), waitTime)
				}
			}
			s.report(t, 40<<20, end)
		})
	}
}

// TestInitializeFlood: unused sessions are bounded in number and in size, and a session
// in use survives.
func TestInitializeFlood(t *testing.T) {
	testmode.Parallel(t)
	bounded := "clientSessions: {max: 500}\n"
	if testmode.Thorough() {
		bounded = "" // the default
	}
	s := serve(t, newBackend(t), bounded)
	mine, _ := s.session(t, "")
	use := func() {
		res, err := http.ReadResponse(bufio.NewReader(s.call(t, mine, "json", 100, 0)), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the session in use: %v, %v", res, err)
		}
	}
	use()
	end := s.bystander(t)
	large := `,"capabilities":{"x":"` + strings.Repeat("x", 4<<20-1000) + `"}`
	for range testmode.Count(20, 180) {
		if _, status := s.session(t, large); status != http.StatusBadRequest {
			t.Errorf("4 MB of capabilities: %d, want 400", status)
		}
	}
	for range testmode.Count(1500, 15_000) {
		if _, status := s.session(t, ""); status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("initialize: %d", status)
		}
	}
	if n := s.metric(t, "vmcp_sessions"); n > float64(testmode.Count(500, 10_000)) {
		t.Errorf("%v sessions are held", n)
	}
	use()
	s.report(t, 130<<20, end)
}

// TestReplayFlood: delivered messages are soon dropped from the replay buffer.
func TestReplayFlood(t *testing.T) {
	testmode.Parallel(t)
	b := newBackend(t)
	s := serve(t, b, "")
	end := s.bystander(t)
	for range testmode.Count(2, 6) {
		session, _ := s.session(t, "")
		for range testmode.Count(4, 8) {
			c := s.call(t, session, "stream", 8<<20, 0)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, res.Body); err != nil || n < 8<<20 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			res.Body.Close()
			c.Close()
		}
	}
	if held := s.metric(t, "vmcp_stream_bytes"); held > 34<<20 {
		t.Errorf("streams hold %v bytes at once", held)
	}
	if testmode.Thorough() {
		ctx, cancel := context.WithTimeout(t.Context(), waitTime)
		defer cancel()
		err := rig.Poll(ctx, "the streams to hold nothing", func() (bool, error) { return s.metric(t, "vmcp_stream_bytes") == 0, nil })
		if err != nil {
			t.Error(err)
		}
	}
	s.report(t, 300<<20, end)
}

// TestSlowReaderLosesNothing: notifications wait for a client that pauses, and so does
// the result.
func TestSlowReaderLosesNothing(t *testing.T) {
	testmode.Parallel(t)
	b := newBackend(t)
	s := serve(t, b, "")
	session, _ := s.session(t, "")
	c := s.call(t, session, "stream", 100, 1000)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	notes, result := 0, false
	for lines := bufio.NewReaderSize(res.Body, 32<<10); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		var m struct {
			Method string
			Params struct{ Data string }
			Result json.RawMessage
		}
		if !ok || json.Unmarshal(data, &m) != nil {
			continue
		}
		if result = m.Result != nil; m.Method != "notifications/message" {
			continue
		}
		if !strings.HasPrefix(m.Params.Data, fmt.Sprint(notes, " ")) {
			t.Fatalf("note %d is %.20q", notes, m.Params.Data)
		}
		if notes++; notes%100 == 0 {
			rest(t, 100*time.Millisecond)
		}
	}
	if notes != 1000 || !result {
		t.Errorf("%d of 1000 notes arrived, the result: %v", notes, result)
	}
}

// TestLogFlood: log messages of a backend that belong to no client do not fill the log.
func TestLogFlood(t *testing.T) {
	testmode.Parallel(t)
	b := newBackend(t)
	s := serve(t, b, "")
	end := s.bystander(t)
	began := time.Now()
	close(b.pushed)
	rest(t, time.Duration(testmode.Count(300, 2000))*time.Millisecond)
	s.report(t, 100<<20, end)
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	var text []byte
	err := rig.Poll(ctx, "the log to say what was dropped", func() (bool, error) {
		var err error
		text, err = os.ReadFile(s.log)
		return bytes.Contains(text, []byte("dropped from the log")), err
	})
	// At most ten messages a second of a kilobyte each, also on a slow machine.
	if most := 200_000 + int(time.Since(began).Seconds()*15_000); err != nil || len(text) > most {
		t.Errorf("the log has %d bytes of at most %d, %v: %.500s", len(text), most, err, text)
	}
}

// TestConnectionsOfSilence: connections without a request are closed.
func TestConnectionsOfSilence(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	s := serve(t, newBackend(t), "")
	var open sync.WaitGroup
	for range 100 {
		c := s.dial(t)
		open.Go(func() {
			c.SetReadDeadline(time.Now().Add(waitTime))
			if _, err := io.ReadAll(c); err != nil {
				t.Errorf("a connection without a request: %v", err)
			}
		})
	}
	open.Wait()
}
