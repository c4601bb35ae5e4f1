package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// TestTasksAreBounded: the oldest are dropped, and so are long ids.
func TestTasksAreBounded(t *testing.T) {
	var kept proxy.Table
	client := &edge.Client{}
	note := func(id string) {
		kept.Note(t.Context(), client, &catalog.Entry{}, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, id)))
	}
	const most = 10_000
	for i := range most + 100 {
		note(fmt.Sprint("t", i))
	}
	long := strings.Repeat("x", 1<<10+1)
	note(long)
	if _, ok, _ := kept.Tool(t.Context(), long, client, nil); ok {
		t.Error("an id of 1,025 bytes is remembered")
	}
	for i := range most + 100 {
		if _, ok, _ := kept.Tool(t.Context(), fmt.Sprint("t", i), client, nil); ok != (i >= 100) {
			t.Fatalf("task %d of %d is remembered: %t", i, most+100, ok)
		}
	}
	if _, ok, _ := kept.Tool(t.Context(), "t100", &edge.Client{Principal: "somebody else"}, nil); ok {
		t.Error("a task is there for somebody else")
	}
}
