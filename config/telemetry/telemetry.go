// Package telemetry is what a configuration says of metrics and traces, by ToolHive's names.
package telemetry

// Telemetry says what is shown of what the endpoint does. Metrics are at /metrics.
type Telemetry struct {
	// MaxToolLabels is how many tools have series of their own in metrics, in the order of the list; the rest are counted together, as tool "other". 0: no tool has.
	MaxToolLabels *int `json:"maxToolLabels,omitempty" default:"500" crd:"yes"`
}

// mostToolLabels bounds maxToolLabels.
const mostToolLabels = 100_000

// ToolLabels is how many tools have series of their own.
func (t *Telemetry) ToolLabels() int {
	if t.MaxToolLabels == nil {
		return 500
	}
	return *t.MaxToolLabels
}

// Check reports what is wrong with t, which stands at path.
func (t *Telemetry) Check(path string, report func(path, format string, args ...any)) {
	if n := t.ToolLabels(); n < 0 || n > mostToolLabels {
		report(path+".maxToolLabels", "want a number from 0 to %d, have %d", mostToolLabels, n)
	}
}
