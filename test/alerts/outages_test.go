//go:build suites

package alerts

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// well is a process under load without faults, with scripts that use memory, which changes the memory limit of its runtime.
func well(t *testing.T) (before, after page) {
	b := newBackend(t)
	s := serve(t, b, `scriptedTools:
  - name: large
    description: Uses memory while it waits.
    script: |
      def run(params):
          kept = ["x" * 1000000 for _ in range(10)]
          call_tool("b_hold", {})
          return len(kept)
`, "GOMEMLIMIT=4GiB")
	before = s.scrape()
	ended := make(chan error, 1)
	go func() { ended <- s.call("large") }()
	<-b.begun
	for range 20 {
		if err := s.call("b_at_once"); err != nil {
			t.Fatal(err)
		}
	}
	after = s.scrape()
	const of = `{instance="a:1", job="vmcp"}`
	if may, runtime := after["vmcp_memory_limit_bytes"+of], after["go_gc_gomemlimit_bytes"+of]; may != 4<<30 || runtime >= may {
		t.Errorf("the process may have %g bytes, its runtime's limit is %g: want 4 GiB, and less", may, runtime)
	}
	close(b.until)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return before, after
}

// slow is a backend that answers after more than five seconds.
func slow(t *testing.T) (before, after page) {
	b := newBackend(t)
	s := serve(t, b, "")
	before = s.scrape()
	ended := make(chan error, 1)
	go func() { ended <- s.call("b_hold") }()
	<-b.begun
	time.AfterFunc(6*time.Second, func() { close(b.until) })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return before, s.scrape()
}

// breakerOpen is a backend whose calls time out so often that its circuit breaker opens.
func breakerOpen(t *testing.T) (before, after page) {
	b := newBackend(t)
	s := serve(t, b, "operational: {timeouts: {default: 100ms}, failureHandling: {circuitBreaker: {enabled: true, failureThreshold: 2, timeout: 1h}}}\n")
	before = s.scrape()
	for range 3 {
		if err := s.call("b_hold"); err == nil {
			t.Fatal("a call without an answer was answered")
		}
	}
	if err := s.call("b_at_once"); err == nil || !strings.Contains(err.Error(), "breaker") {
		t.Errorf("a call while the breaker is open: %v", err)
	}
	return before, s.scrape()
}

// refusals is a run that uses all the memory of scripts, while another one is refused after waiting for it.
func refusals(t *testing.T) (before, after page) {
	b := newBackend(t)
	s := serve(t, b, `operational: {timeouts: {default: 10m}}
limits: {runs: 1}
scriptedTools:
  - name: long
    description: Waits.
    timeout: 10m
    script: |
      def run(params):
          call_tool("b_hold", {})
          return "done"
`)
	before = s.scrape()
	ended := make(chan error, 1)
	go func() { ended <- s.call("long") }()
	<-b.begun
	if err := s.call("long"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a run without room: %v", err)
	}
	after = s.scrape()
	close(b.until)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return before, after
}

// memory is a process with a memory limit hardly above its need.
func memory(t *testing.T) (before, after page) {
	s := serve(t, newBackend(t), "", "GOMEMLIMIT=32MiB")
	before = s.scrape()
	return before, s.scrape()
}

// badEdit is an edited configuration that is invalid.
func badEdit(t *testing.T) (before, after page) {
	s := serve(t, newBackend(t), "")
	before = s.scrape()
	if err := os.WriteFile(s.config, []byte("bakends: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return before, s.await(t, "vmcp_config_last_reload_successful", 0)
}

// allDown is a server whose backends are all down.
func allDown(t *testing.T) (before, after page) {
	b := newBackend(t)
	s := serve(t, b, "operational: {failureHandling: {healthCheckInterval: 50ms, unhealthyThreshold: 1}}\n")
	before = s.scrape()
	b.close()
	return before, s.await(t, "vmcp_backend_up", 0)
}

// await waits until every series of a metric has a value.
func (s *served) await(t *testing.T, metric string, want float64) (p page) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	if err := rig.Poll(ctx, metric, func() (bool, error) {
		p = s.scrape()
		for name, v := range p {
			if strings.HasPrefix(name, metric+"{") && v != want {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return p
}
