package config_test

import (
	"flag"
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// Tests that watch files mostly wait, so more of them run in parallel.
func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(m.Run())
}

// updating reports whether the flag -update is set: tests then write the generated and the expected files.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }
