package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/script"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// everything is a backend that offers one of each.
func everything(c *wiretest.Call) (string, error) {
	results := map[string]string{
		wire.ToolsList:     `{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{"name":"slow","inputSchema":{"type":"object"}},{"name":"fails","inputSchema":{"type":"object"}}]}`,
		wire.PromptsList:   `{"prompts":[{"name":"greet"}]}`,
		wire.PromptsGet:    `{"messages":[]}`,
		wire.ResourcesList: `{"resources":[{"uri":"test://one","name":"one"}]}`,
		wire.TemplatesList: `{"resourceTemplates":[]}`,
		wire.ResourcesRead: `{"contents":[]}`,
		wire.Complete:      `{"completion":{"values":[]}}`,
	}
	switch r, name := results[c.Method], jsonscan.GetString(c.Params, "name"); {
	case r != "":
		return r, nil
	case name == "slow":
		return `{"task":{"taskId":"t-1","status":"working"}}`, nil
	case name == "fails":
		text := strings.Repeat("x", number(jsonscan.GetPath(c.Params, "arguments", "size")))
		return `{"content":[{"type":"text","text":"` + text + `"}],"isError":true,"_meta":{}}`, nil
	case c.Method == wire.ToolsCall:
		return `{"content":[]}`, nil
	case c.Method == wire.Subscribe, c.Method == wire.Unsubscribe, c.Method == wire.SetLevel, strings.HasPrefix(c.Method, "tasks/"):
		return `{}`, nil
	}
	return "", wiretest.ErrDefault
}

func number(b []byte) int {
	n, _ := strconv.Atoi(string(b))
	return n
}

// door is a proxy whose metrics, log, spans and audit show what passed its door.
type door struct {
	t     *testing.T
	proxy *proxy.Proxy
	url   string
	audit testkit.Buffer
	spans *tracetest.InMemoryExporter

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

func (d *door) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(b)
}

func startDoor(t *testing.T, scripts ...config.ScriptedTool) *door {
	d := &door{t: t, spans: tracetest.NewInMemoryExporter()}
	backend := httptest.NewServer(&wiretest.Server{
		Capabilities: `{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"tasks":{"requests":{"tools":{"call":{}}}}}`,
		Handle:       everything,
	})
	t.Cleanup(backend.Close)
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewJSONHandler(d, &slog.HandlerOptions{Level: slog.LevelDebug})), AuditOut: &d.audit, Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(d.spans))})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() { p.Close(); srv.Close() })
	d.proxy, d.url = p, srv.URL
	if err := p.Apply(&config.Config{
		Backends: []config.Backend{{Name: "b", URL: backend.URL}}, ScriptedTools: scripts,
		Audit: config.Audit{Enabled: true, Mode: "strict"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// passages are the requests at the door, as metrics, log, spans and audit report them: "requests tools/call ok", "calls
// tools/call client ok", "log call tools/call client ok", "log request ping ok", "trace tools/call", "trace step",
// "audit tools/call", "audit step".
func (d *door) passages() map[string]int {
	resp, err := http.Get(d.url + "/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	seen := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^vmcp_(requests|calls)_total\{(?:by="(\w+)",)?method="([^"]+)",outcome="(\w+)"\} (\d+)`).FindAllStringSubmatch(string(page), -1) {
		n, _ := strconv.Atoi(m[5])
		seen[strings.Join(strings.Fields(m[1]+" "+m[3]+" "+m[2]+" "+m[4]), " ")] += n
	}
	for line := range strings.Lines(d.audit.String()) {
		var l struct {
			Type, Outcome string
			Target        struct{ Method string }
		}
		switch err := json.Unmarshal([]byte(line), &l); {
		case err != nil:
			d.t.Errorf("audit: %v: %s", err, line)
		case l.Outcome == "started", l.Type == "vmcp_config_applied":
		case strings.HasPrefix(l.Type, "vmcp_workflow_step"):
			seen["audit step"]++
		default:
			seen["audit "+l.Target.Method]++
		}
	}
	for _, s := range d.spans.GetSpans() {
		switch first, _, _ := strings.Cut(s.Name, " "); first {
		case "run", "backend": // are behind the door
		case "call_tool":
			seen["trace step"]++
		default:
			seen["trace "+s.Name]++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(d.log.String()) {
		var l struct{ Msg, Method, By, Outcome string }
		if json.Unmarshal([]byte(line), &l) == nil && (l.Msg == "call" || l.Msg == "request") {
			seen[strings.Join(strings.Fields("log "+l.Msg+" "+l.Method+" "+l.By+" "+l.Outcome), " ")]++
		}
	}
	return seen
}

// during returns what passes the door while do runs, and until all of want has.
func (d *door) during(want []string, do func()) {
	d.t.Helper()
	before := d.passages()
	do()
	var got []string
	for late := time.Now().Add(time.Minute); ; {
		got = nil
		for what, n := range d.passages() {
			got = append(got, slices.Repeat([]string{what}, n-before[what])...)
		}
		slices.Sort(got)
		slices.Sort(want)
		if slices.Equal(got, want) || len(got) >= len(want) || time.Now().After(late) {
			break
		}
		<-time.After(5 * time.Millisecond) // another goroutine is about to count
	}
	if !slices.Equal(got, want) {
		d.t.Errorf("passed the door:\n got %q\nwant %q", got, want)
	}
}

// passage is what one request of a client makes.
func passage(method, outcome string) []string {
	label := label(method)
	if wire.MethodOf(method).Call {
		return []string{"requests " + label + " " + outcome, "calls " + label + " client " + outcome, "log call " + method + " client " + outcome, "trace " + method, "audit " + method}
	}
	return []string{"requests " + label + " " + outcome, "log request " + method + " " + outcome, "trace " + method, "audit " + method}
}

// label is the label of a method in metrics.
func label(method string) string {
	if slices.Contains(append(wire.FromClients(), "GET", "DELETE"), method) {
		return method
	}
	return "other"
}

// paramsOf are valid params of every method that needs some.
var paramsOf = map[string]string{
	wire.ToolsCall:     `{"name":"slow"}`,
	wire.PromptsGet:    `{"name":"greet"}`,
	wire.ResourcesRead: `{"uri":"test://one"}`,
	wire.Complete:      `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":"b"}}`,
	wire.SetLevel:      `{"level":"error"}`,
	wire.Subscribe:     `{"uri":"test://one"}`,
	wire.Unsubscribe:   `{"uri":"test://one"}`,
	wire.TasksGet:      `{"taskId":"t-1"}`,
	wire.TasksUpdate:   `{"taskId":"t-1"}`,
	wire.TasksCancel:   `{"taskId":"t-1"}`,
	wire.TasksResult:   `{"taskId":"t-1"}`,
	wire.TasksList:     `{"taskId":"t-1"}`,
	wire.Listen:        `{"notifications":{"toolsListChanged":true}}`,
	wire.Cancelled:     `{"requestId":"none"}`,
}

// peer is a client of either era over either transport.
type peer interface {
	call(method, params string)
	notify(method, params string)
	listen(params string) // opens subscriptions/listen and ends it
}

// TestEveryMethodPassesTheDoorOnce uses every method of the table in internal/wire, with each kind of client: each
// request is counted once, and makes one log line at debug.
func TestEveryMethodPassesTheDoorOnce(t *testing.T) {
	testmode.Parallel(t)
	for _, revision := range []string{wire.Rev2511, wiretest.Modern} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(transport+" "+revision, func(t *testing.T) {
				d := startDoor(t)
				c := d.connect(transport, revision)
				for _, method := range append(wire.FromClients(), "vendor/unknown", "notifications/unknown") {
					d.use(c, method, revision)
				}
				if h, ok := c.(*httpPeer); ok && revision == wire.Rev2511 {
					d.during(passage("GET", "ok"), h.stream)
					d.during(passage("DELETE", "ok"), h.end)
				}
			})
		}
	}
}

// use makes a client use one method.
func (d *door) use(c peer, method, revision string) {
	d.t.Helper()
	params := paramsOf[method]
	if params == "" {
		params = "{}"
	}
	want, do := passage(method, "ok"), c.call
	switch exists := wire.MethodOf(method).Exists(revision == wiretest.Modern); {
	case method == wire.Initialize, method == wire.Discover && !exists: // says of which era a client is
		return
	case strings.HasPrefix(method, "notifications/"):
		do = c.notify
	case !exists:
		want = []string{"requests " + label(method) + " error", "log request " + method + " error", "trace " + method, "audit " + method}
	case method == wire.Listen:
		do = func(_, params string) { c.listen(params) }
		if _, ok := c.(*stdioPeer); ok {
			want = append(want, passage(wire.Cancelled, "ok")...)
		}
	}
	d.during(want, func() { do(method, params) })
}

// connect connects a client; one with a session passes the door by that.
func (d *door) connect(transport, revision string) peer {
	d.t.Helper()
	var want []string
	if revision != wiretest.Modern {
		want = append(passage(wire.Initialize, "ok"), passage(wire.Initialized, "ok")...)
	}
	var c peer
	d.during(want, func() {
		if transport == "http" {
			c = newHTTPPeer(d, revision)
		} else {
			c = newStdioPeer(d, revision)
		}
	})
	return c
}

type httpPeer struct {
	d        *door
	client   *wiretest.Client
	revision string
	acked    chan struct{}
}

func newHTTPPeer(d *door, revision string) *httpPeer {
	c := &httpPeer{d: d, revision: revision, acked: make(chan struct{}, 1)}
	c.client = &wiretest.Client{URL: d.url + "/mcp", Revision: revision, Notified: func(m wiretest.Message) {
		if m.Method == wire.Acknowledged {
			c.acked <- struct{}{}
		}
	}}
	if err := c.client.Connect(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (c *httpPeer) call(method, params string) { c.client.Call(c.d.t.Context(), method, params) }

func (c *httpPeer) notify(method, params string) {
	if err := c.client.Notify(c.d.t.Context(), method, params); err != nil {
		c.d.t.Errorf("%s: %v", method, err)
	}
}

func (c *httpPeer) listen(params string) {
	ctx, cancel := context.WithCancel(c.d.t.Context())
	go func() { <-c.acked; cancel() }()
	c.client.Call(ctx, wire.Listen, params)
}

// do sends a GET or DELETE of the session; it returns when the response has begun.
func (c *httpPeer) do(method string) {
	ctx, cancel := context.WithCancel(c.d.t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, method, c.d.url+"/mcp", nil)
	r.Header.Set("Mcp-Session-Id", c.client.Session())
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.d.t.Error(err)
		return
	}
	resp.Body.Close()
}

func (c *httpPeer) stream() { c.do("GET") }
func (c *httpPeer) end()    { c.do("DELETE") }

type stdioPeer struct {
	d      *door
	client *wiretest.StdioClient
	in     io.Writer
}

func newStdioPeer(d *door, revision string) *stdioPeer {
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- d.proxy.ServeStdio(d.t.Context(), toServer, fromServer) }()
	d.t.Cleanup(func() {
		in.Close()
		out.Close()
		if err := <-ended; err != nil {
			d.t.Errorf("stdio: %v", err)
		}
	})
	c := &stdioPeer{d: d, in: in}
	c.client = wiretest.NewStdioClient(revision, out, in)
	c.client.Notified = func(m wiretest.Message) {
		if m.Method == wire.Acknowledged {
			id := jsonscan.GetPath(m.Params, "_meta", wire.MetaSubscriptionID)
			go c.notify(wire.Cancelled, `{"requestId":`+string(id)+`}`)
		}
	}
	if err := c.client.Connect(); err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (c *stdioPeer) call(method, params string) { c.client.Call(method, params) }

func (c *stdioPeer) listen(params string) { c.client.Call(wire.Listen, params) }

func (c *stdioPeer) notify(method, params string) {
	fmt.Fprintf(c.in, "{\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":%s}\n", method, params)
}

const callingScript = `
def run(params):
    call_tool("b.plain")
    call_tool("plain")
    call_tool("leaf")
    try_call_tool("fails", {"size": 10})
    try_call_tool("fails", {"size": 1000000})
    try_call_tool("nobody")
    return {}
`

// TestEveryCallOfAScriptPassesTheDoorOnce: calls by a script pass the door like a client's: of backends' tools, of
// other scripts and of unknown tools.
func TestEveryCallOfAScriptPassesTheDoorOnce(t *testing.T) {
	d := startDoor(t,
		config.ScriptedTool{Name: "leaf", Description: "d", Script: "def run(params):\n    return {}\n"},
		config.ScriptedTool{Name: "calls", Description: "d", Script: callingScript})
	c := d.connect("http", wiretest.Modern)
	want := passage(wire.ToolsCall, "ok")
	for _, outcome := range []string{"ok", "ok", "ok", "tool_error", "tool_error", "error"} {
		want = append(want, "calls tools/call script "+outcome, "log call tools/call script "+outcome, "trace step", "audit step")
	}
	d.during(want, func() { c.call(wire.ToolsCall, `{"name":"calls"}`) })
}

// TestCallsCountByOutcome: calls are counted by outcome, also if only the last bytes of the result show it.
func TestCallsCountByOutcome(t *testing.T) {
	d := startDoor(t,
		config.ScriptedTool{Name: "broken", Description: "d", Script: "def run(params):\n    fail(\"no\")\n"},
		config.ScriptedTool{Name: "greedy", Description: "d", Script: "def run(params):\n    while True:\n        pass\n", Limits: &script.Limits{Steps: 1000}})
	c := d.connect("http", wire.Rev2511)
	for _, tt := range []struct{ params, outcome string }{
		{`{"name":"plain"}`, "ok"},
		{`{"name":"fails","arguments":{"size":10}}`, "tool_error"},
		{`{"name":"fails","arguments":{"size":2000000}}`, "tool_error"},
		{`{"name":"nobody"}`, "error"},
		{`{"name":"plain","Name":"fails"}`, "error"},
		{`{"name":"broken"}`, "error"},
		{`{"name":"greedy"}`, "limit"},
	} {
		d.during(passage(wire.ToolsCall, tt.outcome), func() { c.call(wire.ToolsCall, tt.params) })
	}
}

// TestARunCountsOnce: a run that asks a stateless client is counted at its end, however often the last request is
// repeated.
func TestARunCountsOnce(t *testing.T) {
	_, url := startAsking(t)
	result, failure := modernCall(t, url, "asking", "")
	var last string
	for range 3 {
		last = asks(t, result).answers()
		result, failure = modernCall(t, url, "asking", last)
	}
	if failure != nil || !strings.Contains(string(result), "to right") {
		t.Fatalf("the run ended with %s %s", result, failure)
	}
	modernCall(t, url, "asking", last)
	_, page := (&raw{t: t, url: strings.TrimSuffix(url, "/mcp") + "/metrics"}).do("GET", "")
	for _, want := range []string{
		`vmcp_script_runs_total{outcome="ok",tool="asking"} 1`,
		`vmcp_script_suspensions_total{tool="asking"} 3`,
		`vmcp_script_run_duration_seconds_count{tool="asking"} 1`,
		`vmcp_calls_total{by="client",method="tools/call",outcome="suspended"} 3`,
		`vmcp_calls_total{by="client",method="tools/call",outcome="ok"} 2`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(page, `vmcp_script_runs_total{outcome="suspended"`) {
		t.Error("a question counts as a run")
	}
}
