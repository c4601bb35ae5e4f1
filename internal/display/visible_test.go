package display_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/display"
)

func TestHiddenCharacters(t *testing.T) {
	for _, tt := range []struct{ in, text, hidden string }{
		{"plain text", "plain text", ""},
		{"schön, 日本語, 👍🏽", "schön, 日本語, 👍🏽", ""},
		{"a\x1b]0;title\x07b", `a\x1b]0;title\x07b`, "U+001B U+0007"},
		{"a\u009b31mb", `a\u009b31mb`, "U+009B"},
		{"abc\u202edef\u202c", `abc\u202edef\u202c`, "U+202E U+202C"},
		{"a\U000e0041\U000e0042b", `a\U000e0041\U000e0042b`, "U+E0041 U+E0042"},
		{"zero\u200bwidth\ufeff", `zero\u200bwidth\ufeff`, "U+200B U+FEFF"},
		{"tab\tand\nline", "tab\tand\nline", ""},
		{"return\r", `return\r`, ""},
		{"bad \xff\xfe byte", `bad \xff\xfe byte`, ""},
		{"👩\u200d💻 and می\u200cخواهم", "👩\u200d💻 and می\u200cخواهم", ""},
		{"se\u200dcret", `se\u200dcret`, "U+200D"},
		{"\u200d", `\u200d`, "U+200D"},
	} {
		if got := display.VisibleText(tt.in); got != tt.text {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.text)
		}
		if got := strings.Join(display.Hidden(tt.in), " "); got != tt.hidden {
			t.Errorf("Hidden(%q) = %q, want %q", tt.in, got, tt.hidden)
		}
	}
	if got, want := string(display.JSON([]byte("{\n\t\"a\u009b\": \"\U000e0041ü\"}"))), "{\n\t\"a\\u009b\": \"\\udb40\\udc41ü\"}"; got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	if got := display.VisibleLine("a\nb\tc"); got != `a\nb\tc` {
		t.Errorf("Line = %q", got)
	}
}
