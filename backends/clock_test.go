package backends

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

func TestClock(t *testing.T) {
	const limit = 10 * time.Second
	for _, tt := range []struct {
		name string
		use  func(*clock)
		want time.Duration // when it ends
	}{
		{"alone", func(*clock) {}, limit},
		{"progress", func(k *clock) { time.Sleep(8 * time.Second); k.extend() }, 18 * time.Second},
		{"asking", func(k *clock) { k.pause(); time.Sleep(time.Minute); k.resume() }, 70 * time.Second},
		{"asking twice", func(k *clock) {
			k.pause()
			k.pause()
			time.Sleep(time.Minute)
			k.resume()
			time.Sleep(time.Minute)
			k.resume()
		}, 130 * time.Second},
		{"progress while asking", func(k *clock) { k.pause(); k.extend(); time.Sleep(time.Minute); k.resume() }, 70 * time.Second},
		{"progress for ever", func(k *clock) {
			for range 10_000 {
				time.Sleep(time.Second)
				k.extend()
			}
		}, maxCallTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, k := startClock(t.Context(), limit)
				ended := make(chan time.Duration, 1)
				go func() {
					<-ctx.Done()
					ended <- time.Since(start)
				}()
				tt.use(k)
				if got := <-ended; got != tt.want || !errors.Is(context.Cause(ctx), errDeadline) {
					t.Errorf("ended after %v by %v, want %v", got, context.Cause(ctx), tt.want)
				}
				k.stop()
			})
		})
	}
}

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
