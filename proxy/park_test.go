package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestWhatNobodyTakesIsGivenBack: a result that comes after its client has left is
// closed, and with it the connection that it holds.
func TestWhatNobodyTakesIsGivenBack(t *testing.T) {
	closed := make(chan struct{})
	raw := &backendtest.Raw{Handle: func(x *backendtest.Exchange) {
		if x.Message.Method != wire.ToolsCall {
			return
		}
		x.Header().Set("Content-Length", "100000")
		x.Raw(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"text":"` + strings.Repeat("x", 10_000))
		<-x.Request.Context().Done()
		close(closed)
	}}
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Apply(t.Context(), &config.Config{Backends: []config.Backend{{Name: "b", URL: raw.Start(t)}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	x := newExchange(p, &client{capabilities: json.RawMessage(`{"elicitation":{}}`)}, "tools/call", json.RawMessage(`{}`), &batchReply{})
	l := p.startLive(ctx, x, func(ctx context.Context) (*backends.Response, error) {
		resp, err := p.backends.All()[0].Call(context.WithoutCancel(ctx), &backends.Request{Method: wire.ToolsCall, Params: json.RawMessage(`{"name":"t"}`)})
		if err != nil || resp.Body == nil {
			t.Errorf("the answer does not stream: %v", err)
		}
		leave()
		<-ctx.Done() // the backend has answered all the same
		return resp, err
	})
	if _, err := l.wait(ctx, x); err == nil {
		t.Error("a client that left got an answer")
	}
	<-closed
}
