package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/backends/bridge"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// waitTime bounds every wait of a test.
const bridgeTime = 60 * time.Second

// bridged is a bridge with its client's ends of the pipes.
type bridged struct {
	in    *io.PipeWriter
	out   *io.PipeReader
	ended chan error

	mu   sync.Mutex
	said strings.Builder // guarded by mu
}

// start starts a bridge in front of an endpoint, until the test ends.
func start(t *testing.T, endpoint string, header http.Header) *bridged {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	b := &bridged{in: toBridge, out: fromBridge, ended: make(chan error, 1)}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	go func() {
		b.ended <- bridge.Serve(context.Background(), in, out, bridge.Options{
			URL: u, Header: header, Transport: transport, DrainTime: bridgeTime, Say: b.say,
		})
		out.Close()
	}()
	t.Cleanup(func() {
		toBridge.Close()
		go io.Copy(io.Discard, fromBridge)
		select {
		case <-b.ended:
		case <-time.After(bridgeTime):
			t.Error("the bridge does not end with its input")
		}
		transport.CloseIdleConnections()
	})
	return b
}

func (b *bridged) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(&b.said, format+"\n", args...)
}

// events are the notifications that a client has got.
type events struct {
	mu   sync.Mutex
	seen []string
}

func (e *events) add(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, what)
}

func (e *events) await(t *testing.T, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgeTime)
	defer cancel()
	err := rig.Poll(ctx, what, func() (bool, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return strings.Contains(strings.Join(e.seen, "\n"), what), nil
	})
	if err != nil {
		t.Errorf("%v; the client has seen %q", err, e.seen)
	}
}

func (e *events) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"asked": r.Params.Message}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "sampled"}, Model: "m", Role: "assistant"}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			e.add(fmt.Sprint("progress ", r.Params.Progress))
		},
		LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { e.add(fmt.Sprint("log ", r.Params.Data)) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { e.add("tools changed") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { e.add("updated " + r.Params.URI) },
	}
}

// client is the official SDK's client on the pipes of a bridge.
func client(t *testing.T, b *bridged, revision string) (*mcp.ClientSession, *events) {
	t.Helper()
	e := &events{}
	c := mcp.NewClient(&mcp.Implementation{Name: "bridged", Version: "1"}, e.options())
	c.AddRoots(&mcp.Root{URI: "file:///srv/bridged"})
	ctx, cancel := context.WithTimeout(t.Context(), bridgeTime)
	defer cancel()
	s, err := c.Connect(ctx, &mcp.IOTransport{Reader: b.out, Writer: b.in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect: %v; %s", err, b.said.String())
	}
	t.Cleanup(func() { s.Close() })
	return s, e
}

// bridgeCall is the text that a tool returns.
func bridgeCall(ctx context.Context, s *mcp.ClientSession, name string, args map[string]any) (string, error) {
	params := &mcp.CallToolParams{Meta: mcp.Meta{mcp.MetaKeyLogLevel: "info"}, Name: name, Arguments: args}
	params.SetProgressToken("p")
	r, err := s.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		text = "error: " + text
	}
	return text, nil
}

// TestClientOfEitherEra: messages of the SDK's client and server over Streamable HTTP
// are relayed over the pipes, in both directions.
func TestClientOfEitherEra(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			modern := revision == "2026-07-28"
			b := start(t, backendtest.HTTP(t, backendtest.New(revision), !modern), nil)
			s, seen := client(t, b, revision)
			if got := s.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("revision %s", got)
			}
			want := map[string]string{
				"echo": `{"n":123456789}`, "fail": "error: this tool fails", "progress": "done", "log": "logged",
				"ask": `accept map[asked:{"n":123456789}]`, "sample": "sampled", "roots": "file:///srv/bridged",
			}
			if !modern {
				if err := s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
					t.Error(err)
				}
			}
			for name, text := range want {
				got, err := bridgeCall(t.Context(), s, name, map[string]any{"n": 123456789})
				if modern && (name == "ask" || name == "sample" || name == "roots") {
					continue // requests of a server exist with sessions only
				}
				if err != nil || got != text {
					t.Errorf("%s: %q, %v; want %q", name, got, err, text)
				}
			}
			seen.await(t, "progress 3")
			seen.await(t, "log two")
			size := testmode.Count(1, 10) << 20
			if got, err := bridgeCall(t.Context(), s, "big", map[string]any{"size": size}); err != nil || len(got) != size {
				t.Errorf("%d bytes, %v; want %d", len(got), err, size)
			}
			if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static"}); err != nil {
				t.Error(err)
			}
			cancels(t, s, seen)
			if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://static"}); err != nil {
				t.Error(err)
			}
			bridgeCall(t.Context(), s, "grow", nil)
			seen.await(t, "tools changed")
		})
	}
}

// cancels cancels a call while it runs, and checks that the server has cancelled it.
func cancels(t *testing.T, s *mcp.ClientSession, seen *events) {
	t.Helper()
	before, _ := bridgeCall(t.Context(), s, "cancelled", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := bridgeCall(ctx, s, "wait", map[string]any{"steps": 7})
		done <- err
	}()
	seen.await(t, "progress 7")
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled call has an answer")
	}
	within, stop := context.WithTimeout(t.Context(), bridgeTime)
	defer stop()
	if err := rig.Poll(within, "a cancelled call", func() (bool, error) {
		now, err := bridgeCall(within, s, "cancelled", nil)
		return now != before, err
	}); err != nil {
		t.Error(err)
	}
}

// TestEndpointGoesAwayAndComesBack: while the endpoint is down a call fails at once; when it is up
// again, the bridge begins a new session with the client's subscriptions, and notifies the client
// that lists may have changed. The error of the call that was running says that it may have been executed.
func TestEndpointGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	stop := backendtest.Listen(t, l, backendtest.New("2025-11-25"), true)
	b := start(t, "http://"+addr+"/mcp", nil)
	s, seen := client(t, b, "2025-11-25")
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://static"}); err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() {
		_, err := bridgeCall(t.Context(), s, "wait", map[string]any{"steps": 5})
		running <- err
	}()
	seen.await(t, "progress 5")
	stop()
	if err := <-running; err == nil || !strings.Contains(err.Error(), "the connection ended before the response; the request may have been executed") {
		t.Errorf("the running call: %v", err)
	}
	if _, err := bridgeCall(t.Context(), s, "echo", nil); err == nil || !strings.Contains(err.Error(), "http://"+addr+"/mcp: nothing is listening there") {
		t.Errorf("while nothing listens: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bridgeTime)
	defer cancel()
	if l, err = rig.ListenAgain(ctx, addr); err != nil {
		t.Fatal(err)
	}
	backendtest.Listen(t, l, backendtest.New("2025-11-25"), true)
	if got, err := bridgeCall(t.Context(), s, "echo", map[string]any{"back": true}); err != nil || got != `{"back":true}` {
		t.Errorf("afterwards: %q, %v; %s", got, err, b.said.String())
	}
	seen.await(t, "tools changed")
	if err := rig.Poll(ctx, "an update of what was followed before", func() (bool, error) {
		_, err := bridgeCall(ctx, s, "touch", nil) // the stream of the new session may not be open yet
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return strings.Contains(strings.Join(seen.seen, " "), "updated test://static"), err
	}); err != nil {
		t.Error(err)
	}
}

// post sends lines, and returns the responses to count requests.
func post(t *testing.T, b *bridged, count int, lines ...string) (answers []string) {
	t.Helper()
	go func() {
		for _, line := range lines {
			io.WriteString(b.in, line+"\n")
		}
	}()
	r := bufio.NewReader(b.out)
	for len(answers) < count {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, answers)
		}
		answers = append(answers, strings.TrimSuffix(line, "\n"))
	}
	return answers
}

const modernCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// TestAnswers: the response of an endpoint is relayed unchanged; an invalid one is an error.
func TestAnswers(t *testing.T) {
	const result = `{"result":{"n":12345678901234567890,"x":1.0},"id":1,"jsonrpc":"2.0"}`
	for _, tt := range []struct {
		name, kind, body string
		status           int
		want             string
	}{
		{"bytes", "application/json", result, 200, result},
		{"line breaks", "application/json; charset=utf-8", strings.ReplaceAll(result, ",", ",\r\n "), 200, strings.ReplaceAll(result, ",", ",   ")},
		{"an event", "text/event-stream", ": hello\n\nid: 1\ndata:\n\ndata: " + result + "\n\n", 200, result},
		{"an error", "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"m","data":{"b":1,"a":2}}}`, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"m","data":{"b":1,"a":2}}}`},
		{"an error to nobody", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m"}}`},
		{"another's answer", "application/json", strings.Replace(result, `"id":1`, `"id":2`, 1), 200, `"message":"URL: the response is to another request, 2"`},
		{"a page", "text/html", "<html>", 200, `"message":"URL: the response has content type \"text/html\", want application/json or text/event-stream"`},
		{"a gateway", "text/html", "<html>secret", 502, `"message":"URL: HTTP 502 Bad Gateway"`},
		{"a stranger", "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, 401, `"message":"URL: the endpoint refuses the request without a valid token: set VMCP_TOKEN, or name a file in --token-file"`},
		{"nothing there", "text/plain", "404 page not found", 404, `"message":"URL: HTTP 404 Not Found: no endpoint at this path"`},
		{"half an event", "text/event-stream", "data: {\"jsonrpc\":", 200, `"message":"URL: the connection ended before the response; the request may have been executed`},
		{"no JSON", "application/json", `{"jsonrpc"`, 200, `"message":"URL: the response is not a JSON-RPC message: `},
		{"too large", "text/event-stream", "data: " + strings.Repeat("x", 64<<20+1) + "\n\n", 200, `"message":"URL: the response is larger than 67108864 bytes"`},
		{"elsewhere", "", "", 307, `which has another origin; configure that as the url"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "too large" && testing.Short() {
				t.Skip("64 MiB take long with the race detector")
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != modernCall || r.Header.Get("Mcp-Method") != "tools/call" || r.Header.Get("Mcp-Name") != "=?base64?w6k=?=" || r.Header.Get("X-Key") != "k" {
					t.Errorf("the endpoint got %s with %v", body, r.Header)
				}
				w.Header().Set("Location", "http://other.invalid/")
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			b := start(t, server.URL+"/mcp?key=hidden", http.Header{"X-Key": {"k"}})
			got := post(t, b, 1, modernCall)[0]
			want := strings.Replace(tt.want, "URL", server.URL+"/mcp", 1)
			if !strings.Contains(got, want) || strings.HasPrefix(want, "{") && got != want || !json.Valid([]byte(got)) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if said := b.said.String(); strings.Contains(said, "hidden") || strings.Contains(said, "secret") {
				t.Errorf("said %s", said)
			}
		})
	}
}

// TestStreamGoesOnBehindItsLastEvent: after a broken stream the response is fetched with Last-Event-ID.
func TestStreamGoesOnBehindItsLastEvent(t *testing.T) {
	resumed := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", "s1")
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodGet:
			resumed <- r.Header.Get("Last-Event-Id") + " " + r.Header.Get("Mcp-Session-Id") + " " + r.Header.Get("Mcp-Protocol-Version")
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n")
		case strings.Contains(string(body), `"initialize"`):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
		case strings.Contains(string(body), `"id":2`):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "id: e7\nretry: 20\ndata:\n\n")
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	got := post(t, start(t, server.URL, nil), 2,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)
	if want := `{"jsonrpc":"2.0","id":2,"result":{}}`; got[1] != want {
		t.Errorf("got %s, want %s", got[1], want)
	}
	if how := <-resumed; how != "e7 s1 2025-11-25" {
		t.Errorf("resumed with %q", how)
	}
}

// TestRequestsAreBounded: requests beyond the bound of concurrent ones fail with an error, and the
// others are not affected.
func TestRequestsAreBounded(t *testing.T) {
	open := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID json.RawMessage }
		json.NewDecoder(r.Body).Decode(&m)
		<-open
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}))
	defer server.Close()
	b := start(t, server.URL, nil)
	var lines []string
	for id := range 300 {
		lines = append(lines, strings.Replace(modernCall, `"id":1`, fmt.Sprint(`"id":`, id), 1))
	}
	lines = append(lines, lines[0])
	refused := post(t, b, 45, lines...)
	for _, line := range refused[:44] {
		if !strings.Contains(line, `"code":-32000,"message":"too many concurrent requests: 256`) {
			t.Fatalf("got %s", line)
		}
	}
	if !strings.Contains(refused[44], "id 0 is in use") {
		t.Errorf("got %s", refused[44])
	}
	close(open)
	if done := post(t, b, 256); !strings.Contains(done[255], `"result":{}`) {
		t.Errorf("got %s", done[255])
	}
}

// TestSubscriptionsAreKeptForALaterSession: a bounded number of them is renewed when the
// endpoint has dropped the session; the client's initialize is repeated unchanged.
func TestSubscriptionsAreKeptForALaterSession(t *testing.T) {
	var mu sync.Mutex
	opened, subscribed := 0, map[string]int{} // the second by session
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(body, &m)
		mu.Lock()
		defer mu.Unlock()
		session := r.Header.Get("Mcp-Session-Id")
		switch {
		case m.Method == "initialize":
			if !strings.Contains(string(body), `"params":{"protocolVersion":"2025-11-25","capabilities":{"x":{"n":1.0}}`) {
				t.Errorf("initialize: %s", body)
			}
			opened++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", opened))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, m.ID)
			return
		case session == "s1" && m.Method == "ping":
			w.WriteHeader(http.StatusNotFound)
			return
		case m.Method == "resources/subscribe" || m.Method == "logging/setLevel":
			subscribed[session]++
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}))
	defer server.Close()
	b := start(t, server.URL, nil)
	post(t, b, 1, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"x":{"n":1.0}},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(t, b, 1, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
	post(t, b, 1, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"`+strings.Repeat("u", 5<<10)+`"}}`)
	for id := range 1005 {
		post(t, b, 1, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"r:%d"}}`, id, id))
	}
	post(t, b, 1, `{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"r:5"}}`)
	if got := post(t, b, 1, `{"jsonrpc":"2.0","id":4,"method":"ping"}`); got[0] != `{"jsonrpc":"2.0","id":4,"result":{}}` {
		t.Errorf("ping: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := 999; opened != 2 || subscribed["s1"] != 1007 || subscribed["s2"] != want {
		t.Errorf("%d sessions; %v subscriptions and log levels, want %d in the second", opened, subscribed, want)
	}
}

// TestInput: a line that is no message of JSON-RPC is answered with an error, and a message beyond the size bound ends the
// bridge.
func TestInput(t *testing.T) {
	b := start(t, "http://127.0.0.1:1/mcp", nil)
	got := post(t, b, 4, "nonsense", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":8,"method":"ping"}`, "", `[]`)
	for i, want := range []string{"-32700", "tools/list before initialize", `"id":8,"result":{}`, `"error"`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("got %s, want %s", got[i], want)
		}
	}
	if testing.Short() {
		return // 64 MiB take long with the race detector
	}
	go func() {
		chunk := strings.Repeat("x", 1<<20)
		for range 65 {
			if _, err := io.WriteString(b.in, chunk); err != nil {
				return
			}
		}
	}()
	select {
	case err := <-b.ended:
		if err == nil || !strings.Contains(err.Error(), "a message is larger than 67108864 bytes") {
			t.Errorf("it ended with %v", err)
		}
		b.ended <- err
	case <-time.After(bridgeTime):
		t.Error("a message without an end is read for ever")
	}
}
