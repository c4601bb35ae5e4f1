package config_test

import (
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// Tests that follow files wait more than they compute.
func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(m.Run())
}
