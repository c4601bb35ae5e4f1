package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"call_tool", "try_call_tool", "elicit", "log", "Backends"}
	for name, want := range map[string]string{
		"cal_tool":                "call_tool",
		"call_tolo":               "call_tool",
		"elict":                   "elicit",
		"backends":                "Backends",
		"lgo":                     "log",
		"entirely_other":          "",
		"":                        "",
		strings.Repeat("log", 30): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
