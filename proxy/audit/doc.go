// Package audit writes an audit log: one JSON object per line for each event, in ToolHive's
// format.
//
//	l, err := audit.Open(audit.Options{File: "audit.jsonl", Component: "vmcp-server"})
//	l.Append(&audit.Event{Type: audit.ToolCall, Outcome: audit.Success, ...})
//	err = l.Commit(ctx, &audit.Event{...}) // returns when the line is on disk
//
// The package knows neither HTTP nor MCP: its callers fill in the events. It does not hide
// secrets: events are written unchanged.
package audit
