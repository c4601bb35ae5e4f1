package backends_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// odd is a result that decoding and encoding would change.
const odd = `{ "content":[{"type":"hologram","vendor":{"z":1,"a":2}}],"isError":false,"text":"","n":9007199254740993,"f":1.0,"e":"\u00e9\/" }`

// result makes the call and returns the bytes of its result.
func result(t testing.TB, b *backends.Backend, r *backends.Request) string {
	t.Helper()
	resp, err := b.Call(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", r.Method, err)
	}
	defer resp.Close()
	raw, err := resp.Bytes(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestResultArrivesByteForByte(t *testing.T) {
	padding := `{"text":"` + strings.Repeat(`x\"\\`, 60_000) + `"}`
	for _, want := range []string{odd, padding, `"text"`, `12`, `null`, `[]`, `"` + strings.Repeat("y", 65_536) + `"`} {
		for name, answer := range map[string]func(x *backendtest.Exchange){
			"plain": func(x *backendtest.Exchange) { x.JSON(want) },
			"id last": func(x *backendtest.Exchange) {
				x.Raw(fmt.Sprintf(`{"result" : %s , "id":%s,"jsonrpc":"2.0"}`, want, x.Message.ID))
			},
			"extended": func(x *backendtest.Exchange) {
				x.Raw(fmt.Sprintf("\n{\"x\":{\"result\":1},\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s,\"y\":[]}\n", x.Message.ID, want))
			},
			"event": func(x *backendtest.Exchange) { x.EventResult(want) },
			"events that can be resumed": func(x *backendtest.Exchange) {
				x.Event("1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
				x.Event("2", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.Message.ID, want))
			},
		} {
			for _, modern := range []bool{true, false} {
				raw := &backendtest.Raw{Modern: modern, Handle: answer}
				b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
				for range 2 {
					if got := result(t, b, tool("t", `{}`, nil)); got != want {
						t.Fatalf("%s, modern %v:\n got %.200s\nwant %.200s", name, modern, got, want)
					}
				}
			}
		}
	}
}

// pieces keeps each write.
type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, bytes.Clone(b))
	return len(b), nil
}

func TestBytesAfterAResultAreWrittenWithItsLastPiece(t *testing.T) {
	want := `{"text":"` + strings.Repeat("x", 100_000) + `"}`
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s,"more":1}`, x.Message.ID, want)
		x.Header().Set("Content-Length", strconv.Itoa(len(body)))
		x.Raw(body)
	}}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	for _, behind := range []string{"}", "}         ", "}" + strings.Repeat(" ", 100_000)} {
		resp, err := b.Call(t.Context(), tool("t", `{}`, nil))
		if err != nil {
			t.Fatal(err)
		}
		var out pieces
		err = resp.Body.WriteWith(&out, func(n int64) ([]byte, error) {
			if n != int64(len(want)) {
				t.Errorf("at most %d bytes announced, want %d", n, len(want))
			}
			return []byte(behind), nil
		})
		if got := string(bytes.Join(out, nil)); got != want+behind || err != nil {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want+behind))
		}
		if last := out[len(out)-1]; len(behind) < 10 && len(last) <= len(behind) {
			t.Errorf("%q is a write of its own", last)
		}
		resp.Close()
	}
}

// TestSlowReaderOfALargeAnswerIsNotTimedOut: the timeout of a call is suspended while the
// client reads the response.
func TestSlowReaderOfALargeAnswerIsNotTimedOut(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	big := `"` + strings.Repeat("x", size-2) + `"`
	for name, answer := range map[string]func(x *backendtest.Exchange){
		"json":  func(x *backendtest.Exchange) { x.JSON(big) },
		"event": func(x *backendtest.Exchange) { x.EventResult(big) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := &backendtest.Raw{Modern: true, Handle: answer}
			limit := config.Duration(time.Duration(testmode.Count(3, 10)) * time.Second)
			b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t), Timeout: limit})
			resp, err := b.Call(t.Context(), tool("t", `{}`, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Close()
			if n, err := resp.Body.WriteTo(&slowWriter{time.Duration(limit) + time.Second}); n != size || err != nil {
				t.Errorf("%d bytes of %d came, %v", n, size, err)
			}
		})
	}
}

// slowWriter delays the first write.
type slowWriter struct{ wait time.Duration }

func (s *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(s.wait)
	s.wait = 0
	return len(p), nil
}

func TestLargeAnswerStreamsAndItsConnectionIsUsedAgain(t *testing.T) {
	const size = 8 << 20
	big := `"` + strings.Repeat("x", size-2) + `"`
	addresses := map[string]bool{}
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
		addresses[x.Request.RemoteAddr] = true
		x.JSON(big)
	}}
	b, _ := ready(t, backends.Options{MaxMessage: 1 << 20}, config.Backend{Name: "b", URL: raw.Start(t)})
	for range 3 {
		resp, err := b.Call(t.Context(), tool("t", `{}`, nil))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Result != nil || resp.Body == nil {
			t.Fatal("a large answer does not stream")
		}
		if n, err := resp.Body.WriteTo(io.Discard); n != size || err != nil {
			t.Errorf("body has %d bytes, %v", n, err)
		}
		resp.Close()
	}
	if len(addresses) != 1 {
		t.Errorf("%d connections were used, want one", len(addresses))
	}
	resp, err := b.Call(t.Context(), tool("t", `{}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	if _, err := resp.Bytes(1000); !errors.Is(err, backends.ErrTooLarge) {
		t.Errorf("Bytes(1000): %v", err)
	}
}

func TestAnswerCutOffIsInterrupted(t *testing.T) {
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
		x.Header().Set("Content-Length", "1000000")
		x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"%s`, x.Message.ID, strings.Repeat("x", 200_000)))
	}}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	resp, err := b.Call(t.Context(), tool("t", `{}`, nil))
	if err == nil {
		defer resp.Close()
		_, err = resp.Bytes(10 << 20)
	}
	if kind(err) != backends.Interrupted {
		t.Errorf("cut off answer: %v", err)
	}
}

func TestBackendsErrorArrivesAsItIs(t *testing.T) {
	const failure = `{"code":-32021,"data":{"requiredCapabilities":{"elicitation":{}}},"message":"no","vendor":1.0}`
	for _, status := range []int{200, 400, 404} {
		raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
			x.Header().Set("Content-Type", "application/json")
			x.WriteHeader(status)
			x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, x.Message.ID, failure))
		}}
		b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
		_, err := b.Call(t.Context(), tool("t", `{}`, nil))
		var answer *wire.Error
		if !errors.As(err, &answer) || string(answer.JSON()) != failure {
			t.Errorf("HTTP %d: %v", status, err)
		}
	}
}

func TestModernRequestCarriesWhatItsRevisionWants(t *testing.T) {
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) { x.JSON(`{}`) }}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t), Headers: map[string]string{"X-Key": "configured"}})
	r := tool("grüße", `{"a":1}`, &backends.Caller{
		Capabilities: []byte(`{"elicitation":{"form":{}}}`), Info: []byte(`{"name":"their client"}`), LogLevel: "debug", Sink: &client{}})
	r.Params = jsonscan.Set(r.Params, "_meta", []byte(`{"io.modelcontextprotocol/clientInfo":{"name":"forged"},"traceparent":"00-1","progressToken":7}`))
	r.Header = http.Header{"Mcp-Param-Region": {"eu"}, "Authorization": {"Bearer inbound"}, "Cookie": {"inbound"}}
	result(t, b, r)
	got := raw.Seen(wire.ToolsCall)[0]
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": wire.Rev2607, "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDvMOfZQ==?=",
		"Mcp-Param-Region": "eu", "X-Key": "configured", "Authorization": "", "Cookie": "", "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("header %s is %q, want %q", name, v, want)
		}
	}
	want := fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"their client"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/logLevel":"debug","traceparent":"00-1","progressToken":%s}`, got.Message.ID)
	if meta := string(jsonscan.Get(got.Message.Params, "_meta")); meta != want {
		t.Errorf("_meta\n got %s\nwant %s", meta, want)
	}
}

func TestLegacyRequestKeepsItsParams(t *testing.T) {
	raw := &backendtest.Raw{Session: "abc", Handle: func(x *backendtest.Exchange) { x.JSON(`{}`) }}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	result(t, b, &backends.Request{Method: "tools/call", Params: []byte(`{ "x" : 1.0, "name":"t"}`)})
	got := raw.Seen(wire.ToolsCall)[0]
	if string(got.Message.Params) != `{ "x" : 1.0, "name":"t"}` {
		t.Errorf("params are %s", got.Message.Params)
	}
	if got.Header.Get(wire.HeaderSession) != "abc" || got.Header.Get(wire.HeaderVersion) != wire.Rev2511 || got.Header.Get(wire.HeaderMethod) != "" {
		t.Errorf("headers are %v", got.Header)
	}
}

func TestStreamThatClosesEarlyIsResumed(t *testing.T) {
	var id string
	raw := &backendtest.Raw{Session: "s"}
	raw.Handle = func(x *backendtest.Exchange) {
		switch {
		case x.Message.Method == wire.ToolsCall:
			id = string(x.Message.ID)
			x.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(x, "retry: 30\nid: e1\ndata:\n\n")
		case x.Request.Header.Get("Last-Event-Id") == "e1":
			x.Event("e2", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still here"}}`)
		case x.Request.Header.Get("Last-Event-Id") == "e2":
			x.Event("e3", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"text":"resumed"}]}}`, id))
		default:
			x.WriteHeader(http.StatusMethodNotAllowed)
		}
	}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	ann := &client{name: "ann"}
	if got := text(t, b, tool("t", `{}`, &backends.Caller{Session: "s", LogLevel: "info", Sink: ann})); got != "resumed" {
		t.Errorf("answer %q", got)
	}
	if notes := ann.notes(); len(notes) != 1 {
		t.Errorf("client got %q", notes)
	}
}

// polled is a client that is asked to come back for its answer when a backend ends a stream.
type polled struct {
	client
	asked atomic.Int64
}

func (p *polled) Polled(time.Duration) { p.asked.Add(1) }

// TestACancelledCallIsNotPolled: a client is asked to come back when a backend ends a stream that can be resumed, but not
// when the stream ends because the client itself cancelled the call.
func TestACancelledCallIsNotPolled(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint(cancelled), func(t *testing.T) {
			var id string
			raw := &backendtest.Raw{Session: "s"}
			raw.Handle = func(x *backendtest.Exchange) {
				switch {
				case x.Message.Method == wire.ToolsCall:
					id = string(x.Message.ID)
					x.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(x, "retry: 30\nid: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
					if cancelled {
						http.NewResponseController(x.ResponseWriter).Flush()
						<-x.Request.Context().Done()
					}
				case x.Request.Header.Get("Last-Event-Id") == "e1":
					x.Event("e2", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"text":"resumed"}]}}`, id))
				default:
					x.WriteHeader(http.StatusMethodNotAllowed)
				}
			}
			b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sink := &polled{client: client{name: "ann"}}
			if cancelled {
				go func() {
					for len(sink.notes()) == 0 { // the event with an id has arrived
						runtime.Gosched()
					}
					cancel()
				}()
			}
			resp, err := b.Call(ctx, tool("t", `{}`, &backends.Caller{Session: "s", LogLevel: "info", Sink: sink}))
			if err == nil {
				resp.Close()
			}
			if (err != nil) != cancelled || sink.asked.Load() != map[bool]int64{true: 0, false: 1}[cancelled] {
				t.Errorf("the call ended with %v; the client was asked %d times to come back", err, sink.asked.Load())
			}
		})
	}
}

func TestStreamThatEndsWithoutAnAnswerIsInterrupted(t *testing.T) {
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) { x.Event("", `{"jsonrpc":"2.0","method":"x"}`) }}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	if _, err := b.Call(t.Context(), tool("t", `{}`, nil)); kind(err) != backends.Interrupted {
		t.Errorf("call: %v", err)
	}
	before := len(raw.Seen(wire.ToolsCall))
	r := tool("t", `{}`, nil)
	r.Idempotent = true
	b.Call(t.Context(), r)
	if n := len(raw.Seen(wire.ToolsCall)) - before; n != 2 {
		t.Errorf("an idempotent call was made %d times, want twice", n)
	}
}

func TestRedirectIsFollowedWithinTheOriginOnly(t *testing.T) {
	raw := &backendtest.Raw{Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[{"text":"hi"}]}`) }}
	target, _ := url.Parse(raw.Start(t))
	leaked := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked += r.Header.Get("X-Key") }))
	defer other.Close()
	raw.First = func(x *backendtest.Exchange) bool {
		switch x.Request.URL.Path {
		case "/here":
			http.Redirect(x, x.Request, "/mcp/", http.StatusTemporaryRedirect)
		case "/there":
			http.Redirect(x, x.Request, other.URL+"/mcp", http.StatusPermanentRedirect)
		default:
			return false
		}
		return true
	}
	key := map[string]string{"X-Key": "secret"}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: target.JoinPath("../here").String(), Headers: key})
	text(t, b, tool("t", `{}`, nil))

	s, changes := newSet(t, backends.Options{}, config.Backend{Name: "b", URL: target.JoinPath("../there").String(), Headers: key})
	b = s.All()[0]
	waitFor(t, changes, "down", func() bool { return b.State().Status == backends.Down })
	if err := b.State().Err; !strings.Contains(err.Error(), "another origin") || leaked != "" {
		t.Errorf("state: %v; the other origin got %q", err, leaked)
	}
}

// TestSessionsOutlastAMove: while a backend redirects permanently, that is told once for all its connections. When something else
// answers there, its sessions at the configured URL go on.
func TestSessionsOutlastAMove(t *testing.T) {
	var away, closed atomic.Bool
	raw := &backendtest.Raw{Session: "s1", Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[{"text":"` + x.Request.URL.Path + `"}]}`) }}
	raw.First = func(x *backendtest.Exchange) bool {
		switch {
		case x.Request.URL.Path == "/mcp" && away.Load():
			http.Redirect(x, x.Request, "/new", http.StatusPermanentRedirect)
		case x.Request.URL.Path == "/new" && closed.Load():
			x.Header().Set("Content-Type", "application/json")
			x.WriteHeader(http.StatusNotFound)
			io.WriteString(x, `{"detail":"not found"}`)
		default:
			return false
		}
		return true
	}
	var log testkit.Buffer
	b, _ := ready(t, backends.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, config.Backend{Name: "b", URL: raw.Start(t)})
	callers := []*backends.Caller{{Session: "1"}, {Session: "2"}}
	each := func(want string) {
		for _, c := range callers {
			if got := text(t, b, tool("t", `{}`, c)); got != want {
				t.Errorf("session %s: %s answers, want %s", c.Session, got, want)
			}
		}
	}
	each("/mcp")
	before := len(raw.Seen(wire.Initialize))
	away.Store(true)
	each("/new")
	if n := strings.Count(log.String(), "backend has moved"); n != 1 {
		t.Errorf("the move was told %d times, want once:\n%s", n, log.String())
	}
	away.Store(false)
	closed.Store(true)
	for _, c := range callers {
		if _, err := b.Call(t.Context(), tool("t", `{}`, c)); kind(err) != backends.Unavailable {
			t.Errorf("session %s: %v, want the error of what answers in the place of MCP", c.Session, err)
		}
	}
	each("/mcp")
	if n := len(raw.Seen(wire.Initialize)) - before; n != 0 {
		t.Errorf("%d sessions were opened anew", n)
	}
}

func TestListsAreReadToTheLastPageButNotForEver(t *testing.T) {
	pages := map[string]string{
		``:     `{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"p2","ttlMs":500,"cacheScope":"public"}`,
		`"p2"`: `{"tools":[{"name":"c"}],"nextCursor":"p3","ttlMs":300,"cacheScope":"private"}`,
		`"p3"`: `{"tools":[{"name":"d"}],"nextCursor":"p2"}`,
	}
	raw := &backendtest.Raw{Modern: true}
	raw.First = func(x *backendtest.Exchange) bool {
		if x.Message.Method != wire.ToolsList {
			return false
		}
		x.JSON(pages[x.Param("cursor")])
		return true
	}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	var names []string
	for _, item := range b.Offer().Tools {
		names = append(names, item.Name)
	}
	if got := strings.Join(names, ""); !strings.HasPrefix(got, "abcd") || len(got) > 6 {
		t.Errorf("tools are %q", got)
	}
	if m := b.Offer().ToolsMeta; m.TTL.Milliseconds() != 300 || m.CacheScope != "private" {
		t.Errorf("caching hints are %+v", m)
	}
}
