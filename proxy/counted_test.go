package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// awaitState waits until the only run of a tool has a state, and returns its id.
func awaitState(t *testing.T, kept durable.Store, tool string, state durable.State) string {
	t.Helper()
	for {
		changed := kept.Changed()
		list, _, err := kept.List(t.Context(), durable.Filter{Tool: tool})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && list[0].State == state {
			return list[0].ID
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the runs of %s are %+v, want one that is %s", tool, list, state)
		}
	}
}

// counted is the number of counted ends of runs of a tool, by outcome.
func counted(t *testing.T, url, tool string) (total int, outcomes string) {
	t.Helper()
	_, page := ask(t, "GET", strings.TrimSuffix(url, "/mcp")+"/metrics", "", "")
	for _, m := range regexp.MustCompile(`(?m)^vmcp_script_runs_total\{outcome="(\w+)",tool="`+tool+`"\} (\d+)$`).FindAllStringSubmatch(page, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		total += n
		outcomes += m[1]
	}
	return total, outcomes
}

func cancelWaiting(t *testing.T, kept durable.Store, url string) {
	asks(t, first(modernCall(t, url, "asking", "")))
	if err := kept.Cancel(t.Context(), awaitState(t, kept, "asking", durable.Waiting), "enough"); err != nil {
		t.Error(err)
	}
}

func first(result, _ json.RawMessage) json.RawMessage { return result }

func cancelRunning(t *testing.T, kept durable.Store, url string) {
	go func() {
		if err := kept.Cancel(t.Context(), awaitState(t, kept, "asking", durable.Running), "enough"); err != nil {
			t.Error(err)
		}
	}()
	if result, failure := modernCall(t, url, "asking", ""); !strings.Contains(string(result), "enough") {
		t.Errorf("got %s %s", result, failure)
	}
}

// cancelUnowned cancels a run that this process has never seen.
func cancelUnowned(t *testing.T, kept durable.Store, _ string) {
	r, _, err := kept.Start(t.Context(), durable.Run{Tool: "asking", Args: json.RawMessage(`{}`)})
	if err == nil {
		err = kept.Cancel(t.Context(), r.ID, "enough")
	}
	if err != nil {
		t.Error(err)
	}
}

// leaves sends a request, and disconnects when its run has begun.
func leaves(t *testing.T, _ durable.Store, url string) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for metric(t, url, "vmcp_script_runs_running") != "1" {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	if resp, err := http.DefaultClient.Do(modernRequest(ctx, url, "asking", "")); err == nil {
		resp.Body.Close()
	}
}

func calls(t *testing.T, _ durable.Store, url string) { modernCall(t, url, "asking", "") }

// TestRunsAreCountedOnce ends runs in every possible way.
func TestRunsAreCountedOnce(t *testing.T) {
	const waits = "def run(p): return elicit(\"?\")"
	lifetime := func(c *config.Config) {
		c.ScriptedTools[0].Limits = &limits.Run{Lifetime: limits.Duration(200 * time.Millisecond)}
	}
	longHold := func(c *config.Config) { c.Runs.Hold = config.Duration(2 * time.Hour) }
	for name, tt := range map[string]struct {
		script string
		act    func(*testing.T, durable.Store, string)
		more   func(*config.Config)
		kept   durable.Options
		want   string
	}{
		"done, without a row":         {script: "def run(p): return 1", want: "ok"},
		"done":                        {script: `def run(p): return call_tool("pay")`, want: "ok"},
		"failed":                      {script: `def run(p): fail("no" + str(call_tool("pay")))`, want: "error"},
		"a limit":                     {script: `def run(p): return [call_tool("pay"), call_tool("pay")]`, want: "limit", more: func(c *config.Config) { c.ScriptedTools[0].Limits = &limits.Run{Calls: 1} }},
		"no room for its journal":     {script: `def run(p): return [call_tool("pay"), call_tool("pay")]`, want: "limit", kept: durable.Options{MaxEntries: 1}},
		"no room when it has to wait": {script: `def run(p): return [call_tool("look"), call_tool("look"), elicit("?")]`, want: "error", kept: durable.Options{MaxEntries: 1}},
		"the end of its life":         {script: waits, want: "limit", more: lifetime},
		"a doubt that fails":          {script: `def run(p): return call_tool("pay")`, want: "error", more: func(c *config.Config) { c.Runs.OnDoubt = "fail" }},
		"cancelled while it waits":    {script: waits, act: cancelWaiting, want: "cancelled"},
		"cancelled while it runs":     {script: `def run(p): call_tool("pay"); sleep("1h")`, act: cancelRunning, want: "cancelled", more: longHold},
		"cancelled by nobody's owner": {script: waits, act: cancelUnowned, want: "cancelled"},
		"its client leaves": {script: `def run(p): return call_tool("hang")`, act: leaves, want: "cancelled", more: func(c *config.Config) {
			b := &backendtest.Raw{Tools: `{"name":"hang","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, Handle: func(x *backendtest.Exchange) { <-x.Request.Context().Done() }}
			c.Backends = []config.Backend{{Name: "slow", URL: b.Start(t)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := durable.NewMemory(tt.kept, nil)
			till, url, _ := startOver(t, kept, tt.script, tt.more)
			if name == "a doubt that fails" {
				till.breaks.Store(1)
			}
			if tt.act == nil {
				tt.act = calls
			}
			tt.act(t, kept, url)
			for total, _ := counted(t, url, "asking"); total == 0; total, _ = counted(t, url, "asking") {
				<-time.After(10 * time.Millisecond)
			}
			other, _, err := kept.Start(t.Context(), durable.Run{Tool: "other", Args: json.RawMessage(`{}`)})
			if err == nil {
				err = kept.Cancel(t.Context(), other.ID, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			for total, _ := counted(t, url, "other"); total == 0; total, _ = counted(t, url, "other") { // and what was before
				<-time.After(10 * time.Millisecond)
			}
			if total, outcomes := counted(t, url, "asking"); total != 1 || outcomes != tt.want {
				t.Errorf("%d runs are counted, as %q; want one as %s", total, outcomes, tt.want)
			}
		})
	}
}
