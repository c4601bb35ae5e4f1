package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

// pipes is a client on stdio.
type pipes struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func overStdio(t *testing.T, p *proxy.Proxy) *pipes {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- p.ServeStdio(t.Context(), fromClient, toClient) }()
	t.Cleanup(func() {
		toServer.Close()
		go io.Copy(io.Discard, fromServer)
		if err := <-served; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	return &pipes{t, toServer, bufio.NewReader(fromServer)}
}

// say sends a line and returns the response, the next line that is no notification. All lines have to be JSON.
func (c *pipes) say(line string) string {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	for {
		answer, err := c.out.ReadString('\n')
		if err != nil || !json.Valid([]byte(answer)) {
			c.t.Fatalf("%q is answered by %q, %v", line, answer, err)
		}
		if !strings.Contains(answer, `"method":"notifications/`) {
			return answer
		}
	}
}

func (c *pipes) initialize() {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
}

// TestTextThatIsNotUTF8: invalid UTF-8 is refused at the client's edge; a strict backend would end.
func TestTextThatIsNotUTF8(t *testing.T) {
	backend := &backendtest.Raw{Tools: `{"name":"t","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[]}`) }}
	p, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.Start(t)}}})
	c, lines := &raw{t: t, url: url}, overStdio(t, p)
	c.initialize("2025-11-25")
	lines.initialize()
	for name, bytes := range map[string]string{
		"a stray byte": "\xff", "a cut sequence": "\xe2\x82", "overlong": "\xc0\xaf", "overlong in three": "\xe0\x80\xaf",
		"a surrogate": "\xed\xa0\x80", "beyond Unicode": "\xf4\x90\x80\x80",
	} {
		for _, frame := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":"` + bytes + `"}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"` + bytes + `":1}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"` + bytes + `"}`,
			`[{"jsonrpc":"2.0","id":1,"method":"` + bytes + `"}]`,
		} {
			for _, headers := range [][]string{nil, {"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "t"}} {
				if resp, body := c.do("POST", frame, headers...); resp.StatusCode != 400 || !strings.Contains(body, `"code":-32700`) {
					t.Errorf("%s: %q: %d %s", name, frame, resp.StatusCode, body)
				}
			}
			if answer := lines.say(frame); !strings.Contains(answer, `"code":-32700`) {
				t.Errorf("%s over stdio: %q: %s", name, frame, answer)
			}
		}
	}
	if n := len(backend.Seen("tools/call")); n != 0 {
		t.Errorf("%d of the calls reached the backend", n)
	}
	good := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{"x":"€\u20ac😀"}}}`
	if answer := lines.say(good); !strings.Contains(answer, `"content":[]`) {
		t.Errorf("the next line: %s", answer)
	}
	if _, body := c.do("POST", good); !strings.Contains(body, `"content":[]`) {
		t.Errorf("the next request: %s", body)
	}
}

// TestDeleteInMidCall: what a session is still asking for is cancelled with it, and answered.
func TestDeleteInMidCall(t *testing.T) {
	testmode.Parallel(t)
	for _, tt := range []struct{ name, tool, meta string }{
		{"in JSON", "work", `{}`},
		{"in a stream", "work", `{"progressToken":"p"}`},
		{"in a script", "script", `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running := make(chan struct{})
			backend := &backendtest.Raw{Tools: `{"name":"work","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
				if x.Message.Method != "tools/call" {
					return
				}
				if token := x.Param("_meta", "progressToken"); token != "" {
					x.Event("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1}}`)
				}
				close(running)
				<-x.Request.Context().Done()
			}}
			_, url := start(t, &config.Config{
				Backends: []config.Backend{{Name: "b", URL: backend.Start(t)}},
				ScriptedTools: []config.ScriptedTool{{Name: "script", Description: "calls", Script: `
def run(params):
    return call_tool("work", {})
`}},
			})
			c := &raw{t: t, url: url}
			c.initialize("2025-11-25")
			answer := make(chan string, 1)
			go func() {
				_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"_meta":%s}}`, tt.tool, tt.meta))
				answer <- body
			}()
			<-running
			if resp, _ := c.do("DELETE", ""); resp.StatusCode != 204 {
				t.Errorf("DELETE: %s", resp.Status)
			}
			if got := <-answer; !strings.Contains(got, `"id":9`) || !strings.Contains(got, `"code":-32800`) {
				t.Errorf("the call is answered by %s", got)
			}
		})
	}
}

// TestLastEventIDsThatNeverWere: unknown event ids are refused.
func TestLastEventIDsThatNeverWere(t *testing.T) {
	_, url := start(t, &config.Config{})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	for _, id := range []string{"g/99999999", "g/0", "g/9223372036854775807", "g/99999999999999999999", "g/-2", "g/", "g", "p1/0", "nonsense", "/"} {
		if resp, body := c.do("GET", "", "Last-Event-ID", id); resp.StatusCode != 400 && resp.StatusCode != 404 {
			t.Errorf("Last-Event-ID: %s: %d %s", id, resp.StatusCode, body)
		}
	}
}

// TestBatchesWhereThereAreNone: the error says why, and does not ask for a session.
func TestBatchesWhereThereAreNone(t *testing.T) {
	_, url := start(t, &config.Config{})
	c := &raw{t: t, url: url}
	batch := `[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}]`
	for _, headers := range [][]string{nil, {"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}} {
		if resp, body := c.do("POST", batch, headers...); resp.StatusCode != 400 || !strings.Contains(body, "batches exist in sessions of revision 2025-03-26 only") {
			t.Errorf("%q: %d %s", headers, resp.StatusCode, body)
		}
	}
}

// TestMaxRequestBody: a request is bounded as configured, whether or not its length is announced.
func TestMaxRequestBody(t *testing.T) {
	_, url := start(t, &config.Config{MaxRequestBody: 8 << 10})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	ping := func(padding int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", padding) + `"}}`
	}
	if resp, body := c.do("POST", ping(8000)); resp.StatusCode != 200 {
		t.Errorf("within: %d %s", resp.StatusCode, body)
	}
	if resp, body := c.do("POST", ping(8<<10)); resp.StatusCode != 413 || !strings.Contains(body, "larger than 8192 bytes") {
		t.Errorf("beyond: %d %s", resp.StatusCode, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, io.MultiReader(strings.NewReader(ping(8<<10))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {c.session}}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("beyond, in chunks: %s", resp.Status)
	}
}

// TestSecondSpellings: members that a case-insensitive decoder would read differently do not reach a backend, which
// here has such a decoder.
func TestSecondSpellings(t *testing.T) {
	reached := make(chan string, 100)
	backend := &backendtest.Raw{Tools: `{"name":"pub","inputSchema":{"type":"object"}},{"name":"hidden","inputSchema":{"type":"object"}}`, Also: []string{"prompts", "resources", "completions"}, Handle: func(x *backendtest.Exchange) {
		var params struct {
			Name, URI, TaskID string
			Ref               struct{ Name, URI string }
		}
		json.Unmarshal(x.Message.Params, &params)
		switch x.Message.Method {
		case "prompts/list":
			x.JSON(`{"prompts":[{"name":"pub"},{"name":"hidden"}]}`)
			return
		case "resources/list":
			x.JSON(`{"resources":[{"uri":"x://pub","name":"pub"},{"uri":"x://hidden","name":"hidden"}]}`)
			return
		case "resources/templates/list":
			x.JSON(`{"resourceTemplates":[]}`)
			return
		}
		for _, s := range []string{params.Name, params.URI, params.TaskID, params.Ref.Name, params.Ref.URI} {
			if strings.Contains(s, "hidden") {
				reached <- x.Message.Method + " " + string(x.Message.Params)
			}
		}
		x.JSON(`{"content":[],"messages":[],"contents":[],"completion":{"values":[]}}`)
	}}
	pub := []string{"pub", "x://pub"}
	p, url := start(t, &config.Config{
		Backends: []config.Backend{{Name: "b", URL: backend.Start(t)}},
		Aggregation: config.Aggregation{
			Tools:     []config.WorkloadTools{{Workload: "b", Filter: pub}},
			Prompts:   []config.WorkloadPrompts{{Workload: "b", Filter: pub}},
			Resources: []config.WorkloadResources{{Workload: "b", Filter: []string{"pub", "x:??pub", "x://pub"}}},
		},
	})
	c, lines := &raw{t: t, url: url}, overStdio(t, p)
	c.initialize("2025-11-25")
	lines.initialize()
	id := 0
	try := func(method, params, want string) {
		t.Helper()
		id++
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
		if _, body := c.do("POST", frame); !strings.Contains(body, want) {
			t.Errorf("%s %s: %s, want %s", method, params, body, want)
		}
		if answer := lines.say(frame); !strings.Contains(answer, want) {
			t.Errorf("%s %s over stdio: %s, want %s", method, params, answer, want)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(params, `{"name":"`), `"`)
		modern := strings.TrimSuffix(params, "}") + "," + modernMeta + "}"
		if !strings.Contains(params, "_meta") && !strings.Contains(params, "_META") && want == `"code":-32602` {
			resp, body := (&raw{t: t, url: url}).do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, modern), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
			if resp.StatusCode < 400 {
				t.Errorf("%s %s: %d %s", method, modern, resp.StatusCode, body)
			}
		}
	}
	const refused = `"code":-32602`
	for _, method := range []string{"tools/call", "prompts/get"} {
		for _, second := range []string{`"Name"`, `"NAME"`, `"naMe"`, `"n\u0041me"`, `"\u004eame"`, `"name"`, `"n\u0061me"`} {
			try(method, `{"name":"pub",`+second+`:"hidden"}`, refused)
			try(method, `{`+second+`:"hidden","name":"pub"}`, refused)
		}
		try(method, `{"name":"pub","Arguments":{}}`, refused)
		try(method, `{"name":"pub","argument\u017f":{}}`, refused)
		try(method, `{"name":"pub","arguments":{},"arguments":{}}`, refused)
		try(method, `{"name":"pub","_META":{}}`, refused)
		try(method, `{"name":"pub","_meta":{"progresstoken":1}}`, refused)
		try(method, `{"name":"pub","_meta":{"progressToken":1,"progressToken":2}}`, refused)
		try(method, `{"name":"pub","_meta":{"IO.modelcontextprotocol/clientInfo":{}}}`, refused)
		try(method, `{"name":"pub","RequestState":"x"}`, refused)
		try(method, `{"name":"pub","InputResponses":{}}`, refused)
		try(method, `{"name":"pub","arguments":{"Name":"x","name":"y","NAME":1,"a":1,"A":2},"other":1,"Other":2}`, `"result"`)
	}
	for _, method := range []string{"resources/read", "resources/subscribe", "resources/unsubscribe"} {
		for _, second := range []string{`"Uri"`, `"URI"`, `"uri"`, `"u\u0052i"`} {
			try(method, `{"uri":"x://pub",`+second+`:"x://hidden"}`, refused)
		}
	}
	for _, second := range []string{`"TaskId"`, `"tas\u212aId"`, `"taskID"`} {
		try("tasks/get", `{"taskId":"x",`+second+`:"hidden"}`, refused)
	}
	for _, ref := range []string{
		`"ref":{"type":"ref/prompt","name":"pub","Name":"hidden"}`, `"ref":{"type":"ref/prompt","name":"pub","name":"hidden"}`,
		`"ref":{"type":"ref/resource","uri":"x://pub","URI":"x://hidden"}`, `"ref":{"type":"ref/prompt","name":"pub"},"Ref":{"type":"ref/prompt","name":"hidden"}`,
		`"ref":{"type":"ref/prompt","name":"pub","Type":"ref/resource"}`,
	} {
		try("completion/complete", `{`+ref+`,"argument":{"name":"a","value":""}}`, refused)
	}
	select {
	case got := <-reached:
		t.Errorf("the backend was asked for what is hidden: %s", got)
	default:
	}
}

// TestTracesShowNothingHidden: names and errors of hidden tools are in a trace only for clients that see all tools at
// /readyz.
func TestTracesShowNothingHidden(t *testing.T) {
	backend := &backendtest.Raw{Tools: `{"name":"pub","inputSchema":{"type":"object"}},{"name":"secretive","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		if x.Param("name") == `"secretive"` {
			x.JSON(`{"content":[{"type":"text","text":"told in confidence"}],"isError":true}`)
			return
		}
		x.JSON(`{"content":[]}`)
	}}
	cfg := func() *config.Config {
		return &config.Config{
			Backends:    []config.Backend{{Name: "b", URL: backend.Start(t)}},
			Aggregation: config.Aggregation{Tools: []config.WorkloadTools{{Workload: "b", Filter: []string{"pub"}}}},
			ScriptedTools: []config.ScriptedTool{{Name: "script", Description: "calls", Script: `
def run(params):
    call_tool("pub", {})
    try_call_tool("b.secretive", {})
    return {}
`}},
		}
	}
	open, _ := start(t, cfg())
	apart := cfg()
	apart.Admin.Listen = "127.0.0.1:0"
	closed, _ := start(t, apart)
	call := func(key string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"script","_meta":{"` + key + `":true}}}`
	}
	for _, tt := range []struct {
		name, addr string
		all        bool
		headers    []string
	}{
		{"this machine", port(t, open, false), true, nil},
		{"passed on by a proxy", port(t, open, false), false, []string{"X-Forwarded-For", "203.0.113.9"}},
		{"another machine", port(t, open, true), false, nil},
		{"this machine, beside a port for operators", port(t, closed, false), false, nil},
	} {
		c := &raw{t: t, url: "http://" + tt.addr + "/mcp"}
		c.initialize("2025-11-25")
		for _, key := range []string{"dev.vmcp/trace", "vmcp.dev/trace"} {
			_, body := c.do("POST", call(key), tt.headers...)
			if !strings.Contains(body, `"`+key+`":{"tool":"script"`) || !strings.Contains(body, `"name":"pub"`) {
				t.Errorf("%s: no trace: %s", tt.name, body)
			}
			if all := strings.Contains(body, "secretive") && strings.Contains(body, "in confidence"); all != tt.all || !all && (strings.Contains(body, "secretive") || strings.Contains(body, "confidence")) {
				t.Errorf("%s: shows what is hidden: %v, want %v: %s", tt.name, all, tt.all, body)
			}
		}
	}
	lines := overStdio(t, closed)
	lines.initialize()
	if got := lines.say(call("dev.vmcp/trace")); !strings.Contains(got, "b.secretive") {
		t.Errorf("over stdio: %s", got)
	}
}
