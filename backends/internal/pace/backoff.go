// Package pace says when something may be done again: calls to a backend that keeps failing
// (Breaker), attempts that went wrong (Backoff), lines in the log (Limiter, Outage).
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d or for the end of ctx, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Jittered is d, give or take a quarter, so that many do not come back at once.
func Jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// The waits of a Backoff begin with firstWait and double up to lastWait.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 4 * time.Second
)

// Backoff is how long to wait between attempts that go wrong: ever longer, give or take a
// half. The zero value begins with the shortest wait.
type Backoff struct{ after time.Duration }

// Next is how long to wait now.
func (w *Backoff) Next() time.Duration {
	d := max(w.after, firstWait)
	w.after = min(2*d, lastWait)
	return d/2 + rand.N(d+1)
}

// Reset begins with the shortest wait again.
func (w *Backoff) Reset() { w.after = 0 }
