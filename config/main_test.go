package config_test

import (
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// Tests that watch files mostly wait, so more of them run in parallel.
func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(m.Run())
}
