package display_test

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/display"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		s                          string
		n                          int
		bytes, text, counted, line string
	}{
		{"", 3, "", "", "", ""},
		{"abc", 3, "abc", "abc", "abc", "abc"},
		{"abcd", 3, "abc", "abc…", "abc… (4 bytes)", "ab…"},
		{"abcd", 0, "", "…", "… (4 bytes)", "…"},
		{"aää", 2, "a", "a…", "a… (5 bytes)", "a…"},
		{"aää", 3, "aä", "aä…", "aä… (5 bytes)", "aää"},
		{"日本", 5, "日", "日…", "日… (6 bytes)", "日本"},
	} {
		got := fmt.Sprint([]string{display.Bytes(tt.s, tt.n), display.ClipText(tt.s, tt.n), display.Counted(tt.s, tt.n), display.ClipLine(tt.s, tt.n)})
		if want := fmt.Sprint([]string{tt.bytes, tt.text, tt.counted, tt.line}); got != want {
			t.Errorf("%q cut after %d: bytes, text, counted, line are\n got %s\nwant %s", tt.s, tt.n, got, want)
		}
	}
}
