package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// auditLine is an audit event.
type auditLine struct {
	ID       string `json:"audit_id"`
	Type     string
	Outcome  string
	Source   struct{ Type, Value string }
	Subjects map[string]string
	Target   map[string]string
	Metadata struct {
		Extra struct {
			Transport, Session, Decision, Policy, Run, Step, Parent, Reason string
			Code                                                            int
			Duration                                                        float64 `json:"duration_ms"`
			BytesIn                                                         int     `json:"bytes_in"`
			BytesOut                                                        int     `json:"bytes_out"`
		}
	}
	Data map[string]json.RawMessage
}

// auditLines reads the events of calls.
func auditLines(t *testing.T, text string, types ...string) (lines []auditLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l auditLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if slices.Contains(types, l.Type) && l.Outcome != audit.Started {
			lines = append(lines, l)
		}
	}
	return lines
}

// audited is a proxy with an audit log, for alice and bob, over a backend with a secret.
type audited struct {
	t     *testing.T
	url   string
	token map[string]string
	out   *testkit.Buffer
	calls atomic.Int32 // that reached the backend
	proxy *proxy.Proxy
	cfg   config.Config // of the next apply, which takes a copy
}

const auditSecret = "s3cr3t-of-the-backend"

func startAudited(t *testing.T, a config.Audit, scripts ...config.ScriptedTool) *audited {
	t.Helper()
	d := &audited{t: t, out: &testkit.Buffer{}}
	backend := httptest.NewServer(&wiretest.Server{Capabilities: `{"tools":{},"prompts":{},"resources":{}}`, Handle: func(c *wiretest.Call) (string, error) {
		if c.Method == "tools/call" {
			d.calls.Add(1)
			if strings.Contains(string(c.Params), "repeat") {
				return `{"content":[{"type":"text","text":"you sent ` + c.Header.Get("X-Key") + `"}]}`, nil
			}
		}
		return everything(c)
	}})
	t.Cleanup(backend.Close)
	file, tokens := tokens(t, "alice", "bob")
	d.token = tokens
	a.Enabled, a.Mode = true, "strict"
	secrets := &secret.Redactor{}
	d.proxy = proxy.New(proxy.Options{Log: slog.New(slog.DiscardHandler), AuditOut: d.out, Secrets: secrets})
	srv := httptest.NewServer(d.proxy.Handler())
	t.Cleanup(func() { d.proxy.Close(); srv.Close() })
	d.url = srv.URL
	d.cfg = config.Config{
		Backends:      []config.Backend{{Name: "b", URL: backend.URL, Headers: map[string]string{"X-Key": auditSecret}}},
		IncomingAuth:  config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}},
		ScriptedTools: scripts, Audit: a,
	}
	d.apply(d.cfg)
	secrets.Use([]string{auditSecret}) // as cfg.Secrets has it for a file
	return d
}

func (d *audited) apply(cfg config.Config) {
	d.t.Helper()
	if err := d.proxy.Apply(&cfg); err != nil {
		d.t.Fatal(err)
	}
	if err := d.proxy.Settled(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *audited) client(who string) *wiretest.Client {
	d.t.Helper()
	c := &wiretest.Client{URL: d.url + "/mcp", Revision: "2025-11-25", Header: map[string][]string{"Authorization": {"Bearer " + d.token[who]}}}
	if err := c.Connect(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// An event says who did what to what, from where, with which outcome.
func TestWhatALineSays(t *testing.T) {
	d := startAudited(t, config.Audit{})
	c := d.client("alice")
	c.Call(t.Context(), "tools/call", `{"name":"plain","arguments":{"password":"hunter2-hunter2"}}`)
	c.Call(t.Context(), "tools/call", `{"name":"fails"}`)
	c.Call(t.Context(), "tools/call", `{"name":"nobody-`+auditSecret+`"}`)
	c.Call(t.Context(), "prompts/get", `{"name":"greet"}`)
	c.Call(t.Context(), "resources/read", `{"uri":"test://one"}`)
	lines := auditLines(t, d.out.String(), audit.ToolCall, audit.PromptGet, audit.ResourceRead)
	type row struct{ kind, outcome, target, name, backend, original string }
	var got []row
	for _, l := range lines {
		got = append(got, row{l.Type, l.Outcome, l.Target["type"], l.Target["name"], l.Target["backend"], l.Target["original"]})
		if l.Subjects["user_id"] != "alice" || l.Subjects["issuer"] != "vmcp:tokens" || l.Subjects["client_name"] != "raw" || l.Subjects["client_version"] != "1" {
			t.Errorf("subjects %v", l.Subjects)
		}
		if x := l.Metadata.Extra; l.Source.Value != "127.0.0.1" || l.Source.Type != "network" || x.Transport != "streamable-http" || x.Session != c.Session()[:6] || x.Duration <= 0 || x.BytesIn == 0 || l.Target["endpoint"] != "/mcp" {
			t.Errorf("line %+v", l)
		}
		if l.Data != nil {
			t.Errorf("data %s without being asked for", l.Data)
		}
	}
	want := []row{
		{audit.ToolCall, audit.Success, "tool", "plain", "b", "plain"},
		{audit.ToolCall, audit.ApplicationError, "tool", "fails", "b", "fails"},
		{audit.ToolCall, audit.Error, "tool", "nobody-***", "", ""},
		{audit.PromptGet, audit.Success, "prompt", "greet", "b", "greet"},
		{audit.ResourceRead, audit.Success, "resource", "test://one", "b", "test://one"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines\n%q\nwant\n%q", got, want)
	}
	if n := lines[0].Metadata.Extra.BytesOut; n != len(`{"content":[]}`) {
		t.Errorf("bytes_out is %d", n)
	}
	for _, hidden := range []string{"hunter2", auditSecret, "vmcp_"} {
		if strings.Contains(strings.ReplaceAll(d.out.String(), "vmcp_config_applied", ""), hidden) {
			t.Errorf("%q stands in\n%s", hidden, d.out.String())
		}
	}
	if applied := auditLines(t, d.out.String(), audit.ConfigApplied); len(applied) != 1 || string(applied[0].Data["backends"]) != `["b"]` {
		t.Errorf("configurations applied: %+v", applied)
	}
}

// A request that the edge refuses makes an event without a name and without what was sent.
func TestLinesOfRefusals(t *testing.T) {
	d := startAudited(t, config.Audit{})
	c := d.client("alice")
	url := d.url + "/mcp"
	ask(t, "POST", url, "", greet)
	ask(t, "POST", url, "vmcp_this-is-no-token", greet)
	ask(t, "POST", url+"?access_token=vmcp_in-the-query", "", greet)
	ask(t, "POST", url, d.token["alice"], greet, "Origin", "https://evil.example")
	ask(t, "POST", url, d.token["bob"], greet, "Mcp-Session-Id", c.Session())
	ask(t, "GET", url, d.token["bob"], "", "Mcp-Session-Id", c.Session())
	ask(t, "GET", d.url+"/"+auditSecret, "", "", "Origin", "https://evil.example")
	var got []int
	for _, l := range auditLines(t, eventually(t, d.out, 6), audit.HTTPRequest) {
		got = append(got, l.Metadata.Extra.Code)
		if l.Outcome != audit.Denied || l.Target["name"] != "" || l.Subjects["user_id"] != "" && l.Subjects["user_id"] != "bob" {
			t.Errorf("line %+v", l)
		}
	}
	if want := []int{401, 401, 400, 403, 404, 403}; !slices.Equal(got, want) {
		t.Errorf("refusals %v, want %v", got, want)
	}
	for _, hidden := range []string{"vmcp_this", "vmcp_in", auditSecret, d.token["alice"], d.token["bob"]} {
		if strings.Contains(d.out.String(), hidden) {
			t.Errorf("%q stands in\n%s", hidden, d.out.String())
		}
	}
}

// eventually waits until the text has n events of refusals, which are written asynchronously.
func eventually(t *testing.T, out *testkit.Buffer, n int) string {
	t.Helper()
	for late := time.Now().Add(time.Minute); strings.Count(out.String(), audit.HTTPRequest) < n && time.Now().Before(late); {
		<-time.After(5 * time.Millisecond)
	}
	return out.String()
}

// Arguments and results are in an event as far as configured, without secrets and the caller's own token, and
// truncated.
func TestDataInLines(t *testing.T) {
	const call = `{"name":"plain","arguments":{"path":"/x","note":"` + auditSecret + `"}}`
	for _, tt := range []struct {
		name     string
		cfg      config.Audit
		call     string
		request  string
		response string
	}{
		{"names", config.Audit{Arguments: "names"}, call, `"arguments":["path","note"]`, ``},
		{"hash", config.Audit{Arguments: "hash"}, `{"name":"plain","arguments":{ "a" : 1 }}`, `"arguments":"sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"`, ``},
		{"request", config.Audit{IncludeRequestData: true}, call, `"request":{"name":"plain","arguments":{"path":"/x","note":"***"}}`, ``},
		{"response", config.Audit{IncludeResponseData: true}, `{"name":"plain","arguments":{"repeat":1}}`, ``, `"response":{"content":[{"type":"text","text":"you sent ***"}]}`},
		{"cut", config.Audit{IncludeRequestData: true, IncludeResponseData: true, MaxDataSize: 40}, call, `"request":"{\"name\":\"plain\",\"arguments\":{\"path\":\"/x\"…"`, `"response":{"content":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startAudited(t, tt.cfg)
			if _, err := d.client("alice").Call(t.Context(), "tools/call", tt.call); err != nil {
				t.Fatal(err)
			}
			text := d.out.String()
			if !strings.Contains(text, tt.request) || !strings.Contains(text, tt.response) || strings.Contains(text, auditSecret) {
				t.Errorf("want %s and %s in\n%s", tt.request, tt.response, text)
			}
		})
	}
	d := startAudited(t, config.Audit{IncludeRequestData: true, MaxDataSize: 4096})
	d.client("alice").Call(t.Context(), "tools/call", `{"name":"plain","arguments":{"t":"`+d.token["alice"]+`"}}`)
	if text := d.out.String(); strings.Contains(text, d.token["alice"]) || !strings.Contains(text, `"arguments":{"t":"***"}`) {
		t.Errorf("the caller's token stands in\n%s", text)
	}
	d = startAudited(t, config.Audit{IncludeResponseData: true, MaxDataSize: 64})
	d.client("alice").Call(t.Context(), "tools/call", `{"name":"fails","arguments":{"size":2000000}}`)
	var lines []auditLine
	testkit.Eventually(t, "the line of a result that streams, which is written when it is sent", func() bool {
		lines = auditLines(t, d.out.String(), audit.ToolCall)
		return len(lines) > 0
	})
	if len(lines) != 1 || lines[0].Outcome != audit.ApplicationError || !strings.Contains(string(lines[0].Data["response"]), "xxx…") {
		t.Errorf("a result that streams: %.2000s", d.out.String())
	}
}

// A call of a scripted tool makes one event, and each call that the script makes another one that names it.
func TestLinesOfAScript(t *testing.T) {
	d := startAudited(t, config.Audit{},
		config.ScriptedTool{Name: "leaf", Description: "d", Script: "def run(params):\n    call_tool(\"plain\")\n    return {}\n"},
		config.ScriptedTool{Name: "calls", Description: "d", Script: "def run(params):\n    call_tool(\"plain\")\n    call_tool(\"leaf\")\n    try_call_tool(\"fails\", {\"size\": 1})\n    try_call_tool(\"nobody\")\n    return {}\n"})
	if _, err := d.client("alice").Call(t.Context(), "tools/call", `{"name":"calls"}`); err != nil {
		t.Fatal(err)
	}
	call := auditLines(t, d.out.String(), audit.ToolCall)
	steps := auditLines(t, d.out.String(), audit.StepCompleted, audit.StepFailed)
	if len(call) != 1 || len(steps) != 5 {
		t.Fatalf("%d lines of calls and %d of steps:\n%s", len(call), len(steps), d.out.String())
	}
	var got []string
	var leaf string
	for _, s := range steps {
		if s.Target["name"] == "leaf" {
			leaf = s.ID
		}
	}
	for _, s := range steps {
		parent := map[string]string{call[0].ID: "calls", leaf: "leaf"}[s.Metadata.Extra.Parent]
		got = append(got, s.Target["name"]+" of "+parent+" "+s.Type+" "+s.Outcome)
		if s.Metadata.Extra.Run != call[0].ID || call[0].Metadata.Extra.Run != call[0].ID || s.Subjects["user_id"] != "alice" || s.Metadata.Extra.Step == "" {
			t.Errorf("step %+v", s)
		}
	}
	want := []string{
		"plain of calls " + audit.StepCompleted + " success", "plain of leaf " + audit.StepCompleted + " success", "leaf of calls " + audit.StepCompleted + " success",
		"fails of calls " + audit.StepFailed + " application_error", "nobody of calls " + audit.StepFailed + " failure",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps\n%q\nwant\n%q", got, want)
	}
	if call[0].Target["backend"] != "scripts" || call[0].Target["original"] != "calls" {
		t.Errorf("call %+v\nstep %+v", call[0], steps[0])
	}
}

// A suspended run makes an event for each request, all with the same run.
func TestLinesOfARunThatWaits(t *testing.T) {
	bank, out := &chargeServer{charged: map[string]int{}}, &testkit.Buffer{}
	url := sdkBackend(t, bank.server(), false)
	p := proxy.New(proxy.Options{AuditOut: out})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() { p.Close(); srv.Close() })
	err := p.Apply(&config.Config{
		Backends:      []config.Backend{{Name: "bank", URL: url}},
		ScriptedTools: []config.ScriptedTool{{Name: "asking", Description: "asks four times", Script: askingScript}},
		Audit:         config.Audit{Enabled: true, Mode: "strict"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	result, failure := modernCall(t, srv.URL+"/mcp", "asking", "")
	for range 3 {
		result, failure = modernCall(t, srv.URL+"/mcp", "asking", asks(t, result).answers())
	}
	if failure != nil {
		t.Fatal(string(failure))
	}
	calls := auditLines(t, out.String(), audit.ToolCall)
	var reasons []string
	for _, c := range calls {
		reasons = append(reasons, c.Metadata.Extra.Reason)
		if c.Metadata.Extra.Run != calls[0].ID || c.Subjects["user_id"] != "anonymous" {
			t.Errorf("line %+v, want run %s", c, calls[0].ID)
		}
	}
	if !slices.Equal(reasons, []string{"suspended", "suspended", "suspended", ""}) {
		t.Errorf("reasons %q", reasons)
	}
	steps := auditLines(t, out.String(), audit.StepCompleted)
	if len(steps) != 3 {
		t.Errorf("%d steps, want the 3 that were done once each", len(steps))
	}
	for _, s := range steps {
		if s.Metadata.Extra.Run != calls[0].ID || !slices.ContainsFunc(calls, func(c auditLine) bool { return c.ID == s.Metadata.Extra.Parent }) {
			t.Errorf("step %+v", s)
		}
	}
}

// full is a disk that is full from a certain moment on.
type full struct {
	testkit.Buffer
	is atomic.Bool
}

func (f *full) Write(b []byte) (int, error) {
	if f.is.Load() {
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(b)
}

// With mode strict nothing is done that is not recorded: the event is on disk when the backend is called, and while
// events cannot be written, calls are refused and no backend gets them.
func TestStrict(t *testing.T) {
	out := &full{}
	var calls atomic.Int32
	var once sync.Once
	backend := httptest.NewServer(&wiretest.Server{Handle: func(c *wiretest.Call) (string, error) {
		if c.Method == "tools/call" {
			calls.Add(1)
			once.Do(func() {
				if !strings.Contains(out.String(), `"outcome":"started"`) {
					t.Error("the backend is called before there is a line")
				}
			})
		}
		return everything(c)
	}})
	t.Cleanup(backend.Close)
	p := proxy.New(proxy.Options{AuditOut: out})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() { p.Close(); srv.Close() })
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}, Audit: config.Audit{Enabled: true, Mode: "strict"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result, _ := modernCall(t, srv.URL+"/mcp", "plain", ""); result == nil {
		t.Fatal("a call that can be written down is refused")
	}
	session := &raw{t: t, url: srv.URL + "/mcp"}
	session.initialize("2025-11-25")
	out.is.Store(true)
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"plain","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	resp, text := ask(t, "POST", srv.URL+"/mcp", "", body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "plain")
	if resp.StatusCode != 503 || !strings.Contains(text, "audit.mode: strict") || !strings.Contains(text, `"id":7`) || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a call that cannot be written down: %s %s", resp.Status, text)
	}
	for _, method := range []string{"tools/call", "tools/list"} {
		resp, text = session.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":8,"method":%q,"params":{"name":"plain"}}`, method))
		if resp.StatusCode != 503 || !strings.Contains(text, "audit.mode: strict") || !strings.Contains(text, `"id":8`) || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s in a session that cannot be written down: %s %s", method, resp.Status, text)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the backend was called %d times", n)
	}
	out.is.Store(false)
	if result, _ := modernCall(t, srv.URL+"/mcp", "plain", ""); result == nil || calls.Load() != 2 {
		t.Error("with room again calls are refused")
	}
	if _, page := ask(t, "GET", srv.URL+"/metrics", "", ""); !strings.Contains(page, "vmcp_audit_dropped_total ") || strings.Contains(page, "vmcp_audit_dropped_total 0\n") {
		t.Error("the line that was not written does not count")
	}
}

// The configuration knows all event types, and no others.
func TestAuditTypes(t *testing.T) {
	if !slices.Equal(config.AuditTypes, audit.Types) {
		t.Errorf("config has %q\naudit has %q", config.AuditTypes, audit.Types)
	}
}
