package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// chargeServer counts how often each amount was charged.
type chargeServer struct {
	mu      sync.Mutex
	charged map[string]int
}

func (c *chargeServer) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "charge"}, func(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.charged[a.Text]++
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "charged " + a.Text}}}, nil, nil
	})
	return s
}

// each is the number of charges by amount, as text.
func (c *chargeServer) each() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, _ := json.Marshal(c.charged)
	return string(b)
}

const askingScript = `
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}

def ask(what):
    return elicit(what, schema = FORM).content["answer"]

def run(params):
    call_tool("charge", {"text": "a"})
    first = ask("first")
    call_tool("charge", {"text": "b"})
    second = ask("second")
    both = parallel([lambda: ask("left"), lambda: ask("right")])
    call_tool("charge", {"text": "c"})
    return {"answers": [first, second] + both}
`

func startAsking(t *testing.T) (*chargeServer, string) {
	bank := &chargeServer{charged: map[string]int{}}
	_, url := start(t, bank.asking(sdkBackend(t, bank.server(), false), askingScript))
	return bank, url
}

// asking is a configuration with a script that asks questions.
func (*chargeServer) asking(url, source string) *config.Config {
	return &config.Config{
		Backends:      []config.Backend{{Name: "bank", URL: url}},
		ScriptedTools: []config.ScriptedTool{{Name: "asking", Description: "asks four times", Script: source}},
	}
}

// TestQuestionsForEveryClient asks in sequence and in parallel, with effects in between.
func TestQuestionsForEveryClient(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			bank, url := startAsking(t)
			var asked atomic.Int32
			s := connect(t, url, revision, askedBy(&asked))
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "asking"})
			if got, want := text(t, r, err), `{"answers":["to first","to second","to left","to right"]}`; got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if got := bank.each(); got != `{"a":1,"b":1,"c":1}` || asked.Load() != 4 {
				t.Errorf("charged %s, asked %d times", got, asked.Load())
			}
		})
	}
}

// modernCall posts one stateless tools/call and returns its result or error object.
func modernCall(t *testing.T, url, tool, more string) (result, failure json.RawMessage) {
	t.Helper()
	resp, err := http.DefaultClient.Do(modernRequest(t.Context(), url, tool, more))
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if i := bytes.LastIndex(b, []byte("data: ")); i >= 0 {
		b = b[i+len("data: "):]
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(b, &m); err != nil {
		t.Errorf("%s: %v", b, err)
	}
	return m.Result, m.Error
}

func modernRequest(ctx context.Context, url, tool, more string) *http.Request {
	if !strings.Contains(more, `"arguments"`) {
		more = `,"arguments":{}` + more
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q%s,"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, tool, more)
	r, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", tool)
	return r
}

type inputRequired struct {
	ResultType    string
	RequestState  string
	InputRequests map[string]struct{ Params struct{ Message string } }
}

func asks(t *testing.T, result json.RawMessage) inputRequired {
	t.Helper()
	var in inputRequired
	if err := json.Unmarshal(result, &in); err != nil || in.ResultType != "input_required" || in.RequestState == "" {
		t.Fatalf("want input_required, have %s", result)
	}
	return in
}

// answers is the part of the next request that answers all questions in in.
func (in inputRequired) answers() string {
	var parts []string
	for key, q := range in.InputRequests {
		parts = append(parts, fmt.Sprintf(`%q:{"action":"accept","content":{"answer":%q}}`, key, "to "+q.Params.Message))
	}
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, in.RequestState, strings.Join(parts, ","))
}

// TestRoundsDoNothingTwice sends every state several times concurrently.
func TestRoundsDoNothingTwice(t *testing.T) {
	bank, url := startAsking(t)
	result, _ := modernCall(t, url, "asking", "")
	for _, want := range []int{1, 1, 2} {
		in := asks(t, result)
		if len(in.InputRequests) != want {
			t.Fatalf("%d questions in this round, want %d: %s", len(in.InputRequests), want, result)
		}
		results := make([]json.RawMessage, 8)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i], _ = modernCall(t, url, "asking", in.answers()) })
		}
		all.Wait()
		result = results[0]
	}
	if got, want := string(result), `"structuredContent":{"answers":["to first","to second","to left","to right"]}`; !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := bank.each(); got != `{"a":1,"b":1,"c":1}` {
		t.Errorf("charged %s, want each once", got)
	}
}

// TestAClientThatLeaves: a client disconnects during a call. The call ends and is recorded, and no further one begins;
// the same request resumes the run. With onDisconnect: continue the run has continued without a client.
func TestAClientThatLeaves(t *testing.T) {
	for _, onDisconnect := range []string{"pause", "continue"} {
		t.Run(onDisconnect, func(t *testing.T) {
			underWay, end := make(chan struct{}), make(chan struct{})
			var calls, later atomic.Int32
			s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
			mcp.AddTool(s, &mcp.Tool{Name: "act"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
				calls.Add(1)
				close(underWay)
				<-end
				return nil, map[string]string{"did": "it"}, nil
			})
			mcp.AddTool(s, &mcp.Tool{Name: "then"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
				later.Add(1)
				return nil, map[string]string{"did": "more"}, nil
			})
			cfg := (*chargeServer)(nil).asking(sdkBackend(t, s, false), `
def run(params):
    elicit("sure?", schema = {"type": "object", "properties": {"answer": {"type": "string"}}})
    call_tool("act", {})
    return call_tool("then", {})
`)
			cfg.Runs.OnDisconnect = onDisconnect
			_, url := start(t, cfg)
			result, _ := modernCall(t, url, "asking", "")
			in := asks(t, result)
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-underWay; leave() }()
			if resp, err := http.DefaultClient.Do(modernRequest(ctx, url, "asking", in.answers())); err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil {
					t.Error("who left got an answer")
				}
			}
			close(end)
			result, failure := modernCall(t, url, "asking", in.answers())
			if got := string(result) + string(failure); !strings.Contains(got, `"structuredContent":{"did":"more"}`) || !strings.Contains(got, `"state":"done"`) {
				t.Errorf("got %s, want the result of a run that is done", got)
			}
			if calls.Load() != 1 || later.Load() != 1 {
				t.Errorf("the tools were called %d and %d times, want once each", calls.Load(), later.Load())
			}
		})
	}
}

// TestStateIsRefused changes what a state is bound to; nothing may be executed for it.
func TestStateIsRefused(t *testing.T) {
	bank, url := startAsking(t)
	result, _ := modernCall(t, url, "asking", "")
	in := asks(t, result)
	before := bank.each()
	flipped := []byte(in.RequestState)
	flipped[len(flipped)/2] ^= 1
	bad := in
	bad.RequestState = string(flipped)
	none := in
	none.RequestState = "x"
	for name, more := range map[string]string{
		"a flipped bit":    bad.answers(),
		"no state of ours": none.answers(),
		"other arguments":  strings.Replace(in.answers(), `,"requestState"`, `,"arguments":{"x":1},"requestState"`, 1),
	} {
		result, failure := modernCall(t, url, "asking", more)
		if failure == nil || !strings.Contains(string(failure), "requestState is not valid") {
			t.Errorf("%s: result %s error %s", name, result, failure)
		}
	}
	if after := bank.each(); after != before {
		t.Errorf("charged %s, then %s", before, after)
	}
}

// TestStateOfAnEditedScript: a run is resumed with the program and the limits with which it began; a new run has the
// new ones. A run of a removed tool can be resumed, too.
func TestStateOfAnEditedScript(t *testing.T) {
	bank := &chargeServer{charged: map[string]int{}}
	backend := sdkBackend(t, bank.server(), false)
	p, url := start(t, bank.asking(backend, askingScript))
	result, _ := modernCall(t, url, "asking", "")
	in := asks(t, result)
	edited := bank.asking(backend, "def run(params):\n    return 1\n")
	edited.ScriptedTools[0].Limits = &limits.Run{Calls: 1}
	gone := bank.asking(backend, "def run(params):\n    return 1\n")
	gone.ScriptedTools[0].Name = "other"
	for _, cfg := range []*config.Config{edited, gone} {
		if err := p.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		result, failure := modernCall(t, url, "asking", in.answers())
		if in = asks(t, result); len(in.InputRequests) == 0 {
			t.Fatalf("result %s error %s, want the next question", result, failure)
		}
		if result, _ := modernCall(t, url, cfg.ScriptedTools[0].Name, ""); !strings.Contains(string(result), `"structuredContent":1`) {
			t.Errorf("a new run: %s", result)
		}
	}
	if other := strings.Replace(in.answers(), `,"requestState"`, `,"arguments":{"x":1},"requestState"`, 1); true {
		if result, failure := modernCall(t, url, "asking", other); !strings.Contains(string(failure), "unknown tool") {
			t.Errorf("with other arguments: result %s error %s", result, failure)
		}
	}
	if result, failure := modernCall(t, url, "asking", in.answers()); !strings.Contains(string(result), `"state":"done"`) {
		t.Errorf("the last answers: %s%s", result, failure)
	}
	if got := bank.each(); got != `{"a":1,"b":1,"c":1}` {
		t.Errorf("charged %s", got)
	}
}

// TestRefusedRunsAreCounted: a call without room, even in the queue, is refused as busy.
func TestRefusedRunsAreCounted(t *testing.T) {
	waits, release := make(chan struct{}), make(chan struct{})
	slow := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(slow, &mcp.Tool{Name: "wait"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		close(waits)
		<-release
		return &mcp.CallToolResult{}, nil, nil
	})
	_, url := start(t, &config.Config{
		Backends:       []config.Backend{{Name: "slow", URL: sdkBackend(t, slow, false), Timeout: config.Duration(time.Hour)}},
		Limits:         config.Limits{Runs: 1},
		MaxRequestBody: 40 << 20,
		ScriptedTools:  []config.ScriptedTool{{Name: "waits", Description: "d", Script: "def run(params):\n    call_tool(\"wait\")\n"}},
	})
	var first sync.WaitGroup
	first.Go(func() { modernCall(t, url, "waits", "") })
	<-waits
	_, failure := modernCall(t, url, "waits", `,"arguments":{"x":"`+strings.Repeat("x", 33<<20)+`"}`)
	close(release)
	first.Wait()
	if !strings.Contains(string(failure), `"code":-32000`) || !strings.Contains(string(failure), "waits was not started: ") {
		t.Errorf("the second call: %.300s, want -32000 with the reason", failure)
	}
	_, page := (&raw{t: t, url: strings.TrimSuffix(url, "/mcp") + "/metrics"}).do("GET", "")
	if want := `vmcp_script_runs_refused_total{tool="waits"} 1`; !strings.Contains(page, want+"\n") {
		t.Errorf("/metrics lacks %s", want)
	}
}

func TestScriptContracts(t *testing.T) {
	raw := func(s string) config.Raw { return config.Raw{JSON: json.RawMessage(s)} }
	_, url := start(t, &config.Config{ScriptedTools: []config.ScriptedTool{
		{Name: "typed", Description: "d", Parameters: raw(`{"type":"object","properties":{"n":{"type":"integer"},"o":{"type":"object","properties":{"x":{"default":5}},"default":{}}},"required":["n"]}`),
			Output: raw(`{"type":"object","properties":{"n":{"type":"integer","maximum":10}}}`),
			Script: "def run(params):\n    return {\"n\": params[\"n\"], \"x\": params[\"o\"][\"x\"]}\n"},
		{Name: "outer", Description: "d", Script: "def run(params):\n    return try_call_tool(\"typed\", {\"n\": \"no\"}).kind\n"},
		{Name: "a", Description: "d", Script: "def run(params):\n    return call_tool(\"b\")\n"},
		{Name: "b", Description: "d", Script: "def run(params):\n    return call_tool(\"a\")\n"},
	}})
	s := connect(t, url, "2026-07-28", nil)
	for _, tt := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"typed", map[string]any{"n": 3}, `{"n":3,"x":5}`},
		{"typed", map[string]any{"n": "3"}, "the arguments of typed do not fit its parameters: n:"},
		{"typed", nil, "do not fit its parameters"},
		{"typed", map[string]any{"n": 11}, "does not fit its output schema: n:"},
		{"outer", nil, `"invalid_input"`},
		{"a", nil, "in a cycle: a -> b -> a"},
	} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
		if got := text(t, r, err); !strings.Contains(got, tt.want) {
			t.Errorf("%s(%v)\n got %s\nwant %s", tt.tool, tt.args, got, tt.want)
		}
	}
}

// TestRunsAreCounted reads what /metrics says of a run.
func TestRunsAreCounted(t *testing.T) {
	_, url := startAsking(t)
	var asked atomic.Int32
	s := connect(t, url, "2025-11-25", askedBy(&asked))
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "asking"}); err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, url: strings.TrimSuffix(url, "/mcp") + "/metrics"}
	_, page := c.do("GET", "")
	for _, want := range []string{
		`vmcp_script_runs_total{outcome="ok",tool="asking"} 1`,
		`vmcp_script_effects_total{kind="call",name="charge",outcome="ok",tool="asking"} 3`,
		`vmcp_script_effects_total{kind="elicit",name="",outcome="ok",tool="asking"} 4`,
		`vmcp_script_elicitations_total{action="accept",tool="asking"} 4`,
		`vmcp_requests_total{method="tools/call",outcome="ok"} 1`,
		`vmcp_backend_up{backend="bank"} 1`,
		`vmcp_sessions 1`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestScriptsAreCheckedAgainstTheTools: mistakes of a script are reported before it runs.
func TestScriptsAreCheckedAgainstTheTools(t *testing.T) {
	p, _ := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "one", URL: sdkBackend(t, echoServer("one"), false)}},
		ScriptedTools: []config.ScriptedTool{{Name: "typo", Description: "d", Script: "def run(params):\n    call_tool(\"ecko\")\n    return call_tool(\"echo\", {\"text\": 5})\n"}},
	})
	var got []string
	for _, pr := range p.Status().Problems {
		got = append(got, pr.Entry+" "+pr.Text())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{`typo typo.star:2:15: `, `did you mean echo?`, `typo typo.star:3:`, `text`} {
		if !strings.Contains(all, want) {
			t.Errorf("problems\n%s\nlack %s", all, want)
		}
	}
}

// TestStateGoesOnOverAnotherConnection begins a run over HTTP and answers on stdio.
func TestStateGoesOnOverAnotherConnection(t *testing.T) {
	bank := &chargeServer{charged: map[string]int{}}
	p, url := start(t, &config.Config{
		Backends: []config.Backend{{Name: "bank", URL: sdkBackend(t, bank.server(), false)}},
		ScriptedTools: []config.ScriptedTool{{Name: "asking", Description: "asks once", Script: `
def run(params):
    call_tool("charge", {"text": "a"})
    said = elicit("first", schema = {"type": "object", "properties": {"answer": {"type": "string"}}}).content["answer"]
    call_tool("charge", {"text": "b"})
    return {"said": said}
`}},
	})
	result, _ := modernCall(t, url, "asking", "")
	in := asks(t, result)

	toServer, fromClient := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error)
	go func() { served <- p.ServeStdio(t.Context(), toServer, toClient) }()
	go fmt.Fprintf(fromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asking","arguments":{}%s,%s}}`+"\n",
		in.answers(), strings.Replace(modernMeta, `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1))
	var answer struct{ Result json.RawMessage }
	if err := json.NewDecoder(fromServer).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if got, want := string(answer.Result), `"structuredContent":{"said":"to first"}`; !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	fromClient.Close()
	if err := <-served; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	if got := bank.each(); got != `{"a":1,"b":1}` {
		t.Errorf("charged %s, want each once", got)
	}
}

// TestScriptsOfScriptsAreOneRun: a script that a script calls needs no admission, also if one run is the limit.
func TestScriptsOfScriptsAreOneRun(t *testing.T) {
	_, url := start(t, &config.Config{
		Limits: config.Limits{Runs: 1, RunsPerPrincipal: 1},
		ScriptedTools: []config.ScriptedTool{
			{Name: "inner", Description: "is called", Script: `def run(params): return {"n": 1}`},
			{Name: "outer", Description: "calls it", Script: `def run(params): return {"n": call_tool("inner", {})["n"] + 1}`},
		},
	})
	s := connect(t, url, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "outer"})
	if got, want := text(t, r, err), `{"n":2}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestScriptsOfScriptsGetValues: what one script returns to another does not depend on the client of the first, though
// clients before 2026-07-28 can only get objects.
func TestScriptsOfScriptsGetValues(t *testing.T) {
	_, url := start(t, &config.Config{ScriptedTools: []config.ScriptedTool{
		{Name: "inner", Description: "is called", Script: `def run(params): return params["value"]`},
		{Name: "outer", Description: "calls it", Script: `def run(params): return {"values": [call_tool("inner", {"value": v}) for v in [[1, 2], "x", 3, {"n": 4}]]}`},
	}})
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		r, err := connect(t, url, revision, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "outer"})
		if got, want := text(t, r, err), `{"values":[[1,2],"x",3,{"n":4}]}`; got != want {
			t.Errorf("%s: got %s\nwant %s", revision, got, want)
		}
	}
}
