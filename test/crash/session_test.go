//go:build suites

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// driveSession repeats calls until one run has ended or is in doubt, for a client that is asked in its session. When the server is killed, the
// client begins a new session and makes the same call. An answer right before the kill may be lost, so it may be asked again.
func (tr *trial) driveSession(c *client) {
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		r, err := tr.callInSession(c)
		switch {
		case err == nil && len(r.Content) == 1:
			var at struct{ ID, State string }
			text, _ := json.Marshal(r.Meta["dev.vmcp/run"])
			_ = json.Unmarshal(text, &at)
			c.run, c.doubt, c.result = at.ID, at.State == "doubt", r.Content[0].(*mcp.TextContent).Text
			if r.IsError && !c.doubt {
				tr.t.Errorf("%s, in a session: %s", c.id, c.result)
			}
			return
		case time.Since(began) > 90*time.Second:
			tr.t.Errorf("%s: no end in 90 s, in sessions; the last one had %+v, %v", c.id, r, err)
			return
		}
	}
}

// callInSession makes a session, and the call in it. Sometimes the client ends the session in the middle of the call.
func (tr *trial) callInSession(c *client) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(tr.t.Context(), 20*time.Second)
	defer cancel()
	asks := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"token": c.token(r.Params.Message)}}, nil
		},
	})
	s, err := asks.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: fmt.Sprintf("http://%s/mcp", tr.addr), MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if rand.IntN(4) == 0 {
		early := time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, func() { tr.end(ctx, s.ID()) })
		defer early.Stop()
	}
	return s.CallTool(ctx, &mcp.CallToolParams{Meta: mcp.Meta{"dev.vmcp/idempotencyKey": c.id}, Name: c.kind, Arguments: map[string]any{"id": c.id}})
}

// end deletes a session, if the server is reachable.
func (tr *trial) end(ctx context.Context, id string) {
	r, err := http.NewRequestWithContext(ctx, "DELETE", fmt.Sprintf("http://%s/mcp", tr.addr), nil)
	if err != nil {
		tr.t.Error(err)
		return
	}
	r.Header.Set("Mcp-Session-Id", id)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
	}
}
