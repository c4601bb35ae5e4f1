package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// raw is an HTTP client that sends exactly what it is given.
type raw struct {
	t       *testing.T
	url     string
	session string
}

func (c *raw) do(method, body string, headers ...string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp, string(b)
}

func (c *raw) initialize(revision string) string {
	c.t.Helper()
	resp, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`, revision))
	if c.session = resp.Header.Get("Mcp-Session-Id"); c.session == "" {
		c.t.Fatalf("initialize: %s %s", resp.Status, body)
	}
	c.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return body
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// TestEdgeRefuses shows the status and the code of everything that the edge refuses.
func TestEdgeRefuses(t *testing.T) {
	testmode.Parallel(t)
	_, url := start(t, &config.Config{})
	modern := func(h ...string) []string {
		return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, h...)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name, method, body string
		headers            []string
		status             int
		want               string
	}{
		{"a foreign origin", "POST", ping, []string{"Origin", "http://evil.example"}, 403, `origin \"http://evil.example\" is not allowed`},
		{"a null origin", "POST", ping, []string{"Origin", "null"}, 403, "is not allowed"},
		{"a rebound host", "POST", ping, []string{"Host", "evil.example"}, 403, `host \"evil.example\" is not allowed`},
		{"another content type", "POST", ping, []string{"Content-Type", "text/plain"}, 415, "want application/json"},
		{"a client that takes no JSON", "POST", ping, []string{"Accept", "text/html"}, 406, "Accept"},
		{"no JSON", "POST", `{`, nil, 400, `"code":-32700`},
		{"too deep", "POST", strings.Repeat("[", 600) + strings.Repeat("]", 600), nil, 400, "nested deeper than 512"},
		{"too large", "POST", `"` + strings.Repeat("x", 5<<20) + `"`, nil, 413, "larger than 4194304 bytes"},
		{"no session", "POST", ping, nil, 400, "begin with initialize"},
		{"an unknown session", "POST", ping, []string{"Mcp-Session-Id", "nobody"}, 404, "session not found"},
		{"another method", "PUT", ping, nil, 405, ""},
		{"GET of a stateless client", "GET", "", modern(), 405, ""},
		{"DELETE of a stateless client", "DELETE", "", modern(), 405, ""},
		{"no _meta", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, modern(), 400, `"code":-32602`},
		{"no capabilities", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, modern(), 400, `"code":-32602`},
		{"another revision in the body", "POST", strings.Replace(list, "2026-07-28", "2099-01-01", 1), modern(), 400, `"code":-32020`},
		{"an unknown revision", "POST", strings.Replace(list, "2026-07-28", "2099-01-01", 1), modern("Mcp-Protocol-Version", "2099-01-01"), 400, `"code":-32022`},
		{"another method in the header", "POST", list, modern("Mcp-Method", "tools/call"), 400, `"code":-32020`},
		{"no method in the header", "POST", list, modern("Mcp-Method", ""), 400, `"code":-32020`},
		{"an unknown method", "POST", strings.Replace(list, "tools/list", "no/such", 1), modern("Mcp-Method", "no/such"), 404, `"code":-32601`},
		{"a removed method", "POST", strings.Replace(list, "tools/list", "ping", 1), modern("Mcp-Method", "ping"), 404, `"code":-32601`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &raw{t: t, url: url}
			resp, body := c.do(tt.method, tt.body, tt.headers...)
			if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s, want %d and %s", resp.StatusCode, body, tt.status, tt.want)
			}
		})
	}
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	if resp, body := c.do("POST", ping, "Origin", url[:strings.LastIndex(url, "/")]); resp.StatusCode != 200 {
		t.Errorf("the endpoint's own origin: %d %s", resp.StatusCode, body)
	}
}

func TestSessions(t *testing.T) {
	p, url := start(t, &config.Config{})
	for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "1999-01-01": "2025-11-25", "2026-07-28": "2025-11-25"} {
		c := &raw{t: t, url: url}
		if body := c.initialize(asked); !strings.Contains(body, `"protocolVersion":"`+want+`"`) {
			t.Errorf("initialize with %s: %s, want %s", asked, body, want)
		}
		if resp, _ := c.do("DELETE", ""); resp.StatusCode != 204 {
			t.Errorf("DELETE: %s", resp.Status)
		}
		if resp, _ := c.do("POST", `{"jsonrpc":"2.0","id":2,"method":"ping"}`); resp.StatusCode != 404 {
			t.Errorf("after DELETE: %s, want 404", resp.Status)
		}
	}
	if n := p.Status().Sessions; n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestSeveralSessionIDs: a request names one session. The same id twice, as a proxy may send it, counts as one.
func TestSeveralSessionIDs(t *testing.T) {
	_, url := start(t, &config.Config{})
	one, two := &raw{t: t, url: url}, &raw{t: t, url: url}
	one.initialize("2025-11-25")
	two.initialize("2025-11-25")
	for _, tt := range []struct {
		ids    []string
		status int
	}{
		{[]string{one.session, one.session}, 200},
		{[]string{one.session, two.session}, 400},
		{[]string{one.session, "nobody"}, 400},
		{[]string{"nobody", one.session}, 400},
		{[]string{one.session, ""}, 400},
		{[]string{one.session, one.session, two.session}, 400},
		{[]string{"nobody", "nobody"}, 404},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if method != "POST" && tt.status == 200 {
				continue // it would end the session, or wait for its events
			}
			r, _ := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": tt.ids}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.status || tt.status == 400 && !strings.Contains(string(body), "several Mcp-Session-Id headers that differ: want one session id") {
				t.Errorf("%s with %q: %d %s, want %d", method, tt.ids, resp.StatusCode, body, tt.status)
			}
		}
	}
}

// TestBatches: only one revision has batches.
func TestBatches(t *testing.T) {
	_, url := start(t, &config.Config{})
	batch := `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"no/such"},{"id":3}]`
	c := &raw{t: t, url: url}
	c.initialize("2025-03-26")
	resp, body := c.do("POST", batch)
	var answers []struct {
		ID    json.RawMessage
		Error *struct{ Code int }
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || len(answers) != 3 {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	codes := map[string]int{}
	for _, a := range answers {
		if a.Error != nil {
			codes[string(a.ID)] = a.Error.Code
		}
	}
	if codes["2"] != -32601 || codes["null"]+codes["3"] != -32600 || codes["1"] != 0 {
		t.Errorf("answers: %s", body)
	}
	c.initialize("2025-06-18")
	if resp, _ := c.do("POST", batch); resp.StatusCode != 400 {
		t.Errorf("a batch in 2025-06-18: %s, want 400", resp.Status)
	}
}

// TestStreamsResume loses the connection during a call and resumes the stream.
func TestStreamsResume(t *testing.T) {
	release := make(chan struct{})
	backend := slowBackend(t, release)
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "slow", URL: backend}}})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":"p"}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", c.session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
		if strings.Contains(lines.Text(), "notifications/progress") {
			break
		}
	}
	resp.Body.Close()
	close(release)
	_, body := c.do("GET", "", "Last-Event-ID", last)
	if !strings.Contains(body, `"id":5`) || !strings.Contains(body, "worked") || strings.Contains(body, "notifications/progress") {
		t.Errorf("resumed behind %q: %s", last, body)
	}
}

// TestAnswerGoesOnBeforeItsEnd: the beginning of a large response is sent before its end has arrived.
func TestAnswerGoesOnBeforeItsEnd(t *testing.T) {
	const size = 200_000
	more := make(chan struct{})
	backend := &backendtest.Raw{Tools: `{"name":"t","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method != "tools/call" {
			return
		}
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":"%s"}}`, x.Message.ID, strings.Repeat("x", size))
		x.Header().Set("Content-Length", strconv.Itoa(len(frame)))
		x.Raw(frame[:30_000])
		x.ResponseWriter.(http.Flusher).Flush()
		<-more
		io.WriteString(x, frame[30_000:])
	}}
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.Start(t)}}})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {c.session}}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	head := make([]byte, 20_000)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	close(more)
	rest, err := io.ReadAll(resp.Body)
	want := `{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("x", size) + `"}}`
	if got := strings.TrimRight(string(head)+string(rest), " "); got != want || err != nil {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}
