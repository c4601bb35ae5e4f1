package regex_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/regex"
)

// TestCost: patterns of ordinary scripts cost little; those that take long to compile do not, in whatever way they fold or
// repeat classes.
func TestCost(t *testing.T) {
	for _, tt := range []struct {
		pattern     string
		least, most int64
	}{
		{`^v(\d+)\.(\d+)$`, 0, 100},
		{`(?i)[a-z0-9._%+-]+@[a-z0-9-]+`, 0, 200},
		{`(?i)[à-ÿ]+`, 0, 100},
		{`\p{L}+-\p{Lu}`, 300, 400},
		{`(?s-U:a-b)` + strings.Repeat(`[B-\x{1E942}]`, 280), 2_000, 5_000}, // without folding, it is a range
		{strings.Repeat("(", 4000), 3_000, 10_000},
		{strings.Repeat(`\PL`, 1300), 100_000, 300_000},
		{`(?i)` + strings.Repeat(`[B-\x{1E942}]`, 280), 1_000_000, 3_000_000},
		{`(a)(?Usi:` + strings.Repeat(`[B-𞥂]`, 280) + `)`, 1_000_000, 3_000_000},
	} {
		if got := regex.Cost(tt.pattern); got < tt.least || got > tt.most {
			t.Errorf("Cost(%.40q) = %d, want %d to %d", tt.pattern, got, tt.least, tt.most)
		}
	}
}
