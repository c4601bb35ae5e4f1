package endpoint

import (
	"context"
	"math/rand/v2"
	"time"
)

// This part of the package limits repetition: calls to a failing backend (Breaker), retries (Backoff),
// lines in the log (Limiter, Outage).

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

// Jittered returns d with a random deviation of up to a quarter, so that retries do not coincide.
func Jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// The waits of a Backoff start at firstWait and double up to lastWait.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 4 * time.Second
)

// Backoff is an exponential backoff between failed attempts, with a jitter of up to a half.
// The zero value starts with the shortest wait.
type Backoff struct{ after time.Duration }

// Next returns the next wait.
func (w *Backoff) Next() time.Duration {
	d := max(w.after, firstWait)
	w.after = min(2*d, lastWait)
	return d/2 + rand.N(d+1)
}

// Reset starts with the shortest wait again.
func (w *Backoff) Reset() { w.after = 0 }
