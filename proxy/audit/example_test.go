package audit_test

import (
	"fmt"
	"os"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/audit"
)

// One line per event, appended to a file, or written to a stream.
func ExampleOpen() {
	log, err := audit.Open(audit.Options{Out: os.Stdout, Component: "vmcp"})
	if err != nil {
		panic(err)
	}
	err = log.Append(&audit.Event{
		ID: "1", Type: audit.ToolCall, At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Outcome: audit.Success,
		Subjects: audit.Subjects{UserID: "ann"}, Target: audit.Target{Type: "tool", Name: "deploy", Backend: "ci"},
	})
	if err != nil {
		fmt.Println(err)
	}
	if err := log.Close(); err != nil { // what was queued is written
		fmt.Println(err)
	}
	// Output: {"audit_id":"1","type":"mcp_tool_call","logged_at":"2026-11-22T12:00:00Z","outcome":"success","component":"vmcp","source":{},"subjects":{"user_id":"ann"},"target":{"type":"tool","name":"deploy","backend":"ci"},"metadata":{"extra":{}}}
}
