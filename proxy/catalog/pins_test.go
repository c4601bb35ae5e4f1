package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
)

// BenchmarkHold measures the cost of pins for building a catalog.
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
	cfg := &config.Config{Pins: config.Pins{Path: filepath.Join(b.TempDir(), "vmcp.lock"), OnChange: "block", OnNew: "block"}}
	text, err := f.Bytes()
	if err == nil {
		err = os.WriteFile(cfg.Pins.Path, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	p, err := read(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := &builder{cfg: cfg, c: &Catalog{withheld: map[Ref]bool{}}, reserved: map[Ref]string{}}
		if held := c.applyPins(p, "b", offer); len(held.Tools) != 1000 {
			b.Fatal(c.c.Problems)
		}
	}
}
