package runs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestWhatNobodyTakesIsGivenBack: a result that arrives after its client has disconnected is closed, and with it its
// connection.
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
	set := backends.NewSet(backends.Options{})
	defer set.Close()
	cfg := &config.Config{Backends: []config.Backend{{Name: "b", URL: raw.Start(t)}}}
	cfg.Complete()
	if err := set.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	table := NewSuspended(spawn)
	defer table.Close()
	ctx, leave := context.WithCancel(t.Context())
	l := table.Call(ctx, nil, Nobody{}, "")
	l.Start(ctx, func(ctx context.Context) (*backends.Response, error) {
		resp, err := set.All()[0].Call(context.WithoutCancel(ctx), &backends.Request{Method: wire.ToolsCall, Params: json.RawMessage(`{"name":"t"}`)})
		if err != nil || resp.Body == nil {
			t.Errorf("the answer does not stream: %v", err)
		}
		leave()
		<-ctx.Done() // the backend has answered all the same
		return resp, err
	})
	if _, _, err := l.Wait(ctx, at("")); err == nil {
		t.Error("a client that left got an answer")
	}
	<-closed
}

// TestSuspendedCallsOfAPrincipal: one principal leaves room for the suspended calls of others.
func TestSuspendedCallsOfAPrincipal(t *testing.T) {
	for _, tt := range []struct {
		body int64
		want int
	}{{0, maxOfOne}, {4 << 20, maxBytesOfOne / (4<<20 + keptBytes)}} {
		table := NewSuspended(spawn)
		put := func(principal string) error {
			_, err := table.put(at(principal), &SuspendedCall{cancel: func(error) {}, size: tt.body})
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
		table.Close()
	}
}

// TestSuspendedCallsAreBounded: the bodies of suspended calls count, and are returned when these are resumed.
func TestSuspendedCallsAreBounded(t *testing.T) {
	const body = 4 << 20
	table := NewSuspended(spawn)
	nobodys := at("")
	suspended := func() *SuspendedCall { return &SuspendedCall{cancel: func(error) {}, size: body} }
	n, state := 0, ""
	for ; ; n++ {
		s, err := table.put(nobodys, suspended())
		if err != nil {
			break
		}
		state = s
	}
	if want := SuspendedMaxBytes / (body + keptBytes); n != want {
		t.Errorf("%d calls with bodies of %d bytes are held, want %d", n, body, want)
	}
	if _, ok := table.Resume(json.RawMessage(jsonscan.Quote(state)), nobodys.Binding()); !ok {
		t.Fatal("it is not there")
	}
	if _, err := table.put(nobodys, suspended()); err != nil {
		t.Errorf("after one was taken back: %v", err)
	}
	table.Close()
}

// slowClient is a client that does not read: a frame to it blocks until the test lets it continue.
type slowClient struct {
	Nobody
	waits, goOn chan struct{}
}

func (c *slowClient) Send([]byte) {
	close(c.waits)
	<-c.goOn
}

// TestASlowClientHoldsUpNoOther: while a frame blocks for the client of a run, the calls of others are counted,
// suspended and resumed.
func TestASlowClientHoldsUpNoOther(t *testing.T) {
	table := NewSuspended(spawn)
	defer table.Close()
	slow := &slowClient{waits: make(chan struct{}), goOn: make(chan struct{})}
	l := table.Call(t.Context(), nil, slow, "")
	table.Lead("run", l)
	go l.Send([]byte(`{}`))
	<-slow.waits
	if n := table.Len(); n != 0 { // waits for ever where it asks under the mutex of the call
		t.Errorf("%d calls wait for their clients, want none: the slow one is attached", n)
	}
	close(slow.goOn)
	l.Detach(nil)
	if n := table.Len(); n != 1 {
		t.Errorf("%d calls wait for their clients, want the one whose client is away", n)
	}
	l.Attach(t.Context(), Nobody{})
	if n := table.Len(); n != 0 {
		t.Errorf("%d calls wait for their clients, want none: its client is back", n)
	}
}
