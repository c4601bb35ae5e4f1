package main

import (
	"net/http/httptest"
	"testing"
)

// TestNginx: where nginx is installed, it forwards calls to the backend.
func TestNginx(t *testing.T) {
	s := httptest.NewServer(newBackend())
	defer s.Close()
	p, err := startNginx(t.TempDir(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		t.Skip("nginx is not installed")
	}
	defer p.stop()
	c, err := dial(target{url: p.base + "/" + legacy + "/few/mcp", revision: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.do(c.call(answerTool("sse", 10_000), "{}", 10_000)); err != nil {
		t.Error(err)
	}
}
