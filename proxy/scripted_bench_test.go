package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// BenchmarkScript is a call of a scripted tool that calls nothing, beside a ping: what a run costs
// to begin and to end.
func BenchmarkScript(b *testing.B) {
	p := proxy.New(proxy.Options{})
	b.Cleanup(func() { p.Close() })
	err := p.Apply(&config.Config{ScriptedTools: []config.ScriptedTool{{Name: "one", Description: "d", Script: "def run(params):\n    return 1\n"}}})
	if err != nil {
		b.Fatal(err)
	}
	for name, request := range map[string]string{
		"run":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}`,
		"ping": `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	} {
		b.Run(name, func(b *testing.B) {
			session := ""
			post := func(body string) {
				r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Mcp-Session-Id", session)
				w := httptest.NewRecorder()
				w.Body = nil
				p.ServeHTTP(w, r)
				if session = w.Header().Get("Mcp-Session-Id") + session; w.Code != 200 {
					b.Fatal(w.Code)
				}
			}
			post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
			b.ReportAllocs()
			for b.Loop() {
				post(request)
			}
		})
	}
}
