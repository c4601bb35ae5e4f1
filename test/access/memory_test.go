package access

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

// resident is the current resident memory of the process, in bytes.
func (s *served) resident() (n int64) {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}

// With any number of principals, their state is bounded: verdicts, buckets, connections.
func TestManyPrincipals(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	const some, many = 12_000, 25_000 // more than are remembered, and far more
	issuer := authtest.NewIssuer(t)
	issuer.UseECDSA(t)
	s := serve(t, oidc(issuer, "")+"rateLimiting: {perUser: {maxTokens: 1, refillPeriod: 24h}}\n")
	known := issuer.Token(t, audience, nil)
	if resp, body := s.call(known, "t"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Status, body)
	}
	var next atomic.Int64
	upTo := func(last int64) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for n := next.Add(1); n <= last; n = next.Add(1) {
					token := issuer.Token(t, audience, map[string]any{"sub": fmt.Sprint("user-", n)})
					if resp, body := s.call(token, "t"); resp.StatusCode != http.StatusOK {
						t.Errorf("principal %d: %s %s", n, resp.Status, body)
						return
					}
				}
			})
		}
		all.Wait()
	}
	upTo(some)
	before := s.resident()
	next.Store(some)
	upTo(many)
	if after := s.resident(); after > before+64<<20 {
		t.Errorf("after %d principals %d MB, after %d %d MB", some, before>>20, many, after>>20)
	} else {
		t.Logf("after %d principals %d MB, after %d %d MB", some, before>>20, many, after>>20)
	}
}
