package pace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/config"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pace.NewBreaker(&config.CircuitBreaker{Enabled: true, FailureThreshold: 2, Timeout: config.Duration(time.Minute)})
		b.Failed()
		if err := b.Allow(); err != nil {
			t.Errorf("after one failure: %v", err)
		}
		b.Failed()
		if err := b.Allow(); err == nil {
			t.Error("after two failures: a call is let through")
		}
		time.Sleep(time.Minute)
		if err := b.Allow(); err != nil {
			t.Errorf("after a minute: %v, want one trial", err)
		}
		if err := b.Allow(); err == nil {
			t.Error("during the trial: a second call is let through")
		}
		b.Succeeded()
		if err := b.Allow(); err != nil {
			t.Errorf("after the trial: %v", err)
		}
	})
	if err := (*pace.Breaker)(nil).Allow(); err != nil {
		t.Errorf("without a breaker: %v", err)
	}
}

func TestBackoffGrowsToABoundAndBeginsAgain(t *testing.T) {
	var w pace.Backoff
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
