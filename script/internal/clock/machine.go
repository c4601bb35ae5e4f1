package clock

import (
	"context"
	"time"
)

// Machine is the clock of the machine.
type Machine struct{}

// Now is what it says.
func (Machine) Now() time.Time { return time.Now() }

// nap is how long one timer runs: a clock that is set shows within this time.
const nap = 10 * time.Second

// Wait waits until it is t, by the clock on the wall. A clock that is set back in the meantime makes no wait longer
// than it was when it began.
func (Machine) Wait(ctx context.Context, t time.Time) error {
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

// Stamp is t as a journal keeps it.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
