// Package testmode says how thorough the tests shall be. Plain go test ./... is the
// quick form; VMCP_TEST=thorough, which .ci/run sets, is the other one.
package testmode

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Environment is the variable that chooses the form.
const Environment = "VMCP_TEST"

// Thorough reports whether tests may take minutes.
func Thorough() bool { return os.Getenv(Environment) == "thorough" }

// Count is how many of something a test does: as many as quick says, or as thorough.
func Count(quick, thorough int) int {
	if Thorough() {
		return thorough
	}
	return quick
}

// NeedThorough skips a test that is too slow for the quick form.
func NeedThorough(t testing.TB) {
	t.Helper()
	if !Thorough() {
		t.Skipf("takes long: runs with %s=thorough, as in .ci/run", Environment)
	}
}

// SideBySide lets as many tests as most run at once of those that call t.Parallel, for
// packages whose tests wait more than they compute. It is called by TestMain; -parallel on
// the command line has precedence.
func SideBySide(most int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		flag.Set("test.parallel", strconv.Itoa(most))
	}
}

// Parallel lets a test of the quick form run beside others. The thorough form measures what
// others would disturb.
func Parallel(t *testing.T) {
	if !Thorough() {
		t.Parallel()
	}
}
