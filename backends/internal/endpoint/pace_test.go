package endpoint_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/config"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := endpoint.NewBreaker(&config.CircuitBreaker{Enabled: true, FailureThreshold: 2, Timeout: config.Duration(time.Minute)})
		state := func(when string, want int) {
			t.Helper()
			if got := b.State(); got != want {
				t.Errorf("%s: state %d, want %d", when, got, want)
			}
		}
		b.Failed()
		state("after one failure", 0)
		if err := b.Allow(); err != nil {
			t.Errorf("after one failure: %v", err)
		}
		b.Failed()
		if err := b.Allow(); err == nil {
			t.Error("after two failures: a call is let through")
		}
		state("after two failures", 2)
		time.Sleep(time.Minute)
		state("after a minute", 1)
		if err := b.Allow(); err != nil {
			t.Errorf("after a minute: %v, want one trial", err)
		}
		if err := b.Allow(); err == nil {
			t.Error("during the trial: a second call is let through")
		}
		state("during the trial", 2)
		b.Succeeded()
		state("after the trial", 0)
		if err := b.Allow(); err != nil {
			t.Errorf("after the trial: %v", err)
		}
	})
	if err := (*endpoint.Breaker)(nil).Allow(); err != nil {
		t.Errorf("without a breaker: %v", err)
	}
}

func TestBackoffGrowsToABoundAndBeginsAgain(t *testing.T) {
	var w endpoint.Backoff
	for _, around := range []time.Duration{100, 200, 400, 800, 1600, 3200, 4000, 4000} {
		around *= time.Millisecond
		if d := w.Next(); d < around/2 || d > around*3/2 {
			t.Errorf("waits %v, want about %v", d, around)
		}
	}
	w.Reset()
	if d := w.Next(); d > 150*time.Millisecond {
		t.Errorf("waits %v after reset", d)
	}
}

// TestOutage: the output of a process that cannot be started is logged once, and the number of
// attempts at powers of ten.
func TestOutage(t *testing.T) {
	var o endpoint.Outage
	if o.StartLevel(false) != slog.LevelInfo || o.Level(false) != slog.LevelInfo {
		t.Error("the first start is not logged as any event")
	}
	if o.StartLevel(false) != slog.LevelDebug || o.Level(false) != slog.LevelDebug || o.Level(true) != slog.LevelInfo {
		t.Error("the second start is logged as the first")
	}
	for want := 1; want <= 100; want++ {
		if n, level := o.Failed(); n != want || (level == slog.LevelWarn) != (n == 10 || n == 100) {
			t.Errorf("attempt %d of %d is logged at level %v", n, want, level)
		}
	}
	if a := o.End(); a.Value.Int64() != 101 {
		t.Errorf("End = %v, want 101 attempts", a)
	}
	if a := o.End(); a.Key != "" || o.StartLevel(false) != slog.LevelInfo {
		t.Errorf("End of no outage = %v", a)
	}
}
