package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// resourceful serves one resource and calls subscribe and unsubscribe, if set, for these requests.
func resourceful(t *testing.T, uri string, subscribe, unsubscribe func()) string {
	o := &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { subscribe(); return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { unsubscribe(); return nil },
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "resourceful", Version: "1"}, o)
	s.AddResource(&mcp.Resource{Name: "r", URI: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return sdkBackend(t, s, false)
}

// follower is a client without capabilities.
func follower(t *testing.T, url string) *raw {
	c := &raw{t: t, url: url}
	c.initialize("2025-11-25")
	return c
}

func (c *raw) resource(method, uri string) {
	c.t.Helper()
	_, body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/%s","params":{"uri":%q}}`, method, uri))
	if !strings.Contains(body, `"result":{}`) {
		c.t.Fatalf("%s %s: %s", method, uri, body)
	}
}

// TestSlowBackendHoldsUpNoOtherSubscription: while one backend does not answer, subscriptions at others work, and
// sessions end.
func TestSlowBackendHoldsUpNoOtherSubscription(t *testing.T) {
	stuck, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	slow := resourceful(t, "test://slow", func() {}, func() { close(stuck); <-release })
	fine := resourceful(t, "test://fine", func() {}, func() { close(gone) })
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "slow", URL: slow, Sessions: "shared"}, {Name: "fine", URL: fine, Sessions: "shared"}}})
	t.Cleanup(func() { close(release) })
	a, b := follower(t, url), follower(t, url)
	a.resource("subscribe", "test://slow")
	a.do("DELETE", "") // returns although the backend does not
	<-stuck
	b.resource("subscribe", "test://fine")
	b.resource("unsubscribe", "test://fine")
	<-gone
}

// TestBackendIsAskedOnceForManyFollowers: the first subscriber causes a subscribe request, the last one that leaves, in
// whatever way, an unsubscribe.
func TestBackendIsAskedOnceForManyFollowers(t *testing.T) {
	events := make(chan string, 16)
	backend := resourceful(t, "test://r", func() { events <- "subscribe" }, func() { events <- "unsubscribe" })
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "b", URL: backend, Sessions: "shared"}}})
	a := follower(t, url)
	// A connection that is opened for a subscription asks for it by itself as well.
	a.do("POST", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://r"}}`)
	for range 2 {
		b := follower(t, url)
		a.resource("subscribe", "test://r")
		a.resource("subscribe", "test://r") // again, which counts once
		b.resource("subscribe", "test://r")
		a.resource("unsubscribe", "test://r")
		a.resource("unsubscribe", "test://r")
		b.do("DELETE", "")
		for _, want := range []string{"subscribe", "unsubscribe"} {
			if got := <-events; got != want {
				t.Fatalf("the backend heard %q, want %q", got, want)
			}
		}
	}
	if len(events) > 0 {
		t.Errorf("the backend heard %q as well", <-events)
	}
}
