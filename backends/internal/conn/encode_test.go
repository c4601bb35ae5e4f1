package conn_test

import (
	"encoding/json"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

const hop = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":`

func TestFrame(t *testing.T) {
	modern := conn.EncodeRequest{Modern: true, Info: json.RawMessage(`{"name":"c"}`)}
	principal := conn.EncodeRequest{Principal: &conn.Principal{Issuer: "https://i", Subject: `a"b`}}
	logs := modern
	logs.Capabilities, logs.LogLevel = json.RawMessage(`{"roots":{}}`), "info"
	for _, tt := range []struct {
		name        string
		of          conn.EncodeRequest
		params      string
		want, token string
	}{
		{"nothing to add", conn.EncodeRequest{}, ``, ``, ``},
		{"params stay", conn.EncodeRequest{}, `{ "a": 1.0 }`, `{ "a": 1.0 }`, ``},
		{"token re-minted", conn.EncodeRequest{}, `{"_meta": {"progressToken":"t","x": 1},"a":1}`, `{"_meta": {"progressToken":7,"x":1},"a":1}`, `"t"`},
		{"modern", modern, ``, `{"_meta":{` + hop + `{}}}`, ``},
		{"modern, empty params", modern, `{ }`, `{"_meta":{` + hop + `{}}}`, ``},
		{"modern, with params", modern, ` {"a":1}`, `{"_meta":{` + hop + `{}},"a":1}`, ``},
		{"the caller's description of another hop", logs, `{"_meta":{"io.modelcontextprotocol/logLevel":"debug","x":1}}`,
			`{"_meta":{` + hop + `{"roots":{}},"io.modelcontextprotocol/logLevel":"info","x":1}}`, ``},
		{"principal", principal, `{"_meta":{"dev.vmcp/principal":"me"}}`, `{"_meta":{"dev.vmcp/principal":{"issuer":"https://i","subject":"a\"b"}}}`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.of
			r.ID, r.Method, r.Params = 7, "tools/call", json.RawMessage(tt.params)
			want := `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`
			if tt.want != "" {
				want = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + tt.want + `}`
			}
			frame, token := r.Frame()
			if string(frame) != want || string(token) != tt.token {
				t.Errorf("Frame = %s, token %s\nwant    %s, token %s", frame, token, want, tt.token)
			}
		})
	}
}

func TestListen(t *testing.T) {
	capabilities := json.RawMessage(`{"tools":{"listChanged":true},"prompts":{"listChanged":false}}`)
	if got := string(conn.Listen(capabilities, []string{"a:b"})); got != `{"notifications":{"resourceSubscriptions":["a:b"],"toolsListChanged":true}}` {
		t.Errorf("Listen = %s", got)
	}
	if got := conn.Listen(json.RawMessage(`{}`), nil); got != nil {
		t.Errorf("Listen to nothing = %s", got)
	}
}
