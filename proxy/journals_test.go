package proxy_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// TestJournalsInMemoryAreBounded: the configured bounds of a journal apply to one in memory, whether the run has no row
// yet or there is no database.
func TestJournalsInMemoryAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		script, durable, want string
		runs                  config.Runs
	}{
		"entries, without a row": {"    for i in range(20):\n        call_tool(\"look\")\n", "", "limit reached: maxEntries (10)", config.Runs{MaxEntries: 10}},
		"entries, with a row":    {"    for i in range(20):\n        call_tool(\"pay\")\n", "", "limit reached: maxEntries (10)", config.Runs{MaxEntries: 10}},
		"entries, never kept":    {"    for i in range(20):\n        call_tool(\"pay\")\n", "never", "limit reached: maxEntries (10)", config.Runs{MaxEntries: 10}},
		"bytes":                  {"    for i in range(20):\n        call_tool(\"bulk\")\n", "", "limit reached: maxBytes (100KB)", config.Runs{MaxBytes: 100 << 10}},
		"neither is set":         {"    for i in range(1500):\n        progress(i)\n    return \"all of it\"\n", "", "all of it", config.Runs{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, url := startKept(t, "def run(params):\n"+tt.script, func(cfg *config.Config) {
				cfg.SessionStorage.Provider, cfg.Runs = config.StorageMemory, tt.runs
				cfg.ScriptedTools[0].Durable = tt.durable
			})
			result, failure := modernCall(t, url, "asking", "")
			if failure != nil || !strings.Contains(string(result), tt.want) {
				t.Errorf("got %s%s, want %s", result, failure, tt.want)
			}
			if n := c.did("pay") + c.did("look") + c.did("bulk"); n > 11 {
				t.Errorf("%d calls were made", n)
			}
		})
	}
}

// TestAnAnswerThatHasNoRoom: the run fails, and its journal records no doubt about the call.
func TestAnAnswerThatHasNoRoom(t *testing.T) {
	kept := durablepkg.NewMemory(durablepkg.Options{MaxBytes: 2000}, nil)
	c, url, _ := startOver(t, kept, "def run(params):\n    call_tool(\"pay\")\n    call_tool(\"bulk\")\n", nil)
	result, failure := modernCall(t, url, "asking", "")
	if failure != nil || !strings.Contains(string(result), "limit reached: maxBytes (2000B)") || c.did("bulk") != 1 {
		t.Fatalf("%s%s, and the call was made %d times", result, failure, c.did("bulk"))
	}
	run, entries, err := kept.Get(t.Context(), jsonscan.Text(jsonscan.Get(jsonscan.Get(jsonscan.Get(result, "_meta"), "dev.vmcp/run"), "id")))
	if err != nil || run.State != durablepkg.Failed || len(entries) != 2 {
		t.Fatalf("the run is %s with %d entries: %v", run.State, len(entries), err)
	}
	if e := entries[1]; !e.Done || e.Failure == nil || e.Failure.Kind != "limit" || e.Failure.Message != "limit reached: maxBytes (2000B)" {
		t.Errorf("the journal says of the call: done %v, %+v", e.Done, e.Failure)
	}
}
