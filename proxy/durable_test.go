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
	"net/http/httputil"
	neturl "net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// A till is a backend with a tool of each kind, whose connections can be broken.
type till struct {
	mu      sync.Mutex
	calls   map[string]int
	keys    []string // of calls, as _meta and as header
	broken  atomic.Bool
	breaks  atomic.Int32  // so many calls more
	refuses atomic.Bool   // calls are answered 503
	silent  atomic.Bool   // calls are executed and not answered
	starts  chan struct{} // nothing is answered until it is closed; nil: it has started
}

func (c *till) did(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[what]
}

// serve is the backend's URL. While it is broken, a call is executed and its response is lost.
func (c *till) serve(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "till", Version: "1"}, nil)
	for name, hints := range map[string]mcp.ToolAnnotations{"pay": {}, "bulk": {}, "put": {IdempotentHint: true}, "look": {ReadOnlyHint: true}} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, map[string]string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls[name]++
			c.keys = append(c.keys, fmt.Sprint(req.Params.Meta["dev.vmcp/idempotencyKey"]), req.Extra.Header.Get("Idempotency-Key"))
			if name == "bulk" {
				return nil, map[string]string{"did": strings.Repeat(name, 3000)}, nil
			}
			return nil, map[string]string{"did": name}, nil
		})
	}
	inner, err := neturl.Parse(sdkBackend(t, s, true))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if c.starts != nil {
			select {
			case <-c.starts:
			case <-r.Context().Done():
			}
		}
		if c.refuses.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if bytes.Contains(body, []byte(`"tools/call"`)) && (c.broken.Load() || c.breaks.Add(-1) >= 0) {
			httputil.NewSingleHostReverseProxy(inner).ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		if bytes.Contains(body, []byte(`"tools/call"`)) && c.silent.Load() {
			httputil.NewSingleHostReverseProxy(inner).ServeHTTP(httptest.NewRecorder(), r)
			<-r.Context().Done()
			return
		}
		httputil.NewSingleHostReverseProxy(inner).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// startKept is start with a store that the test can use.
func startKept(t *testing.T, script string, more func(*config.Config)) (*till, durablepkg.Store, string) {
	t.Helper()
	c, kept, url, _ := startKeptProxy(t, script, more)
	return c, kept, url
}

func startKeptProxy(t *testing.T, script string, more func(*config.Config)) (*till, durablepkg.Store, string, *proxy.Proxy) {
	t.Helper()
	kept := durablepkg.NewMemory(durablepkg.Options{}, nil)
	c, url, p := startOver(t, kept, script, more)
	return c, kept, url, p
}

// startOver is start over a store.
func startOver(t *testing.T, kept durablepkg.Store, script string, more func(*config.Config)) (*till, string, *proxy.Proxy) {
	t.Helper()
	c := &till{calls: map[string]int{}}
	url, p := startBefore(t, c, kept, script, more)
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, url, p
}

// startBefore is startOver in front of c, without waiting until it has started.
func startBefore(t *testing.T, c *till, kept durablepkg.Store, script string, more func(*config.Config)) (string, *proxy.Proxy) {
	t.Helper()
	cfg := &config.Config{
		SessionStorage: config.SessionStorage{Provider: config.StorageSQLite},
		Backends:       []config.Backend{{Name: "till", URL: c.serve(t), IdempotencyHeader: "Idempotency-Key"}},
		ScriptedTools:  []config.ScriptedTool{{Name: "asking", Description: "d", Script: script}},
	}
	if more != nil {
		more(cfg)
	}
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), OpenStore: func(*config.Config) (durablepkg.Store, *durablepkg.Ring, error) { return kept, nil, nil }})
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	return srv.URL + "/mcp", p
}

// metric is the value of a metric on the page.
func metric(t *testing.T, url, name string) string {
	t.Helper()
	_, page := ask(t, "GET", strings.TrimSuffix(url, "/mcp")+"/metrics", "", "")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (.*)$`).FindStringSubmatch(page)
	if m == nil {
		return "none"
	}
	return m[1]
}

// TestReadOnlyRunsWriteNothing: a script that only reads makes no write to the store; three calls that may not be
// repeated make one each, and one for the end.
func TestReadOnlyRunsWriteNothing(t *testing.T) {
	for tool, want := range map[string]struct{ writes, done string }{"look": {"0", "0"}, "pay": {"4", "1"}, "put": {"4", "1"}} {
		_, _, url := startKept(t, fmt.Sprintf("def run(params):\n    for i in range(3):\n        call_tool(%q)\n    return 1\n", tool), nil)
		if result, failure := modernCall(t, url, "asking", ""); !strings.Contains(string(result), `"structuredContent":1`) {
			t.Fatalf("%s: %s%s", tool, result, failure)
		}
		if writes, done := metric(t, url, "vmcp_journal_write_seconds_count"), metric(t, url, `vmcp_runs{state="done"}`); writes != want.writes || done != want.done {
			t.Errorf("%s: %s writes and %s runs, want %s and %s", tool, writes, done, want.writes, want.done)
		}
		if n := metric(t, url, `vmcp_script_runs_total{outcome="ok",tool="asking"}`); n != "1" {
			t.Errorf("%s: %s runs are counted", tool, n)
		}
	}
}

// TestDoubtInALiveCall: a connection lost after a request was sent leaves a doubt, which the same request reports until
// it is resolved; a call that is configured as repeatable is repeated.
func TestDoubtInALiveCall(t *testing.T) {
	const script = "def run(params):\n    return call_tool(\"pay\")\n"
	const key = `,"_meta":{"dev.vmcp/idempotencyKey":"k","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	call := func(url string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asking","arguments":{}` + key + `}}`
		r := modernRequest(t.Context(), url, "asking", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	meta := regexp.MustCompile(`"dev.vmcp/run":\{"id":"\w+","state":"doubt","reason":"doubt","calls":\[\{"key":"0","name":"pay"`)
	c, kept, url := startKept(t, script, nil)
	c.broken.Store(true)
	first := call(url)
	if !regexp.MustCompile(meta.String()+`,"at":"asking.star:2:21","cause":"[^"]+"}\]`).MatchString(first) || !strings.Contains(first, "vmcp runs resolve") || !strings.Contains(first, `"isError":true`) {
		t.Fatalf("a lost answer: %s", first)
	}
	c.broken.Store(false)
	if again := call(url); !strings.Contains(again, "the run stopped in doubt") || meta.FindString(again) != meta.FindString(first) || c.did("pay") != 1 {
		t.Errorf("the same request: %s; it was done %d times", again, c.did("pay"))
	}
	list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Doubt}})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := kept.Resolve(t.Context(), list[0].ID, "0", durablepkg.Resolution{Done: json.RawMessage(`{"did":"pay"}`)}); err != nil {
		t.Fatal(err)
	}
	if last := call(url); !strings.Contains(last, `"structuredContent":{"did":"pay"}`) || !strings.Contains(last, `"state":"done"`) || c.did("pay") != 1 {
		t.Errorf("resolved: %s; it was done %d times", last, c.did("pay"))
	}
	if n := metric(t, url, `vmcp_run_doubts_total{tool="asking"}`); n != "1" {
		t.Errorf("%s doubts are counted", n)
	}
}

// TestNoAnswerInTime: a call without an answer in time is a timeout if the tool may be called again, and unknown to the script, or
// a doubt with its place and its cause, if not.
func TestNoAnswerInTime(t *testing.T) {
	const script = `def run(params):
    seen = [try_call_tool(t, timeout="20ms").kind for t in ["look", "put", "pay"]]
    if seen != ["timeout", "timeout", "unknown"]:
        fail(str(seen))
    call_tool("pay", timeout="20ms")
`
	c, _, url := startKept(t, script, nil)
	c.silent.Store(true)
	result, failure := modernCall(t, url, "asking", "")
	if want := `asking.star:5:14: call \"pay\" (effect 3): no answer within 20ms`; !strings.Contains(string(result), want) || c.did("look") != 1 || c.did("pay") != 2 {
		t.Errorf("want %s, have %s%s", want, result, failure)
	}
	c, _, url = startKept(t, script, func(cfg *config.Config) {
		cfg.SessionStorage, cfg.Runs.OnDoubt = config.SessionStorage{Provider: config.StorageMemory}, "wait"
	})
	c.silent.Store(true)
	result, failure = modernCall(t, url, "asking", "")
	if !strings.Contains(string(result), "no answer within 20ms") || strings.Contains(string(result), "vmcp runs resolve") {
		t.Errorf("a doubt in memory, where no command finds it: %s%s", result, failure)
	}
}

// TestNoAnswerOfAScriptInTime: the timeout of a call of a scripted tool bounds the time in which that is awake. It is unknown, and
// not repeated, if a call of that tool was interrupted that may not be.
func TestNoAnswerOfAScriptInTime(t *testing.T) {
	const script = `def run(params):
    kinds = [
        retry(lambda: try_call_tool(t, timeout="20ms"), max_attempts=3, delay="0s").kind
        for t in ["naps", "looks", "pays"]
    ]
    try_call_tool("both", timeout="20ms")
    return {"kinds": kinds, "caught": retry(lambda: call_tool("pays", timeout="20ms"), max_attempts=3, delay="0s")}
`
	c, _, url := startKept(t, script, func(cfg *config.Config) {
		for name, source := range map[string]string{
			"naps":  "    sleep(\"50ms\")\n    return 1\n",
			"looks": "    return call_tool(\"look\")\n",
			"pays":  "    return call_tool(\"pay\")\n",
			"both":  "    return parallel([lambda: call_tool(\"look\"), lambda: call_tool(\"look\")])\n",
		} {
			cfg.ScriptedTools = append(cfg.ScriptedTools, config.ScriptedTool{Name: name, Description: "D.", Script: "def run(params):\n" + source})
		}
	})
	c.silent.Store(true)
	result, failure := modernCall(t, url, "asking", "")
	if want := "asking.star:7:62"; !strings.Contains(string(result), want) || !strings.Contains(string(result), "is not known") || c.did("look") != 5 || c.did("pay") != 2 {
		t.Errorf("look was called %d times and pay %d, want 5 and 2, and the place %s in %s%s", c.did("look"), c.did("pay"), want, result, failure)
	}
}

// TestForsakenRuns: a run whose process has ended, and which its client cannot ask for again, is paused. An equal call of its
// principal is told of it, until it goes on; others, and those with a key, are not.
func TestForsakenRuns(t *testing.T) {
	kept := durablepkg.NewMemory(durablepkg.Options{Lease: 200 * time.Millisecond, Renew: -1}, nil)
	file, token := tokens(t, "ann", "bob")
	c, url, _ := startOver(t, kept, "def run(params):\n    return call_tool(\"put\")\n", func(cfg *config.Config) {
		cfg.IncomingAuth = config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}}
	})
	call := func(who, more string) string {
		r := modernRequest(t.Context(), url, "asking", more)
		r.Header.Set("Authorization", "Bearer "+token[who])
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const done = `"structuredContent":{"did":"put"}`
	if got := call("ann", ""); !strings.Contains(got, done) {
		t.Fatal(got)
	}
	list, _, err := kept.List(t.Context(), durablepkg.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	dead, _, err := kept.Get(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	dead.ID, dead.State = "", ""
	if _, err := kept.Create(t.Context(), dead, "a process that has ended", nil); err != nil {
		t.Fatal(err)
	}
	all := func(state durablepkg.State, n int) (list []durablepkg.Summary) {
		for len(list) != n {
			if list, _, err = kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{state}}); err != nil || t.Context().Err() != nil {
				t.Fatal(err, t.Context().Err())
			}
			runtime.Gosched()
		}
		return list
	}
	list = all(durablepkg.Paused, 1)
	if got := call("ann", ""); !strings.Contains(got, `"reason":"unknown","run":"`+list[0].ID) || c.did("put") != 1 {
		t.Errorf("an equal call: %s; it was done %d times", got, c.did("put"))
	}
	if got := call("bob", ""); !strings.Contains(got, done) {
		t.Errorf("the call of another principal: %s", got)
	}
	if got := call("ann", `,"arguments":{"x":1}`); !strings.Contains(got, done) {
		t.Errorf("another call: %s", got)
	}
	if err := kept.Resume(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	all(durablepkg.Done, 4)
	if got := call("ann", ""); !strings.Contains(got, done) {
		t.Errorf("an equal call when the run has ended: %s", got)
	}
}

// TestOperatorsAreCounted: a run that is resumed after an operator has resolved it is counted with that cause.
func TestOperatorsAreCounted(t *testing.T) {
	c, kept, url := startKept(t, "def run(params):\n    return call_tool(\"pay\")\n", nil)
	c.breaks.Store(1)
	modernCall(t, url, "asking", "")
	list, _, err := kept.List(t.Context(), durablepkg.Filter{})
	if err != nil || len(list) != 1 || list[0].State != durablepkg.Doubt {
		t.Fatalf("%v, %v", list, err)
	}
	if err := kept.Resolve(t.Context(), list[0].ID, "0", durablepkg.Resolution{Done: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); metric(t, url, `vmcp_runs{state="done"}`) != "1" && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	if n := metric(t, url, `vmcp_runs_resumed_total{cause="operator"}`); n != "1" {
		t.Errorf("%s runs go on because of an operator, want 1", n)
	}
}

// TestRepeatedInALiveCall: a repeatable call is repeated once, with the same key, when its connection is lost.
func TestRepeatedInALiveCall(t *testing.T) {
	for _, tt := range []struct {
		tool, durable string
		breaks        int32
		want          string
	}{
		{"put", "", 1, `"structuredContent":{"did":"put"}`}, {"look", "", 1, `"structuredContent":{"did":"look"}`},
		{"put", "never", 1, `"structuredContent":{"did":"put"}`}, {"put", "", 2, "whether it happened is not known"},
	} {
		c, _, url := startKept(t, fmt.Sprintf("def run(params):\n    return call_tool(%q)\n", tt.tool), func(c *config.Config) { c.ScriptedTools[0].Durable = tt.durable })
		c.breaks.Store(tt.breaks)
		result, failure := modernCall(t, url, "asking", "")
		if !strings.Contains(string(result), tt.want) || c.did(tt.tool) != 2 {
			t.Errorf("%+v: %s%s; it was done %d times", tt, result, failure, c.did(tt.tool))
		}
		if len(c.keys) != 4 || c.keys[0] != c.keys[2] || c.keys[1] != c.keys[3] || !strings.HasSuffix(c.keys[0], "/0") {
			t.Errorf("%+v: keys %q, want one for both attempts", tt, c.keys)
		}
	}
}

// TestCallOfABackendThatStarts: a run begins while the backend of its call is connecting. The call has not begun then, and
// once the backend is there it is known whether it may be repeated.
func TestCallOfABackendThatStarts(t *testing.T) {
	for _, durable := range []string{"", "never"} {
		for tool, want := range map[string]string{"put": `"structuredContent":{"did":"put"}`, "look": `"structuredContent":{"did":"look"}`, "pay": "in doubt"} {
			if durable == "never" && tool == "pay" {
				want = "whether it happened is not known"
			}
			t.Run(tool+durable, func(t *testing.T) {
				c, kept := &till{calls: map[string]int{}, starts: make(chan struct{})}, durablepkg.NewMemory(durablepkg.Options{}, nil)
				url, _ := startBefore(t, c, kept, fmt.Sprintf("def run(params):\n    return call_tool(%q)\n", tool), func(c *config.Config) { c.ScriptedTools[0].Durable = durable })
				c.breaks.Store(1)
				answer := make(chan string, 1)
				go func() {
					result, failure := modernCall(t, url, "asking", "")
					answer <- string(result) + string(failure)
				}()
				for metric(t, url, `vmcp_requests_running{method="tools/call"}`) != "1" {
					runtime.Gosched()
				}
				list, _, err := kept.List(t.Context(), durablepkg.Filter{})
				if err != nil || len(list) > 1 {
					t.Errorf("%v, %v", list, err)
				}
				for _, r := range list {
					if _, entries, err := kept.Get(t.Context(), r.ID); err != nil || len(entries) > 0 {
						t.Errorf("a call that waits for its backend has begun: %+v, %v", entries, err)
					}
				}
				close(c.starts)
				times := map[bool]int{true: 1, false: 2}[tool == "pay"]
				if got := <-answer; !strings.Contains(got, want) || c.did(tool) != times {
					t.Errorf("%s; it was done %d times", got, c.did(tool))
				}
			})
		}
	}
}

// TestIdempotencyKeys: every call of a run has its key, also as a header if the backend is configured so.
func TestIdempotencyKeys(t *testing.T) {
	c, kept, url := startKept(t, "def run(params):\n    call_tool(\"pay\")\n    call_tool(\"put\")\n    return 1\n", nil)
	modernCall(t, url, "asking", "")
	list, _, err := kept.List(t.Context(), durablepkg.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	one, two := list[0].ID+"/0", list[0].ID+"/1"
	if got, want := strings.Join(c.keys, " "), strings.Join([]string{one, one, two, two}, " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
}

// TestWhatMayBeRepeated: the configuration has precedence over annotations, and is used alone if these are not trusted.
func TestWhatMayBeRepeated(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		tool     string
		override *bool
		distrust bool
		want     bool
	}{
		{"pay", nil, false, false}, {"pay", &yes, false, true}, {"put", nil, false, true}, {"put", &no, false, false},
		{"put", nil, true, false}, {"look", &yes, true, true}, {"look", nil, false, true},
	} {
		_, kept, url := startKept(t, fmt.Sprintf("def run(params):\n    call_tool(%q)\n    elicit(\"?\")\n", tt.tool), func(c *config.Config) {
			trust := !tt.distrust
			c.Runs.TrustHints = &trust
			c.Aggregation.Tools = []config.WorkloadTools{{Workload: "till", Overrides: map[string]config.ToolOverride{tt.tool: {Repeatable: tt.override}}}}
		})
		modernCall(t, url, "asking", "")
		list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Waiting}})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		_, entries, err := kept.Get(t.Context(), list[0].ID)
		if err != nil || len(entries) < 2 || entries[0].Repeatable != tt.want {
			t.Errorf("%+v: %+v, %v", tt, entries, err)
		}
	}
}

// TestCancel: a run that an operator cancels begins no further effect, and its request gets the reason.
func TestCancel(t *testing.T) {
	_, kept, url := startKept(t, "def run(params):\n    elicit(\"?\")\n    return call_tool(\"pay\")\n", nil)
	result, _ := modernCall(t, url, "asking", "")
	in := asks(t, result)
	list, _, err := kept.List(t.Context(), durablepkg.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := kept.Cancel(t.Context(), list[0].ID, "not today"); err != nil {
		t.Fatal(err)
	}
	if result, failure := modernCall(t, url, "asking", in.answers()); !strings.Contains(string(result), "not today") || !strings.Contains(string(result), `"state":"cancelled"`) {
		t.Errorf("%s%s", result, failure)
	}
}

// TestRunsThatAreNeverKept: questions work, and the store has nothing.
func TestRunsThatAreNeverKept(t *testing.T) {
	c, kept, url := startKept(t, "def run(params):\n    call_tool(\"pay\")\n    return elicit(\"?\").action\n", func(c *config.Config) { c.ScriptedTools[0].Durable = "never" })
	result, _ := modernCall(t, url, "asking", "")
	in := asks(t, result)
	if strings.Contains(string(result), "dev.vmcp/run") {
		t.Errorf("a run that is not kept has a name: %s", result)
	}
	if result, failure := modernCall(t, url, "asking", in.answers()); !strings.Contains(string(result), `"structuredContent":"accept"`) || c.did("pay") != 1 {
		t.Errorf("%s%s; the call was made %d times", result, failure, c.did("pay"))
	}
	if list, _, err := kept.List(t.Context(), durablepkg.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("the store has %+v, %v", list, err)
	}
}

// TestDoubtThatFails: with onDoubt: fail the run does not wait for an operator.
func TestDoubtThatFails(t *testing.T) {
	c, kept, url := startKept(t, "def run(params):\n    return call_tool(\"pay\")\n", func(c *config.Config) { c.ScriptedTools[0].OnDoubt = "fail" })
	c.broken.Store(true)
	if result, failure := modernCall(t, url, "asking", ""); !strings.Contains(string(result), `"state":"failed"`) || !strings.Contains(string(result), `"isError":true`) {
		t.Errorf("%s%s", result, failure)
	}
	if list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Failed}}); err != nil || len(list) != 1 || c.did("pay") != 1 {
		t.Errorf("the store has %+v, %v; the call was made %d times", list, err, c.did("pay"))
	}
}

// TestDrainSuspendsSleeps: the shutdown does not wait for a sleep for which a request is open.
func TestDrainSuspendsSleeps(t *testing.T) {
	_, kept, url, p := startKeptProxy(t, "def run(params):\n    sleep(\"8s\")\n    return 1\n", nil)
	answered := make(chan string)
	go func() {
		result, failure := modernCall(t, url, "asking", "")
		answered <- fmt.Sprint(string(result), failure)
	}()
	for metric(t, url, "vmcp_script_runs_running") != "1" {
		time.Sleep(time.Millisecond)
	}
	p.Drain()
	if got := <-answered; !strings.Contains(got, `"state":"sleeping"`) || !strings.Contains(got, `"requestState"`) {
		t.Errorf("the request was answered: %s", got)
	}
	if list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Sleeping}}); err != nil || len(list) != 1 || list[0].Wake.IsZero() {
		t.Errorf("the store has %+v, %v", list, err)
	}
}

// TestDrainEndsQuestionsOfSessions: once the port closes no answer can come to a session over HTTP. Its request ends, and
// says whether the run goes on; that still waits for an answer.
func TestDrainEndsQuestionsOfSessions(t *testing.T) {
	for _, durable := range []string{"always", "auto", "never"} {
		t.Run(durable, func(t *testing.T) {
			_, kept, url, p := startKeptProxy(t, "def run(params):\n    return elicit(\"?\").action\n", func(c *config.Config) { c.ScriptedTools[0].Durable = durable })
			asked, over := make(chan struct{}), make(chan struct{})
			s := connect(t, url, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				close(asked)
				<-over
				return &mcp.ElicitResult{Action: "decline"}, nil
			}})
			defer close(over)
			answered := make(chan string, 1)
			go func() {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "asking", Arguments: map[string]any{}})
				answered <- fmt.Sprint(r, err)
			}()
			<-asked
			p.Drain()
			want := "the server is shutting down; the run will be resumed"
			if durable == "never" {
				want = "the server is shutting down, and the run ended with it"
			}
			if got := <-answered; !strings.Contains(got, want) {
				t.Errorf("the client has %s, want %q", got, want)
			}
			list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Waiting}})
			if err != nil || len(list) != 1 && durable != "never" {
				t.Errorf("%d runs wait, %v", len(list), err)
			}
		})
	}
}

// inTime is the result of a call that asks: with the shortest of these times within which this machine asks.
func inTime(t *testing.T, call func(within time.Duration) json.RawMessage) (result json.RawMessage) {
	for within := 300 * time.Millisecond; within < time.Minute; within *= 2 {
		if result = call(within); strings.Contains(string(result), "input_required") {
			break
		}
	}
	return result
}

// TestLifetime: a run that exceeds its lifetime fails, in whatever way it waits.
func TestLifetime(t *testing.T) {
	testmode.Parallel(t)
	var kept durablepkg.Store
	var url string
	result := inTime(t, func(within time.Duration) json.RawMessage {
		_, kept, url = startKept(t, "def run(params):\n    elicit(\"?\")\n", func(c *config.Config) {
			c.ScriptedTools[0].Limits = &limits.Run{Lifetime: limits.Duration(within)}
		})
		return first(modernCall(t, url, "asking", ""))
	})
	in := asks(t, result)
	for {
		list, _, err := kept.List(t.Context(), durablepkg.Filter{States: []durablepkg.State{durablepkg.Failed}})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			break
		}
		select {
		case <-kept.Changed():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if result, failure := modernCall(t, url, "asking", in.answers()); !strings.Contains(string(result), "limit reached: lifetime") || !strings.Contains(string(result), `"state":"failed"`) {
		t.Errorf("%s%s", result, failure)
	}
}
