package edge

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// empty is a Handler and a Peer for tests of a Server: the result of every request is {}.
type empty struct{}

func (empty) Admit(ctx context.Context, _ Request, do func(context.Context) error) error {
	return do(ctx)
}

func (empty) Serve(context.Context, Request) (*backends.Response, error) {
	return &backends.Response{Result: json.RawMessage(`{}`)}, nil
}

func (empty) Open(context.Context, *Session) Peer { return empty{} }
func (empty) Initialize() json.RawMessage         { return json.RawMessage(`{}`) }
func (empty) Notified(string, json.RawMessage)    {}
func (empty) Listens()                            {}
func (empty) StoppedListening()                   {}
func (empty) Ended()                              {}
func (empty) Left()                               {}

// started is a Server until the test ends.
func started(t *testing.T) *Server {
	v := New(Options{
		Handler: empty{},
		Log:     slog.New(slog.DiscardHandler),
		Page:    func(w http.ResponseWriter, _ *http.Request, _ bool) { w.WriteHeader(http.StatusNotImplemented) },
		Refused: func(*auth.Refusal) {},
	})
	t.Cleanup(v.Close)
	return v
}

// apply applies a configuration to a Server.
func apply(t *testing.T, v *Server, cfg *config.Config) {
	t.Helper()
	cfg.Complete()
	if err := v.Apply(cfg, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}
