// Package testmode has the two forms of the tests: plain go test ./... is the quick
// form; VMCP_TEST=thorough, which .ci/run sets, is the thorough one.
package testmode

import (
	"flag"
	"net/http"
	"os"
	"strconv"
	"testing"
)

// Environment is the variable that chooses the form.
const Environment = "VMCP_TEST"

// The Close of an httptest server also closes the idle connections of http.DefaultTransport, and net/http breaks off a
// request whose response has no body when that happens before the response is returned. So http.DefaultClient has a
// separate transport in tests, and concurrent tests do not disturb each other.
func init() {
	http.DefaultClient.Transport = http.DefaultTransport.(*http.Transport).Clone()
}

// Thorough reports whether tests may take minutes.
func Thorough() bool { return os.Getenv(Environment) == "thorough" }

// Count returns quick or thorough, by the form.
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

// SideBySide sets the number of concurrent tests among those that call t.Parallel to most, for
// packages whose tests wait more than they compute. It is called by TestMain; -parallel on the
// command line takes precedence.
func SideBySide(most int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		flag.Set("test.parallel", strconv.Itoa(most))
	}
}

// Parallel calls t.Parallel in the quick form. In the thorough form tests run one by one,
// because some measure.
func Parallel(t *testing.T) {
	if !Thorough() {
		t.Parallel()
	}
}
