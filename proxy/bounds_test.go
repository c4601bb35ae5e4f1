package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// TestTasksAreBounded: the oldest are forgotten, and ids of any length are not kept.
func TestTasksAreBounded(t *testing.T) {
	p := &Proxy{}
	x := &exchange{client: &edge.Client{}}
	note := func(id string) {
		p.noteTask(x, &catalog.Entry{}, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, id)))
	}
	for i := range taskLimit + 100 {
		note(fmt.Sprint("t", i))
	}
	note(strings.Repeat("x", taskIDBytes+1))
	if n := len(p.tasks.owned); n != taskLimit || len(p.tasks.order) != taskLimit {
		t.Errorf("%d tasks are remembered, want %d", n, taskLimit)
	}
	if _, ok := p.tasks.owned[taskKey{"", "t99"}]; ok {
		t.Error("one of the oldest is still there")
	}
}

// TestOverlayCatalogsAreBounded: the newest are kept; the next catalog of all forgets them all.
func TestOverlayCatalogsAreBounded(t *testing.T) {
	var kept overlays
	base := &catalog.Catalog{}
	of := func(i int) *overlay { return &overlay{key: [32]byte{byte(i), byte(i >> 8)}} }
	for i := range maxOverlays + 10 {
		kept.add(base, of(i), &catalog.Catalog{})
	}
	if len(kept.byKey) != maxOverlays || len(kept.order) != maxOverlays {
		t.Errorf("%d catalogs are kept, %d keys in order, want %d", len(kept.byKey), len(kept.order), maxOverlays)
	}
	if kept.find(base, of(9)) != nil || kept.find(base, of(10)) == nil {
		t.Error("the oldest is kept, or one of the newest is not")
	}
	if kept.find(&catalog.Catalog{}, of(10)) != nil {
		t.Error("a catalog of one base is found for another")
	}
	kept.add(&catalog.Catalog{}, of(1), &catalog.Catalog{})
	if len(kept.byKey) != 1 || len(kept.order) != 1 {
		t.Errorf("%d catalogs are kept after another base, want 1", len(kept.byKey))
	}
}

// nowhere drops every frame.
type nowhere struct{}

func (nowhere) Send([]byte)    {}
func (nowhere) Offer([]byte)   {}
func (nowhere) Request([]byte) {}
