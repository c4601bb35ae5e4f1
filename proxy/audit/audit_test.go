package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/audit"
)

// lines reads the lines of a file, each of which must be complete.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for line := range strings.Lines(string(text)) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		all = append(all, l)
	}
	return all
}

func open(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.jsonl") }

// wait waits until so returns true.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(late) {
			t.Fatalf("timeout while waiting until %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A line has ToolHive's format.
func TestALine(t *testing.T) {
	path := file(t)
	l := open(t, audit.Options{File: path, Component: "vmcp-server"})
	l.Append(&audit.Event{
		ID: "an-id", Type: audit.ToolCall, At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)), Outcome: audit.Denied,
		Source:   audit.Source{Type: "network", Value: "127.0.0.1", UserAgent: "curl \"8\"\n"},
		Subjects: audit.Subjects{UserID: "ada", User: "Ada L.", Issuer: "https://idp", ClientName: "c", ClientVersion: "1"},
		Target:   audit.Target{Endpoint: "/mcp", Method: "tools/call", Type: "tool", Name: "a_b\x00\u2028\xff", Backend: "a", Original: "b"},
		Extra:    audit.Extra{Duration: 1500 * time.Microsecond, Decision: "deny", Policy: "p1", Code: -32602, BytesIn: 10, BytesOut: 20, Run: "r", Step: "s", Parent: "q", Session: "abcdef", Transport: "stdio", Reason: "x"},
		Data:     json.RawMessage(`{"request":{"a":1}}`),
	})
	l.Append(&audit.Event{Type: audit.Ping, Outcome: audit.Success})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(string(text), "\n")
	want := `{"audit_id":"an-id","type":"mcp_tool_call","logged_at":"2026-01-02T02:04:05.000006Z","outcome":"denied","component":"vmcp-server",` +
		`"source":{"type":"network","value":"127.0.0.1","extra":{"user_agent":"curl \"8\"\u000a"}},` +
		`"subjects":{"user_id":"ada","user":"Ada L.","issuer":"https://idp","client_name":"c","client_version":"1"},` +
		`"target":{"endpoint":"/mcp","method":"tools/call","type":"tool","name":"a_b\u0000\u2028\ufffd","backend":"a","original":"b"},` +
		`"metadata":{"extra":{"duration_ms":1.5,"transport":"stdio","session":"abcdef","decision":"deny","policy":"p1","code":-32602,"bytes_in":10,"bytes_out":20,"run":"r","step":"s","parent":"q","reason":"x"}},` +
		`"data":{"request":{"a":1}}}`
	if first != want {
		t.Errorf("got\n%s\nwant\n%s", first, want)
	}
	second := lines(t, path)[1]
	if id, _ := second["audit_id"].(string); len(id) != 36 || id[14] != '4' {
		t.Errorf("the id of an event without one is %q", id)
	}
	if at, err := time.Parse(time.RFC3339Nano, second["logged_at"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Errorf("logged_at: %v, %v", at, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

// Lines of many writers are complete, and in files of the configured size; only Keep old files are kept.
func TestRotation(t *testing.T) {
	path := file(t)
	const size, keep, writers, each = 64 << 10, 3, 8, 200
	var dropped atomic.Uint64
	l := open(t, audit.Options{File: path, Size: size, Keep: keep, Dropped: &dropped})
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				l.Append(&audit.Event{Type: audit.ToolCall, Outcome: audit.Success, Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("y", 500)))})
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil || dropped.Load() > 0 {
		t.Fatalf("%v, %d dropped", err, dropped.Load())
	}
	var total int
	for i, name := range []string{path, path + ".1", path + ".2", path + ".3"} {
		got := len(lines(t, name))
		total += got
		if info, err := os.Stat(name); err != nil || info.Size() > size || i > 0 && info.Size() < size/2 {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
		}
	}
	if _, err := os.Stat(path + ".4"); err == nil {
		t.Error("one file too many stays")
	}
	if total == 0 || total >= writers*each {
		t.Errorf("%d lines stay of %d", total, writers*each)
	}
}

// A new file is created after one is moved away, with and without Reopen; an incomplete line of
// an earlier process is terminated.
func TestAFileThatIsMovedAway(t *testing.T) {
	path := file(t)
	if err := os.WriteFile(path, []byte(`{"torn":`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Options{File: path})
	add := func() {
		t.Helper()
		if err := l.Commit(t.Context(), &audit.Event{Type: audit.Ping, Outcome: audit.Success}); err != nil {
			t.Fatal(err)
		}
	}
	add()
	text, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(text), "{\"torn\":\n{\"audit_id\"") {
		t.Errorf("the file begins with %.40q", text)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	add()
	if n := len(lines(t, path)); n != 1 {
		t.Errorf("%d lines in the new file", n)
	}
	if err := os.Rename(path, path+".older"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	wait(t, "there is a new file", func() bool { _, err := os.Stat(path); return err == nil })
	add()
	if n := len(lines(t, path)); n != 1 {
		t.Errorf("%d lines in the newest file", n)
	}
}

// stuck is a writer that blocks until free is closed.
type stuck struct {
	free chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer // guarded by mu
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

// While the writer is blocked, lines are queued up to the bound; the others are dropped and
// counted, and Append does not block.
func TestAReaderThatTakesNothing(t *testing.T) {
	out := &stuck{free: make(chan struct{})}
	var dropped atomic.Uint64
	l := open(t, audit.Options{Out: out, Dropped: &dropped})
	data := json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	const n = 3 * audit.MaxQueued / 10_000
	for range n {
		l.Append(&audit.Event{Type: audit.ToolCall, Data: data})
	}
	if d := dropped.Load(); d < n/4 {
		t.Errorf("%d of %d lines are dropped", d, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Commit(ctx, &audit.Event{Type: audit.ToolCall, Data: data}); !errors.Is(err, audit.ErrFull) {
		t.Errorf("Commit of a full log: %v", err)
	}
	cancel()
	close(out.free)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(out.got.Bytes(), []byte("\n")); uint64(got)+dropped.Load() != n+1 {
		t.Errorf("%d lines written and %d dropped of %d", got, dropped.Load(), n+1)
	}
	if err := l.Append(&audit.Event{Type: audit.ToolCall}); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Append to a closed log: %v", err)
	}
}

// failing is a writer that fails within its second line only.
type failing struct{ bytes.Buffer }

func (f *failing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), `"fails"`) {
		f.Buffer.Write(b[:10])
		return 10, errors.New("no space left")
	}
	return f.Buffer.Write(b)
}

// A partially written line does not corrupt the next one.
func TestAWriterThatFails(t *testing.T) {
	out := &failing{}
	var dropped atomic.Uint64
	l := open(t, audit.Options{Out: out, Dropped: &dropped})
	commit := func(id string) error {
		return l.Commit(t.Context(), &audit.Event{ID: id, Type: audit.Ping, Outcome: audit.Success})
	}
	if err := commit("one"); err != nil {
		t.Error(err)
	}
	if err := commit("fails"); err == nil || dropped.Load() != 1 {
		t.Errorf("a write that fails: %v, %d dropped", err, dropped.Load())
	}
	if err := commit("three"); err != nil {
		t.Error(err)
	}
	l.Close()
	if got := strings.Split(out.String(), "\n"); len(got) != 4 || !json.Valid([]byte(got[0])) || !json.Valid([]byte(got[2])) {
		t.Errorf("wrote %q", got)
	}
}

func TestTypesThatAreWanted(t *testing.T) {
	path := file(t)
	l := open(t, audit.Options{File: path, Only: []string{audit.Ping, audit.ToolCall}, Not: []string{audit.Ping}})
	for _, kind := range audit.Types {
		l.Append(&audit.Event{Type: kind})
	}
	l.Close()
	if got := lines(t, path); len(got) != 1 || got[0]["type"] != audit.ToolCall {
		t.Errorf("wrote %v", got)
	}
	if (*audit.Log)(nil).Wants(audit.Ping) {
		t.Error("no log wants a ping")
	}
}

// Anything but a regular file is refused before it is opened: a pipe would block until it has a reader.
func TestWhatIsNoFile(t *testing.T) {
	if _, err := audit.Open(audit.Options{File: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := audit.Open(audit.Options{File: filepath.Join(t.TempDir(), "nowhere", "a")}); err == nil {
		t.Error("a folder that is not there is no problem")
	}
}

// Every text makes a line of valid JSON.
func FuzzLine(f *testing.F) {
	f.Add("plain", "a\nb")
	f.Add("\x00\xff\"\\\u2028", "\u007f\ufeff")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out bytes.Buffer
		l, _ := audit.Open(audit.Options{Out: &out})
		l.Append(&audit.Event{Type: audit.Ping, Target: audit.Target{Name: a}, Subjects: audit.Subjects{User: b}, Data: json.RawMessage("\"\u0085\u2028\u2029\"")})
		l.Close()
		var got struct {
			Target   map[string]string `json:"target"`
			Subjects map[string]string `json:"subjects"`
			Data     string            `json:"data"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 || bytes.ContainsAny(out.Bytes(), "\u0085\u2028\u2029") {
			t.Fatalf("%q: %v", out.Bytes(), err)
		}
		for _, tt := range [][2]string{{a, got.Target["name"]}, {b, got.Subjects["user"]}, {"\u0085\u2028\u2029", got.Data}} {
			if want := string([]rune(tt[0])); tt[1] != want { // U+FFFD for each byte that is no UTF-8
				t.Errorf("%q came out as %q, want %q", tt[0], tt[1], want)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, err := audit.Open(audit.Options{File: filepath.Join(b.TempDir(), "a"), Component: "vmcp-server", Size: 1 << 30, Keep: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	e := audit.Event{
		ID: audit.NewID(), Type: audit.ToolCall, At: time.Now(), Outcome: audit.Success,
		Source:   audit.Source{Type: "network", Value: "127.0.0.1", UserAgent: "Go-http-client/1.1"},
		Subjects: audit.Subjects{UserID: "ada", Issuer: "vmcp:tokens", ClientName: "bench", ClientVersion: "1"},
		Target:   audit.Target{Endpoint: "/mcp", Method: "tools/call", Type: "tool", Name: "a_b", Backend: "a", Original: "b"},
		Extra:    audit.Extra{Duration: time.Millisecond, Transport: "streamable-http", BytesIn: 100, BytesOut: 100},
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Append(&e)
	}
}
