package proxy_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

const slowly = 50 * time.Millisecond

// shop has a slow tool and one that returns a token.
func shop(t *testing.T) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
	type in struct {
		ID string `json:"id,omitempty"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "order"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, map[string]any, error) {
		end := time.Now().Add(slowly)
		for left := slowly; left > 0; left = time.Until(end) { // it takes at least that long
			<-time.After(left)
		}
		return nil, map[string]any{"id": a.ID, "token": "tok-998877"}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "close"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "closed for " + a.ID}}}, nil, nil
	})
	return sdkBackend(t, s, false)
}

const refund = `
def run(params):
    order = call_tool("lookup", {"id": params["order"]})
    if elicit("refund?").action != "accept":
        return {}
    if params.get("fail"):
        call_tool("close", {"id": order["token"]})
    return {"order": order["id"], "passed": order["token"]}
`

func recordingShop(t *testing.T, r config.Recording) (apply func(config.Recording), url string) {
	backend := shop(t)
	cfg := func(r config.Recording) *config.Config {
		return &config.Config{
			Backends: []config.Backend{{Name: "shop", URL: backend}},
			ScriptedTools: []config.ScriptedTool{
				{Name: "lookup", Description: "d", Script: "def run(params):\n    return call_tool('order', params)\n"},
				{Name: "refund", Description: "d", Script: refund, Parameters: config.Raw{JSON: json.RawMessage(`{"type":"object","properties":{"pin":{"type":"string","writeOnly":true}}}`)}},
			},
			Recording: r,
		}
	}
	p, url := start(t, cfg(r))
	return func(r config.Recording) {
		if err := p.Apply(cfg(r)); err != nil {
			t.Fatal(err)
		}
	}, url
}

// recordedIn waits for the cases in a folder.
func recordedIn(t *testing.T, dir string, n int) (all []*cases.Case) {
	t.Helper()
	for {
		names, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) < n {
			select {
			case <-t.Context().Done():
				t.Fatal("nothing is recorded")
			case <-time.After(time.Millisecond):
			}
			continue
		}
		for _, name := range names {
			c, err := cases.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
			all = append(all, c)
		}
		return all
	}
}

// TestACaseHasAllOfARun: for every revision and any number of requests, a case has the effects of called scripted tools
// and true times.
func TestACaseHasAllOfARun(t *testing.T) {
	var asked atomic.Int32
	dir := t.TempDir()
	_, url := recordingShop(t, config.Recording{Dir: dir, Only: "all"})
	for i, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		s := connect(t, url, revision, askedBy(&asked))
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "A1", "pin": "123456-secret"}, Meta: mcp.Meta{status.Key: true}})
		if got := text(t, r, err); got != `{"order":"A1","passed":"tok-998877"}` {
			t.Fatalf("%s: %s", revision, got)
		}
		c := recordedIn(t, dir, i+1)[i]
		if len(c.Effects) != 3 || c.Effects[0].Key != "0" || c.Effects[1].Key != "0/0" || c.Effects[2].Kind != "elicit" {
			t.Fatalf("%s: effects %+v", revision, c.Effects)
		}
		if e := c.Effects[0]; e.DurationMs < float64(slowly.Milliseconds()) || e.Line != 3 || c.Effects[2].StartMs < e.DurationMs {
			t.Errorf("%s: the call is %+v, the question %+v", revision, e, c.Effects[2])
		}
		if got := strings.Join(c.Order, " "); got != "0/0 0 1" {
			t.Errorf("%s: order %s", revision, got)
		}
		if got, want := string(c.Output), `{"order":"A1","passed":"<redacted 2>"}`; got != want {
			t.Errorf("%s: output %s, want %s", revision, got, want)
		}
		if got, want := string(c.Arguments), `{"order":"A1","pin":"<redacted 1>"}`; got != want {
			t.Errorf("%s: arguments %s, want %s", revision, got, want)
		}
		raw, _ := json.Marshal(r.Meta[status.Key])
		var shown status.Trace
		if err := json.Unmarshal(raw, &shown); err != nil {
			t.Fatal(err)
		}
		for _, e := range shown.Effects {
			if e.Key == "0" && (e.DurationMs < float64(slowly.Milliseconds()) || e.StartMs < 0 || shown.DurationMs < e.StartMs+e.DurationMs) {
				t.Errorf("%s: the trace of %v ms has %+v", revision, shown.DurationMs, e)
			}
		}
	}
}

// TestRecordingIsReloaded: only failed calls, then all into another folder, then none.
func TestRecordingIsReloaded(t *testing.T) {
	testmode.Parallel(t)
	var asked atomic.Int32
	one, two := t.TempDir(), filepath.Join(t.TempDir(), "new", "folder")
	apply, url := recordingShop(t, config.Recording{Dir: one})
	s := connect(t, url, "2026-07-28", askedBy(&asked))
	call := func(fail bool) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "A1", "fail": fail}})
		if err != nil || r.IsError != fail {
			t.Fatalf("%v, %v", r, err)
		}
	}
	call(false)
	call(true)
	c := recordedIn(t, one, 1)
	if f := c[0].Failure; len(c) != 1 || f == nil || f.Kind != "tool" || f.Message != `call_tool("close"): closed for <redacted 1>` {
		t.Errorf("%d cases, the first failed with %+v", len(c), f)
	}
	apply(config.Recording{Dir: two, Only: "all", Redact: []string{"/effects/*/result/id"}})
	call(false)
	if c := recordedIn(t, two, 1)[0]; !strings.Contains(string(c.Effects[0].Result), `"id":"<redacted`) {
		t.Errorf("the result is %s", c.Effects[0].Result)
	}
	apply(config.Recording{})
	call(true)
	apply(config.Recording{Dir: two, Only: "all"})
	call(true)
	if n := len(recordedIn(t, two, 2)); n != 2 {
		t.Errorf("%d cases", n)
	}
}
