package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func store(t *testing.T, r report) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTables(t *testing.T) {
	first := report{
		Machine: "a machine",
		Relay: []cell{{Revision: legacy, Form: "sse", Size: 10_000, Concurrency: 8,
			Legs:   [ways]leg{{P50: 1}, {P50: 2, FrontCPU: 3, PerSecond: 4, Bytes: 5000}, {P50: 6, FrontCPU: 7, PerSecond: 8, Bytes: 9000, Allocs: 95}, {P50: 9, Allocs: 124, Switches: 7.4}},
			Ratio:  ratios{P50: 1.5, CPU: 2.5, Throughput: 1.25},
			Others: [ways]ratios{relayed: {P50: 1.5, CPU: 2.5}, before: {P50: 2, CPU: 3}}}},
		Figures: []figure{{Part: "relay", Name: "in the table", Value: 1, Unit: "x", Target: 1}, {Part: "start", Name: "to ready", Value: 12.34, Unit: "ms", Target: 2000}},
	}
	second := first
	second.Relay = []cell{first.Relay[0]}
	second.Relay[0].Ratio = ratios{P50: 1.6, CPU: 2.6, Throughput: 2}
	second.Relay[0].Ratio.Spread.P50 = [2]float64{1.1, 1.9}
	second.Figures = []figure{first.Figures[0], {Part: "start", Name: "to ready", Value: 5, Unit: "ms", Target: 2000}}
	var out strings.Builder
	if err := writeTables(&out, []string{store(t, first), store(t, second)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"    0001-01-01T00:00:00Z, a machine, \n",
		"\n2025-11-25, event stream:\n",
		"\n| 10 kB | 8 | 1 | 2 | 6 | 1.50 / 1.60 | 3 | 7 | 2.50 / 2.60 | 4 | 8 | 0.80 / 0.50 | 5 | 9 |\n",
		"\n| 10 kB | 8 | 2.00 / 3.00, 2.00 / 3.00 | 1.50 / 2.50, 1.50 / 2.50 | 0.00–1.90 | 0.00–0.00 | - | 124 | 95 | 7.4 | 0.0 |\n",
		"\n| Start | first | second | target |\n|---|--:|--:|--:|\n| to ready | 12.3 ms | 5 ms | 2000 ms |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables are without %q:\n%s", want, &out)
		}
	}
	second.Figures[1].Name = "to something else"
	if err := writeTables(&out, []string{store(t, first), store(t, second)}); !errors.Is(err, errDiffer) {
		t.Errorf("two reports on different things: %v", err)
	}
	if err := writeTables(&out, []string{"one.json"}); err == nil {
		t.Error("one file is taken for two")
	}
}
