//go:build suites

package replicas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestBalancer: requests are sent round robin over new and over reused connections, a failed one is not retried, and a
// replica that is not ready gets requests until the balancer reacts.
func TestBalancer(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept %v", kept), func(t *testing.T) { testBalancer(t, kept) })
	}
}

func testBalancer(t *testing.T, kept bool) {
	var mu sync.Mutex
	ready, breaks, requests := true, false, 0
	set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path != "/readyz" && breaks:
			requests++
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
		case r.URL.Path == "/readyz" && !ready:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer first.Close()
	second := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer second.Close()
	b := NewBalancer(t, kept, 500*time.Millisecond, first.Listener.Addr().String(), second.Listener.Addr().String())
	get := func() int { return StatusOf(t.Context(), b.URL) }
	for range 10 {
		if code := get(); code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
	}
	if got := b.Counts(); got[0] != 5 || got[1] != 5 {
		t.Errorf("ten requests went to the replicas as %v, want 5 and 5", got)
	}
	set(func() { breaks = true })
	if codes := []int{get(), get()}; codes[0] != http.StatusBadGateway || codes[1] != http.StatusOK {
		t.Errorf("one replica breaks its connections: statuses %v", codes)
	}
	set(func() {
		if requests != 1 {
			t.Errorf("the failed request was sent %d times", requests)
		}
		breaks, ready = false, false
	})
	if err := rig.Poll(t.Context(), "a look at /readyz that sees 503", func() (bool, error) { return b.Answers(0, 503) > 0, nil }); err != nil {
		t.Fatal(err)
	}
	before := b.Counts()[0]
	get()
	get()
	if got := b.Counts()[0]; got != before+1 {
		t.Errorf("%d requests to a replica that is not ready before the balancer reacts, want 1", got-before)
	}
	if err := rig.Poll(t.Context(), "the balancer to react", func() (bool, error) {
		before := b.Counts()[0]
		get()
		get()
		return b.Counts()[0] == before, nil
	}); err != nil {
		t.Fatal(err)
	}
}
