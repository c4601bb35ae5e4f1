package script_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script"
)

// TestMessagesAsTheyWere encodes and decodes; what is cut is refused.
func TestMessagesAsTheyWere(t *testing.T) {
	m := &script.Message{Kind: script.Do, Branch: -3, Numbers: []int64{0, -1, 1 << 60}, Parts: [][]byte{nil, {}, []byte("abc")}}
	var frame []byte
	for _, part := range m.Encode() {
		frame = append(frame, part...)
	}
	got, err := script.Decode(frame)
	if err != nil || got.Kind != m.Kind || got.Branch != -3 || got.Number(2) != 1<<60 || got.Part(0) != nil || got.Part(1) == nil || string(got.Part(2)) != "abc" {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	for i := range frame {
		if _, err := script.Decode(frame[:i]); err == nil {
			t.Errorf("the first %d bytes of %d are a message", i, len(frame))
		}
	}
	if _, err := script.Decode(append(frame, 0)); err == nil {
		t.Error("a byte too many is not seen")
	}
}
