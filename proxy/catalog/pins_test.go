package catalog

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/lock"
)

// BenchmarkHold is what pins add to the making of a catalog.
func BenchmarkHold(b *testing.B) {
	f, offer := lock.New(), &backends.Offer{}
	f.Backends["b"] = lock.Backend{}
	for i := range 1000 {
		name := fmt.Sprint("tool", i)
		raw := fmt.Appendf(nil, `{"name":%q,"description":"Gets an order by its number, and what belongs to it.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"The number of the order, such as A-1."},"view":{"enum":["short","long"]},"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["id"]},"annotations":{"readOnlyHint":true}}`, name)
		offer.Tools = append(offer.Tools, backends.Item{Name: name, Raw: raw})
		if err := f.Add(lock.Name{Kind: lock.Tool, Backend: "b", Own: name}, raw); err != nil {
			b.Fatal(err)
		}
	}
	p := &pins{file: f, name: "vmcp.lock", onChange: "block", onNew: "block"}
	for b.Loop() {
		c := &builder{cfg: &config.Config{}, c: &Catalog{withheld: map[Ref]bool{}}, reserved: map[Ref]string{}}
		if held := c.hold(p, "b", offer); len(held.Tools) != 1000 {
			b.Fatal(c.c.Problems)
		}
	}
}

// Violations are news once, and again after they were gone; those of a session are news once.
func TestPinReport(t *testing.T) {
	one, two := Violation{Name: lock.Name{Backend: "b", Own: "one"}}, Violation{Name: lock.Name{Backend: "b", Own: "two"}}
	var r PinReport
	for i, step := range []struct {
		private bool
		found   []Violation
		want    int
	}{
		{false, []Violation{one, one}, 1}, {false, []Violation{one}, 0}, {true, []Violation{one, two}, 1}, {true, []Violation{two}, 0},
		{false, []Violation{one, two}, 0}, {false, nil, 0}, {false, []Violation{one}, 1},
	} {
		if got, _ := r.News(&Catalog{private: step.private, Violations: step.found}); len(got) != step.want {
			t.Errorf("step %d: %v, want %d", i, got, step.want)
		}
	}
	many := &Catalog{private: true}
	for i := range maxPrivateReports + 1 {
		many.Violations = append(many.Violations, Violation{Offered: fmt.Sprint(i)})
	}
	total := 0
	for range 3 {
		news, leftOut := r.News(many)
		if total += len(news); len(news)+leftOut > len(many.Violations) {
			t.Errorf("%d are new, %d left out", len(news), leftOut)
		}
	}
	if n := len(r.private); n > 2*maxPrivateReports || total > maxReports {
		t.Errorf("%d violations are remembered, %d were reported in a minute", n, total)
	}
}
