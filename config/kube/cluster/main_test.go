package cluster_test

import (
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// Tests mostly wait for the API server, so more of them run in parallel.
func TestMain(m *testing.M) {
	testmode.SideBySide(8)
	os.Exit(m.Run())
}
