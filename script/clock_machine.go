package script

import (
	"context"
	"time"
)

// machine is the system clock.
type machine struct{}

// Now returns the system time.
func (machine) Now() time.Time { return time.Now() }

// nap is how long one timer runs, so that setting the system clock has an effect within this time.
const nap = 10 * time.Second

// Wait waits until t by the system clock. Setting the clock back meanwhile does not prolong the wait.
func (machine) Wait(ctx context.Context, t time.Time) error {
	left := time.Until(t)
	for end := time.Now().Add(left); left > 0; left = min(time.Until(t.Round(0)), time.Until(end)) {
		timer := time.NewTimer(min(left, nap))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// stamp returns t as journals store it: UTC, in whole microseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
