package proxy

import (
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// TestCatalogsAreBounded: the newest are cached; another base catalog clears the cache.
func TestCatalogsAreBounded(t *testing.T) {
	var kept set
	base := &catalog.Catalog{}
	of := func(i int) *overlay { return &overlay{key: [32]byte{byte(i), byte(i >> 8)}} }
	for i := range overlayMost + 10 {
		kept.Add(base, of(i), &catalog.Catalog{})
	}
	if len(kept.byKey) != overlayMost || len(kept.order) != overlayMost {
		t.Errorf("%d catalogs are kept, %d keys in order, want %d", len(kept.byKey), len(kept.order), overlayMost)
	}
	if kept.Find(base, of(9)) != nil || kept.Find(base, of(10)) == nil {
		t.Error("the oldest is kept, or one of the newest is not")
	}
	if kept.Find(&catalog.Catalog{}, of(10)) != nil {
		t.Error("a catalog of one base is found for another")
	}
	kept.Add(&catalog.Catalog{}, of(1), &catalog.Catalog{})
	if len(kept.byKey) != 1 || len(kept.order) != 1 {
		t.Errorf("%d catalogs are kept after another base, want 1", len(kept.byKey))
	}
}
