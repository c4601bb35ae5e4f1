// Package observe counts what passes the door, and says how it ended: the outcome of a request or call (outcome.go), the
// metrics of /metrics (metrics.go), and the spans and log lines of traces (spans.go).
package observe
