package cli_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// TestCallback: the first redirect counts, its page says that the login is done, and Wait ends with its
// context.
func TestCallback(t *testing.T) {
	c, err := cli.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, query := range []string{"?code=1&state=s", "?code=2"} {
		resp, err := http.Get(c.URL + query)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(page), "close this page") || resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the page is %s with %v", page, resp.Header)
		}
	}
	if q, err := c.Wait(t.Context()); err != nil || q.Get("code") != "1" || q.Get("state") != "s" {
		t.Errorf("Wait = %v, %v", q, err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := c.Wait(ctx); err != late {
		t.Errorf("Wait without an answer = %v", err)
	}
}
