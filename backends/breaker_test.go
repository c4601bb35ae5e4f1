package backends

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(&config.CircuitBreaker{Enabled: true, FailureThreshold: 2, Timeout: config.Duration(time.Minute)})
		b.failed()
		if err := b.allow(); err != nil {
			t.Errorf("after one failure: %v", err)
		}
		b.failed()
		if err := b.allow(); err == nil {
			t.Error("after two failures: a call is let through")
		}
		time.Sleep(time.Minute)
		if err := b.allow(); err != nil {
			t.Errorf("after a minute: %v, want one trial", err)
		}
		if err := b.allow(); err == nil {
			t.Error("during the trial: a second call is let through")
		}
		b.succeeded()
		if err := b.allow(); err != nil {
			t.Errorf("after the trial: %v", err)
		}
	})
	if err := (*breaker)(nil).allow(); err != nil {
		t.Errorf("without a breaker: %v", err)
	}
}

func TestBackoffGrowsToABoundAndBeginsAgain(t *testing.T) {
	var w backoff
	for _, around := range []time.Duration{100, 200, 400, 800, 1600, 3200, 4000, 4000} {
		around *= time.Millisecond
		if d := w.next(); d < around/2 || d > around*3/2 {
			t.Errorf("waits %v, want about %v", d, around)
		}
	}
	w.reset()
	if d := w.next(); d > 150*time.Millisecond {
		t.Errorf("waits %v after reset", d)
	}
}
