package edge

import (
	"testing"
	"time"
)

// TestDeadline: a body that arrives steadily may take long; one that stalls or is too slow is refused.
func TestDeadline(t *testing.T) {
	began := time.Now()
	for _, tt := range []struct {
		name  string
		after time.Duration
		n     int
		want  time.Duration // since the beginning
	}{
		{"nothing yet", 0, 0, 30 * time.Second},
		{"a byte every now and then", 29 * time.Second, 2, 30 * time.Second},
		{"slow and moving", 10 * time.Minute, 1 << 20, 10*time.Minute + 30*time.Second},
		{"fast, then still", time.Second, 1 << 20, 31 * time.Second},
	} {
		got := deadline(began, began.Add(tt.after), tt.n).Sub(began).Round(time.Second)
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
