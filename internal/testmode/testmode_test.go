package testmode_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	_ "github.com/vmcp-dev/vmcp/internal/testmode" // whose init is tested
)

// TestServersThatCloseLeaveConnectionsOfOthers: closing an httptest server does not close the connections of concurrent
// tests.
func TestServersThatCloseLeaveConnectionsOfOthers(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer srv.Close()
	get := func() (reused bool) {
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return reused
	}
	get()
	httptest.NewServer(nil).Close()
	if !get() {
		t.Error("the connection was closed with the server of another test")
	}
}
