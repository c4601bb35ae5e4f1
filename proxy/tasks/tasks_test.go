package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// TestTasksAreBounded: the oldest are forgotten, and ids of any length are not kept.
func TestTasksAreBounded(t *testing.T) {
	var kept Table
	client := &edge.Client{}
	note := func(id string) {
		kept.Note(t.Context(), client, &catalog.Entry{}, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, id)))
	}
	for i := range most + 100 {
		note(fmt.Sprint("t", i))
	}
	note(strings.Repeat("x", idBytes+1))
	if n := len(kept.owned); n != most || len(kept.order) != most {
		t.Errorf("%d tasks are remembered, want %d", n, most)
	}
	if _, ok, _ := kept.Tool(t.Context(), "t99", client, nil); ok {
		t.Error("one of the oldest is still there")
	}
	if _, ok, _ := kept.Tool(t.Context(), "t100", &edge.Client{Principal: "somebody else"}, nil); ok {
		t.Error("a task is there for somebody else")
	}
}
