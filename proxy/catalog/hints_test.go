package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/vmcp-dev/vmcp/script/check"
)

// TestHintsOfManyToolsThatCallEachOther: each is derived once, however many paths lead to it.
func TestHintsOfManyToolsThatCallEachOther(t *testing.T) {
	b := &builder{c: &Catalog{toolByName: map[string]*Entry{"read": {Definition: json.RawMessage(`{"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)}}}}
	names := []string{"read"}
	for i := range 60 { // each calls all before it
		name := fmt.Sprint("t", i)
		b.c.toolByName[name] = &Entry{Name: name, Script: &ScriptedTool{Calls: check.Calls{Tools: slices.Clone(names)}}}
		names = append(names, name)
	}
	if h := b.hintsOf(b.c.toolByName["t59"]); h != (hints{readOnly: true}) {
		t.Errorf("what only reads has the hints %+v", h)
	}
	b.derived = nil
	b.c.toolByName["t0"].Script.Calls.Tools = []string{"read", "t30"} // a circle, for all but those that are in no way to it
	for _, name := range []string{"t59", "t0", "t30"} {
		if h := b.hintsOf(b.c.toolByName[name]); h != worst {
			t.Errorf("%s, which leads into a circle, has the hints %+v", name, h)
		}
	}
}
