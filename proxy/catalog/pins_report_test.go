package catalog

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/config/lock"
)

// Violations are reported once, and again after they were absent; those of a session are reported once.
func TestPinReport(t *testing.T) {
	one, two := Violation{Name: lock.Name{Backend: "b", Own: "one"}}, Violation{Name: lock.Name{Backend: "b", Own: "two"}}
	var r Report
	for i, step := range []struct {
		private bool
		found   []Violation
		want    int
	}{
		{false, []Violation{one, one}, 1}, {false, []Violation{one}, 0}, {true, []Violation{one, two}, 1}, {true, []Violation{two}, 0},
		{false, []Violation{one, two}, 0}, {false, nil, 0}, {false, []Violation{one}, 1},
	} {
		if got, _ := r.News(step.found, step.private); len(got) != step.want {
			t.Errorf("step %d: %v, want %d", i, got, step.want)
		}
	}
	var many []Violation
	for i := range maxPrivateReports + 1 {
		many = append(many, Violation{Offered: fmt.Sprint(i)})
	}
	total := 0
	for range 3 {
		news, leftOut := r.News(many, true)
		if total += len(news); len(news)+leftOut > len(many) {
			t.Errorf("%d are new, %d left out", len(news), leftOut)
		}
	}
	if n := len(r.private); n > 2*maxPrivateReports || total > maxReports {
		t.Errorf("%d violations are remembered, %d were reported in a minute", n, total)
	}
}
