package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errLate = errors.New("late")

func TestClock(t *testing.T) {
	const limit = 10 * time.Second
	for _, tt := range []struct {
		name string
		use  func(*Clock)
		want time.Duration // when it ends
	}{
		{"alone", func(*Clock) {}, limit},
		{"progress", func(k *Clock) { time.Sleep(8 * time.Second); k.Extend() }, 18 * time.Second},
		{"asking", func(k *Clock) { k.Pause(); time.Sleep(time.Minute); k.Resume() }, 70 * time.Second},
		{"asking twice", func(k *Clock) {
			k.Pause()
			k.Pause()
			time.Sleep(time.Minute)
			k.Resume()
			time.Sleep(time.Minute)
			k.Resume()
		}, 130 * time.Second},
		{"progress while asking", func(k *Clock) { k.Pause(); k.Extend(); time.Sleep(time.Minute); k.Resume() }, 70 * time.Second},
		{"interrupted", func(k *Clock) {
			for range 3 { // earns no time, loses none
				time.Sleep(3 * time.Second)
				k.Interrupt()
				time.Sleep(time.Minute)
				k.Continue()
			}
		}, limit + 3*time.Minute},
		{"progress for ever", func(k *Clock) {
			for range 10_000 {
				time.Sleep(time.Second)
				k.Extend()
			}
		}, maxCallTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, k := Start(t.Context(), limit, errLate)
				ended := make(chan time.Duration, 1)
				go func() {
					<-ctx.Done()
					ended <- time.Since(start)
				}()
				tt.use(k)
				if got := <-ended; got != tt.want || !errors.Is(context.Cause(ctx), errLate) {
					t.Errorf("ended after %v by %v, want %v", got, context.Cause(ctx), tt.want)
				}
				k.Stop()
			})
		})
	}
}
