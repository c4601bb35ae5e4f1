package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
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
	p := New(Options{})
	defer p.Close()
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "b", URL: raw.Start(t)}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	x := newExchange(p, edge.Request{Client: &edge.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`)}, Method: "tools/call", Params: json.RawMessage(`{}`), Out: nowhere{}})
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

// TestSuspendedCallsOfAPrincipal: one principal leaves room for the suspended calls of others.
func TestSuspendedCallsOfAPrincipal(t *testing.T) {
	for _, tt := range []struct {
		body int64
		want int
	}{{0, parkedOfOne}, {4 << 20, parkedBytesOfOne / (4<<20 + heldBytes)}} {
		table := newParkedTable()
		put := func(principal string) error {
			x := newExchange(nil, edge.Request{Client: &edge.Client{Principal: principal}, Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`)})
			_, err := table.put(x, &liveCall{p: &Proxy{}, cancel: func(error) {}, size: tt.body}, time.Minute)
			return err
		}
		n := 0
		for put("alice") == nil {
			n++
		}
		if n != tt.want {
			t.Errorf("%d calls with bodies of %d bytes are held of one principal, want %d", n, tt.body, tt.want)
		}
		if err := put("bob"); err != nil {
			t.Errorf("another principal: %v", err)
		}
		table.close()
	}
}

// TestSuspendedCallsAreBounded: the bodies of calls that wait for their clients' answers
// count, and what was taken back does not.
func TestSuspendedCallsAreBounded(t *testing.T) {
	const body = 4 << 20
	table := newParkedTable()
	x := newExchange(nil, edge.Request{Client: &edge.Client{}, Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`)})
	suspended := func() *liveCall { return &liveCall{p: &Proxy{}, cancel: func(error) {}, size: body} }
	n, state := 0, ""
	for ; ; n++ {
		s, err := table.put(x, suspended(), time.Minute)
		if err != nil {
			break
		}
		state = s
	}
	if want := parkedBytes / (body + heldBytes); n != want {
		t.Errorf("%d calls with bodies of %d bytes are held, want %d", n, body, want)
	}
	if _, err := table.take(x, json.RawMessage(jsonscan.Quote(state))); err != nil {
		t.Fatal(err)
	}
	if _, err := table.put(x, suspended(), time.Minute); err != nil {
		t.Errorf("after one was taken back: %v", err)
	}
	table.close()
}

// nowhere drops every frame.
type nowhere struct{}

func (nowhere) Send([]byte)    {}
func (nowhere) Offer([]byte)   {}
func (nowhere) Request([]byte) {}
