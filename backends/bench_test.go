package backends_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// fastBackend responds to every POST with prepared bytes and hardly allocates, so that a
// benchmark counts the allocations of the proxy only.
type fastBackend struct {
	modern  bool
	events  bool              // answers as a server-sent event
	answers map[string][]byte // by JSON-RPC method: result
}

// start serves until the benchmark ends and returns the URL.
func (f *fastBackend) start(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}

func (f *fastBackend) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	var body, out []byte
	for {
		length, post, err := readHeader(r)
		if err != nil {
			return
		}
		if cap(body) < length {
			body = make([]byte, length)
		}
		if _, err := io.ReadFull(r, body[:length]); err != nil {
			return
		}
		out = f.answer(out[:0], body[:length], post)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func readHeader(r *bufio.Reader) (length int, post bool, err error) {
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil || len(line) == 2 {
			return length, post, err
		}
		if first {
			post = bytes.HasPrefix(line, []byte("POST"))
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
		}
	}
}

func (f *fastBackend) answer(out, body []byte, post bool) []byte {
	if !post {
		return append(out, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"...)
	}
	start, end := jsonscan.Find(body, "id")
	if start < 0 {
		return append(out, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"...)
	}
	m, n := jsonscan.Find(body, "method")
	result, ok := f.answers[string(body[m+1:n-1])]
	if !ok {
		return append(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"...)
	}
	head, tail, kind := `{"jsonrpc":"2.0","id":`, `}`, "application/json"
	if f.events {
		head, tail, kind = "data: "+head, tail+"\n\n", "text/event-stream"
	}
	const id = `,"result":`
	out = append(append(append(out, "HTTP/1.1 200 OK\r\nContent-Type: "...), kind...), "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(head)+end-start+len(id)+len(result)+len(tail)), 10)
	out = append(append(append(out, "\r\n\r\n"...), head...), body[start:end]...)
	return append(append(append(out, id...), result...), tail...)
}

func newFastBackend(modern bool, result string) *fastBackend {
	f := &fastBackend{modern: modern, answers: map[string][]byte{wire.ToolsCall: []byte(result), wire.ToolsList: []byte(`{"tools":[]}`)}}
	if modern {
		f.answers[wire.Discover] = []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	} else {
		f.answers[wire.Initialize] = []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`)
	}
	return f
}

// answerOf returns a tool result of about size bytes.
func answerOf(size int) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}]}`, strings.Repeat(`line of text, \"quoted\"\n`, size/24))
}

func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000, 1_000_000} {
		for _, modern := range []bool{false, true} {
			b.Run(fmt.Sprintf("modern=%v/size=%d", modern, size), func(b *testing.B) {
				cfg := config.Backend{Name: "b", URL: newFastBackend(modern, answerOf(size)).start(b)}
				backend, _ := ready(b, backends.Options{}, cfg)
				r := tool("t", `{"text":"hello"}`, nil)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					resp, err := backend.Call(b.Context(), r)
					if err != nil {
						b.Fatal(err)
					}
					if resp.Body != nil {
						resp.Body.WriteTo(io.Discard)
					}
					resp.Close()
				}
			})
		}
	}
}

func BenchmarkCallAnsweredByEvent(b *testing.B) {
	backend := newFastBackend(true, answerOf(100))
	backend.events = true
	c, _ := ready(b, backends.Options{}, config.Backend{Name: "b", URL: backend.start(b)})
	r := tool("t", `{"text":"hello"}`, nil)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.Call(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		resp.Close()
	}
}

func BenchmarkParallelCalls(b *testing.B) {
	cfg := config.Backend{Name: "b", URL: newFastBackend(true, answerOf(100)).start(b)}
	backend, _ := ready(b, backends.Options{}, cfg)
	r := tool("t", `{"text":"hello"}`, nil)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			resp, err := backend.Call(b.Context(), r)
			if err != nil {
				b.Error(err)
				return
			}
			resp.Close()
		}
	})
}

// BenchmarkPlainRoundTrip is the baseline: the same bytes with net/http alone.
func BenchmarkPlainRoundTrip(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			url := newFastBackend(false, answerOf(size)).start(b)
			client := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
			defer client.CloseIdleConnections()
			frame := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"t","arguments":{"text":"hello"}}}`)
			buf := make([]byte, 32<<10)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), "POST", url, bytes.NewReader(frame))
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
				resp.Body.Close()
			}
		})
	}
}

func BenchmarkParallelPlainRoundTrips(b *testing.B) {
	url := newFastBackend(false, answerOf(100)).start(b)
	client := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	defer client.CloseIdleConnections()
	frame := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"t","arguments":{"text":"hello"}}}`)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			req, _ := http.NewRequestWithContext(b.Context(), "POST", url, bytes.NewReader(frame))
			resp, err := client.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
