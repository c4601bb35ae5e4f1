package legacy_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// TestResultsOfVeryManyBlocks: decoded, empty blocks take far more memory than their JSON, so
// they are refused before they are decoded; a result with a few thousand is accepted.
func TestResultsOfVeryManyBlocks(t *testing.T) {
	for _, tt := range []struct {
		blocks int
		end    string
		fails  string
	}{
		{5000, `{}]}`, ""},
		{1_000_000, `{}]}`, "more than 20000 content blocks"},
		{1_000_000, `{}],"isError":true}`, "more than 20000 content blocks"},
	} {
		raw := json.RawMessage(`{"content":[` + strings.Repeat("{},", tt.blocks) + tt.end)
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{
			"blocks": func(context.Context, json.RawMessage) (json.RawMessage, error) { return raw, nil },
		}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := runLegacy(t, h, `"call"`, `return call("blocks", {}, step = "s")`, script.RunOptions{})
		runtime.ReadMemStats(&after)
		if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%d blocks: %v", tt.blocks, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 40<<20 {
			t.Errorf("%d blocks: asked for %d MB", tt.blocks, n>>20)
		}
	}
}
