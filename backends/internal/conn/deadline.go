package conn

import (
	"context"
	"sync"
	"time"
)

// This part of the package has the timeout of one call, which progress extends, and which is
// suspended while the backend waits for the client or the client for its bytes.

// maxCallTime bounds a call that keeps sending progress notifications.
const maxCallTime = time.Hour

// Clock is the timeout of one call. Extend restarts it; between Pause and Resume, or
// Interrupt and Continue, it is suspended. These pairs may be nested.
type Clock struct {
	cancel  context.CancelCauseFunc
	detach  func() bool // from the caller's context
	limit   time.Duration
	expired error // the cause of the context after the timeout

	mu      sync.Mutex
	timer   *time.Timer // guarded by mu
	spent   time.Duration
	since   time.Time
	waiting int           // number of pairs that suspend it now
	until   time.Time     // when the timer fires
	left    time.Duration // remaining after Interrupt
	stopped bool
}

// Start returns a context that ends with the caller's, or with the cause expired after
// limit. A limit of 0 is no timeout. The context is not derived from the caller's, because
// a stream is drained after its response even if the caller has gone.
func Start(caller context.Context, limit time.Duration, expired error) (context.Context, *Clock) {
	ctx, cancel := context.WithCancelCause(context.Background())
	k := &Clock{cancel: cancel, limit: limit, expired: expired}
	k.detach = context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	if limit > 0 {
		k.since = time.Now()
		k.until = k.since.Add(limit)
		k.timer = time.AfterFunc(limit, k.expire)
	}
	return ctx, k
}

// Limit is the timeout between two signs of progress; 0 for none.
func (k *Clock) Limit() time.Duration { return k.limit }

// Cancel ends the context.
func (k *Clock) Cancel(cause error) { k.cancel(cause) }

func (k *Clock) expire() { k.cancel(k.expired) }

// Extend grants the full limit again, up to maxCallTime in all.
func (k *Clock) Extend() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting == 0 {
		k.start(k.limit)
	}
}

// start resets the timer to d, within maxCallTime in all. mu is held.
func (k *Clock) start(d time.Duration) {
	d = min(d, max(maxCallTime-k.spent, 0))
	k.until = k.since.Add(d)
	k.timer.Reset(d)
}

// Interrupt is Pause without an extension: Continue restores the time that is left.
func (k *Clock) Interrupt() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting++; k.waiting == 1 {
		k.timer.Stop()
		k.left = k.until.Sub(k.since)
	}
}

// Continue undoes one Interrupt.
func (k *Clock) Continue() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting--; k.waiting == 0 {
		k.start(k.left)
	}
}

// lock acquires mu and accounts the time since the last call. It is false, and mu is not held, when
// the clock is stopped or has no limit.
func (k *Clock) lock() bool {
	k.mu.Lock()
	if k.timer == nil || k.stopped {
		k.mu.Unlock()
		return false
	}
	k.account()
	return true
}

// account adds the time since the last call to spent. mu is held.
func (k *Clock) account() {
	now := time.Now()
	if k.waiting == 0 {
		k.spent += now.Sub(k.since)
	}
	k.since = now
}

// Pause stops the clock until Resume.
func (k *Clock) Pause() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting++; k.waiting == 1 {
		k.timer.Stop()
	}
}

// Resume undoes one Pause and grants the full limit again.
func (k *Clock) Resume() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	k.left = k.limit
	if k.waiting--; k.waiting == 0 {
		k.start(k.limit)
	}
}

// Stop stops the clock; its context then ends only by Cancel.
func (k *Clock) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.detach()
	if k.timer != nil {
		k.timer.Stop()
	}
}
