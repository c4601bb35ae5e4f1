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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

// A gated backend answers nothing before its gate is open.
type gated struct {
	url  string
	open func()
}

func newGated(t *testing.T, tools ...string) *gated {
	gate := make(chan struct{})
	g := &gated{open: sync.OnceFunc(func() { close(gate) })}
	var list []string
	for _, name := range tools {
		list = append(list, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	r := &backendtest.Raw{Tools: strings.Join(list, ","), First: func(x *backendtest.Exchange) bool {
		select {
		case <-gate:
		case <-x.Request.Context().Done():
		}
		return false
	}, Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[{"type":"text","text":"done"}]}`) }}
	g.url = r.Start(t)
	t.Cleanup(g.open)
	return g
}

// young runs a proxy over a configuration without waiting for anything.
func young(t *testing.T, cfg *config.Config) (*proxy.Proxy, *raw) {
	t.Helper()
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Version: "test"})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() {
		p.Close()
		srv.Close()
	})
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, url: srv.URL + "/mcp"}
	c.initialize("2025-11-25")
	return p, c
}

// request makes a request with its own context of waiting.
func (c *raw) request(method, params string) string {
	c.t.Helper()
	_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params))
	return body
}

// waiting starts a request and returns when the proxy is serving it; the response is sent on the channel.
func (c *raw) waiting(method, params string) <-chan string {
	c.t.Helper()
	answer := make(chan string, 1)
	go func() { answer <- c.request(method, params) }()
	metrics := strings.TrimSuffix(c.url, "/mcp") + "/metrics"
	for {
		resp, err := http.Get(metrics)
		if err != nil {
			c.t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(page), fmt.Sprintf("vmcp_requests_running{method=%q} 1", method)) {
			return answer
		}
		select {
		case early := <-answer:
			c.t.Fatalf("%s did not wait: %s", method, early)
		default:
		}
	}
}

func (c *raw) ready() int {
	c.t.Helper()
	resp, err := http.Get(strings.TrimSuffix(c.url, "/mcp") + "/readyz")
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestFirstListsWaitForStartingBackends: the first lists are answered, and /readyz is ready, when every backend was
// tried.
func TestFirstListsWaitForStartingBackends(t *testing.T) {
	for method, want := range map[string]string{
		"tools/list": `"b_one"`, "prompts/list": `{"prompts":[]}`, "resources/list": `{"resources":[]}`, "resources/templates/list": `{"resourceTemplates":[]}`,
	} {
		t.Run(method, func(t *testing.T) {
			g := newGated(t, "one")
			_, c := young(t, &config.Config{Backends: []config.Backend{
				{Name: "a", URL: sdkBackend(t, toolServer("a", "x"), false)}, {Name: "b", URL: g.url}, {Name: "c", URL: "http://127.0.0.1:1/mcp"},
			}})
			answer := c.waiting(method, `{}`)
			if got := c.ready(); got != http.StatusServiceUnavailable {
				t.Errorf("/readyz while a backend starts: %d", got)
			}
			g.open()
			if got := <-answer; !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", method, got, want)
			}
			if got := c.ready(); got != http.StatusOK {
				t.Errorf("/readyz afterwards: %d", got)
			}
		})
	}
}

// TestNobodyWaitsForeverForAHangingBackend: after startup.wait lists are answered without it, /readyz is ready, and its
// names are "starting".
func TestNobodyWaitsForeverForAHangingBackend(t *testing.T) {
	testmode.Parallel(t)
	g := newGated(t, "one")
	cfg := &config.Config{Backends: []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "x"), false)}, {Name: "b", URL: g.url}}}
	cfg.Operational.Startup.Wait = config.Duration(50 * time.Millisecond)
	_, c := young(t, cfg)
	listed := ""
	for limit := time.Now().Add(time.Minute); !strings.Contains(listed, `"a_x"`) && time.Now().Before(limit); {
		listed = c.request("tools/list", `{}`) // a, too, may not be up within 50 ms
	}
	if !strings.Contains(listed, `"a_x"`) || strings.Contains(listed, `"b_one"`) {
		t.Errorf("tools/list: %s", listed)
	}
	if got := c.ready(); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
	want := `"error":{"code":-32603,"message":"backend b is starting; retry in a moment","data":{"backend":"b","kind":"unavailable"}}`
	for _, of := range [][2]string{
		{"tools/call", `{"name":"b_one"}`}, {"prompts/get", `{"name":"b_p"}`}, {"resources/read", `{"uri":"x://y"}`}, {"resources/subscribe", `{"uri":"x://y"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b_p"},"argument":{"name":"a","value":""}}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x://y"},"argument":{"name":"a","value":""}}`},
	} {
		if got := c.request(of[0], of[1]); !strings.Contains(got, want) {
			t.Errorf("%s %s: %s", of[0], of[1], got)
		}
	}
}

// TestWatchersSeeWhetherTheEndpointIsReady: the end of the startup wait and the beginning of the shutdown are events,
// though no backend changes.
func TestWatchersSeeWhetherTheEndpointIsReady(t *testing.T) {
	testmode.Parallel(t)
	cfg := &config.Config{Backends: []config.Backend{{Name: "b", URL: newGated(t, "one").url}}}
	cfg.Operational.Startup.Wait = config.Duration(time.Second) // the first look is before
	p, c := young(t, cfg)
	events := follow(t, strings.TrimSuffix(c.url, "/mcp"))
	for _, want := range []string{`"ready":true,"draining":false`, `"draining":true`} {
		found := false
		for line := range events {
			if found = strings.HasPrefix(line, "data: ") && strings.Contains(line, want); found {
				break
			}
		}
		if !found {
			t.Fatalf("no event with %s", want)
		}
		p.Stopping()
	}
}

// TestWhoIsWokenFindsEverything: Changed is closed when everything that belongs to a new catalog is done, so that a
// list that is read then is not announced as changed afterwards.
func TestWhoIsWokenFindsEverything(t *testing.T) {
	for range 20 { // a catalog that comes a moment before the one that is waited for wakes, too
		if !wokenWhileLogging(t) {
			return
		}
	}
	t.Error("woken before the catalog is reported and its changes are announced")
}

// wokenWhileLogging reports whether Changed was closed while a new problem was still being logged.
func wokenWhileLogging(t *testing.T) bool {
	reached, gate, logging, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	b := &backendtest.Raw{Tools: `{"name":"one","inputSchema":{"type":"object"}}`, First: func(*backendtest.Exchange) bool {
		once()
		<-gate
		return false
	}}
	p := proxy.New(proxy.Options{Log: slog.New(onWarning{func() {
		close(logging)
		<-goOn
	}})})
	defer p.Close()
	if err := p.Apply(&config.Config{
		Backends:      []config.Backend{{Name: "b", URL: b.Start(t)}},
		ScriptedTools: []config.ScriptedTool{{Name: "s", Description: "d", Script: "def run(params): call_tool(\"b.missing\")\n"}},
	}); err != nil {
		t.Fatal(err)
	}
	<-reached
	next := p.Changed()
	close(gate)
	<-logging
	woken := false
	select {
	case <-next:
		woken = true
	default:
	}
	close(goOn)
	<-next
	return woken
}

// onWarning calls a function for every log record above info.
type onWarning struct{ f func() }

func (onWarning) Enabled(_ context.Context, l slog.Level) bool { return l > slog.LevelInfo }
func (w onWarning) Handle(context.Context, slog.Record) error  { w.f(); return nil }
func (w onWarning) WithAttrs([]slog.Attr) slog.Handler         { return w }
func (w onWarning) WithGroup(string) slog.Handler              { return w }

// TestCallWaitsForTheBackendThatMayHaveTheName calls a tool of a starting backend: the call is made as soon as it is
// ready. A call of a name that no backend can have does not wait.
func TestCallWaitsForTheBackendThatMayHaveTheName(t *testing.T) {
	for name, cfg := range map[string]*config.Config{
		"b_one": {},
		"one":   {Aggregation: config.Aggregation{ConflictResolution: "priority", ConflictResolutionConfig: config.ConflictResolutionConfig{PriorityOrder: []string{"a", "b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, "one")
			cfg.Backends = []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "x"), false)}, {Name: "b", URL: g.url}}
			_, c := young(t, cfg)
			if strings.HasPrefix(name, "b_") {
				if got := c.request("tools/call", `{"name":"c_one"}`); !strings.Contains(got, `"code":-32602,"message":"unknown tool: c_one"`) {
					t.Errorf("a name that nobody can have: %s", got)
				}
			}
			answer := c.waiting("tools/call", fmt.Sprintf(`{"name":%q}`, name))
			g.open()
			if got := <-answer; !strings.Contains(got, `"done"`) {
				t.Errorf("tools/call: %s", got)
			}
		})
	}
}

// TestDownIsNotUnknown calls names that an unavailable backend may have, and names that no backend can have.
func TestDownIsNotUnknown(t *testing.T) {
	cfg := &config.Config{
		Backends: []config.Backend{{Name: "b", URL: "http://127.0.0.1:1/mcp"}, {Name: "quiet", URL: "http://127.0.0.1:1/mcp"}},
		Aggregation: config.Aggregation{Tools: []config.WorkloadTools{
			{Workload: "b", Filter: []string{"get.*", "drop"}, Overrides: map[string]config.ToolOverride{"drop": {Name: "remove"}}},
			{Workload: "quiet", ExcludeAll: true},
		}},
		ScriptedTools: []config.ScriptedTool{{Name: "s", Description: "d", Script: `
def run(params):
    return [[r.kind, r.error] for r in [try_call_tool(name) for name in params["names"]]]
`, Parameters: config.Raw{JSON: json.RawMessage(`{"type":"object","properties":{"names":{"type":"array"}}}`)}}},
		CompositeTools: []config.CompositeTool{{Name: "old", Raw: config.Raw{JSON: json.RawMessage(
			`{"name":"old","description":"d","steps":[{"id":"one","type":"tool","tool":"b.echo"}]}`)}}},
	}
	p, c := young(t, cfg)
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, known := range map[string]bool{
		"b_get_it": true, "b_remove": true, "b_" + strings.Repeat("x", 62): true,
		"b_put": false, "b_": false, "quiet_x": false, "x": false,
	} {
		want := fmt.Sprintf(`"code":-32602,"message":"unknown tool: %s"`, name)
		if known {
			want = `"code":-32603,"message":"backend b is down: `
		}
		if got := c.request("tools/call", fmt.Sprintf(`{"name":%q}`, name)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		} else if known && !strings.Contains(got, `"data":{"backend":"b","kind":"unavailable"}`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := c.request("tools/call", `{"name":"s","arguments":{"names":["b_put","b.put","quiet.x","quiet_x","nobody_x"]}}`)
	if n := strings.Count(got, `[\"unavailable\",\"backend `); n != 4 || !strings.Contains(got, `[\"not_found\",`) {
		t.Errorf("a script's calls: %s", got)
	}
	if got := c.request("tools/call", `{"name":"old"}`); !strings.Contains(got, "backend b is down") || strings.Contains(got, "not found") {
		t.Errorf("a composite: %s", got)
	}
}

// TestScriptWaitsForAStartingBackend: a script's call is made when the backend is up.
func TestScriptWaitsForAStartingBackend(t *testing.T) {
	g := newGated(t, "one")
	_, c := young(t, &config.Config{
		Backends: []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "x"), false)}, {Name: "b", URL: g.url}},
		ScriptedTools: []config.ScriptedTool{{Name: "s", Description: "d", Script: `
def run(params):
    early = try_call_tool("b.one", timeout = 0.05)
    return [early.kind] + [call_tool(name) for name in ["b.one", "b_one"]]
`}},
	})
	answer := c.waiting("tools/call", `{"name":"s"}`)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(c.metrics(), `vmcp_script_effects_total{kind="call"`); {
		if time.Now().After(deadline) {
			t.Fatal("the script's first call, which has a time of its own, does not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.open()
	if got := <-answer; !strings.Contains(got, `"[\"unavailable\",{\"text\":\"done\"`) {
		t.Errorf("the script: %s", got)
	}
}

// metrics is the page of /metrics.
func (c *raw) metrics() string {
	c.t.Helper()
	resp, err := http.Get(strings.TrimSuffix(c.url, "/mcp") + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// TestChangesAreAnnouncedTogether: ten backends that become ready at about the same time cause few notifications, and a
// later one is announced as well. A client that lists after each of them has everything in the end.
func TestChangesAreAnnouncedTogether(t *testing.T) {
	testmode.Parallel(t)
	cfg := &config.Config{}
	var gates []*gated
	for i := range 11 {
		g := newGated(t, "one")
		gates = append(gates, g)
		cfg.Backends = append(cfg.Backends, config.Backend{Name: fmt.Sprint("b", i), URL: g.url})
	}
	cfg.Operational.Startup.Wait = config.Duration(time.Millisecond)
	_, c := young(t, cfg)
	c.request("tools/list", `{}`)
	events := c.events()
	until := func(want string) (count int) {
		for !strings.Contains(c.request("tools/list", `{}`), want) {
			select {
			case <-events:
				count++
			case <-time.After(time.Minute):
				t.Fatalf("no notification after %d that leads to %s", count, want)
			}
		}
		return count
	}
	for _, g := range gates[:10] {
		g.open()
	}
	n := 0
	for i := range 10 {
		n += until(fmt.Sprintf(`"b%d_one"`, i))
	}
	if n > 10 { // how many fewer depends on the machine; TestChangesOfAMomentAreOneNotification
		t.Errorf("%d notifications for ten backends", n)
	}
	gates[10].open()
	until(`"b10_one"`)
}

// TestWhoHasReadAListIsNotNotified: a client whose first list was delayed until it was complete is not notified of the
// changes before; one that has read nothing is, and later changes are announced to both. The same through a profile.
func TestWhoHasReadAListIsNotNotified(t *testing.T) {
	testmode.Parallel(t)
	for _, profile := range []string{"", "/some"} {
		g, mail := newGated(t, "one"), department("mail", "list")
		cfg := &config.Config{Backends: []config.Backend{{Name: "mail", URL: sdkBackend(t, mail, true)}, {Name: "b", URL: g.url}}, Profiles: []config.Profile{{Name: "some", Tools: []string{"*"}}}}
		p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil))})
		srv := httptest.NewServer(p.Handler())
		t.Cleanup(func() {
			p.Close()
			srv.Close()
		})
		if err := p.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		var has, lacks heard
		reader, other := connect(t, srv.URL+"/mcp"+profile, "2025-11-25", has.options()), connect(t, srv.URL+"/mcp"+profile, "2025-11-25", lacks.options())
		first := make(chan int, 1)
		go func() {
			list, err := reader.ListTools(t.Context(), nil)
			if err != nil {
				t.Error(err)
			}
			first <- len(list.Tools)
		}()
		g.open()
		if n := <-first; n != 2 {
			t.Errorf("%q: the first list has %d tools", profile, n)
		}
		comesTrue(t, func() bool { return lacks.count("tools") == 1 })
		addEcho(mail, "mail", "send")
		comesTrue(t, func() bool { return lacks.count("tools") == 2 })
		mail.AddPrompt(&mcp.Prompt{Name: "another"}, nil)
		comesTrue(t, func() bool { return has.count("prompts") > 0 && lacks.count("prompts") > 0 && has.count("tools") > 0 })
		if n := has.count("tools"); n != 1 {
			t.Errorf("%q: notified %d times, want once, of what has changed since it has the list: %v", profile, n, &has)
		}
		if list, err := other.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 3 {
			t.Errorf("%q: %v, %v", profile, list, err)
		}
	}
}

// options note what lists have changed.
func (h *heard) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ToolListChangedHandler:   func(context.Context, *mcp.ToolListChangedRequest) { h.note("tools") },
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { h.note("prompts") },
	}
}

// events opens the session's stream and reports each tools/list_changed on it.
func (c *raw) events() <-chan string {
	c.t.Helper()
	r, _ := http.NewRequestWithContext(c.t.Context(), "GET", c.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", c.session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		c.t.Fatal(resp, err)
	}
	events := make(chan string, 100)
	go func() {
		defer resp.Body.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := resp.Body.Read(buf)
			for range bytes.Count(buf[:n], []byte("tools/list_changed")) {
				events <- ""
			}
			if err != nil {
				return
			}
		}
	}()
	return events
}

// TestNoFalseWarningsAtStart starts proxies whose backends become ready one after the other, a large one in between: a
// script that calls them all is never reported to call a tool that does not exist.
func TestNoFalseWarningsAtStart(t *testing.T) {
	testmode.Parallel(t)
	var large []string
	for i := range 4000 {
		large = append(large, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	big := &backendtest.Raw{Tools: strings.Join(large, ",")}
	cfg := config.Config{}
	script := "def run(params):\n    call_tool(\"big_t1\")\n"
	for i := range 10 {
		small := &backendtest.Raw{Tools: `{"name":"one","inputSchema":{"type":"object"}}`}
		cfg.Backends = append(cfg.Backends, config.Backend{Name: fmt.Sprint("b", i), URL: small.Start(t)})
		script += fmt.Sprintf("    call_tool(\"b%d_one\")\n", i)
	}
	cfg.Backends = append(cfg.Backends, config.Backend{Name: "big", URL: big.Start(t)})
	cfg.ScriptedTools = []config.ScriptedTool{{Name: "s", Description: "d", Script: script}}
	for range 10 {
		var log bytes.Buffer
		p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		each := cfg
		if err := p.Apply(&each); err != nil {
			t.Fatal(err)
		}
		if err := p.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Close()
		if strings.Contains(log.String(), "no tool") {
			t.Fatalf("a false warning:\n%s", log.String())
		}
	}
}
