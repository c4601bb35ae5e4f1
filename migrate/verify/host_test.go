package verify

import (
	"encoding/json"
	"testing"
)

// TestRecordedResources: a resource block, whose recorded fields are in the block itself, has the form of
// the protocol.
func TestRecordedResources(t *testing.T) {
	r := Reply{Content: json.RawMessage(`[{"type":"resource","uri":"a:b","text":"hi"},{"type":"text","text":"x"}]`)}
	raw, err := r.give(t.Context(), "t", nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"content":[{"resource":{"text":"hi","uri":"a:b"},"type":"resource"},{"text":"x","type":"text"}],"isError":false}`
	if string(raw) != want {
		t.Errorf("have %s\nwant %s", raw, want)
	}
}
