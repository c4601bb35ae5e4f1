// Package audit writes down what was done through an endpoint: one JSON object a line, in
// ToolHive's shape.
//
//	l, err := audit.Open(audit.Options{File: "audit.jsonl", Component: "vmcp-server"})
//	l.Append(&audit.Event{Type: audit.ToolCall, Outcome: audit.Success, ...})
//	err = l.Commit(ctx, &audit.Event{...}) // returns when the line is on disk
//
// The package knows neither HTTP nor MCP: who calls it says what happened. It knows no secrets
// either; what it is given is written as it is.
package audit
