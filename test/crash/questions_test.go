//go:build suites

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asksVia is a scripted tool that makes one call of a backend's tool which asks.
func asksVia(name, backendTool string) string {
	return tool(name, "", `call_tool("`+backendTool+`", {"what": params["id"] + "/0"})`, `return params["id"]`)
}

// asked begins a run, and returns its question with the part of the next request that answers it.
func (tr *trial) asked(c *client, more string) (key, answer string) {
	tr.t.Helper()
	r, err := tr.call(c, more)
	if err != nil || len(r.Result.InputRequests) != 1 {
		tr.t.Fatalf("%s: %+v, %v; want a question", c.id, r, err)
	}
	for k := range r.Result.InputRequests {
		key = k
	}
	return key, r.answers()
}

// TestWhatABackendAsksAcrossAKill: the process is killed while a backend waits for an answer.
//
//	stateless      the call waits with the run: the later answer is sent, and the question is not asked again
//	idempotent     the call is made again, and asks the same: the answer that the client sends meanwhile is used
//	not repeatable the call is in doubt; made again, it asks the same, and gets the stored answer
func TestWhatABackendAsksAcrossAKill(t *testing.T) {
	tr := newAskingTrial(t, asksVia("reserves", "reserve")+asksVia("quotes", "quote")+asksVia("books", "book"))
	s := tr.serve()
	answers, keys := map[string]string{}, map[string]string{}
	kinds := []string{"reserves", "quotes", "books"}
	for _, kind := range kinds {
		keys[kind], answers[kind] = tr.asked(&client{kind: kind, id: kind}, "")
		if !strings.HasPrefix(keys[kind], "0/0/") {
			t.Errorf("%s: the key is %q", kind, keys[kind])
		}
	}
	s.kill()
	s = tr.serve()
	defer s.kill()
	for _, kind := range kinds[:2] {
		r, err := tr.call(&client{kind: kind, id: kind}, answers[kind])
		if err != nil || string(r.Result.StructuredContent) != fmt.Sprintf("%q", kind) {
			t.Errorf("%s: %+v, %v", kind, r, err)
		}
	}
	run := tr.until("books", "doubt")
	r, err := tr.call(&client{kind: "books", id: "books"}, answers["books"]) // the answer comes while the call is in doubt
	if err != nil || !r.Result.IsError || !strings.Contains(r.Result.Content[0].Text, "vmcp runs resolve "+run.ID+" 0") {
		t.Errorf("%+v, %v; want a doubt", r, err)
	}
	tr.command("runs", "resolve", run.ID, "--repeat")
	tr.until("books", "done")
	for _, kind := range kinds {
		if n := tr.ledger.did(kind + "/0"); n != 1 {
			t.Errorf("%s: the call happened %d times", kind, n)
		}
	}
}

// TestABackendAsksARunWithoutAClient: the session that was asked has ended with the process. The question is asked again, waits
// for an answer of the command line, and the run ends.
func TestABackendAsksARunWithoutAClient(t *testing.T) {
	tr := newAskingTrial(t, asksVia("reserves", "reserve")+asksVia("quotes", "quote"))
	s := tr.serve()
	asked := make(chan struct{}, 2)
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + tr.addr + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, kind := range []string{"reserves", "quotes"} {
		go func() {
			_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: kind, Arguments: map[string]any{"id": kind}})
		}()
		<-asked
	}
	s.kill()
	cancel()
	run := tr.until("reserves", "waiting") // with no server running
	tr.command("runs", "answer", run.ID, "--action", "accept")
	s = tr.serve()
	defer s.kill()
	tr.until("reserves", "done")
	run = tr.until("quotes", "running") // its backend asks, and waits
	var shown struct {
		Questions []struct{ Key, Method string }
	}
	if err := json.Unmarshal(tr.command("runs", "show", run.ID, "-o", "json"), &shown); err != nil || len(shown.Questions) != 1 || shown.Questions[0].Method != "elicitation/create" {
		t.Errorf("show: %+v, %v", shown, err)
	}
	tr.command("runs", "answer", run.ID, "--action", "accept")
	tr.until("quotes", "done")
	for _, kind := range []string{"reserves", "quotes"} {
		if n := tr.ledger.did(kind + "/0"); n != 1 {
			t.Errorf("%s: the call happened %d times", kind, n)
		}
	}
}
