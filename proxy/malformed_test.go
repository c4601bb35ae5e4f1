package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// TestMalformedAnswers: a malformed response of a backend is an error of its call; the next call works, and no client
// gets invalid JSON.
func TestMalformedAnswers(t *testing.T) {
	raw1 := func(x *backendtest.Exchange) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, x.Message.ID, jsonscan.Text([]byte(x.Param("arguments", "answer"))))
	}
	tool := `{"name":"pids","inputSchema":{"type":"object"}}`
	inJSON := &backendtest.Raw{Tools: tool, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" {
			x.Raw(raw1(x))
		}
	}}
	inEvents := &backendtest.Raw{Tools: tool, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" {
			x.Event("", raw1(x))
		}
	}}
	p, url := start(t, &config.Config{Backends: []config.Backend{
		{Name: "json", URL: inJSON.Start(t)}, {Name: "events", URL: inEvents.Start(t)}, backendtest.Stdio("stdio", "parrot"),
	}})
	c, lines := &raw{t: t, url: url}, overStdio(t, p)
	c.initialize("2025-11-25")
	lines.initialize()
	id := 0
	call := func(tool, answer string) [2]string {
		id++
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"answer":%s}}}`, id, tool, jsonscan.Quote(answer))
		_, body := c.do("POST", frame)
		return [2]string{body, lines.say(frame)}
	}
	pad := strings.Repeat("x", 60_000)
	for _, tool := range []string{"json_pids", "events_pids", "stdio_pids"} {
		for _, answer := range []string{
			`"result":{"content":[{"type":"text","text":"x" "bad"}]}`,
			`"result":{"content":[{"type":"text","text":"x"} {"type":"text"}]}`,
			`"result":{"content":[],"x":"\q"}`,
			`"result":{"content":[],"x":"\u12"}`,
			`"result":{"content":[],"x":01}`,
			`"result":{"content":[],"x":+1}`,
			`"result":{"content":[],"x":nul}`,
			`"result":{"content":[],}`,
			`"result":{"content":[1,]}`,
			"\"result\":{\"content\":[],\"x\":\"a\tb\"}",
			`"result":{"content":[],'x':1}`,
			`"result":{"content":[],"x":"` + pad + `","y":tru}`,
			`"error":{"code":-1,"message":"x" "y"}`,
			`"result":{"content":[}]`,
		} {
			for edge, got := range call(tool, answer) {
				if !json.Valid([]byte(got)) || !strings.Contains(got, `"error"`) || !strings.Contains(got, fmt.Sprintf(`"id":%d`, id)) {
					t.Errorf("%s, edge %d: %.80s gives %.300s", tool, edge, answer, got)
				}
			}
			for edge, got := range call(tool, `"result":{"content":[]}`) {
				if !strings.Contains(got, `"content":[]`) {
					t.Errorf("%s, edge %d, the call after %.80s: %s", tool, edge, answer, got)
				}
			}
		}
	}
}

// TestAnswersThatAreNoMessage: the error names the backend as the cause, and is no parse error for the client.
func TestAnswersThatAreNoMessage(t *testing.T) {
	backend := &backendtest.Raw{Tools: `{"name":"t","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" {
			x.Raw(jsonscan.Text([]byte(x.Param("arguments", "answer"))))
		}
	}}
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "odd", URL: backend.Start(t)}}})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	for _, answer := range []string{"", "{", "5", "<html>", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`} {
		resp, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"t","arguments":{"answer":%s}}}`, jsonscan.Quote(answer)))
		if resp.StatusCode != 200 || !strings.Contains(body, `"code":-32603,"message":"backend odd: tools/call: `) || !strings.Contains(body, `"kind":"protocol"`) {
			t.Errorf("%q gives %d %s", answer, resp.StatusCode, body)
		}
	}
}

// TestAnswersToOtherRequests: a response with another id is not used.
func TestAnswersToOtherRequests(t *testing.T) {
	backend := &backendtest.Raw{Tools: `{"name":"t","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" {
			size := len(jsonscan.Text([]byte(x.Param("arguments", "pad"))))
			x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"pad":"%s"}}`, jsonscan.Text([]byte(x.Param("arguments", "id"))), strings.Repeat("x", size)))
		}
	}}
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.Start(t)}}})
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	for _, id := range []string{"999999", `"x"`, "null", "1.5", "-1"} {
		for _, pad := range []string{"", strings.Repeat("x", 100_000)} {
			_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"id":%s,"pad":%q}}}`, jsonscan.Quote(id), pad))
			if !strings.Contains(body, `"error"`) || strings.Contains(body, `"pad"`) || strings.Contains(body, "its id is ,") {
				t.Errorf("an answer with the id %s and %d bytes: %.200s", id, len(pad), body)
			}
		}
	}
}

// TestMain is also the child process of stdio backends.
func TestMain(m *testing.M) { backendtest.Main(m) }
