package diag_test

import (
	"errors"
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// TestNamed: an error about a file names it once.
func TestNamed(t *testing.T) {
	_, missing := os.ReadFile("missing.lock")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{missing, "open missing.lock: no such file or directory"},
		{errors.New("larger than 10 bytes"), "missing.lock: larger than 10 bytes"},
	} {
		if got := diag.Named("missing.lock", tt.err); got.Error() != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("Named(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
	if err := diag.Named("missing.lock", nil); err != nil {
		t.Errorf("Named(nil) = %v", err)
	}
}
