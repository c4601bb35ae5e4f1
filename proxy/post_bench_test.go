package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy"
)

// poster posts requests of one session, after initialize.
func poster(b *testing.B, p *proxy.Proxy) (post func(body string)) {
	session := ""
	post = func(body string) {
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
	return post
}
