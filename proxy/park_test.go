package proxy

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/backends"
)

type closing struct{ closed chan struct{} }

func (c closing) Read([]byte) (int, error) { return 0, io.EOF }
func (c closing) Close() error             { close(c.closed); return nil }

// TestWhatNobodyTakesIsGivenBack: a result that comes after its client has left is
// closed, and with it the connection that it holds.
func TestWhatNobodyTakesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		body := closing{make(chan struct{})}
		ctx, leave := context.WithCancel(t.Context())
		x := newExchange(p, &client{capabilities: json.RawMessage(`{"elicitation":{}}`)}, "tools/call", json.RawMessage(`{}`), &batchReply{})
		l := p.startLive(ctx, x, func(ctx context.Context) (*backends.Response, error) {
			<-ctx.Done() // the backend answers all the same
			return &backends.Response{Body: body}, nil
		})
		leave()
		if _, err := l.wait(ctx, x); err == nil {
			t.Error("a client that left got an answer")
		}
		<-body.closed
	})
}
